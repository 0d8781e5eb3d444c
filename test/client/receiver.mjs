// A receiver of webhooks that checks signatures by the library of Standard Webhooks.
//
// usage: node receiver.mjs SECRETS
//
// Prints its port, and answers 204 to a request that each secret of the file `SECRETS`, a JSON list,
// accepts alone, and only with the body as it came. Ends with its standard input.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { Webhook, WebhookVerificationError } from "standardwebhooks";

function accepts(secret, body, headers) {
  try {
    new Webhook(secret).verify(body, headers);
    return true;
  } catch (error) {
    if (error instanceof WebhookVerificationError) return false;
    throw error;
  }
}

const server = createServer(async (request, response) => {
  let body = "";
  for await (const part of request.setEncoding("utf8")) body += part;
  const secrets = JSON.parse(readFileSync(process.argv[2], "utf8"));
  const good = secrets.every((secret) => accepts(secret, body, request.headers));
  const changed = secrets.some((secret) => accepts(secret, body + " ", request.headers));
  response.writeHead(changed ? 500 : good ? 204 : 401).end();
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.resume().on("end", () => process.exit(0));
