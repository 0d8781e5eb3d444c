#!/usr/bin/env python3
"""Receives webhooks into an SQLite file, each event once; it needs Python's standard library alone.

usage: receiver.py

RECEIVER_LISTEN       where it listens, 127.0.0.1:8090 by default
RECEIVER_SECRET_FILE  the secret as the service has shown it, whsec_…; run/webhook.secret by default
RECEIVER_DATABASE     receiver.sqlite by default
"""
import base64
import contextlib
import hashlib
import hmac
import json
import os
import sqlite3
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LISTEN = os.environ.get("RECEIVER_LISTEN", "127.0.0.1:8090")
DATABASE = os.environ.get("RECEIVER_DATABASE", "receiver.sqlite")
with open(os.environ.get("RECEIVER_SECRET_FILE", "run/webhook.secret"), encoding="ascii") as file:
    KEY = base64.b64decode(file.read().strip().removeprefix("whsec_"))
AGE_S = 300  # of a request, at most: an older one is somebody's repeat
BODY_MAX = 4 << 20


def verified(headers, body):
    """Whether the service has sent this just now. While a secret changes over, the header has two
    signatures."""
    text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    code = hmac.new(KEY, text, hashlib.sha256).digest()
    ours = "v1," + base64.b64encode(code).decode()
    theirs = headers.get("webhook-signature", "").split()
    return (any(hmac.compare_digest(ours.encode(), one.encode()) for one in theirs) and
            abs(time.time() - int(headers["webhook-timestamp"])) < AGE_S)


def store(events):
    """Commits events that are new. What they change belongs into the same transaction."""
    rows = [(event["source"], event["id"], json.dumps(event)) for event in events]
    with contextlib.closing(sqlite3.connect(DATABASE)) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS event"
                         "(source TEXT, id TEXT, event TEXT, PRIMARY KEY (source, id))")
        database.executemany("INSERT OR IGNORE INTO event VALUES (?, ?, ?)", rows)


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_POST(self):
        length = int(self.headers.get("Content-Length", "0"))
        body = self.rfile.read(length) if length <= BODY_MAX else b""
        if not verified(self.headers, body):
            return self.answer(401)
        found = json.loads(body)
        store(found if isinstance(found, list) else [found])
        return self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    host, port = LISTEN.rsplit(":", 1)
    ThreadingHTTPServer((host, int(port)), Receiver).serve_forever()
