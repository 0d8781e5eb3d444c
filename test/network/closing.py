"""The end of a round: no fault is in force any more, and what was promised is checked."""

import time

from chaos import holds, money  # noqa: F401  they register checks
from chaos.books import Books, read_books
from chaos.checks import by_key, run_checks
from chaos.clients import Client
from chaos.record import ACCEPTED, UNKNOWN
from harness.audit import audit_until_settled
from harness.feed import Feed, assert_feed_is_the_ledger
from harness.ledger import Ledger
from harness.processes import HarnessError, wait_until
from network.history import impossible
from network.load import Asker

QTY_MAX = 1000
TRIES_MAX = 400
PAUSE_S = 0.05
SETTLE_S = 10
RECONCILED_S = 60
SHOWN_MAX = 3


class Closing:
    """Of one sale; check_all() then looks at all of them."""

    def __init__(self, case, sku):
        self.case, self.setup, self.record, self.sku = case, case.setup, case.record, sku
        self.asker = Asker(case.asked, case.record, "closing")
        self.operator = Client(case.operated, case.record, "operator")
        self.fronts = [number for number, name in enumerate(case.skus) if name == sku]
        self.ledger = Ledger(case.setup.urls(sku)[0])

    def run(self):
        for step in (self.decide_orders, self.decide_payments, self.audit, self.sell_rest,
                     self.audit_strictly, self.compare_feed):
            try:
                step()
            except (HarnessError, AssertionError) as error:
                self.case.violate(str(error)[:500])
        self.asker.close()
        self.operator.close()

    def repeat(self, what, good):
        """Asks daemon after daemon until the answer is good."""
        def ask():
            self.asked += 1
            one = what(self.fronts[self.asked % len(self.fronts)])
            return one if good(one) else None
        self.asked = 0
        return wait_until(ask, "a decided answer", pause=PAUSE_S)

    def decide_orders(self):
        for (_, key), tries in by_key(self.record).items():
            one, answers = tries[0], [one.answer for one in tries]
            if key and one.sku == self.sku and not any(answer in ACCEPTED for answer in answers) \
                    and any(answer in UNKNOWN for answer in answers):
                self.repeat(
                    lambda daemon: self.asker.order(daemon, one.sku, one.user, one.qty, one.key),
                    lambda again: again.answer and again.answer[0] != "5")

    def decide_payments(self):
        groups = {}
        mine = {one.order_id for one in self.record.tries if one.sku == self.sku}
        for one in self.record.calls:
            if one.what == "pay" and one.order_id in mine:
                groups.setdefault((one.order_id, one.ref), []).append(one)
        for (order_id, ref), calls in groups.items():
            if not any(one.decided for one in calls) and any(one.answer in UNKNOWN
                                                             for one in calls):
                self.repeat(lambda daemon: self.asker.call("pay", daemon, order_id, ref=ref),
                            lambda again: again.answer and again.answer[0] != "5")

    def differences(self, allow_dirty, wait_s):
        acked = {one.order_id: one.qty for one in self.record.tries
                 if one.answer in ACCEPTED and one.sku == self.sku}
        report = audit_until_settled(wait_s, self.setup.urls(self.sku), [self.sku],
                                     acked=list(acked.items()), allow_dirty=allow_dirty)
        return report["differences"]

    def audit(self):
        """Of Redis as the fault left it: what it calls settled must be so."""
        for text in self.differences(True, SETTLE_S):
            self.case.violate(text)

    def audit_strictly(self):
        """Redis agrees with the ledger once it is reconciled. That is repeated: a daemon may still
        reach the Redis that was the master before, until Sentinel makes that a replica."""
        attempts, until = 0, time.monotonic() + RECONCILED_S
        while True:
            attempts += 1
            self.repeat(lambda daemon: self.operator.change("reconcile", daemon, self.sku),
                        lambda one: one.answer == "200")
            found = self.differences(False, PAUSE_S)
            if not found or time.monotonic() > until:
                break
        for text in found:
            self.case.violate(text)
        if attempts > 1:
            self.case.note(f"the strict audit agreed after {attempts} reconciles")

    def left(self):
        return self.ledger.number("SELECT SUM(CAST(capacity AS SIGNED) - sold) FROM stock_segment"
                                  f" WHERE sku = '{self.sku}'")

    def sell_rest(self):
        """In orders that are as large as they may be, the last one of all that is left."""
        while left := self.left():
            number = self.record.number()
            one = self.repeat(
                lambda daemon: self.asker.order(daemon, self.sku, f"last{number}",
                                                min(left, QTY_MAX), f"k{number}"),
                lambda one: one.answer and one.answer[0] != "5")
            if one.answer not in ACCEPTED:
                self.case.violate(f"{left} units are left, an order is answered {one.answer}")
                return
        for daemon in self.fronts:
            key = f"k{self.record.number()}"
            one = self.repeat(lambda _: self.asker.order(daemon, self.sku, key, 1, key),
                              lambda one: one.answer and one.answer[0] != "5")
            if one.answer != "409 sold_out":
                self.case.violate(f"all is sold, an order is answered {one.answer}")

    def compare_feed(self):
        wait_until(lambda: not self.ledger.number(
            "SELECT COUNT(*) FROM event_batch WHERE position = 0"), "the publishing of all events")
        for daemon in self.setup.daemons_of(self.sku):
            feed = Feed(daemon)
            feed.read_all()
            assert_feed_is_the_ledger(feed, self.ledger)


def check_all(case):
    """Every recorded answer with the ledgers, by the checks of chaos; histories of keys."""
    books = Books()
    for sku in dict.fromkeys(case.skus):
        one = read_books(Ledger(case.setup.urls(sku)[0]), "")
        for part in vars(books):
            getattr(books, part).update(getattr(one, part))
    for title, found in run_checks(case.record, books).items():
        for one in found[:SHOWN_MAX]:
            case.violate(f"{title}: {one.text}; {one.told[:SHOWN_MAX]}")
    wrong, case.round.operations = impossible(case.record)
    for key, ops in list(wrong.items())[:SHOWN_MAX]:
        case.violate(f"no register could give this: key {key}: {ops}")
