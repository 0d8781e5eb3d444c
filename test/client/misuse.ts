// What the generated client must refuse to compile: each comment expects an error in its next line,
// and tsc fails where there is none.
import createClient from "openapi-fetch";
import type { components, paths } from "./generated/schema.js";

const client = createClient<paths>({ baseUrl: "http://127.0.0.1" });

export async function misuse() {
  // @ts-expect-error there is no such call
  await client.GET("/orders", {});
  // @ts-expect-error an order has a quantity
  await client.POST("/order", { body: { sku: "demo", user_id: "u1" } });
  // @ts-expect-error which is a number
  await client.POST("/order", { body: { sku: "demo", user_id: "u1", qty: "1" } });
  // @ts-expect-error a look-up needs the order's id
  await client.GET("/order/{order_id}", {});
  const path = { order_id: "1" };
  // @ts-expect-error a refund names its payment
  await client.POST("/order/{order_id}/refund", { params: { path }, body: { restock: true } });
  const { data } = await client.POST("/order", { body: { sku: "demo", user_id: "u1", qty: 1 } });
  const feed = await client.GET("/events", {});
  // @ts-expect-error a payment that is due is no version of its order
  feed.data?.events.find((event) => event.type === "payment.refund_due")?.version.toFixed();
  // @ts-expect-error an order is not "open"
  return data?.status === "open";
}

// @ts-expect-error there is no such problem
export const code: components["schemas"]["Problem"]["code"] = "out_of_stock";
