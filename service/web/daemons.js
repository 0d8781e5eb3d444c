// The daemons of the group, one card each, and the servers that they all use.
import { List, find, make, setAttribute, setData, setText, show } from "./dom.js";
import { about, count, megabytes, ms, percent, plural, rate, shortName, words } from "./format.js";
import { isSilent, serversOf, worstReport } from "./alarms.js";

const SPARK = { points: 60, width: 120, height: 28 };
const SVG = "http://www.w3.org/2000/svg";
const RATES = [["accepted", "accepted"], ["replayed", "repeats"], ["sold_out", "sold out"],
  ["refused", "refused"], ["errors", "errors"]];

// ---- the small curve of the last minute ----

function sparkView() {
  const line = document.createElementNS(SVG, "polyline");
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${SPARK.width} ${SPARK.height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", "spark");
  svg.append(line);
  return { element: svg, update: (values) => line.setAttribute("points", sparkPoints(values)) };
}

function sparkPoints(values) {
  const most = Math.max(1, ...values);
  const step = SPARK.width / (SPARK.points - 1);
  const first = SPARK.points - values.length;
  return values.map((value, index) => [
    ((first + index) * step).toFixed(1),
    (SPARK.height - 1 - ((value ?? 0) / most) * (SPARK.height - 2)).toFixed(1),
  ].join(",")).join(" ");
}

// ---- parts of a card ----

function figure(label, name) {
  const value = make("dd");
  return { value, element: make("div", { class: "figure", "data-name": name },
    make("dt", { text: label }), value) };
}

function shareView() {
  const part = (name) => make("span", { class: name });
  const parts = { redis: part("redis"), ledger: part("ledger") };
  const bar = make("div", { class: "share", "aria-hidden": "true" }, parts.redis, parts.ledger);
  const text = make("span");
  return {
    element: make("div", { class: "shares" },
      make("p", { class: "small" },
        make("span", { class: "muted", text: "workers’ time: " }), text),
      bar),
    update(share = {}) {
      parts.redis.style.width = `${Math.min(1, share.redis ?? 0) * 100}%`;
      parts.ledger.style.width = `${Math.min(1, share.ledger ?? 0) * 100}%`;
      setText(text, `Redis ${percent(share.redis)}, ledger ${percent(share.ledger)}`);
    },
  };
}

function healthView() {
  const state = make("strong");
  const name = make("span");
  const element = make("li", {}, state, " ", name);
  return {
    element,
    update(server) {
      setData(element, "state", server.state === "ok" ? "good" : "bad");
      setText(state, server.state === "ok" ? "✓" : `✕ ${words(server.state)}`);
      const kind = server.kind === "redis" ? "Redis" : "ledger";
      setText(name, server.state === "ok" ? `${kind} ${ms(server.ms)} ms` : kind);
      setAttribute(element, "title", server.name);
    },
  };
}

// ---- the card ----

const stateOf = (daemon) => (isSilent(daemon) ? "silent" : daemon.state);

function facts(daemon, now) {
  const up = (now - Date.parse(daemon.started_at)) / 1000;
  return [
    `node ${daemon.node}`, `version ${daemon.version}`, `up ${about(up)}`,
    `${count(daemon.connections)} connections`, `${percent(daemon.cpu)} of a processor`,
    megabytes(daemon.memory_bytes),
  ].join(" · ");
}

function daemonView({ lastMinute, now }, { name }) {
  const figures = [...RATES.map(([field, label]) => ({ field, ...figure(label, field) })),
    { field: "p50_ms", ...figure("p50", "p50_ms") },
    { field: "p99_ms", ...figure("p99", "p99_ms") },
    { field: "queue", ...figure("queue", "queue") },
    { field: "batch_orders", ...figure("a batch", "batch_orders") }];
  const pill = make("span", { class: "pill" });
  const serving = make("span", { class: "muted small" });
  const spark = sparkView();
  const share = shareView();
  const health = make("ul", { class: "health", "aria-label": "Servers" });
  const servers = new List(health, ({ kind, name: at }) => `${kind} ${at}`, healthView);
  const about = make("p", { class: "muted small" });
  const element = make("article", { class: "panel daemon", "data-daemon": name },
    make("header", {}, make("h3", { text: shortName(name), title: name }), pill, serving,
      spark.element),
    make("dl", { class: "figures" }, ...figures.map((one) => one.element)),
    share.element, health, about);
  return {
    element,
    update(daemon) {
      setData(element, "state", stateOf(daemon));
      setText(pill, isSilent(daemon) ? `silent ${Math.round(daemon.age_ms / 1000)} s`
        : words(daemon.state));
      setText(serving, daemon.serving ? "serves this page" : "");
      for (const { field, value } of figures) {
        setText(value, figureText(daemon, field));
      }
      setData(element, "errors", daemon.per_s?.errors > 0);
      spark.update(lastMinute(name));
      share.update(daemon.share ?? {});
      servers.update(daemon.servers ?? []);
      setText(about, facts(daemon, now()));
    },
  };
}

function figureText(daemon, field) {
  if (field === "queue") {
    return count(daemon.queue);
  }
  return rate(daemon.per_s?.[field] ?? daemon[field]);
}

// ---- the table of servers ----

function serverRow() {
  const cells = { name: make("th", { scope: "row" }), state: make("td"),
    ms: make("td", { class: "number" }), seen: make("td") };
  const element = make("tr", {}, cells.name, cells.state, cells.ms, cells.seen);
  return {
    element,
    update(server) {
      const worst = worstReport(server);
      const good = worst.state === "ok" && !worst.silent;
      setData(element, "state", good ? "good" : "bad");
      setText(cells.name, server.key);
      setText(cells.state, good ? "✓ ok"
        : worst.silent ? "? nobody says" : `✕ ${words(worst.state)}`);
      setText(cells.ms, good ? ms(worst.ms) : "–");
      const alike = server.reports.filter(({ state, silent }) => state === worst.state && !silent);
      setText(cells.seen, `${alike.length} of ${plural(server.reports.length, "daemon")}`);
    },
  };
}

// All of it. lastMinute(name) gives the accepted orders of each second; now() the daemon's clock.
export class Daemons {
  constructor(lastMinute, now) {
    const context = { lastMinute: (name) => lastMinute(name, SPARK.points), now };
    this.cards = new List(find("daemons"), ({ name }) => name,
      (daemon) => daemonView(context, daemon));
    this.servers = new List(find("servers"), ({ key }) => key, serverRow);
  }

  update(state) {
    this.cards.update(state.daemons.map((daemon) =>
      ({ ...daemon, serving: daemon.name === state.daemon })));
    this.servers.update(serversOf(state.daemons));
    show(find("daemons-more"), state.daemons_more > 0);
    setText(find("daemons-more"), `and ${plural(state.daemons_more ?? 0, "daemon")} more`);
  }
}
