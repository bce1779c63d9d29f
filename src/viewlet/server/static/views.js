// The views as cards with their figures, and the rows of the chosen one, a page at a time.

import { byId, bytes, count, element, milliseconds, rate, sparkline } from "./dom.js";

const PAGE = 50;
const HISTORY = 60;
const NUMBERS = /INT|DECIMAL|DOUBLE|FLOAT|REAL/; // shown to the right, so that digits stand below each other
const REFRESH = 500; // milliseconds between two readings of the rows, at least

export class Views {
  constructor(onChoice, onExplain) {
    this.onChoice = onChoice;
    this.onExplain = onExplain;
    this.views = [];
    this.tables = [];
    this.history = new Map();
    this.lag = new Map();
    this.chosen = null;
    this.offset = 0;
    this.shown = new Set();
    this.reading = false;
    this.stale = false;
    this.version = null;
  }

  update(overview) {
    this.views = overview.views;
    this.tables = overview.tables;
    for (const view of this.views) {
      const past = this.history.get(view.name) ?? [];
      this.history.set(view.name, [...past, view.rate].slice(-HISTORY));
    }
    const shown = [...this.views, ...this.tables].some((relation) => relation.name === this.chosen);
    if (!shown) this.choose(this.views[0]?.name ?? null);
    else if (!this.isView() && overview.version !== this.version) this.refresh(); // nobody tells the changes of tables
    this.version = overview.version;
    this.cards();
  }

  isView() {
    return this.views.some((view) => view.name === this.chosen);
  }

  changed(message) {
    this.lag.set(message.view, message.lag_ms);
    if (message.view === this.chosen) this.refresh();
  }

  cards() {
    const focused = document.activeElement?.dataset?.view;
    byId("cards").replaceChildren(
      element("h2", {}, "Views"),
      this.views.length ? "" : element("p", { class: "empty" }, "There is no view yet."),
      ...this.views.map((view) => this.card(view)),
      element("h2", {}, "Tables"),
      this.tables.length ? "" : element("p", { class: "empty" }, "There is no table yet."),
      element("ul", { class: "tables" }, this.tables.map((table) =>
        element("li", {}, this.tableLine(table)))));
    if (focused) [...document.querySelectorAll("#cards button")].find((card) => card.dataset.view === focused)?.focus();
  }

  // A stream keeps no rows that could be shown.
  tableLine(table) {
    const parts = [element("span", {}, table.name),
      element("span", { class: "figure" }, table.rows == null ? table.kind : `${count(table.rows)} rows`)];
    if (table.kind === "stream") return element("span", { class: "line", title: table.columns.join(", ") }, parts);
    return element("button", {
      type: "button", class: "line", "data-view": table.name, title: table.columns.join(", "),
      "aria-pressed": String(table.name === this.chosen), onclick: () => this.choose(table.name),
    }, parts);
  }

  card(view) {
    const figure = (name, value, title) =>
      element("span", title ? { title } : {}, element("i", {}, name), " ", value);
    return element("button", {
      type: "button", class: "card", "data-view": view.name,
      "aria-pressed": String(view.name === this.chosen), onclick: () => this.choose(view.name),
    },
      element("span", { class: "top" }, element("b", {}, view.name), sparkline(this.history.get(view.name))),
      element("span", { class: "figures" },
        figure("rows", count(view.rows)), figure("rate", rate(view.rate)),
        figure("lag", milliseconds(this.lag.get(view.name)), "from a commit to this page, while the view is watched"), figure("memory", bytes(view.bytes))));
  }

  // The console changes nothing: whoever finds it empty is told where views are made.
  invitation() {
    const how = this.tables.length ? "CREATE MATERIALIZED VIEW … AS SELECT …" : "CREATE TABLE … and CREATE MATERIALIZED VIEW … AS SELECT …";
    return element("p", { class: "empty" },
      "Views are made by the process that keeps this database: ", element("code", {}, how),
      " in its program, in the file that viewlet serve --read runs at the start, or in viewlet shell while nobody serves the file. They appear here at once.");
  }

  choose(name) {
    this.chosen = name;
    this.offset = 0;
    this.shown = new Set();
    byId("view").replaceChildren(...(name === null ? [this.invitation()] : []));
    this.cards();
    this.onChoice(name);
    this.refresh();
  }

  turn(pages) {
    this.offset = Math.max(0, this.offset + pages * PAGE);
    this.shown = new Set();
    this.refresh();
  }

  // One reading at a time; what changes meanwhile is read once more afterwards.
  async refresh() {
    this.stale = true;
    if (this.reading) return;
    this.reading = true;
    while (this.stale && this.chosen !== null) {
      this.stale = false;
      await this.read(this.chosen, this.offset);
      await new Promise((done) => setTimeout(done, REFRESH));
    }
    this.reading = false;
  }

  async read(name, offset) {
    let answer, page;
    try {
      answer = await fetch(`/api/relations/${encodeURIComponent(name)}/rows?offset=${offset}&limit=${PAGE}`);
      page = await answer.json();
    } catch { return; } // the connection's state is shown at the top
    if (name !== this.chosen || offset !== this.offset) { this.stale = true; return; }
    if (!answer.ok) { byId("view").replaceChildren(element("p", { class: "problem" }, page.error)); return; }
    if (page.behind > 0) setTimeout(() => this.refresh(), 2000);
    this.show(name, page);
  }

  show(name, page) {
    const before = this.shown;
    const texts = page.rows.map((row) => JSON.stringify(row));
    this.shown = new Set(texts);
    const kinds = page.types.map((type) => NUMBERS.test(type) ? "number" : "");
    const cell = (value, i) => value === null ? element("td", { class: `null ${kinds[i]}` }, "NULL")
      : element("td", { class: kinds[i] }, String(value));
    const last = page.offset + page.rows.length;
    const where = page.total ? `rows ${count(page.offset + 1)} to ${count(last)} of ${count(page.total)}` : "no rows";
    const turn = (text, label, pages, disabled) => element("button", { type: "button", "aria-label": label, disabled, onclick: () => this.turn(pages) }, text);
    const scrolled = byId("view").querySelector(".rows")?.scrollTop ?? 0;
    byId("view").replaceChildren(
      element("div", { class: "bar" },
        element("h2", {}, name),
        element("p", { class: "figure" }, `${where} · version ${count(page.version)}${page.behind > 0 ? `, ${count(page.behind)} behind` : ""}`),
        element("span", { class: "turn" },
          this.isView() ? element("button", { type: "button", id: "how", onclick: () => this.onExplain(name) }, "How it is kept") : null, turn("‹", "Rows before", -1, page.offset === 0), turn("›", "Rows after", 1, last >= page.total))),
      element("div", { class: "rows", tabindex: 0, role: "region", "aria-label": `Rows of ${name}` },
        element("table", {},
          element("caption", { class: "hidden" }, `Rows of ${name}`),
          element("thead", {}, element("tr", {}, page.columns.map((column, i) => element("th", { scope: "col", class: kinds[i] }, column)))),
          element("tbody", {}, page.rows.map((row, i) =>
            element("tr", { class: before.size && !before.has(texts[i]) ? "fresh" : "" }, row.map(cell)))))));
    byId("view").querySelector(".rows").scrollTop = scrolled;
  }
}
