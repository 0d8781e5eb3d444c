// The large figures of the group or of one daemon, and their curves.
import { Chart } from "./charts.js";
import { find, make, setData, setText } from "./dom.js";
import { clock, count, ms, rate, shortName } from "./format.js";
import { GROUP, sumOf } from "./history.js";

const FIGURES = [
  { field: "accepted", label: "accepted", text: rate, unit: "/s" },
  { field: "replayed", label: "repeats", text: rate, unit: "/s" },
  { field: "sold_out", label: "sold out", text: rate, unit: "/s" },
  { field: "refused", label: "refused", text: rate, unit: "/s" },
  { field: "errors", label: "errors", text: rate, unit: "/s" },
  { field: "p50_ms", label: "p50", text: ms, unit: "ms" },
  { field: "p99_ms", label: "p99", text: ms, unit: "ms" },
  { field: "queue", label: "queue", text: count },
  { field: "batch_orders", label: "a batch", text: rate },
];

function figureView({ field, label, text, unit }) {
  const value = make("span", { class: "value" });
  const rest = make("span", { class: "muted small" });
  const element = make("div", { class: "figure", "data-name": field },
    make("dt", {}, make("span", { class: `swatch ink-${field}`, "aria-hidden": "true" }), label),
    make("dd", {}, value, " ", rest));
  return {
    element,
    update(known, suffix = unit ?? "") {
      setText(value, text(known));
      setText(rest, suffix);
      setData(element, "some", known > 0);
    },
  };
}

export class Figures {
  constructor(history) {
    this.history = history;
    this.hovered = null;
    this.views = new Map(FIGURES.map((figure) => [figure.field, figureView(figure)]));
    find("figures").append(...[...this.views.values()].map(({ element }) => element));
    const onHover = (index) => this.hover(index);
    this.charts = [new Chart(find("rates"), "rates", onHover),
      new Chart(find("latency"), "latency", onHover)];
    find("scope").addEventListener("change", () => this.draw());
  }

  scope() {
    return find("scope").value;
  }

  // The choice of whose figures these are; a daemon that is gone is no choice any more.
  offer(daemons) {
    const names = daemons.map(({ name }) => name);
    const options = [...find("scope").options];
    options.filter(({ value }) => value !== GROUP && !names.includes(value))
      .forEach((option) => option.remove());
    const offered = options.map(({ value }) => value);
    names.filter((name) => !offered.includes(name)).forEach((name) =>
      find("scope").append(make("option", { value: name, text: shortName(name) })));
  }

  update(state) {
    this.offer(state.daemons);
    this.state = state;
    this.draw();
  }

  // The pointer shows another second than the last.
  hover(index) {
    this.hovered = index;
    this.tell();
  }

  draw() {
    if (!this.state) {
      return;
    }
    for (const chart of this.charts) {
      const table = this.history.table(this.scope(), chart.fields);
      const last = chart.lines.map(({ label }, at) => `${label} ${rate(table[at + 1].at(-1))}`);
      chart.update(table, `${chart.lines[0].field === "accepted" ? "Orders a second"
        : "Time to answer an order in ms"}: ${last.join(", ")}`);
    }
    this.tell();
  }

  tell() {
    if (!this.state) {
      return;
    }
    const { daemons } = this.state;
    const scope = this.scope();
    const now = scope === GROUP ? sumOf(daemons) : daemons.find(({ name }) => name === scope);
    for (const { field } of FIGURES) {
      this.views.get(field).update(this.valueOf(now, field), this.suffix(now, field));
    }
    setData(find("group"), "hovered", this.hovered !== null);
    this.tellTime();
  }

  valueOf(now, field) {
    const past = this.hovered === null ? undefined
      : this.history.at(this.scope(), field, this.hovered);
    return past ?? now?.per_s?.[field] ?? now?.[field] ?? null;
  }

  suffix(now, field) {
    return field === "queue" && now?.queue_max ? `of ${count(now.queue_max)}` : undefined;
  }

  tellTime() {
    const time = this.hovered === null ? null : this.history.timeAt(this.scope(), this.hovered);
    const several = this.scope() === GROUP && this.state.daemons.length > 1;
    setText(find("figures-note"), time ? `at ${clock(time * 1000)} UTC`
      : several ? "p50, p99 and batch: the largest of any daemon" : "");
  }

  redraw() {
    this.charts.forEach((chart) => chart.draw());
    this.draw();
  }
}
