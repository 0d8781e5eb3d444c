#!/usr/bin/env python3
"""Copies the feed of events into a Redis Stream. Needs redis-py (Debian: python3-redis).

usage: events_to_redis.py STREAM

An event becomes an entry whose id is the event's position, and whose field "event" is the
CloudEvent. Redis takes no entry with an id that is not greater than the last one. So each event is
there once and in its place, even if two of these programs run. The last entry of a page has the
field "next", which is the cursor. The program ends when a server fails, or when events that it
wants are no longer kept: let a supervisor start it again. Several pods need a stream each.

EVENTS_URL         the service, http://127.0.0.1:8080 by default
EVENTS_TOKEN_FILE  only where the service has a shop token
EVENTS_REDIS_URL   redis://127.0.0.1:6379 by default
"""
import json
import os
import sys
import urllib.request

import redis

URL = os.environ.get("EVENTS_URL", "http://127.0.0.1:8080")
TOKEN_FILE = os.environ.get("EVENTS_TOKEN_FILE")
REDIS = os.environ.get("EVENTS_REDIS_URL", "redis://127.0.0.1:6379")
WAIT_S = 20


def read(after):
    """The events behind the cursor, without one all that are kept; waits for one."""
    behind = f"&after={after}" if after else ""
    request = urllib.request.Request(f"{URL}/events?wait_s={WAIT_S}{behind}")
    if TOKEN_FILE:
        with open(TOKEN_FILE, encoding="ascii") as file:
            request.add_header("Authorization", f"Bearer {file.readline().strip()}")
    with urllib.request.urlopen(request, timeout=WAIT_S + 10) as answer:
        return json.load(answer)


def append(server, stream, page):
    """In one transaction: Redis writes all of them, or none when it is full or read-only. Within it
    an entry that is there already is refused, and the others are written."""
    batch = server.pipeline()
    for event in page["events"]:
        fields = {"event": json.dumps(event)}
        if event is page["events"][-1]:
            fields["next"] = page["next"]
        batch.xadd(stream, fields, id=f"{event['id']}-0")
    for answer in batch.execute(raise_on_error=False):
        if isinstance(answer, redis.ResponseError) and "equal or smaller" not in str(answer):
            raise answer


def main(stream):
    server = redis.Redis.from_url(REDIS)
    last = server.xrevrange(stream, count=1)
    after = last[0][1][b"next"].decode() if last else None
    while True:
        page = read(after)
        append(server, stream, page)
        after = page["next"]


if __name__ == "__main__":
    main(sys.argv[1])
