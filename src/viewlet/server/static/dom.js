// Elements and numbers. Text reaches the page only as text nodes and attributes, never as markup.

export const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child != null));
  return node;
}

export const element = (name, attributes = {}, ...children) =>
  filled(document.createElement(name), attributes, children);

export const drawn = (name, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, name), attributes, children);

export const byId = (id) => document.getElementById(id);

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const count = (number) => (number == null ? "–" : grouped.format(number));

export function rate(perSecond) {
  if (perSecond == null) return "–";
  if (perSecond >= 100) return `${grouped.format(perSecond)}/s`;
  return `${perSecond.toFixed(perSecond >= 10 || perSecond === 0 ? 0 : 1)}/s`;
}

export function bytes(number) {
  if (number == null) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (number >= 1000 && unit < units.length - 1) { number /= 1000; unit += 1; }
  return `${unit && number < 100 ? number.toFixed(1) : Math.round(number)} ${units[unit]}`;
}

export function milliseconds(number) {
  if (number == null) return "–";
  return number < 1000 ? `${number < 10 ? number.toFixed(1) : Math.round(number)} ms` : `${(number / 1000).toFixed(1)} s`;
}

// A line through the last values, scaled to the largest of them.
export function sparkline(values, width = 96, height = 22) {
  const top = Math.max(...values, 1e-9);
  const step = width / Math.max(values.length - 1, 1);
  const points = values.map((value, i) => `${(i * step).toFixed(1)},${(height - 1 - (value / top) * (height - 3)).toFixed(1)}`);
  return drawn("svg", { class: "sparkline", viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" },
    drawn("polyline", { points: points.join(" ") }));
}
