// The trigger program as a graph; a node that is chosen tells what it is and how it is kept.

import { byId, bytes, count, drawn, element } from "./dom.js";
import { layout } from "./layout.js";

const LETTER = 7.3;
const LONGEST = 26;
const SMALLEST = 0.5; // of a drawing that is larger than its room
const LEGIBLE = 60; // nodes that are drawn together without being asked

const cut = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);

function sizeLine(node) {
  if (node.kind !== "map") return node.caption;
  return node.records == null ? node.caption : `${count(node.records)} · ${bytes(node.bytes)}`;
}

// What lies before a view, and what lies behind it.
function around(graph, id) {
  const found = new Set([id]);
  for (const [near, far] of [[1, 0], [0, 1]]) {
    const front = [id];
    while (front.length) {
      const here = front.pop();
      for (const edge of graph.edges) {
        if (edge[near] === here && !found.has(edge[far])) { found.add(edge[far]); front.push(edge[far]); }
      }
    }
  }
  return {
    nodes: graph.nodes.filter((node) => found.has(node.id)),
    edges: graph.edges.filter(([from, to]) => found.has(from) && found.has(to)),
  };
}

export class Program {
  constructor(openView, viewInSight) {
    this.graph = { nodes: [], edges: [] };
    this.loaded = false;
    this.viewInSight = viewInSight;
    this.openView = openView;
    this.chosen = null;
    byId("scope").addEventListener("change", () => this.draw());
  }

  async load() {
    const answer = await fetch("/api/graph");
    if (!answer.ok) { byId("graph").replaceChildren(element("p", { class: "problem" }, (await answer.json()).error)); return; }
    this.graph = await answer.json();
    const scope = byId("scope");
    const before = scope.value;
    const views = this.graph.nodes.filter((node) => node.kind === "view");
    scope.replaceChildren(element("option", { value: "" }, "the whole program"),
      ...views.map((view) => element("option", { value: view.id }, `view ${view.name}`)));
    if (views.some((view) => view.id === before)) scope.value = before;
    else if (!this.loaded && this.graph.nodes.length > LEGIBLE) {
      scope.value = (views.find((view) => view.name === this.viewInSight()) ?? views[0])?.id ?? "";
    }
    this.loaded = this.graph.nodes.length > 0;
    this.draw();
  }

  draw() {
    if (!this.graph.nodes.length) {
      byId("graph").replaceChildren(element("p", { class: "empty" }, "There is no table and no view yet: nothing to draw."));
      return;
    }
    const scope = byId("scope").value;
    const graph = scope ? around(this.graph, scope) : this.graph;
    const nodes = graph.nodes.map((node) => ({
      id: node.id,
      width: Math.max(cut(node.name).length, cut(sizeLine(node)).length) * LETTER + 28,
      height: 46,
    }));
    const drawing = layout(nodes, graph.edges);
    const edges = graph.edges.map(([from, to], i) =>
      drawn("path", { class: "edge", d: drawing.paths[i], "data-from": from, "data-to": to, "marker-end": "url(#arrow)" }));
    const boxes = graph.nodes.map((node) => this.box(node, drawing.places.get(node.id)));
    const [width, height] = [drawing.width + 32, drawing.height + 32];
    const room = byId("graph");
    const scale = Math.min(1, Math.max(SMALLEST, Math.min((room.clientWidth - 24) / width, (room.clientHeight - 24) / height)));
    room.replaceChildren(
      drawn("svg", { viewBox: `-16 -16 ${width} ${height}`, width: width * scale, height: height * scale },
        drawn("defs", {}, drawn("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto" },
          drawn("path", { d: "M0,0 L8,4 L0,8 z", class: "tip" }))),
        ...edges, ...boxes));
    const shown = graph.nodes.find((node) => node.id === this.chosen) ?? null;
    this.choose(shown);
  }

  box(node, place) {
    const act = () => this.choose(node);
    const key = (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(); } };
    const radius = { table: 2, map: 8, view: 23 }[node.kind];
    return drawn("g", {
      class: `node ${node.kind}`, tabindex: 0, role: "button", "data-id": node.id,
      "aria-label": `${node.kind} ${node.name}, ${sizeLine(node)}`,
      transform: `translate(${place.x},${place.y})`, onclick: act, onkeydown: key,
    },
      drawn("title", {}, `${node.kind} ${node.name}`),
      drawn("rect", { width: place.width, height: place.height, rx: radius }),
      drawn("text", { x: 14, y: 20, class: "name" }, cut(node.name)),
      drawn("text", { x: 14, y: 36, class: "size" }, cut(sizeLine(node))));
  }

  choose(node) {
    this.chosen = node?.id ?? null;
    for (const box of byId("graph").querySelectorAll(".node")) {
      box.classList.toggle("chosen", box.dataset.id === this.chosen);
    }
    for (const edge of byId("graph").querySelectorAll(".edge")) {
      edge.classList.toggle("chosen", this.chosen !== null && [edge.dataset.from, edge.dataset.to].includes(this.chosen));
    }
    byId("detail").replaceChildren(...(node ? this.told(node) : [
      element("h2", {}, "Trigger program"),
      element("p", {}, "A change of a table runs the statements of the maps that its arrows lead to; views are read from maps. Choose a box to see its definition, its indexes and what keeps it."),
    ]));
  }

  told(node) {
    const part = (title, ...children) => [element("h3", {}, title), ...children];
    const code = (text) => element("pre", {}, text);
    const told = [element("h2", {}, element("span", { class: `kind ${node.kind}` }, node.kind), node.name)];
    if (node.columns.length) told.push(...part("Columns", element("ul", { class: "plain" }, node.columns.map((column) => element("li", {}, column)))));
    if (node.definitions.length) told.push(...part(node.kind === "map" ? "Definitions" : "Query", ...node.definitions.map(code)));
    if (node.records != null) told.push(...part("Size", element("p", {}, `${count(node.records)} records, ${bytes(node.bytes)}`)));
    if (node.indexes.length) told.push(...part("Indexes", element("ul", { class: "plain" }, node.indexes.map((index) => element("li", {}, index)))));
    const tables = [...new Set(node.steps.map((step) => step.table))];
    for (const table of tables) {
      told.push(...part(`On a change of ${table}`, ...node.steps.filter((step) => step.table === table).map((step) =>
        element("div", { class: "step" }, code(step.text),
          element("p", {}, element("b", {}, step.order), step.paths.length ? ` · ${step.paths.join(" · ")}` : " · no map is read")))));
    }
    if (node.kind === "view") told.push(element("button", { type: "button", onclick: () => this.openView(node.name) }, "Show its rows"));
    return told;
  }
}
