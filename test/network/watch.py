"""What a daemon says of itself, second by second: /readyz, metrics and log."""

import json
import re
import threading
import time

from harness.client import send
from harness.daemon import parse_metrics

READY_S, METRICS_S = 0.25, 1.0
TIMEOUT_S = 2
METRICS = ("seckill_ready", "seckill_redis_up", "seckill_ledger_up", "seckill_ledger_durable",
           "seckill_redis_nodes_down", "seckill_ledger_reconnects_total")
EVENT = re.compile(r"event=(\S+)")
QUIET = {"request_failed", "listening", "started"}  # of every request, or of no fault


class Watch:
    """A thread for each daemon, on the operator's host."""

    def __init__(self, record, daemon):
        self.record, self.daemon = record, daemon
        self.ready, self.values = [], []  # (when, what)

    def run(self, stop):
        next_metrics = 0.0
        while not stop.is_set():
            self.look_ready()
            if time.monotonic() >= next_metrics:
                next_metrics = time.monotonic() + METRICS_S
                self.look_metrics()
            stop.wait(READY_S)

    def get(self, path):
        return send(self.daemon.admin_address(), "GET", path, timeout=TIMEOUT_S)

    def look_ready(self):
        at = self.record.now()
        try:
            reply = self.get("/readyz")
            told = {name: value for name, value in json.loads(reply.body).items()
                    if (name, value) not in (("redis", "ok"), ("ledger", "ok"),
                                             ("status", "ready"), ("status", "unavailable"))}
            text = " ".join([str(reply.status), *(f"{k}={v}" for k, v in told.items())])
        except (OSError, ValueError) as error:
            text = type(error).__name__
        self.ready.append((at, text))

    def look_metrics(self):
        at = self.record.now()
        try:
            found = parse_metrics(self.get("/metrics").body.decode())
        except (OSError, ValueError):
            return
        self.values.append((at, {name: found[name] for name in METRICS if name in found}))

    # afterwards

    def was_ready(self, since, until):
        return any(since <= at <= until and text.startswith("200") for at, text in self.ready)

    def changes(self, since):
        """[(seconds after since, what)]: each time that /readyz or a metric changed."""
        found, last = [], None
        for at, text in self.ready:
            if text != last and last is not None:
                found.append((at - since, f"readyz {text}"))
            last = text
        before = {}
        for at, values in self.values:
            for name, value in values.items():
                if before.get(name, value) != value:
                    found.append((at - since, f"{name.removeprefix('seckill_')} {value:g}"))
            before = values
        return sorted(found)

    def in_short(self, since, healed):
        """For the table: how long until /readyz said no, and until it said yes again."""
        said = [(at, text) for at, text in self.ready if at >= since]
        no = next(((at, text) for at, text in said if not text.startswith("200")), None)
        durable = next((at for at, values in self.values if at >= since
                        and values.get("seckill_ledger_durable") == 0), None)
        words = []
        if no:
            yes = next((at for at, text in said if at > no[0] and text.startswith("200")), None)
            words.append(f"{no[1]} at {no[0] - since:.1f} s")
            words.append("never ready again" if yes is None else
                         f"ready {yes - healed:.1f} s after the heal" if yes > healed else
                         f"ready at {yes - since:.1f} s")
        else:
            words.append("ready")
        if durable is not None:
            words.append(f"durable 0 at {durable - since:.1f} s")
        return ", ".join(words)

    def log_lines(self):
        return [line for line in self.daemon.log().splitlines()
                if (found := EVENT.search(line)) and found[1] not in QUIET]


class Sessions:
    """A thread that counts the sessions of an account at a server, over one connection."""

    def __init__(self, node, user="shop"):
        self.connection = node.client.connect("")
        self.user, self.counts, self.lock = user, [], threading.Lock()

    def run(self, stop):
        while not stop.is_set():
            self.look()
            stop.wait(0.5)
        self.connection.close()

    def look(self):
        with self.lock, self.connection.cursor() as cursor:
            cursor.execute("SELECT COUNT(*) FROM information_schema.processlist"
                           f" WHERE user='{self.user}'")
            self.counts.append(int(cursor.fetchone()[0]))
        return self.counts[-1]
