// The sales: one card each, with a bar for every segment.
import { List, find, make, setAttribute, setData, setText, show } from "./dom.js";
import { about, clock, count, duration, plural, rate, words } from "./format.js";
import { SALE_ACTIONS } from "./actions.js";

const ONE_ROW_MAX = 40; // segments; more of them wrap

// ---- a segment ----

function segmentTitle(index, { total, left, locked, dirty }) {
  const held = [locked && "locked", dirty && "dirty"].filter(Boolean).join(", ");
  const units = left === null ? "unknown" : `${count(left)} of ${count(total)} left`;
  return `Segment ${index}: ${units}${held && `, ${held}`}`;
}

function segmentView({ index }) {
  const fill = make("span", { class: "fill" });
  const element = make("span", { class: "segment" }, fill);
  return {
    element,
    update({ segment }) {
      const { left, total, locked, dirty } = segment;
      const part = total > 0 && left !== null ? left / total : 0;
      // A last unit must not round to nothing.
      fill.style.height = `${left > 0 ? Math.max(4, part * 100) : 0}%`;
      setData(element, "locked", locked === true);
      setData(element, "dirty", dirty === true);
      setData(element, "empty", left === 0);
      setData(element, "unknown", left === null || left === undefined);
      setAttribute(element, "title", segmentTitle(index, segment));
    },
  };
}

// The bars in words, for those who do not see them.
function segmentsSummary({ segments }) {
  const having = (test) => segments.filter(test).length;
  const parts = [
    plural(segments.length, "segment"),
    `${having(({ locked }) => locked)} locked`,
    `${having(({ dirty }) => dirty)} dirty`,
    `${having(({ left }) => left === 0)} empty`,
  ];
  const unknown = having(({ left }) => left === null || left === undefined);
  return [...parts, ...(unknown > 0 ? [`${unknown} unknown`] : [])].join(", ");
}

// ---- what stands beside it ----

const seconds = (text, now) => (Date.parse(text) - now) / 1000;

export function countdown(sale, now) {
  const starts = sale.starts_at ? seconds(sale.starts_at, now) : -1;
  const ends = sale.ends_at ? seconds(sale.ends_at, now) : null;
  if (starts > 0) {
    return ["starts in", duration(starts)];
  }
  if (ends === null) {
    return ["", "no end set"];
  }
  return ends > 0 ? ["ends in", duration(ends)] : ["ended", `${about(-ends)} ago`];
}

function pace(sale) {
  if (!(sale.sold_per_s > 0) || !(sale.left > 0)) {
    return "";
  }
  const left = about(sale.left / sale.sold_per_s);
  return `${rate(sale.sold_per_s)}/s: sold out in ${left} at this pace`;
}

function terms(sale) {
  const date = (text) => `${text.slice(0, 10)} ${clock(Date.parse(text))}`;
  return [
    sale.per_user_limit > 0 ? `at most ${plural(sale.per_user_limit, "unit")} a user`
      : "no limit a user",
    sale.pay_within_s > 0 ? `paid within ${about(sale.pay_within_s)}` : "no time to pay by",
    sale.grace_s > 0 ? `${about(sale.grace_s)} of grace` : null,
    sale.hold_max_s > 0 ? `held up to ${about(sale.hold_max_s)}` : null,
    sale.late_payment === "refund" ? "late payments go back" : null,
    sale.starts_at ? `from ${date(sale.starts_at)}` : null,
    sale.ends_at ? `to ${date(sale.ends_at)} UTC` : null,
  ].filter(Boolean).join(" · ");
}

// ---- the card ----

function actionButtons(card, begin) {
  return SALE_ACTIONS.map((action) => make("button", { type: "button", text: action.button,
    "data-action": action.name, onclick: () => begin(action, card.sale) }));
}

// What is seldom wanted, and what ends a round, stands one step further away.
function actionBar(sku, buttons) {
  const rare = ({ dataset }) => SALE_ACTIONS.find(({ name }) => name === dataset.action).rare;
  return make("div", { class: "actions", role: "group", "aria-label": `Actions on ${sku}` },
    ...buttons.filter((button) => !rare(button)),
    make("details", {}, make("summary", { text: "More" }),
      make("div", {}, ...buttons.filter(rare))));
}

function salePage(sku, begin) {
  const card = { sale: null };
  const parts = {
    pill: make("span", { class: "pill" }),
    round: make("span", { class: "muted" }),
    label: make("span", { class: "muted" }),
    clock: make("span", { class: "time" }),
    left: make("strong", { class: "large" }),
    total: make("span", { class: "muted" }),
    pace: make("span", { class: "muted pace" }),
    segments: make("div", { class: "segments", role: "img" }),
    more: make("p", { class: "muted small" }),
    terms: make("p", { class: "muted small" }),
  };
  const name = make("h3", { text: sku });
  card.buttons = actionButtons(card, begin);
  card.element = make("article", { class: "panel sale", "data-sku": sku },
    make("header", {}, name, parts.pill, parts.round,
      make("span", { class: "countdown" }, parts.label, " ", parts.clock)),
    make("p", { class: "left" }, parts.left, " ", parts.total, parts.pace),
    parts.segments, parts.more, parts.terms,
    actionBar(sku, card.buttons));
  card.bars = new List(parts.segments, ({ index }) => index, segmentView);
  return Object.assign(card, { parts });
}

function updateSegments({ parts, bars }, sale) {
  const segments = sale.segments ?? [];
  bars.update(segments.map((segment, index) => ({ segment, index })));
  setData(parts.segments, "rows", segments.length > ONE_ROW_MAX ? "many" : "one");
  setAttribute(parts.segments, "aria-label", segmentsSummary({ segments }));
  show(parts.more, sale.segments_more > 0);
  setText(parts.more, `and ${plural(sale.segments_more ?? 0, "segment")} more`);
}

// Of pause and resume only the one that would change something.
function updateButtons({ buttons }, sale) {
  for (const button of buttons) {
    const { action } = button.dataset;
    show(button, !(action === "pause" && sale.paused) && !(action === "resume" && !sale.paused));
  }
}

function saleView(begin, clockOf, { sku }) {
  const card = salePage(sku, begin);
  const { parts } = card;
  return {
    element: card.element,
    update(sale) {
      card.sale = sale;
      setData(card.element, "state", sale.state);
      setText(parts.pill, sale.paused && sale.state !== "paused" ? `${words(sale.state)}, paused`
        : words(sale.state));
      setText(parts.round, `round ${sale.round}`);
      setText(parts.left, count(sale.left));
      setText(parts.total, `of ${plural(sale.total, "unit")} left`);
      setText(parts.pace, pace(sale));
      setText(parts.terms, terms(sale));
      updateSegments(card, sale);
      updateButtons(card, sale);
      this.tick();
    },
    tick() {
      const [label, time] = countdown(card.sale, clockOf());
      setText(parts.label, label);
      setText(parts.clock, time);
      setData(parts.clock, "set", label !== "");
    },
  };
}

// All cards. begin(action, sale) starts an admin action; now() is the daemon's clock.
export class Sales {
  constructor(begin, now) {
    this.list = new List(find("sales"), ({ sku }) => sku, (sale) => saleView(begin, now, sale));
  }

  update(state) {
    this.list.update(state.sales);
    show(find("no-sales"), state.sales.length === 0);
    show(find("sales-more"), state.sales_more > 0);
    setText(find("sales-more"), `and ${plural(state.sales_more ?? 0, "sale")} more`);
  }

  // Countdowns go on between two events.
  tick() {
    this.list.views.forEach((view) => view.tick());
  }
}
