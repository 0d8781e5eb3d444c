"""What a daemon asks of its ledger: few reads and commits for many calls at once, and at rest none
for each sale or webhook. With a ledger that is some ms away each of them costs that much.

The daemon's threads go on beside what is counted and only ever add to it, so the best of some tries
counts."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.daemon import STEADY
from harness.processes import wait_until

MANY = 64  # sales, webhooks and calls at once
TRIES = 12  # one standstill of a busy machine may spoil some
COMMITS, READS = 16, 48  # of many calls; both would be MANY and more if each call had its own
TURNS = 10  # of the expiry worker, five a second
READS_AT_REST, UPDATES_AT_REST = 72, MANY // 4  # a second: some 57, and next to none


class Shop:
    """A daemon with a sale for each of many calls, and a proxy before its ledger."""

    def __init__(self, daemon, proxy):
        self.daemon, self.proxy, self.ledger = daemon, proxy, daemon.stack.ledger
        self.skus = [f"sale-{n}" for n in range(MANY)]
        for sku in self.skus:
            daemon.reset(sku, 1000, 1, pay_within_s=3600, hold_max_s=86_400)

    def each(self, call, items, good=(200, 201), meanwhile=lambda answers: None):
        """Makes the calls at once. Returns their answers."""
        with ThreadPoolExecutor(MANY) as pool:
            answers = [pool.submit(call, item) for item in items]
            meanwhile(answers)
        found = [answer.result() for answer in answers]
        assert {answer.status for answer in found} <= set(good), found
        return found

    def orders(self):
        """One of each sale; their ids."""
        return [answer.json()["order_id"] for answer in self.each(self.daemon.order, self.skus)]

    def paid(self):
        ids = self.orders()
        self.each(lambda order: self.daemon.pay(order, "a"), ids)
        return ids

    def extend(self, order):
        until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 7200))
        return self.daemon.extend(order, until)

    def waiting(self):
        return sum(value for name, value in self.daemon.metrics().items()
                   if name.split("{")[0] in ("seckill_queue_depth", "seckill_call_queue_depth"))

    def counted(self, kind, do):
        """How many reads ("select") and statements of another kind the ledger is sent meanwhile."""
        def all_of_them():
            found = dict(self.ledger.run("SHOW GLOBAL STATUS LIKE 'Com\\_%'"))
            return [int(found[f"Com_{name}"]) for name in ("select", kind)]
        before = all_of_them()
        do()
        return [now - then for now, then in zip(all_of_them(), before)]

    def together(self, call, items, good):
        """Makes the calls while the ledger answers nothing, so that they wait for it together."""
        def resume(answers):
            try:
                wait_until(lambda: self.waiting() + sum(answer.done() for answer in answers)
                           >= len(items), "all calls to wait")
            finally:
                self.proxy.resume()
        self.proxy.hold()
        self.each(call, items, good, resume)


def best(what, bounds, count, prepare=lambda: None):
    """Asserts that the counts are within the bounds, in one of some tries."""
    for _ in range(TRIES):
        found = count(prepare())
        if all(number <= bound for number, bound in zip(found, bounds)):
            return
    raise AssertionError(f"{what}: {found}, the bounds are {bounds}")


@pytest.fixture
def shop(stack, spawn, proxies):
    proxy = proxies(stack.ledger.port)
    return Shop(spawn(stack, mysql_url=proxy.url(stack.mysql_url), events_retention_h=1,
                      webhook_networks="127.0.0.0/8", **STEADY), proxy)


def test_many_calls_share_reads_and_commits(shop):
    daemon = shop.daemon
    calls = {
        "order": (lambda: shop.skus, daemon.order),
        "order with a key": (lambda: shop.skus, lambda sku: daemon.order(sku, sku, key="k")),
        "stock": (lambda: shop.skus, lambda sku: daemon.get(f"/stock/{sku}")),
        "look-up": (shop.orders, lambda order: daemon.get(f"/order/{order}")),
        "payment": (shop.orders, lambda order: daemon.pay(order, "a")),
        "second payment": (shop.paid, lambda order: daemon.pay(order, "b")),
        "extension": (shop.orders, shop.extend),
        "cancel": (shop.orders, daemon.cancel),
        "refund": (shop.paid, lambda order: daemon.refund(order, "a")),
        "failed payment": (shop.paid, lambda order: daemon.unpay(order, "a")),
    }
    for name, (prepare, call) in calls.items():
        good = (409,) if name == "second payment" else (200, 201)
        # A payment that has failed makes sure of the settings of its order's sale.
        reads = READS + (2 * MANY if name == "failed payment" else 0)
        best(name, (reads, COMMITS), lambda items, call=call, good=good: shop.counted(
            "commit", lambda: shop.together(call, items, good)), prepare)


def test_rest_costs_nothing_for_each_sale_and_webhook(shop):
    for number in range(MANY):
        response = shop.daemon.admin("PUT", f"/admin/webhooks/w{number}",
                                     {"url": "http://127.0.0.1:1/", "types": ["order.unpaid"]})
        assert response.status == 201, response

    def turns():
        return shop.daemon.metric("seckill_expiry_turns_total")

    def rest():
        until = turns() + TURNS
        wait_until(lambda: turns() >= until, "turns of the expiry worker")

    def a_second(_):
        """The daemon's threads go by the clock: where turns take longer, there are more reads."""
        began = time.monotonic()
        found = shop.counted("update", rest)
        return [number / (time.monotonic() - began) for number in found]
    best("rest", (READS_AT_REST, UPDATES_AT_REST), a_second)
