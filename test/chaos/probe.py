"""How long it takes until every daemon answers an order with 201 again."""

import time
from concurrent.futures import ThreadPoolExecutor

from chaos.clients import Client
from harness import standstill

APART = 0.03        # seconds between two tries
HANG = 60.0         # seconds after which nobody waits any more
ANSWER = 10.0       # seconds for one try, far beyond the deadline


class Probe:
    """Context manager: one thread per daemon, whose orders are recorded as any client's."""

    SKU = "steady"

    def __init__(self, cluster, record):
        self.cluster, self.record = cluster, record
        self.clients = [Client(cluster, record, f"probe {n}") for n in range(len(cluster.daemons))]

    def __enter__(self):
        self.watch = standstill.watch()
        self.pool = ThreadPoolExecutor(len(self.clients))
        return self

    def __exit__(self, *_):
        self.pool.shutdown()
        for client in self.clients:
            client.close()

    def wait_served(self, since):
        """Seconds from `since`, a time.monotonic(), until each daemon had answered an order 201,
        without those in which the machine stood still; None
        for one that did not in HANG seconds."""
        return list(self.pool.map(lambda number: self._served(number, since),
                                  range(len(self.clients))))

    def _served(self, daemon, since):
        while time.monotonic() - since < HANG:
            number = self.record.number()
            one = self.clients[daemon].order(daemon, self.SKU, f"probe{number}", 1, f"k{number}",
                                             ANSWER)
            if one.answer == "201":
                return self.watch.running_s(since)
            time.sleep(APART)
        return None
