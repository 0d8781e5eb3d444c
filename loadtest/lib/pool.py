"""Orders that a run changes or looks up: placed before it, made what the call wants, and handed out
as files of ids."""

import random
from pathlib import Path

from harness.processes import HarnessError, wait_until

FIRST_PER_S = 60_000  # wanted for the first load, whose rate nobody knows
AMPLE = 1.5           # of what the fastest load so far has used
LEAST = 5_000
PLACE_S = 1
PLACINGS_MAX = 30     # per load
CALLS_AN_ORDER = 3    # the most calls that are answered in the time of an order
EXPIRED_S = 120       # at most, for the service to let orders expire

# What makes the orders placed what a call wants: statements, and the orders that are not so yet.
MADE = {
    "pay_late": ("DELETE FROM order_expiry WHERE first_id IN (SELECT order_id FROM orders"
                 " WHERE {fresh});"
                 "UPDATE orders SET expires_at = '2020-01-01' WHERE {fresh};"
                 "INSERT INTO order_expiry SELECT '2020-01-01', MIN(order_id), MAX(order_id)"
                 " FROM orders WHERE {fresh}", "status = 'reserved'"),
    "refund": ("UPDATE orders SET status = 'paid' WHERE {fresh};"
               "INSERT INTO payment SELECT order_id, 'pi_3PqXb2', 'taken', 'in_time',"
               " UTC_TIMESTAMP(3), NULL FROM orders WHERE {fresh}", "status <> 'paid'"),
}


class Pool:
    """Orders of one sale that no load has been given yet, in random order."""

    def __init__(self, ledger, sku, place, call):
        """place(seconds) lets buyers place orders for so long."""
        self.ledger, self.sku, self.place, self.call = ledger, sku, place, call
        self.ids, self.last_id, self.per_s = [], 0, FIRST_PER_S
        self.fastest_per_s = 0  # of the orders placed
        self.dice = random.Random(1)

    def fill(self, seconds):
        """Places orders until there are enough for a load of so long."""
        for _ in range(PLACINGS_MAX):
            most_per_s = max(LEAST, CALLS_AN_ORDER * self.fastest_per_s)
            wanted = LEAST + int(min(self.per_s, most_per_s) * seconds)
            before = len(self.ids)
            if before >= wanted:
                return
            self.place(PLACE_S)
            self.find_new()
            self.fastest_per_s = max(self.fastest_per_s, (len(self.ids) - before) / PLACE_S)
        raise HarnessError(f"{len(self.ids)} of {wanted} orders after {PLACINGS_MAX} s of orders")

    def find_new(self):
        last = self.ledger.number("SELECT COALESCE(MAX(order_id), 0) FROM orders")
        chosen = f"order_id > {self.last_id} AND order_id <= {last} AND sku = '{self.sku}'"
        if self.call in MADE:
            self.make(chosen, *MADE[self.call])
        rows = self.ledger.run(f"SELECT order_id FROM orders WHERE {chosen}")
        fresh = [int(row[0]) for row in rows]
        self.last_id = max(fresh, default=self.last_id)
        self.dice.shuffle(fresh)
        self.ids += fresh

    def make(self, chosen, statements, missing):
        self.ledger.run(statements.format(fresh=chosen))
        wait_until(lambda: self.ledger.number(f"SELECT COUNT(*) FROM orders WHERE {chosen}"
                                              f" AND {missing}") == 0,
                   f"orders for {self.call}", timeout=EXPIRED_S)

    def write(self, prefix, threads):
        """Writes all ids to PREFIX.0, PREFIX.1 …, a file for each thread."""
        for number in range(threads):
            lines = "".join(f"{one}\n" for one in self.ids[number::threads])
            Path(f"{prefix}.{number}").write_text(lines, encoding="ascii")

    def used(self, requests, seconds, threads):
        """Takes out what a load may have used, and learns how much the next one wants. Threads use
        about as many each; a margin covers those whose answers were under way."""
        gone = min(len(self.ids), int(requests * 1.2) + 2000 * threads)
        del self.ids[:gone]
        self.per_s = max(LEAST, AMPLE * requests / seconds)
