"""Keeps the sales open and stocked, so that there is always something to order."""

from chaos.faults.operator import OPEN, SHAPES, reset_body
from chaos.clients import Client
from harness.processes import HarnessError

EVERY = 1.0  # seconds
LOW = {"steady": 20_000, "limited": 200, "brief": 1}
UNITS = {"steady": 40_000, "limited": 1000, "brief": 30}
LEFT = ("SELECT s.sku, SUM(CAST(capacity AS SIGNED) - sold), s.paused OR s.ends_at IS NOT NULL"
        " FROM sale s JOIN stock_segment USING (sku, round) GROUP BY s.sku")


class Keeper(Client):
    """Asks the ledger once a second what is left."""

    def __init__(self, cluster, record, seed):
        super().__init__(cluster, record, f"keeper {seed}")
        self.closed_before = False

    def run(self, stop):
        while not stop.wait(EVERY):
            try:
                rows = self.cluster.ledger.run(LEFT, timeout=5)
            except HarnessError:
                continue
            self.tend({sku: (int(left), int(closed)) for sku, left, closed in rows})

    def tend(self, sales):
        daemon = self.random.randrange(len(self.cluster.daemons))
        number = self.record.number()
        for sku in SHAPES:
            if sku not in sales:
                self.change("reset", daemon, sku, reset_body(sku), f"open{number}", timeout=3)
            elif sales[sku][0] < LOW[sku]:
                self.change("add", daemon, sku, {"units": UNITS[sku]}, f"more{number}", timeout=3)
        # A fault that cannot undo its own change must not close the sale for the rest of the run.
        closed = sales.get("limited", (0, 0))[1]
        if closed and self.closed_before:
            self.change("patch", daemon, "limited", OPEN, timeout=3)
        self.closed_before = closed
