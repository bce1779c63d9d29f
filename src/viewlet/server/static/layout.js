// A layered drawing of a directed graph: edges run from left to right, and cross as little as a few sweeps
// of the barycentre rule can achieve. Edges that would close a cycle are turned around while layers are found.

const GAP_X = 74;
const GAP_Y = 16;
const SWEEPS = 12;

function forwardEdges(ids, edges) {
  const followers = new Map(ids.map((id) => [id, []]));
  for (const [from, to] of edges) followers.get(from).push(to);
  const state = new Map();
  const backward = new Set();
  for (const root of ids) {
    const stack = state.has(root) ? [] : [[root, 0]];
    if (stack.length) state.set(root, "open");
    while (stack.length) {
      const top = stack.at(-1);
      const next = followers.get(top[0])[top[1]++];
      if (next === undefined) { state.set(top[0], "done"); stack.pop(); }
      else if (state.get(next) === "open") backward.add(`${top[0]} ${next}`);
      else if (!state.has(next)) { state.set(next, "open"); stack.push([next, 0]); }
    }
  }
  return edges.map(([from, to]) => (backward.has(`${from} ${to}`) ? [to, from] : [from, to]));
}

// Each node one layer after the last of its predecessors.
function layersOf(ids, edges) {
  const waiting = new Map(ids.map((id) => [id, 0]));
  const followers = new Map(ids.map((id) => [id, []]));
  for (const [from, to] of edges) { followers.get(from).push(to); waiting.set(to, waiting.get(to) + 1); }
  const layer = new Map(ids.map((id) => [id, 0]));
  const ready = ids.filter((id) => waiting.get(id) === 0);
  for (let i = 0; i < ready.length; i += 1) {
    for (const to of followers.get(ready[i])) {
      layer.set(to, Math.max(layer.get(to), layer.get(ready[i]) + 1));
      waiting.set(to, waiting.get(to) - 1);
      if (waiting.get(to) === 0) ready.push(to);
    }
  }
  return layer;
}

// Nodes and, for edges over several layers, a point in each layer between; long edges from one node share them.
function columnsOf(nodes, edges, layer) {
  const columns = [];
  const put = (item, at) => { (columns[at] ??= []).push(item); return item; };
  const items = new Map(nodes.map((node) => [node.id, put({ ...node, near: [[], []] }, layer.get(node.id))]));
  const points = new Map();
  const join = (from, to) => {
    if (!from.near[1].includes(to)) { from.near[1].push(to); to.near[0].push(from); }
  };
  const routes = edges.map(([from, to]) => {
    const route = [items.get(from)];
    for (let at = layer.get(from) + 1; at < layer.get(to); at += 1) {
      const name = `${at} ${from}`;
      if (!points.has(name)) points.set(name, put({ width: 0, height: 2, near: [[], []] }, at));
      route.push(points.get(name));
    }
    route.push(items.get(to));
    for (let i = 1; i < route.length; i += 1) join(route[i - 1], route[i]);
    return route;
  });
  for (let at = 0; at < columns.length; at += 1) columns[at] ??= [];
  return { columns, items, routes };
}

const middle = (item) => item.y + item.height / 2;

const mean = (items, fallback) =>
  items.length ? items.reduce((sum, item) => sum + middle(item), 0) / items.length : fallback;

function stack(column) {
  let y = 0;
  for (const item of column) { item.y = y; y += item.height + GAP_Y; }
}

function order(columns) {
  columns.forEach(stack);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const side = sweep % 2;
    const order = side ? [...columns].reverse() : columns;
    for (const column of order) {
      const wish = new Map(column.map((item) => [item, mean(item.near[side], middle(item))]));
      column.sort((a, b) => wish.get(a) - wish.get(b));
      stack(column);
    }
  }
  for (const column of columns) { // what nothing leads to or from stands below, where no edge passes
    column.sort((a, b) => lone(a) - lone(b));
    stack(column);
  }
}

const lone = (item) => Number(!item.near[0].length && !item.near[1].length);

// Moves every item as near to its neighbours as the order in its column allows. With the heights taken off, the
// places must not decrease: neighbours that want to pass each other are pooled at the mean of their wishes.
function settle(columns) {
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    for (const column of sweep % 2 ? [...columns].reverse() : columns) {
      const pools = [];
      let above = 0;
      for (const item of column) {
        const wish = mean([...item.near[0], ...item.near[1]], middle(item)) - item.height / 2 - above;
        pools.push({ sum: wish, items: [[item, above]] });
        above += item.height + GAP_Y;
        while (pools.length > 1 && place(pools.at(-2)) > place(pools.at(-1))) {
          const last = pools.pop();
          pools.at(-1).sum += last.sum;
          pools.at(-1).items.push(...last.items);
        }
      }
      for (const pool of pools) for (const [item, offset] of pool.items) item.y = place(pool) + offset;
    }
  }
}

const place = (pool) => pool.sum / pool.items.length;

function curve(route) {
  let path = "";
  for (let i = 1; i < route.length; i += 1) {
    const [x1, y1] = [route[i - 1].x + route[i - 1].width, middle(route[i - 1])];
    const [x2, y2] = [route[i].x, middle(route[i])];
    const bend = (x2 - x1) / 2;
    path += `${i === 1 ? `M${x1},${y1}` : `L${x1},${y1}`} C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`;
  }
  return path;
}

// nodes: {id, width, height}; edges: [from, to] by id. Gives places for the nodes and a path for each edge.
export function layout(nodes, edges) {
  const forward = forwardEdges(nodes.map((node) => node.id), edges);
  const { columns, items, routes } = columnsOf(nodes, forward, layersOf(nodes.map((node) => node.id), forward));
  order(columns);
  settle(columns);
  const top = Math.min(...columns.flat().map((item) => item.y));
  let x = 0;
  for (const column of columns) {
    const width = Math.max(0, ...column.map((item) => item.width));
    for (const item of column) {
      item.x = x;
      item.y -= top;
      if (!item.width) item.width = width; // an edge that passes keeps straight between the nodes
    }
    x += width + GAP_X;
  }
  return {
    places: items,
    paths: routes.map(curve),
    width: Math.max(0, x - GAP_X),
    height: Math.max(0, ...columns.flat().map((item) => item.y + item.height)),
  };
}
