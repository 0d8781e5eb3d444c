#!/usr/bin/env python3
"""Receives webhooks with Flask into an SQLite file, each event once.

usage: receiver.flask.py

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

from flask import Flask, request

LISTEN = os.environ.get("RECEIVER_LISTEN", "127.0.0.1:8090")
DATABASE = os.environ.get("RECEIVER_DATABASE", "receiver.sqlite")
with open(os.environ.get("RECEIVER_SECRET_FILE", "run/webhook.secret"), encoding="ascii") as file:
    KEY = base64.b64decode(file.read().strip().removeprefix("whsec_"))
AGE_S = 300  # of a request, at most: an older one is somebody's repeat

app = Flask(__name__)
app.config["MAX_CONTENT_LENGTH"] = 4 << 20


def verified(headers, body):
    """Whether the service has sent this just now. While a secret changes over, the header has two
    signatures."""
    sent, identity = headers.get("webhook-timestamp", ""), headers.get("webhook-id", "")
    code = hmac.new(KEY, f"{identity}.{sent}.".encode() + body, hashlib.sha256).digest()
    ours = "v1," + base64.b64encode(code).decode()
    theirs = headers.get("webhook-signature", "").split()
    return (sent.isdigit() and abs(time.time() - int(sent)) < AGE_S and
            any(hmac.compare_digest(ours.encode(), one.encode()) for one in theirs))


def store(events):
    """Commits events that are new. What they change belongs into the same transaction."""
    rows = [(event["source"], event["id"], json.dumps(event)) for event in events]
    with contextlib.closing(sqlite3.connect(DATABASE)) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS event"
                         "(source TEXT, id TEXT, event TEXT, PRIMARY KEY (source, id))")
        database.executemany("INSERT OR IGNORE INTO event VALUES (?, ?, ?)", rows)


@app.post("/hook")
def hook():
    body = request.get_data()  # the signature is of the bytes
    if not verified(request.headers, body):
        return "", 401
    found = json.loads(body)
    store(found if isinstance(found, list) else [found])
    return "", 204


if __name__ == "__main__":
    host, port = LISTEN.rsplit(":", 1)
    app.run(host, int(port))
