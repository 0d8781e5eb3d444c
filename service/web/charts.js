// Curves of the last five minutes, drawn by uPlot, which a script before this one has loaded.
import { clock } from "./format.js";

const SPAN_S = 300;
const SPAN_LEAST_S = 60; // of a page that was opened just now
const FONT = "12px system-ui, sans-serif";
const SERIES = {
  rates: [
    { field: "accepted", label: "accepted", width: 2, filled: true },
    { field: "sold_out", label: "sold out", width: 1.5, dash: [8, 4] },
    { field: "refused", label: "refused", width: 1.5, dash: [2, 3] },
    { field: "errors", label: "errors", width: 2.5 },
  ],
  latency: [
    { field: "p50_ms", label: "p50", width: 2 },
    { field: "p99_ms", label: "p99", width: 2, dash: [8, 4] },
  ],
};

// A colour as the page's style sheet has it for the present theme.
function colour(name) {
  const probe = document.createElement("i");
  probe.className = `ink-${name}`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

const translucent = (color) => color.replace("rgb(", "rgba(").replace(")", ", 0.12)");

function lineOf({ field, label, width, dash, filled }) {
  const stroke = colour(field);
  return { label, width, dash, stroke, fill: filled ? translucent(stroke) : undefined,
    points: { show: false } };
}

// From zero on, so that a small change never looks like a large one; with a floor for a calm night.
const fromZero = (chart, least, most) => [0, Math.max(1, (most ?? 0) * 1.1)];

// The curves of a new page fill a minute at first, then more.
function lastMinutes(chart, first, last) {
  const span = Math.min(SPAN_S, Math.max(SPAN_LEAST_S, (last ?? 0) - (first ?? 0)));
  return [(last ?? span) - span, last ?? span];
}

const shortCount = (value) => (value >= 10000 ? `${value / 1000}k` : String(value));

function axes() {
  const ink = { stroke: colour("axis"), font: FONT, ticks: { show: false } };
  const grid = { stroke: colour("grid"), width: 1 };
  return [
    { ...ink, grid: { show: false }, space: 70, size: 26,
      values: (chart, times) => times.map((time) => clock(time * 1000)) },
    { ...ink, grid, space: 34, size: 46,
      values: (chart, values) => values.map(shortCount) },
  ];
}

// One chart in `parent`. onHover(index or null) tells which second the pointer is at.
export class Chart {
  constructor(parent, kind, onHover) {
    Object.assign(this, { parent, lines: SERIES[kind], onHover });
    this.fields = this.lines.map(({ field }) => field);
    this.data = [[], ...this.fields.map(() => [])];
    this.draw();
    new ResizeObserver(() => this.plot.setSize(this.size())).observe(parent);
  }

  size() {
    return { width: Math.max(200, this.parent.clientWidth),
      height: Math.max(120, this.parent.clientHeight) };
  }

  // Also when the theme has changed: a canvas does not follow the style sheet.
  draw() {
    this.plot?.destroy();
    this.plot = new globalThis.uPlot({
      ...this.size(),
      padding: [8, 28, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, sync: { key: "seconds" } },
      scales: { x: { time: true, range: lastMinutes }, y: { range: fromZero } },
      series: [{}, ...this.lines.map(lineOf)],
      axes: axes(),
      hooks: { setCursor: [({ cursor }) => this.onHover(cursor.idx ?? null)] },
    }, this.data, this.parent);
  }

  update(data, summary) {
    this.data = data;
    this.plot.setData(data);
    if (this.parent.getAttribute("aria-label") !== summary) {
      this.parent.setAttribute("aria-label", summary);
    }
  }
}
