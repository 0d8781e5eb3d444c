"""Receivers of webhooks: a slow one, a dead one, one that often fails, and what they must have got
when everything is over."""

import random
import time
from collections import Counter
from contextlib import ExitStack

from chaos.clients import SALES
from chaos.feed import sum_of
from harness.processes import HarnessError, free_port, wait_until
from harness.receiver import Receiver

CATCH_UP_S = 60
FAILS = 0.3      # of the requests to the one that fails,
FAILS_MAX = 3    # but none more often: each failure doubles its wait
SLOW_S = 0.3     # at most, for a request to the slow one
WANTS = {"slow": {"batch": 1000}, "flaky": {"batch": 50, "skus": list(SALES)}, "dead": {}}


class Hook(Receiver):
    """Keeps a checksum of each event that it has taken, and what was wrong with it."""

    def __init__(self, name, seed):
        super().__init__()
        self.name, self.random = name, random.Random(f"{name} {seed}")
        self.secret, self.sums, self.versions, self.faults = None, {}, {}, []
        self.failed = Counter()  # requests, by their ids

    def take(self, delivery):
        if self.name == "slow":
            time.sleep(self.random.uniform(0, SLOW_S))
        elif self.failed[delivery.id] < FAILS_MAX and self.random.random() < FAILS:
            self.failed[delivery.id] += 1
            return 500, {}
        with self.lock:
            if not delivery.signed_by(self.secret):
                self.faults.append(f"{self.name}: request {delivery.id} is not signed")
            for event in delivery.events:
                self.note(event)
        return 204, {}

    def note(self, event):
        number, found = int(event["id"]), sum_of(event)
        if self.sums.setdefault(number, found) != found:
            self.faults.append(f"{self.name}: event {number} came with two contents")
        last = self.versions.get(event["subject"], 0)
        version = event.get("version", last)
        if version > last + 1:
            self.faults.append(f"{self.name}: version {version} of order {event['subject']} came "
                               f"behind version {last}")
        self.versions[event["subject"]] = max(version, last)


class Receivers:
    """Context manager; the webhooks are made when it is entered."""

    def __init__(self, cluster, seed):
        self.cluster = cluster
        self.hooks = [Hook(name, seed) for name in ("slow", "flaky")]

    def __enter__(self):
        with ExitStack() as started:
            for hook in self.hooks:
                started.enter_context(hook)
                hook.secret = self.put(hook.name, hook.url)
            self.put("dead", f"http://127.0.0.1:{free_port()}/hook")
            self.running = started.pop_all()
        return self

    def __exit__(self, *error):
        return self.running.__exit__(*error)

    def put(self, name, url):
        response = self.cluster.daemons[0].admin("PUT", f"/admin/webhooks/{name}",
                                                 {"url": url, **WANTS[name]})
        if response.status != 201:
            raise HarnessError(str(response))
        return response.json()["secret"]

    def catch_up(self, events):
        """Yields what is wrong when every receiver but the dead one should have all events that it
        wants; events: (sku, checksum) of all, from position 1 on."""
        for hook in self.hooks:
            skus = WANTS[hook.name].get("skus")
            wanted = {number: found for number, (sku, found) in enumerate(events, 1)
                      if skus is None or sku in skus}
            try:
                wait_until(lambda: len(hook.sums) >= len(wanted), "", CATCH_UP_S)
            except HarnessError:
                yield f"{hook.name} has got {len(hook.sums)} of {len(wanted)} events"
            wrong = sorted(hook.sums.items() - wanted.items())
            if wrong:
                yield f"{hook.name} has got other events than the feed has: {wrong[:5]}"
            yield from hook.faults
        rows = self.cluster.ledger.run("SELECT state, delivered FROM webhook WHERE name = 'dead'")
        if rows != [("active", "0")]:
            yield f"the dead receiver is {rows}"
