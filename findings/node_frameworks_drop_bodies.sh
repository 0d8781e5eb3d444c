#!/bin/bash
# Express 4.22.1 and 5.3.0, koa-bodyparser 4.4.1, @koa/bodyparser 6.1.0: a body of the type
# application/cloudevents+json is dropped without a word. (Fastify 5.12.8: 415; hapi 21.4.10 reads
# it.)
#
# CloudEvents' HTTP binding gives an event the type application/cloudevents+json. These parsers take
# application/json alone, though the suffix +json (RFC 6839) says that it is JSON. They do not
# refuse the rest: the handler runs, with {} (Express 4, Koa) or undefined (Express 5) for a body,
# and what it answers is a 200. A sender of webhooks takes that for "delivered" and never comes
# back. express.raw({type: "application/json"}), with which receivers check signatures, does the
# same. express.json({type: ["json", "+json"]}) and its like in the others read both.
#
# Seen on 2026-11-29 with Node 20.20.2:
#
#     v20.20.2
#     express 4 json(): 200 "1"; 200 {}
#     express 4 raw(json): 200 bytes; 200 {}
#     express 5 json(): 200 "1"; 200 undefined
#     express 5 raw(json): 200 bytes; 200 undefined
#     express 5 json(+json): 200 "1"; 200 "1"
#     koa-bodyparser: 200 "1"; 200 {}
#     @koa/bodyparser: 200 "1"; 200 {}
#     fastify: 200 "1"; 415
#     hapi: 200 "1"; 200 "1"
set -euo pipefail
# shellcheck source=findings/fetch.bash
. "$(dirname "$0")/fetch.bash"

need node
need npm
mkdir "$temp/node"
cd "$temp/node"
echo '{"private": true}' >package.json
npm install --no-audit --no-fund --ignore-scripts --silent express@5.3.0 \
    express4@npm:express@4.22.1 koa@3.3.0 koa-bodyparser@4.4.1 @koa/bodyparser@6.1.0 \
    fastify@5.12.8 @hapi/hapi@21.4.10 \
    >"$temp/npm.log" 2>&1 || cannot_run "npm: $(tail -n 1 "$temp/npm.log")"
cat >ask.mjs <<'END'
import express5 from 'express';
import express4 from 'express4';
import Koa from 'koa';
import koaBodyparser from 'koa-bodyparser';
import { bodyParser } from '@koa/bodyparser';
import fastify from 'fastify';
import hapi from '@hapi/hapi';

const EVENT = JSON.stringify({ specversion: '1.0', id: '1', type: 'order.accepted', source: '/' });
const TYPES = ['application/json', 'application/cloudevents+json'];
const HOST = '127.0.0.1';

// What a handler has of the event.
const seen = (body) =>
  (Buffer.isBuffer(body) ? 'bytes' : JSON.stringify(body?.id ?? body) ?? 'undefined');

async function ask(name, port) {
  const told = [];
  for (const type of TYPES) {
    const answer = await fetch(`http://${HOST}:${port}/`,
      { method: 'POST', headers: { 'content-type': type }, body: EVENT });
    const text = await answer.text();
    told.push(answer.ok ? `${answer.status} ${text}` : `${answer.status}`);
  }
  console.log(`${name}: ${told.join('; ')}`);
}

const listen = (app) => new Promise((resolve) => {
  const server = app.listen(0, HOST, () => resolve(server.address().port));
});

async function askExpress(name, express, parser) {
  const app = express();
  app.use(parser);
  app.post('/', (request, response) => response.send(seen(request.body)));
  await ask(name, await listen(app));
}

async function askKoa(name, parser) {
  const app = new Koa();
  app.use(parser);
  app.use((context) => { context.body = seen(context.request.body); });
  await ask(name, await listen(app));
}

const JSON_LIKE = { type: ['json', '+json'] };
await askExpress('express 4 json()', express4, express4.json());
await askExpress('express 4 raw(json)', express4, express4.raw({ type: 'application/json' }));
await askExpress('express 5 json()', express5, express5.json());
await askExpress('express 5 raw(json)', express5, express5.raw({ type: 'application/json' }));
await askExpress('express 5 json(+json)', express5, express5.json(JSON_LIKE));
await askKoa('koa-bodyparser', koaBodyparser());
await askKoa('@koa/bodyparser', bodyParser());

const fast = fastify();
fast.post('/', async (request) => seen(request.body));
await fast.listen({ port: 0, host: HOST });
await ask('fastify', fast.server.address().port);

const happy = hapi.server({ port: 0, host: HOST });
happy.route({ method: 'POST', path: '/', handler: (request) => seen(request.payload) });
await happy.start();
await ask('hapi', happy.info.port);
process.exit(0);
END
node --version
timeout 60 node ask.mjs >"$temp/seen" 2>"$temp/node.log" ||
    cannot_run "$(tail -n 3 "$temp/node.log")"
cat "$temp/seen"
cat >"$temp/stated" <<'END'
express 4 json(): 200 "1"; 200 {}
express 4 raw(json): 200 bytes; 200 {}
express 5 json(): 200 "1"; 200 undefined
express 5 raw(json): 200 bytes; 200 undefined
express 5 json(+json): 200 "1"; 200 "1"
koa-bodyparser: 200 "1"; 200 {}
@koa/bodyparser: 200 "1"; 200 {}
fastify: 200 "1"; 415
hapi: 200 "1"; 200 "1"
END
diff "$temp/stated" "$temp/seen" || changed 'what the handlers get of the two types'
