// Curves of the last five minutes, drawn by dygraphs, which a script before this one has loaded.
import { clock } from "./format.js";

const { Dygraph } = globalThis;
// Its legend would style elements in a way that the policy of the page forbids.
Dygraph.PLUGINS = [Dygraph.Plugins.Axes, Dygraph.Plugins.Grid];

const SPAN_S = 300;
const SPAN_LEAST_S = 60; // of a page that was opened just now
const FONT_SIZE = 12;
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

function seriesOf(lines) {
  return Object.fromEntries(lines.map(({ field, label, width, dash, filled }) => [label,
    { color: colour(field), strokeWidth: width, strokePattern: dash ?? null, fillGraph: filled }]));
}

// From zero on, so that a small change never looks like a large one; with a floor for a calm night.
function fromZero(columns) {
  const most = columns.flat().reduce((largest, value) => Math.max(largest, value ?? 0), 0);
  return [0, Math.max(1, most * 1.1)];
}

// The curves of a new page fill a minute at first, then more.
function lastMinutes(times) {
  const last = times.at(-1) ?? SPAN_S;
  const span = Math.min(SPAN_S, Math.max(SPAN_LEAST_S, last - (times[0] ?? last)));
  return [(last - span) * 1000, last * 1000];
}

const shortCount = (value) => (value >= 10000 ? `${value / 1000}k` : String(value));

const AXES = {
  x: { drawGrid: false, pixelsPerLabel: 70, axisLabelFormatter: (date) => clock(date.getTime()) },
  y: { pixelsPerLabel: 34, axisLabelWidth: 40, axisLabelFormatter: shortCount },
};

// dygraphs draws no chart without a row.
function rowsOf([times, ...columns]) {
  if (times.length === 0) {
    return [[new Date(0), ...columns.map(() => null)]];
  }
  return times.map((time, at) => [new Date(time * 1000), ...columns.map((column) => column[at])]);
}

const shown = new Set(); // all charts: the pointer in one marks its second in each

// One chart in `parent`. onHover(index or null) tells which second the pointer is at.
export class Chart {
  constructor(parent, kind, onHover) {
    Object.assign(this, { parent, lines: SERIES[kind], onHover });
    this.fields = this.lines.map(({ field }) => field);
    this.data = [[], ...this.fields.map(() => [])];
    this.draw();
    shown.add(this);
    new ResizeObserver(() => this.plot.resize()).observe(parent);
  }

  content() {
    const [times, ...columns] = this.data;
    return { file: rowsOf(this.data), dateWindow: lastMinutes(times),
      valueRange: fromZero(columns) };
  }

  // Also when the theme has changed: a canvas does not follow the style sheet.
  draw() {
    this.plot?.destroy();
    const { file, ...ranges } = this.content();
    this.plot = new Dygraph(this.parent, file, {
      ...ranges,
      labels: ["time", ...this.lines.map(({ label }) => label)],
      labelsUTC: true,
      legend: "never",
      series: seriesOf(this.lines),
      axes: AXES,
      axisLabelFontSize: FONT_SIZE,
      axisLineColor: "transparent",
      gridLineColor: colour("grid"),
      fillAlpha: 0.12,
      rightGap: 28,
      interactionModel: {},
      highlightCallback: (event, time, points, index) => this.hover(index),
      unhighlightCallback: () => this.hover(null),
    });
  }

  hover(index) {
    for (const { plot } of [...shown].filter((chart) => chart !== this)) {
      if (index === null) {
        plot.clearSelection();
      } else {
        plot.setSelection(index);
      }
    }
    this.onHover(index);
  }

  update(data, summary) {
    this.data = data;
    this.plot.updateOptions(this.content());
    if (this.parent.getAttribute("aria-label") !== summary) {
      this.parent.setAttribute("aria-label", summary);
    }
  }
}
