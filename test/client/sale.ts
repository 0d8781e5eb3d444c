// A whole sale, driven by the client that is generated from the description of the interface.
//
// usage: node sale.js BASE_URL ADMIN_TOKEN
//
// Ends with status 0 if every answer is what a shop expects. The types of bodies, parameters and
// answers are all generated: what the description does not have does not compile.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import createClient, { type Middleware } from "openapi-fetch";
import type { components, paths, webhooks } from "./generated/schema.js";

// What a request may leave out, its type does not demand.
export const webhook: components["schemas"]["NewWebhook"] = { url: "https://example.com/" };
export const drain: components["schemas"]["NewDrain"] = {};

// A receiver by the types of its webhooks.
type Received = webhooks["order.paid"]["post"]["requestBody"]["content"];
export const subject = (event: Received["application/cloudevents+json"]) => event.subject;

type Order = components["schemas"]["Order"];
type Problem = components["schemas"]["Problem"];

const [baseUrl = "", token = ""] = process.argv.slice(2);
const sku = "demo";

const shop = createClient<paths>({ baseUrl });
const operator = createClient<paths>({ baseUrl });
const authorize: Middleware = {
  onRequest({ request }) {
    request.headers.set("Authorization", `Bearer ${token}`);
  },
};
operator.use(authorize);

// One order; the same key gives the same order again.
async function order(user_id: string, qty = 1, key: string = randomUUID()) {
  return shop.POST("/order", {
    params: { header: { "Idempotency-Key": key } },
    body: { sku, user_id, qty },
  });
}

type Answer<T> = { data?: T; error?: unknown; response: Response };

function given<T>({ data, error, response }: Answer<T>, status = 200): T {
  assert.equal(response.status, status, JSON.stringify(error));
  assert.ok(data !== undefined);
  return data;
}

function refused({ error, response }: Answer<unknown>, status: number,
  code: Problem["code"]): Problem {
  assert.equal(response.status, status);
  const problem = error as Problem;
  assert.equal(problem.code, code);
  return problem;
}

async function create() {
  refused(await shop.GET("/stock/{sku}", { params: { path: { sku } } }), 404, "unknown_sku");
  const sale = given(await operator.POST("/admin/stock/reset", {
    body: { sku, total: 4, segments: 2, per_user_limit: 2, pay_within_s: 900, if_round: 0 },
  }));
  assert.deepEqual([sale.round, sale.total, sale.sold, sale.available], [1, 4, 0, 4]);
  refused(await shop.POST("/admin/stock/reset", { body: { sku, total: 4, segments: 2 } }),
    401, "unauthorized");
}

// An order, its repetition, and a look at it.
async function buy(): Promise<Order> {
  const key = randomUUID();
  const first = await order("ada@example.com", 1, key);
  const bought = given(first, 201);
  assert.equal(first.response.headers.get("Location"), `/order/${bought.order_id}`);
  assert.equal(bought.status, "reserved");
  assert.ok(Date.parse(bought.expires_at ?? "") > Date.parse(bought.created_at));
  assert.deepEqual(given(await order("ada@example.com", 1, key), 200), bought);
  refused(await order("ada@example.com", 2, key), 422, "idempotency_key_reused");
  const path = { order_id: bought.order_id };
  assert.deepEqual(given(await shop.GET("/order/{order_id}", { params: { path } })),
    { ...bought, version: 1 });
  return bought;
}

async function pay({ order_id }: Order) {
  const params = { path: { order_id } }, body = { payment_ref: "pi_1" };
  for (let repeat = 0; repeat < 2; repeat++) {
    const paid = given(await shop.POST("/order/{order_id}/pay", { params, body }));
    assert.deepEqual([paid.status, paid.payment_ref], ["paid", "pi_1"]);
  }
  refused(await shop.POST("/order/{order_id}/pay", { params, body: { payment_ref: "pi_2" } }),
    409, "already_paid");
  const problem = refused(await shop.POST("/order/{order_id}/cancel", { params }),
    409, "invalid_state");
  assert.equal(problem.order_status, "paid");
}

// The user's limit, and that a cancelled order does not count.
async function limit(): Promise<Order> {
  const second = given(await order("ada@example.com"), 201);
  const problem = refused(await order("ada@example.com"), 409, "limit_reached");
  assert.equal(problem.limit, 2);
  assert.equal(problem.orders?.[0], second.order_id);
  const params = { path: { order_id: second.order_id } };
  assert.equal(given(await shop.POST("/order/{order_id}/cancel", { params })).status, "cancelled");
  return given(await order("ada@example.com"), 201);
}

async function sellOut() {
  given(await order("bob", 2), 201);
  refused(await order("eve"), 409, "sold_out");
  const stock = given(await operator.GET("/admin/stock/{sku}", { params: { path: { sku } } }));
  assert.equal(stock.available, 0);
  assert.equal(stock.segments.reduce((sum, segment) => sum + segment.sold, 0), stock.total);
}

async function pause() {
  const params = { path: { sku } };
  assert.equal(given(await operator.POST("/admin/stock/add", { body: { sku, units: 6 } })).total, 10);
  assert.ok(given(await operator.PATCH("/admin/sale/{sku}",
    { params, body: { paused: true, ends_at: null } })).paused);
  refused(await order("eve"), 409, "sale_paused");
  assert.equal(given(await operator.PATCH("/admin/sale/{sku}",
    { params, body: { paused: false } })).paused, false);
}

// Who bought: page by page, by user, and as a table.
async function list() {
  const found: Order[] = [];
  let after: string | undefined;
  do {
    const page = given(await operator.GET("/admin/orders",
      { params: { query: { sku, limit: 2, after } } }));
    found.push(...page.orders);
    after = page.next;
  } while (after !== undefined);
  assert.deepEqual(found.map((one) => one.status).sort(),
    ["cancelled", "paid", "reserved", "reserved"]);
  const own = given(await shop.GET("/user/{user_id}/orders",
    { params: { path: { user_id: "ada@example.com" }, query: { sku } } }));
  assert.equal(own.orders.length, 3);
  const sales = given(await operator.GET("/admin/sales", {}));
  assert.deepEqual(sales.sales.map((one) => one.sku), [sku]);
}

async function reconcile() {
  const report = given(await operator.POST("/admin/reconcile", { body: { sku } }));
  assert.ok(report.consistent);
}

async function reset() {
  const body = { sku, total: 50, segments: 5, if_round: 1 };
  const problem = refused(await operator.POST("/admin/stock/reset", { body }), 409, "round_in_use");
  assert.deepEqual([problem.reserved, problem.paid], [2, 1]);
  const sale = given(await operator.POST("/admin/stock/reset",
    { body: { ...body, end_round: true } }));
  assert.deepEqual([sale.round, sale.total, sale.sold], [2, 50, 0]);
  refused(await operator.POST("/admin/stock/reset", { body }), 409, "round_mismatch");
}

// The sale stays until the shop has paid back what it owes: money for an order that was cancelled,
// and the second payment of the first order.
async function retire() {
  const params = { path: { sku } };
  const { order_id } = given(await order("bob"), 201);
  const path = { order_id }, body = { payment_ref: "pi_3" };
  refused(await operator.DELETE("/admin/sale/{sku}", { params }), 409, "sale_in_use");
  given(await shop.POST("/order/{order_id}/cancel", { params: { path } }));
  refused(await shop.POST("/order/{order_id}/pay", { params: { path }, body }),
    409, "payment_too_late");
  const problem = refused(await operator.DELETE("/admin/sale/{sku}", { params }),
    409, "refunds_due");
  assert.equal(problem.refunds_due, 2);
  const due = given(await shop.GET("/payments", { params: { query: { state: "refund_due" } } }));
  for (const payment of due.payments) {
    const refund = { payment_ref: payment.payment_ref };
    const done = given(await shop.POST("/order/{order_id}/refund",
      { params: { path: { order_id: payment.order_id } }, body: refund }));
    assert.equal(done.payment_state, "refunded");
  }
  await told();
  given(await operator.DELETE("/admin/sale/{sku}", { params }));
  refused(await order("bob"), 404, "unknown_sku");
}

// A sale that is gone before the feed has told of it has no end there either.
async function told() {
  let after: string | undefined, told = false;
  while (!told) {
    const page = given(await shop.GET("/events", { params: { query: { after, wait_s: 20 } } }));
    told = page.events.some((event) => event.type === "sale.changed");
    after = page.next;
  }
}

// Until the end of the sale the feed has each order as accepted, once, and what was to be paid back.
async function follow() {
  refused(await shop.GET("/events", { params: { query: { after: "9999.1" } } }), 410, "cursor_expired");
  const buyers: string[] = [], due: string[] = [];
  let after: string | undefined, retired = false;
  while (!retired) {
    const page = given(await shop.GET("/events", { params: { query: { after, wait_s: 20 } } }));
    for (const event of page.events) {
      if (event.type === "order.accepted" && event.version === 1) buyers.push(event.data.user_id);
      else if (event.type === "payment.refund_due") due.push(event.data.payment_ref ?? "");
      else if (event.type === "sale.changed" && "retired" in event.data) retired = true;
    }
    after = page.next;
  }
  assert.deepEqual(buyers.sort(), ["ada@example.com", "ada@example.com", "ada@example.com", "bob",
    "bob"]);
  assert.deepEqual(due.sort(), ["pi_2", "pi_3"]);
}

async function look() {
  assert.equal(given(await shop.GET("/healthz", {})).status, "alive");
  assert.equal(given(await shop.GET("/readyz", {})).status, "ready");
  assert.match(given(await shop.GET("/metrics", { parseAs: "text" })), /^# HELP /);
}

await create();
await pay(await buy());
await limit();
await sellOut();
await pause();
await list();
await reconcile();
await reset();
await retire();
await follow();
await look();
