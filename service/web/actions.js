// The admin actions: what each asks for, says beforehand, and sends.
//
// An action has: name; button, its label; title(sku); verb, what the last button says; fields, see
// form.js; tell(values, stock, now), the sentences of what will happen; send(values, stock), the
// call; and perhaps danger, rare, keyed (a repeat needs the same key), done(json), what to say
// afterwards.
import { about, clock, count, plural } from "./format.js";

const UNITS_MAX = 10_000_000;
const SEGMENTS_MAX = 1024;
const PAY_WITHIN_MAX = 2_592_000;
const GRACE_MAX = 86_400;
const SEGMENTS = 20; // of a new sale

const enc = encodeURIComponent;
const sold = (stock) =>
  `round ${stock.round}, ${count(stock.sold)} of ${plural(stock.total, "unit")} sold`;

// ---- fields ----

const number = (name, label, max, value, more = {}) =>
  ({ name, label, type: "number", min: 1, max, value, required: true, ...more });
const time = (name, label, value) =>
  ({ name, label, type: "datetime-local", step: 1, value: value?.slice(0, 19) ?? "" });

const units = (label, value) => number("units", label, UNITS_MAX, value);
const limit = (value) => number("per_user_limit", "Units a user may have (empty: no limit)",
  UNITS_MAX, value ?? "", { required: false });
const payWithin = (value) => number("pay_within_s", "Seconds to pay within (empty: no limit)",
  PAY_WITHIN_MAX, value ?? "", { required: false });
const lateFields = (stock) => [
  number("grace_s", "Seconds of grace after that (empty: none)", GRACE_MAX, stock?.grace_s ?? "",
    { min: 0, required: false }),
  number("hold_max_s", "Seconds that extensions may hold an order (empty: no extensions)",
    PAY_WITHIN_MAX, stock?.hold_max_s ?? "", { required: false }),
  { name: "refund_late", label: "Late payments go back, and get no units", type: "checkbox",
    value: stock?.late_payment === "refund" },
];
const window = (stock) => [
  time("starts_at", "Starts at, UTC (empty: open from the beginning)", stock?.starts_at),
  time("ends_at", "Ends at, UTC (empty: open until sold out)", stock?.ends_at),
];

// ---- values of fields ----

const whole = (text) => (text === "" ? null : Number(text));
const moment = (text) => (text === "" ? null : `${text.length === 16 ? `${text}:00` : text}Z`);

function relative(text, now) {
  const seconds = (Date.parse(text) - now) / 1000;
  return seconds >= 0 ? `in ${about(seconds)}` : `${about(-seconds)} ago`;
}

const tellTime = (text, now) =>
  `${text.slice(0, 10)} ${clock(Date.parse(text))} UTC (${relative(text, now)})`;

function tellWindow(values, now) {
  const [starts, ends] = [moment(values.starts_at), moment(values.ends_at)];
  const opens = starts ? `opens at ${tellTime(starts, now)}` : "opens at once";
  return `${opens} and ${ends ? `ends at ${tellTime(ends, now)}` : "ends when it is sold out"}`;
}

// The settings of time to pay and of what comes later.
const payBody = (values) => ({
  pay_within_s: whole(values.pay_within_s), grace_s: whole(values.grace_s),
  hold_max_s: whole(values.hold_max_s), late_payment: values.refund_late ? "refund" : "retake",
});

// ---- settings in mid-sale ----

const change = (body) => (values, stock) =>
  ({ method: "PATCH", path: `admin/sale/${enc(stock.sku)}`, body: body(values) });

const pause = {
  name: "pause", button: "Pause…", title: (sku) => `Pause ${sku}`, verb: "Pause the sale",
  tell: (values, stock) => [
    `Pauses ${stock.sku}: ${sold(stock)}.`,
    "Buyers are refused (sale_paused) until it is resumed; reserved orders can still be paid.",
  ],
  send: change(() => ({ paused: true })),
};

const resume = {
  name: "resume", button: "Resume…", title: (sku) => `Resume ${sku}`, verb: "Resume the sale",
  tell: (values, stock) => [
    `Resumes ${stock.sku}: ${sold(stock)}.`,
    `${plural(stock.available, "unit")} can be bought at once, within the sale’s window.`,
  ],
  send: change(() => ({ paused: false })),
};

const changeWindow = {
  name: "window", button: "Window…", title: (sku) => `Window of ${sku}`, verb: "Set the window",
  fields: window,
  tell: (values, stock, now) => [`${stock.sku} ${tellWindow(values, now)}.`],
  send: change((values) =>
    ({ starts_at: moment(values.starts_at), ends_at: moment(values.ends_at) })),
};

const changeLimit = {
  name: "limit", button: "Limit…", title: (sku) => `Limit of ${sku}`, verb: "Set the limit",
  fields: (stock) => [limit(stock.per_user_limit)],
  tell(values, stock) {
    const most = whole(values.per_user_limit);
    const now = `${stock.sku}: ${sold(stock)}`;
    return most === null ? [`Removes the limit. ${now}.`] : [
      `Allows each user at most ${plural(most, "unit")} of this round. ${now}.`,
      "A lower limit takes nothing away. A new limit counts what each user has; in a large sale " +
        "orders wait for that some seconds.",
    ];
  },
  send: change((values) => ({ per_user_limit: whole(values.per_user_limit) })),
};

const changePayWithin = {
  name: "pay", rare: true, button: "Pay within…", title: (sku) => `Time to pay in ${sku}`,
  verb: "Set the time to pay",
  fields: (stock) => [payWithin(stock.pay_within_s), ...lateFields(stock)],
  tell(values, stock) {
    const within = whole(values.pay_within_s);
    const [grace, hold] = [whole(values.grace_s), whole(values.hold_max_s)];
    return [within === null ? `New orders of ${stock.sku} never expire.`
      : `New orders of ${stock.sku} that are not paid within ${about(within)} expire, and their ` +
        `units are sold again${grace > 0 ? ` ${about(grace)} later` : ""}.`,
    hold === null ? "The shop cannot extend the time of an order."
      : `The shop can extend the time of an order to ${about(hold)} after it was placed.`,
    values.refund_late ? "A payment that comes later is to be paid back."
      : "A payment that comes later gets units again, while there are any; else it is to be paid " +
        "back."];
  },
  send: change(payBody),
};

// ---- units and rounds ----

const restock = {
  name: "restock", button: "Restock…", title: (sku) => `Restock ${sku}`, verb: "Add the units",
  keyed: true, fields: () => [units("Units to add", "")],
  tell(values, stock) {
    const more = whole(values.units) ?? 0;
    return [`Adds ${plural(more, "unit")} to ${stock.sku}: ` +
      `${count(stock.available + more)} of ${count(stock.total + more)} are left then.`,
    "They can be sold at once, and cannot be taken back."];
  },
  send: (values, stock) => ({ method: "POST", path: "admin/stock/add",
    body: { sku: stock.sku, units: whole(values.units) } }),
};

function resetBody(values, sku, ifRound) {
  return { sku, total: whole(values.units), segments: whole(values.segments), if_round: ifRound,
    starts_at: moment(values.starts_at), ends_at: moment(values.ends_at),
    per_user_limit: whole(values.per_user_limit), ...payBody(values), paused: values.paused };
}

const roundFields = (stock) => [
  units("Units", stock?.total ?? ""),
  number("segments", "Segments (at most as many as units)", SEGMENTS_MAX,
    stock?.segments.length ?? SEGMENTS),
  ...window(stock), limit(stock?.per_user_limit), payWithin(stock?.pay_within_s),
  ...lateFields(stock),
  { name: "paused", label: "Begins paused", type: "checkbox", value: stock?.paused ?? false },
];

const tellRound = (values, now) =>
  `${plural(whole(values.units) ?? 0, "unit")} in ` +
  `${plural(whole(values.segments) ?? 0, "segment")}; it ${tellWindow(values, now)}` +
  `${values.paused ? ", paused at first" : ""}.`;

// How the service refuses a reset that would end a round in use: with what it would end.
function tellEnd(problem) {
  const least = problem.counted === false ? "at least " : "";
  return [
    `Ends round ${problem.round} with ${least}${plural(problem.paid, "paid order")} and ` +
      `${least}${count(problem.reserved)} reserved.`,
    "The paid orders stay paid. The reserved ones expire: a payment that still comes for one is " +
      "to be paid back.",
  ];
}

const reset = {
  name: "reset", rare: true, button: "Reset…", title: (sku) => `Reset ${sku}`,
  verb: "Begin the next round", danger: true, keyed: true, fields: roundFields,
  tell: (values, stock, now) => [
    `Begins round ${stock.round + 1} of ${stock.sku}: ${tellRound(values, now)}`,
    `Now: ${sold(stock)}. If orders of this round hold units, nothing is done yet: you are told ` +
      "how many are paid and reserved, and asked again.",
  ],
  send: (values, stock) => ({ method: "POST", path: "admin/stock/reset",
    body: resetBody(values, stock.sku, stock.round) }),
  // A second question, which only the refusal of the first could put.
  again: (problem, request) => (problem.code !== "round_in_use" ? null : {
    verb: `End round ${problem.round}`,
    tell: tellEnd(problem),
    request: { ...request, body: { ...request.body, end_round: true } },
  }),
};

export const create = () => ({
  name: "create", title: () => "New sale", verb: "Create the sale", keyed: true, isNew: true,
  fields: () => [
    { name: "sku", label: "Name (sku)", type: "text", pattern: "[A-Za-z0-9._:\\-]{1,64}",
      required: true, value: "" },
    ...roundFields(null),
  ],
  tell: (values, stock, now) =>
    [`Creates the sale ${values.sku || "…"}: ${tellRound(values, now)}`],
  send: (values) => ({ method: "POST", path: "admin/stock/reset",
    body: resetBody(values, values.sku, 0) }),
  explain: ({ json }) => (json.code === "round_mismatch"
    ? `This sale is there already, in round ${json.round}.` : null),
});

// How the service refuses to retire a sale whose buyers are owed money.
const tellOwed = (due) => [
  `${plural(due, "payment of this sale is", "payments of this sale are")} to be paid back.`,
  "They stay listed as such until each is, though the sale is gone.",
];

const retire = {
  name: "retire", rare: true, button: "Retire…", title: (sku) => `Retire ${sku}`,
  verb: "Retire the sale", danger: true,
  tell: (values, stock) => [
    `Retires ${stock.sku}: ends its ${sold(stock)}.`,
    "Its orders stay in the ledger; the sale is sold no more. It is refused while an order is " +
      "reserved.",
  ],
  send: (values, stock) => ({ method: "DELETE", path: `admin/sale/${enc(stock.sku)}` }),
  again: (problem, request) => (problem.code !== "refunds_due" ? null : {
    verb: "Retire it all the same",
    tell: tellOwed(problem.refunds_due),
    request: { ...request, body: { refunds_elsewhere: true } },
  }),
  // A repeat finds no sale when an earlier try has retired it.
  isDone: (reply, repeated) => repeated && reply.json.code === "unknown_sku",
};

const reconcile = {
  name: "reconcile", rare: true, button: "Reconcile…", title: (sku) => `Reconcile ${sku}`,
  verb: "Compare and correct",
  tell: (values, stock) => [
    `Compares Redis with the ledger for ${stock.sku}, ${sold(stock)}, and corrects Redis.`,
    "The sale goes on meanwhile.",
  ],
  send: (values, stock) => ({ method: "POST", path: "admin/reconcile", body: { sku: stock.sku } }),
  done: ({ sku, segments, differences = [], repaired, consistent }) =>
    `${sku}: ${plural(differences.length, "difference")} in ${plural(segments, "segment")}, ` +
    `${count(repaired)} corrected${consistent ? "" : "; not consistent yet: repeat it"}`,
};

export const SALE_ACTIONS =
  [pause, resume, restock, changeWindow, changeLimit, changePayWithin, reconcile, reset, retire];
