// Receives webhooks with Fastify: npm install fastify standardwebhooks
//
// usage: node receiver.fastify.mjs
//
// RECEIVER_LISTEN       where it listens, 127.0.0.1:8090 by default
// RECEIVER_SECRET_FILE  the secret as the service has shown it, whsec_…; run/webhook.secret by default
// RECEIVER_FILE         receiver.jsonl by default: each event once, a line of JSON each
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import fastify from "fastify";
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

const app = fastify({ bodyLimit: 4 << 20 });
// The signature is of the bytes: so the body is not parsed before it is verified.
app.addContentTypeParser("application/json", { parseAs: "string" },
  (request, body, done) => done(null, body));
app.post("/hook", async (request, reply) => {
  let found;
  try {
    found = webhook.verify(request.body, request.headers);
  } catch {
    return reply.code(401).send();
  }
  store(Array.isArray(found) ? found : [found]);
  return reply.code(204).send();
});
await app.listen({ host: HOST, port: Number(PORT) });
