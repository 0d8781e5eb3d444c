// A sale from start to end, as a shop drives it; it needs Node 18 or later, and no package.
//
// usage: node sale.mjs SKU BUYERS
//
// It creates a sale, lets so many buyers order one unit each, pays the first order, cancels the
// second, pays back the second one's money, which comes too late, shows the lists, begins the next
// round, and hears from the feed of events which orders have expired by that. SALE_URL,
// SALE_ADMIN_URL, SALE_ADMIN_TOKEN_FILE and SALE_SHOP_TOKEN_FILE are those of sale.py.
import { readFileSync } from "node:fs";

const URL_ = process.env.SALE_URL ?? "http://127.0.0.1:8080";
const ADMIN_URL = process.env.SALE_ADMIN_URL ?? URL_;
const TRY_MS = 5_000; // for one try: more than the service takes for any call, 4 s
const LOST_S = 3; // before the next try, if no answer came: more than deadline_ms, 2 s
const GIVE_UP_MS = 60_000; // for all tries of a call; choose what a buyer waits for

const tokenOf = (name) => (name ? readFileSync(name, "ascii").split("\n")[0].trim() : null);
const ADMIN = tokenOf(process.env.SALE_ADMIN_TOKEN_FILE ?? "run/admin.token");
const SHOP = tokenOf(process.env.SALE_SHOP_TOKEN_FILE);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** The service has decided: no. `problem.code` is stable. */
class Refused extends Error {
  constructor(status, problem) {
    super(`${status} ${problem.code}: ${problem.detail}`);
    this.problem = problem;
  }
}

/** No decision within GIVE_UP_MS: the call may have been carried out. Repeat it later. */
class Undecided extends Error {}

/** One try. Status 0 means that no whole answer came. */
async function send(url, options) {
  try {
    const answer = await fetch(url, { ...options, signal: AbortSignal.timeout(TRY_MS) });
    const text = await answer.text();
    const waitS = Number(answer.headers.get("Retry-After") ?? LOST_S);
    return { status: answer.status, waitS, text };
  } catch {
    return { status: 0, waitS: LOST_S, text: "" }; // refused, reset, cut off, or too late
  }
}

/** Repeats the very same request until the service has decided. That is safe for every call that
 * carries a key, and for those that are harmless to repeat by nature. */
async function call(method, path, { body, key, token, base = URL_ } = {}) {
  const headers = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (key) headers["Idempotency-Key"] = key;
  if (token) headers.Authorization = `Bearer ${token}`;
  const options = { method, headers, body: body && JSON.stringify(body) };
  const end = performance.now() + GIVE_UP_MS;
  for (;;) {
    const { status, waitS, text } = await send(base + path, options);
    if (status >= 200 && status < 300) return text;
    if (status >= 400 && status < 500 && status !== 408 && status !== 429)
      throw new Refused(status, JSON.parse(text));
    if (performance.now() + waitS * 1000 > end) throw new Undecided(`${method} ${path}`);
    await sleep(waitS * 1000);
  }
}

const json = async (...request) => JSON.parse(await call(...request));
const operator = (options) => ({ ...options, token: ADMIN, base: ADMIN_URL });

/** Creates the sale, or finds it as an earlier run has created it. */
const createSale = (sku, total) => json("POST", "/admin/stock/reset", operator({
  body: { sku, total, segments: 4, per_user_limit: 2, pay_within_s: 900, if_round: 0 },
  key: `create-${sku}`,
}));

/** The order, or null when the service has refused it. The shop has stored purchaseId before. */
async function buy(purchaseId, sku, userId, qty = 1) {
  try {
    return await json("POST", "/order", { body: { sku, user_id: userId, qty }, key: purchaseId });
  } catch (error) {
    if (error instanceof Refused) return null; // error.problem.code says why
    throw error;
  }
}

/** True when the order is paid: now the shop may capture the money. False: the shop owes the money
 * back, and the service lists the payment as refund_due. The shop has stored the ref before. */
async function pay(orderId, ref) {
  try {
    await call("POST", `/order/${orderId}/pay`, { body: { payment_ref: ref }, token: SHOP });
    return true;
  } catch (error) {
    const owed = ["payment_too_late", "already_paid"];
    if (error instanceof Refused && owed.includes(error.problem.code)) return false;
    throw error;
  }
}

/** Returns how many payments. Either step may be repeated, so a run that dies between them does no
 * harm: the service lists the payment until it hears of the refund. */
async function payBackWhatIsDue(sku) {
  const due = await pages(`/payments?sku=${sku}&state=refund_due`, { token: SHOP }, "payments");
  for (const { order_id: orderId, payment_ref: ref } of due) {
    await askProviderToRefund(ref, `${orderId}:${ref}:0`); // 0 units remain
    await call("POST", `/order/${orderId}/refund`,
      { body: { payment_ref: ref, restock: false }, token: SHOP });
  }
  return due.length;
}

/** Here a shop calls its payment provider, with the ref as the idempotency key. */
async function askProviderToRefund(ref, key) {}

/** True when the order is cancelled: its unit is on sale again. */
async function cancel(orderId) {
  try {
    await call("POST", `/order/${orderId}/cancel`, { token: SHOP });
    return true;
  } catch (error) {
    if (error instanceof Refused && error.problem.code === "invalid_state") return false;
    throw error;
  }
}

/** All orders of a user in a sale. */
async function ordersOf(userId, sku) {
  return pages(`/user/${encodeURIComponent(userId)}/orders?sku=${sku}`, { token: SHOP });
}

/** A whole list; pages go on while they name a next one. */
async function pages(path, options, of = "orders") {
  const found = [];
  for (let after = ""; after !== undefined; ) {
    const page = await json("GET", path + after, options);
    found.push(...page[of]);
    after = page.next && `&after=${encodeURIComponent(page.next)}`;
  }
  return found;
}

/** Ends the sale, then begins a round that nobody can order in before the operator resumes it. */
async function nextRound(sku, sale) {
  await call("PATCH", `/admin/sale/${sku}`, operator({ body: { paused: true } }));
  return json("POST", "/admin/stock/reset", operator({
    body: { sku, total: sale.total, segments: sale.segments, paused: true, if_round: sale.round,
      end_round: true },
    key: `end-${sku}-${sale.round}`,
  }));
}

/** Follows the feed until none of the orders is reserved; how many have expired. A shop commits the
 * cursor, next, together with what the events change, as sale.py does. */
async function waitForExpiries(orderIds) {
  const reserved = new Set(orderIds);
  const ends = ["order.paid", "order.cancelled", "order.expired"];
  let expired = 0;
  for (let after = ""; reserved.size > 0; ) {
    const page = await json("GET", `/events?wait_s=2${after}`, { token: SHOP });
    for (const { type, subject } of page.events)
      if (ends.includes(type) && reserved.delete(subject) && type === "order.expired") expired++;
    after = `&after=${page.next}`;
  }
  return expired;
}

const [sku, buyers] = [process.argv[2], Number(process.argv[3])];
const sale = await createSale(sku, buyers);
console.log(`round ${sale.round} of ${sku}: ${sale.total} units`);

const orders = [];
for (let i = 0; i < buyers; i++)
  orders.push(await buy(`${sku}-${i}`, sku, `buyer-${i}@example.com`));
console.log("orders", ...orders.map((order) => order.order_id));
if (await buy(`${sku}-late`, sku, "late@example.com")) throw new Error("more than there are");
console.log("paid", await pay(orders[0].order_id, `pi-${sku}-0`));
console.log("cancelled", await cancel(orders[1].order_id));
console.log("paid after the cancel", await pay(orders[1].order_id, `pi-${sku}-1`));
console.log("paid back", await payBackWhatIsDue(sku));

const order = await json("GET", `/order/${orders[0].order_id}`);
console.log("order", order.order_id, "is", order.status);
console.log("buyer-0 has", (await ordersOf("buyer-0@example.com", sku)).length, "order");
const stock = await json("GET", `/stock/${sku}`);
console.log("sold", stock.sold, "as of", stock.as_of);
const sold = await pages(`/admin/orders?sku=${sku}&limit=1000`, operator());
console.log("exported", sold.length, "orders");
console.log("round", (await nextRound(sku, sale)).round, "waits for the operator");
console.log("expired", await waitForExpiries(orders.map((one) => one.order_id)), "orders");
