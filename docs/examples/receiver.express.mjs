// Receives webhooks with Express: npm install express standardwebhooks
//
// usage: node receiver.express.mjs
//
// RECEIVER_LISTEN       where it listens, 127.0.0.1:8090 by default
// RECEIVER_SECRET_FILE  the secret as the service has shown it, whsec_…; run/webhook.secret by default
// RECEIVER_FILE         receiver.jsonl by default: each event once, a line of JSON each
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import express from "express";
import { Webhook } from "standardwebhooks";

const [HOST, PORT] = (process.env.RECEIVER_LISTEN ?? "127.0.0.1:8090").split(":");
const FILE = process.env.RECEIVER_FILE ?? "receiver.jsonl";
const SECRET_FILE = process.env.RECEIVER_SECRET_FILE ?? "run/webhook.secret";
const webhook = new Webhook(readFileSync(SECRET_FILE, "utf8").trim());

const key = (event) => `${event.source} ${event.id}`;
const lines = existsSync(FILE) ? readFileSync(FILE, "utf8").split("\n").filter(Boolean) : [];
const known = new Set(lines.map((line) => key(JSON.parse(line))));

// Stands for a transaction of your database: what the events change belongs into it.
function store(events) {
  const fresh = events.filter((event) => !known.has(key(event)));
  appendFileSync(FILE, fresh.map((event) => `${JSON.stringify(event)}\n`).join(""), { flush: true });
  fresh.forEach((event) => known.add(key(event)));
}

const app = express();
// The signature is of the bytes: so the body is not parsed before it is verified.
app.post("/hook", express.raw({ type: "application/json", limit: "4mb" }), (request, response) => {
  let found;
  try {
    found = webhook.verify(request.body, request.headers);
  } catch {
    response.sendStatus(401);
    return;
  }
  store(Array.isArray(found) ? found : [found]);
  response.sendStatus(204);
});
app.listen(Number(PORT), HOST);
