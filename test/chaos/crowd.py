"""A crowd beside the clients whose every answer is compared: wrk, in bursts that fill the batches.
Of its answers only the accepted orders are kept; each must be in the ledger."""

import random

from harness.load import Load

SKU = "crowd"
SHAPE = {"total": 10_000_000, "segments": 20}
CONNECTIONS = 256
BURST_S = 1
APART = (1.0, 4.0)  # seconds between two bursts


class Crowd:
    """Lets wrk ask a daemon again and again, whatever befalls that meanwhile."""

    def __init__(self, cluster, seed):
        self.cluster, self.random = cluster, random.Random(f"crowd {seed}")
        self.accepted = []  # (order_id, qty)
        self.bursts = 0

    def run(self, stop):
        while not stop.wait(self.random.uniform(*APART)):
            self.burst(self.random.choice(self.cluster.daemons))

    def burst(self, daemon):
        """wrk ends at once when the daemon is away, and later when it goes."""
        with Load(daemon, self.cluster.directory, connections=CONNECTIONS, seconds=BURST_S,
                  skus=(SKU,), qty=(1, 3)) as load:
            load.end()
        self.accepted += load.accepted
        load.remove()
        self.bursts += 1
