"""The great ledger, which all tests of this room share, and a daemon on it."""

import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from examined import Examined
from harness.daemon import STEADY, Daemon
from harness.processes import ROOT
from harness.stack import PrivateStack
from ledger import SERVER, fill

MANY = 64  # elements at once
TABLE = Path(os.environ.get("BUILD", ROOT / "build"), "growth.md")


class Shop:
    """Asks the daemon on the great ledger."""

    def __init__(self, stack, daemon, examined):
        self.stack, self.daemon, self.examined = stack, daemon, examined
        self.check = examined.check
        self.numbers = itertools.count(1)

    def new(self, word):
        """A name that was not used before."""
        return f"{word}-{next(self.numbers)}"

    def order(self, sku="demo", **how):
        response = self.daemon.order(sku, self.new("buyer"), **how)
        assert response.status == 201, response
        return response.json()["order_id"]

    def orders(self, count=MANY, sku="demo"):
        return self.each(lambda _: self.order(sku), range(count))

    def paid(self, count):
        """The ids of new orders, each paid by a-ID."""
        ids = self.orders(count)
        self.each(lambda order: self.daemon.pay(order, f"a-{order}"), ids)
        return ids

    def each(self, call, items, good=(200, 201)):
        """Makes the calls at once; returns what they return. Answers must have a good status."""
        with ThreadPoolExecutor(MANY) as pool:
            results = list(pool.map(call, items))
        for result in results:
            assert getattr(result, "status", 200) in good, result
        return results

    def get(self, path, good=(200,)):
        response = self.daemon.admin("GET", path)
        assert response.status in good, response
        return response


@pytest.fixture(scope="session")
def great(template, tmp_path_factory):
    """The servers, with the great ledger."""
    with PrivateStack(*SERVER) as stack:
        with Daemon(stack, tmp_path_factory.mktemp("fill"), [], **STEADY) as daemon:
            daemon.reset("past", total=1000, segments=20)
            daemon.reset("limited", total=100_000, segments=20, per_user_limit=5)
        fill(stack.ledger)
        yield stack


@pytest.fixture(scope="session")
def examined(great):
    """What was counted: the table is written at the end."""
    counted = Examined(great.ledger)
    yield counted
    TABLE.write_text(counted.table(), encoding="utf-8")


@pytest.fixture(scope="session")
def shop(great, examined, tmp_path_factory):
    with Daemon(great, tmp_path_factory.mktemp("shop"), [], events_retention_h=240,
                retention_days=30, webhook_networks="127.0.0.0/8", **STEADY) as daemon:
        daemon.reconcile("past")
        daemon.reset("demo", total=100_000, segments=20, hold_max_s=86_400, pay_within_s=3600)
        daemon.reset("limited", total=100_000, segments=20, per_user_limit=5)
        yield Shop(great, daemon, examined)
