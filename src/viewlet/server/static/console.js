// The console: one connection that tells what happens, and four parts that show it.

import { byId, bytes, count, element, milliseconds, rate } from "./dom.js";
import { Program } from "./program.js";
import { Views } from "./views.js";

const FEED_LENGTH = 100;
const RETRY = 1500;

let socket = null;
const alsoWatched = new Set();
const views = new Views(() => { choices(); watch(); }, (name) => {
  byId("sql").value = name;
  open(byId("tab-explain"));
  byId("explain").requestSubmit();
});
const program = new Program((name) => { views.choose(name); open(byId("tab-views")); }, () => views.chosen);
let catalog = "";

// Tabs: arrows move, as the pattern for tabs asks.

const tabs = [...document.querySelectorAll("[role=tab]")];

function open(tab) {
  for (const other of tabs) {
    other.setAttribute("aria-selected", String(other === tab));
    other.tabIndex = other === tab ? 0 : -1;
    byId(other.getAttribute("aria-controls")).hidden = other !== tab;
  }
  if (tab.id === "tab-program") program.load();
  history.replaceState(null, "", `#${tab.id.slice(4)}`);
}

for (const [i, tab] of tabs.entries()) {
  tab.addEventListener("click", () => open(tab));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) { const next = tabs.at((i + step) % tabs.length); open(next); next.focus(); }
  });
}

// The theme is the system's until the reader chooses.

function theme(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
}
theme(localStorage.getItem("viewlet-theme"));
byId("theme").addEventListener("click", () => {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
  const next = now === "dark" ? "light" : "dark";
  localStorage.setItem("viewlet-theme", next);
  theme(next);
});

// The connection. A batch of messages is acknowledged once it is on the screen: the reader sets the pace.

// kind: "good", "bad", or "" while there is nothing to judge.
function status(text, kind) {
  if (byId("status").textContent !== text) byId("status").textContent = text;
  byId("status").className = `status ${kind}`;
}

function watch() {
  const names = [...new Set([views.chosen, ...alsoWatched])].filter((name) => name !== null);
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ watch: names }));
}

function connect() {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  socket = new WebSocket(`${scheme}://${location.host}/api/live`);
  socket.addEventListener("open", watch);
  socket.addEventListener("close", () => { status("disconnected, trying again", "bad"); setTimeout(connect, RETRY); });
  socket.addEventListener("message", (event) => {
    for (const message of JSON.parse(event.data)) {
      if (message.type === "overview") overview(message);
      else if (message.type === "watching") byId("watched").dataset.watching = message.views.join(" ");
      else { views.changed(message); feed(message); }
    }
    requestAnimationFrame(() => socket.readyState === WebSocket.OPEN && socket.send(JSON.stringify({ ack: 1 })));
  });
}

function overview(message) {
  byId("version").textContent = count(message.version);
  byId("commit-rate").textContent = rate(message.commit_rate);
  byId("busy").textContent = `${(message.busy * 100).toFixed(message.busy < 0.1 ? 1 : 0)} %`;
  byId("memory").textContent = bytes(message.maps.reduce((sum, map) => sum + map.bytes, 0));
  if (message.failure) status(message.failure, message.starting ? "" : "bad");
  else status("live", "good");
  views.update(message);
  const names = JSON.stringify([message.views.map((view) => view.name), message.tables.map((table) => table.name)]);
  if (names !== catalog) {
    catalog = names;
    choices();
    if (!byId("panel-program").hidden) program.load();
  }
}

// The change feed.

// The view whose rows are shown is watched in any case.
function choices() {
  byId("watched").replaceChildren(element("legend", {}, "Watch"), ...views.views.map(({ name }) =>
    element("label", {}, element("input", {
      type: "checkbox", value: name, checked: name === views.chosen || alsoWatched.has(name), disabled: name === views.chosen,
      onchange: (event) => { if (event.target.checked) alsoWatched.add(name); else alsoWatched.delete(name); watch(); },
    }), name)));
}

function feed(message) {
  const total = message.inserts + message.deletes;
  const more = total - message.latest.length;
  const line = ([sign, ...row]) => element("tr", { class: sign === "+" ? "inserted" : "deleted" },
    element("td", { "aria-label": sign === "+" ? "inserted" : "deleted" }, sign),
    row.map((value) => element("td", {}, value === null ? "NULL" : String(value))));
  byId("changes").prepend(element("li", {},
    element("details", {},
      element("summary", {}, element("b", {}, message.view), ` version ${count(message.version)} `,
        element("span", { class: "inserted" }, `+${count(message.inserts)}`), " ",
        element("span", { class: "deleted" }, `−${count(message.deletes)}`),
        ` in ${count(message.commits)} ${message.commits === 1 ? "commit" : "commits"} · ${milliseconds(message.lag_ms)}`),
      element("table", {}, element("thead", {}, element("tr", {}, element("th", {}, ""), message.columns.map((column) => element("th", { scope: "col" }, column)))),
        element("tbody", {}, message.latest.map(line))),
      more > 0 ? element("p", {}, `and ${count(more)} more`) : null)));
  const list = byId("changes");
  while (list.children.length > FEED_LENGTH) list.lastChild.remove();
}

// Explain.

byId("explain").addEventListener("submit", async (event) => {
  event.preventDefault();
  const told = byId("explanation");
  told.textContent = "…";
  try {
    const answer = await fetch("/api/explain", { method: "POST", body: JSON.stringify({ sql: byId("sql").value }) });
    const body = await answer.json();
    told.classList.toggle("problem", !answer.ok);
    told.textContent = answer.ok ? body.text : body.error;
  } catch (reason) {
    told.classList.add("problem");
    told.textContent = String(reason);
  }
});

open(tabs.find((tab) => tab.id === `tab-${location.hash.slice(1)}`) ?? tabs[0]);
connect();
