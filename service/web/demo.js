// The shopper's page, and an example for whoever writes one: how to call the service, and what to
// do with each answer. Nothing here is minified; take what you need.
//
// The first part makes the calls and knows nothing of the page. Its one rule: whoever does not know
// what became of an order repeats it with the same Idempotency-Key, until the service has decided.
// The same key never buys twice.
"use strict";

// ---- The calls ----------------------------------------------------------------------------------

const ANSWER_MS_MAX = 10_000; // the service answers within 4 s, unless its options say otherwise
const LOST_S = 3; // without an answer the first attempt may go on for deadline_ms, 2 s
const PAUSE_MS_FIRST = 250;
const PAUSE_MS_MAX = 8_000;

// One call. Returns what a caller decides by: the status, the stable code of a problem, the body.
// Throws when there is no answer: then nobody knows whether the call was carried out.
async function call(method, path, { body, key } = {}) {
  const headers = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (key !== undefined) headers["Idempotency-Key"] = key;
  const response = await fetch(path, {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    cache: "no-store",
    signal: AbortSignal.timeout(ANSWER_MS_MAX),
  });
  // A proxy in between may answer with something that is no JSON.
  const json = (response.headers.get("Content-Type") ?? "").includes("json");
  const content = json ? await response.json() : {};
  return {
    status: response.status,
    code: content.code ?? null,
    body: content,
    retryAfterS: Number(response.headers.get("Retry-After")) || 0,
    dateMs: Date.parse(response.headers.get("Date") ?? ""),
  };
}

// 503 overloaded, unavailable, no_order_id: nothing was done. 503 outcome_unknown, 408, and any 5xx
// of a proxy: nobody knows. For all of these the next step is the same.
function isUndecided(answer) {
  return answer.status >= 500 || answer.status === 408;
}

// How long to wait before the next attempt: what the service asks for, and twice as long each
// time. The random part keeps clients that failed together from coming back together.
function pauseMs(attempt, retryAfterS) {
  const asked = retryAfterS * 1000;
  const grown = Math.min(PAUSE_MS_FIRST * 2 ** attempt, PAUSE_MS_MAX);
  return Math.max(asked, grown) * (1 + Math.random() / 2);
}

const sleep = (ms) => new Promise((wake) => { setTimeout(wake, ms); });

// Repeats a call, which must be harmless to repeat, until it is decided. `tell(why, ms)` hears of
// each pause.
async function untilDecided(attempt, tell) {
  for (let count = 0; ; count++) {
    let why = "no answer";
    let retryAfterS = 0;
    try {
      const answer = await attempt();
      if (!isUndecided(answer)) return answer;
      why = answer.code ?? `status ${answer.status}`;
      retryAfterS = answer.retryAfterS;
    } catch {
      // The connection was lost, refused, or silent for too long.
      retryAfterS = LOST_S;
    }
    const ms = pauseMs(count, retryAfterS);
    tell(why, ms);
    await sleep(ms);
  }
}

// A key for one purchase: 128 random bits. (crypto.randomUUID is not there on plain http.)
function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// `purchase` is {key, sku, user_id, qty}: always the same body under the same key.
const placeOrder = ({ key, sku, user_id, qty }) =>
  call("POST", "order", { key, body: { sku, user_id, qty } });
const lookUp = (id) => call("GET", `order/${encodeURIComponent(id)}`);
// The shop's calls: harmless to repeat, without a key. A shop makes them on its server, which adds
// "Authorization: Bearer …" with the shop token. Never send that token to a browser.
// payment_ref names the money that was taken, so that it can be paid back when it came too late; a
// shop gives the name that its payment provider has for it.
const pay = (id) => call("POST", `order/${encodeURIComponent(id)}/pay`,
  { body: { payment_ref: `demo-${id}` } });
const cancel = (id) => call("POST", `order/${encodeURIComponent(id)}/cancel`);
const readStock = (sku) => call("GET", `stock/${encodeURIComponent(sku)}`);

// The service's clock, as the buyer's may be wrong. Each answer carries a time from before it
// arrived; so of the last differences to our own clock the largest is the truest.
class ServiceClock {
  #differences = [];

  note(...stampsMs) {
    const latest = Math.max(...stampsMs.filter(Number.isFinite));
    if (!Number.isFinite(latest)) return;
    this.#differences.push(latest - performance.now());
    this.#differences.splice(0, this.#differences.length - 20);
  }

  // Milliseconds since 1970.
  now() {
    return this.#differences.length > 0
      ? performance.now() + Math.max(...this.#differences) : Date.now();
  }
}

// What the sale is now: the order of the questions is the service's own.
function phaseOf(stock, nowMs) {
  if (stock.starts_at && nowMs < Date.parse(stock.starts_at)) return "scheduled";
  if (stock.ends_at && nowMs >= Date.parse(stock.ends_at)) return "ended";
  if (stock.paused) return "paused";
  if (stock.counting) return "counting";
  return stock.available === 0 ? "sold_out" : "open";
}

// ---- What the browser remembers -----------------------------------------------------------------

// A purchase is written down before its first request leaves, and the order's number when it is
// known: so a page that is closed or reloaded in between goes on with the same key.
class Memory {
  #name;
  #state = {};

  constructor(name) {
    this.#name = `seckill-demo:${name}`;
    try {
      this.#state = JSON.parse(localStorage.getItem(this.#name)) ?? {};
    } catch {
      // Nothing is kept in this browser, or not by us: memory lasts as long as the page.
    }
  }

  get(name) {
    return this.#state[name];
  }

  set(changes) {
    Object.assign(this.#state, changes);
    try {
      localStorage.setItem(this.#name, JSON.stringify(this.#state));
    } catch {
      // See above.
    }
  }
}

// ---- The page -----------------------------------------------------------------------------------

const STOCK_EVERY_MS = 1_000;
const CALLS_SHOWN_MAX = 50;
const LATE = "The time to pay is over. You can still try: you get your units again, if there are " +
  "any, or your money back.";
const PHASES = {
  scheduled: "Opens soon",
  open: "Open now",
  paused: "Paused for a moment",
  counting: "Paused for a moment: the limit is being counted",
  sold_out: "Sold out",
  ended: "The sale is over",
  none: "There is no such sale",
  unknown: "The service does not answer; asking again",
};

const sku = new URLSearchParams(location.search).get("sku") || "demo";
const memory = new Memory(sku);
const clock = new ServiceClock();
const $ = (id) => document.getElementById(id);
let stock = null; // the last that was read
let phase = "unknown";
let buying = false;
let waitUntilMs = 0; // the buyer was told to come again then, by the service's clock
let order = null;
let settling = false; // a payment or a cancellation is under way
let owedFor = null; // the order whose payment goes back
let shopCallsRefused = false;

function say(element, text, kind = "") {
  element.textContent = text;
  element.dataset.kind = kind;
}

function note(text) {
  const line = document.createElement("li");
  line.textContent = `${new Date().toISOString().slice(11, 23)} ${text}`;
  $("calls").append(line);
  while ($("calls").childElementCount > CALLS_SHOWN_MAX) $("calls").firstElementChild.remove();
}

// Makes a call, and writes down what was asked and answered.
function noted(what, attempt) {
  return async () => {
    try {
      const answer = await attempt();
      note(`${what} → ${answer.status}${answer.code ? ` ${answer.code}` : ""}`);
      clock.note(answer.dateMs);
      return answer;
    } catch (error) {
      note(`${what} → no answer (${error.name})`);
      throw error;
    }
  };
}

function duration(ms) {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  const parts = [Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60, seconds % 60];
  const days = Math.floor(seconds / 86400);
  const time = parts.map((part) => String(part).padStart(2, "0")).join(":");
  return days > 0 ? `${days} d ${time}` : time;
}

function units(count) {
  return count === 1 ? "1 unit" : `${count} units`;
}

// ---- The sale, read again and again while somebody looks ----

function showSale() {
  const now = clock.now();
  phase = stock ? phaseOf(stock, now) : phase;
  if ($("phase").dataset.phase !== phase) { // a screen reader says it once
    $("phase").dataset.phase = phase;
    $("phase").textContent = PHASES[phase];
  }
  let countdown = "";
  if (phase === "scheduled") countdown = `in ${duration(Date.parse(stock.starts_at) - now)}`;
  else if (phase === "open" && stock.ends_at) {
    countdown = `ends in ${duration(Date.parse(stock.ends_at) - now)}`;
  }
  $("countdown").textContent = countdown;
  if (stock) {
    $("stock").max = stock.total;
    $("stock").value = stock.available;
    const limit = stock.per_user_limit ? `; at most ${stock.per_user_limit} for each buyer` : "";
    $("left").textContent = `${stock.available} of ${units(stock.total)} left${limit}`;
  } else {
    $("stock").value = 0;
    $("left").textContent = "";
  }
}

// Only what is certain keeps the buyer from trying: units may come back at any moment.
function showBuy() {
  const wait = waitUntilMs - clock.now();
  const closed = ["scheduled", "ended", "none", "unknown"].includes(phase);
  $("buy").disabled = buying || closed || wait > 0;
  $("buy").textContent = buying ? "Buying …" : wait > 0 ? `Buy again in ${duration(wait)}` : "Buy";
}

async function readSale() {
  try {
    const answer = await readStock(sku);
    if (answer.status === 200) {
      stock = answer.body;
      clock.note(answer.dateMs, Date.parse(stock.as_of));
    } else {
      stock = null;
      phase = answer.status === 404 ? "none" : "unknown";
    }
  } catch {
    stock = null;
    phase = "unknown";
  }
  showSale();
  showBuy();
}

async function watchSale() {
  for (;;) {
    if (!document.hidden) await readSale();
    if (isOverdue()) await openOrder(order.order_id); // its status follows a little later
    await sleep(STOCK_EVERY_MS * (1 + Math.random() / 2));
  }
}

// ---- Buying ----

// What a refusal means for the buyer. Nothing was bought in any of these cases.
function refusalText({ code, body, retryAfterS }) {
  switch (code) {
    case "sold_out":
      return stock && stock.available > 0
        ? `Only ${units(stock.available)} left: try fewer.` : "Sold out. You bought nothing.";
    case "limit_reached":
      return `You have all you may have of this sale: ${units(body.limit)}.`;
    case "sale_not_started":
      return `Not open yet: it opens at ${new Date(body.starts_at).toLocaleString()}.`;
    case "sale_ended":
      return "The sale is over. You bought nothing.";
    case "sale_paused":
      return "The sale is paused for a moment. Try again soon.";
    case "rate_limited":
      return `Too many attempts. Try again in ${retryAfterS} s.`;
    case "unknown_sku":
      return "There is no such sale.";
    default:
      return body.detail ?? `The service refused: ${code}.`;
  }
}

// The orders that the buyer has, offered for a look.
function showOrders(ids) {
  $("orders").hidden = ids.length === 0;
  $("orders").replaceChildren(...ids.map((id) => {
    const item = document.createElement("li");
    const button = document.createElement("button");
    button.textContent = `Order ${id}`;
    button.addEventListener("click", () => openOrder(id));
    item.append(button);
    return item;
  }));
}

async function buy(purchase) {
  buying = true;
  memory.set({ purchase });
  showOrders([]);
  say($("result"), "Sending your order …", "wait");
  showBuy();
  const what = `POST /order, key ${purchase.key.slice(0, 8)}…`;
  const answer = await untilDecided(noted(what, () => placeOrder(purchase)), (why, ms) => {
    say($("result"), `${why}: trying again in ${duration(ms)}. You cannot buy twice by this.`,
      "wait");
  });
  if (answer.status === 201 || answer.status === 200) {
    memory.set({ purchase: undefined, order_id: answer.body.order_id });
    say($("result"), `Bought: ${units(answer.body.qty)}.`, "good");
    showOrder(answer.body);
  } else {
    memory.set({ purchase: undefined });
    say($("result"), refusalText(answer), "bad");
    showOrders(answer.body.orders ?? []);
    // Until the opening the countdown tells, which knows when the opening is brought forward.
    const wait = answer.code === "sale_not_started" ? 0 : answer.retryAfterS;
    waitUntilMs = wait > 0 ? clock.now() + wait * 1000 : 0;
  }
  buying = false;
  await readSale();
}

// ---- My order ----

function showOrder(next) {
  order = next;
  $("order").hidden = !order;
  if (!order) return;
  $("order-id").textContent = order.order_id;
  $("order-user").textContent = order.user_id;
  $("order-qty").textContent = order.qty;
  $("order-status").textContent = order.status;
  showPayBy();
}

function showPayBy() {
  if (!order) return;
  const left = order.expires_at ? Date.parse(order.expires_at) - clock.now() : Infinity;
  const open = order.status === "reserved";
  const idle = !settling && !shopCallsRefused;
  const late = order.status === "expired" || (open && left <= 0);
  const lost = order.order_id === owedFor || stock?.late_payment === "refund";
  $("pay").textContent = late ? "Pay late" : "Pay";
  $("pay").disabled = !idle || (late ? lost : !open);
  $("cancel").disabled = !idle || !open;
  if (late) $("pay-by").textContent = lost ? "Too late to pay." : LATE;
  else $("pay-by").textContent = open && left < Infinity ? `Pay within ${duration(left)}.` : "";
}

function isOverdue() {
  return order !== null && order.status === "reserved" && !settling &&
    Date.parse(order.expires_at ?? "") < clock.now();
}

async function openOrder(id) {
  if (order?.order_id !== id) say($("order-result"), "");
  const answer = await untilDecided(noted(`GET /order/${id}`, () => lookUp(id)), (why) => {
    say($("order-result"), `${why}: asking again.`, "wait");
  });
  if ($("order-result").dataset.kind === "wait") say($("order-result"), "");
  if (answer.status === 200) {
    memory.set({ order_id: id });
    showOrder(answer.body);
  } else { // of a ledger that was emptied, for instance
    memory.set({ order_id: undefined });
    showOrder(null);
  }
}

// What became of money that did not pay the order: the service has written down that it goes back.
function owedText({ code, body }) {
  const back = body.payment_state === "refunded" ? "The shop has paid your money back."
    : "The shop pays your money back.";
  if (code === "payment_too_late") return `Too late: the order can have no units any more. ${back}`;
  if (code === "already_paid") return `Another payment had paid it already. ${back}`;
  return null;
}

// Pays or cancels.
async function settle(name, attempt) {
  const id = order.order_id;
  settling = true;
  showPayBy();
  say($("order-result"), "Asking the service …", "wait");
  const answer = await untilDecided(noted(`POST /order/${id}/${name}`, () => attempt(id)),
    (why, ms) => {
      say($("order-result"), `${why}: trying again in ${duration(ms)}.`, "wait");
    });
  settling = false;
  if (answer.status === 200) {
    showOrder(answer.body);
    say($("order-result"), name === "cancel" ? "Cancelled."
      : answer.body.retaken ? "Paid, though late: you have your units again." : "Paid.", "good");
  } else if (answer.status === 401) {
    shopCallsRefused = true;
    say($("order-result"), "Not from here: this service has a shop token, which only the shop's " +
      "server knows. There it pays and cancels; no page may hold that token.", "bad");
    showPayBy();
  } else { // invalid_state tells what became of the order
    const owed = owedText(answer);
    if (owed) owedFor = id;
    await openOrder(id);
    say($("order-result"), owed ?? answer.body.detail ?? "The service refused.", "bad");
  }
}

// ---- Begin ----

function start() {
  $("sku").textContent = sku;
  document.title = `${sku}: a flash sale`;
  $("user").value = memory.get("user_id") ?? `guest-${newKey().slice(0, 6)}`;
  $("form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (buying || $("buy").disabled) return;
    const user_id = $("user").value;
    memory.set({ user_id });
    buy({ key: newKey(), sku, user_id, qty: Number($("qty").value) });
  });
  $("pay").addEventListener("click", () => settle("pay", pay));
  $("cancel").addEventListener("click", () => settle("cancel", cancel));
  $("forget").addEventListener("click", () => {
    memory.set({ order_id: undefined });
    showOrder(null);
    say($("result"), "");
    $("user").focus();
  });
  setInterval(() => {
    showSale();
    showBuy();
    showPayBy();
  }, 250);
  watchSale();
  if (memory.get("purchase")) buy(memory.get("purchase")); // what a closed page left undecided
  else if (memory.get("order_id")) openOrder(memory.get("order_id"));
}

start();
