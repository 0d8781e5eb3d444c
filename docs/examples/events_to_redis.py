#!/usr/bin/env python3
"""Copies the feed of events into a Redis Stream; it needs Python's standard library alone.

usage: events_to_redis.py STREAM

An event becomes an entry whose id is the event's position, and whose field "event" is the
CloudEvent. Redis takes no entry with an id that is not greater than the last one. So each event is
there once and in its place, even if two of these programs run, and the last entry is the cursor.
The program ends when a server fails, or when events that it wants are no longer kept: let a
supervisor start it again. Several pods need a stream each.

EVENTS_URL         the service, http://127.0.0.1:8080 by default
EVENTS_TOKEN_FILE  only where the service has a shop token
EVENTS_REDIS_URL   redis://127.0.0.1:6379 by default
"""
import json
import os
import socket
import sys
import urllib.parse
import urllib.request

URL = os.environ.get("EVENTS_URL", "http://127.0.0.1:8080")
TOKEN_FILE = os.environ.get("EVENTS_TOKEN_FILE")
REDIS = urllib.parse.urlsplit(os.environ.get("EVENTS_REDIS_URL", "redis://127.0.0.1:6379"))
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


def call(redis, *commands):
    """Sends the commands together; returns the answer to the last one, which must be no error."""
    for command in commands:
        words = [word.encode() for word in command]
        redis.write(b"*%d\r\n" % len(words))
        redis.writelines(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
    redis.flush()
    answer = [answer_of(redis) for _ in commands][-1]
    if isinstance(answer, str) and answer[0] == "-":
        sys.exit(f"Redis says {answer}")
    return answer


def answer_of(redis):
    """An array as a list; an error as its text, which begins with a minus sign."""
    line = redis.readline().rstrip().decode()
    if not line:
        raise ConnectionError("Redis has closed the connection")
    if line[0] == "*":
        return [answer_of(redis) for _ in range(int(line[1:]))]
    return redis.read(int(line[1:]) + 2)[:-2].decode() if line[0] == "$" else line


def main(stream):
    redis = socket.create_connection((REDIS.hostname, REDIS.port or 6379)).makefile("rwb")
    if REDIS.password:
        call(redis, ["AUTH", *filter(None, [REDIS.username]), REDIS.password])
    last = call(redis, ["XREVRANGE", stream, "+", "-", "COUNT", "1"])
    after = last[0][0].split("-")[0] if last else None
    while True:
        page = read(after)
        entries = [["XADD", stream, f"{event['id']}-0", "event",
                    json.dumps(event, separators=(",", ":"))] for event in page["events"]]
        # In one transaction: Redis writes all of them, or none when it is full or read-only. Within
        # it an entry that is there already is refused, and the others are written.
        call(redis, ["MULTI"], *entries, ["EXEC"])
        after = page["next"]


if __name__ == "__main__":
    main(sys.argv[1])
