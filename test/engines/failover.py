"""Orders while the ledger's primary changes: what clients were told must be there afterwards."""

import time

from harness.audit import audit_after_faults, sell_out_after_faults
from harness.daemon import HASTY
from harness.feed import Feed, Follower, assert_feed_is_the_ledger, published
from harness.processes import wait_until

ANSWERS = {"201", "503 unavailable", "503 outcome_unknown", "503 overloaded", "503 no_order_id"}


class Selling:
    """Two daemons that sell from a ledger of several servers under load; `engine` has the servers.
    """

    def __init__(self, engine, stack, spawn, load, units=10_000_000):
        self.engine = engine
        self.stack = engine.stack(stack.redis_url)
        self.pair = [spawn(self.stack, mysql_url=engine.url, events_retention_h=24, **HASTY)
                     for _ in range(2)]
        self.pair[0].reset("demo", units, 20)
        self.follower = Follower(self.pair)
        self.loads = [load(daemon, connections=8, seconds=250, stop_after=10**9, delay_ms=100)
                      for daemon in self.pair]
        self.wait_accepted()

    def wait_accepted(self):
        """Until each daemon accepts orders (again)."""
        for daemon in self.pair:
            before = daemon.metric('seckill_orders_total{outcome="accepted"}')
            wait_until(lambda d=daemon, b=before:
                       d.metric('seckill_orders_total{outcome="accepted"}') > b + 10,
                       "accepted orders", pause=0.1)

    def through(self, fault):
        """Makes the fault in mid-load, and waits until orders are accepted again."""
        began = time.monotonic()
        with self.follower:
            fault()
            took = time.monotonic()
            self.wait_accepted()
        print(f"served again {time.monotonic() - began:.2f} s after the fault, "
              f"{time.monotonic() - took:.2f} s after a server took writes")

    def finish(self):
        """The audit by the present primary; every order that was answered 201 is looked up. The
        feed has what the ledger has, and still says what a reader was told."""
        accepted = [order for one in self.loads for order in one.stop().accepted]
        answers = [set(one.answers) for one in self.loads]
        assert all(one <= ANSWERS for one in answers), answers
        after = self.engine.stack(self.stack.redis_url)
        for daemon in self.pair:
            daemon.stack.mysql_url, daemon.stack.ledger = after.mysql_url, after.ledger
        audit_after_faults(self.pair[0], accepted=accepted)
        there = {row[0] for row in after.ledger.run("SELECT order_id FROM orders")}
        missing = [order_id for order_id, _ in accepted if order_id not in there]
        assert accepted and not missing, missing[:5]
        print(f"{len(accepted)} orders were accepted; all are there")
        self.compare_feed(after.ledger)

    def compare_feed(self, ledger):
        published(self.pair[0])
        feed = Feed(self.pair[0])
        feed.read_all()
        assert_feed_is_the_ledger(feed, ledger)
        told = self.follower.events
        assert not self.follower.error and told == feed.events[:len(told)]
        print(f"a reader was told {len(told)} of {len(feed.events)} events")


def sells_out(daemon, units, accepted=()):
    """Sells the rest of a small sale and audits it: neither a unit too many nor one too few."""
    rest = sell_out_after_faults(daemon)
    assert audit_after_faults(daemon, accepted=[*accepted, *rest]) == units
