"""The end of a run: no fault strikes any more, and what was promised for that moment is checked."""

import time
from concurrent.futures import ThreadPoolExecutor

from harness.audit import audit_until_settled
from chaos.accounts import Accounts
from chaos.checks import Violation, by_key
from chaos.clients import Client
from chaos.crowd import SKU
from chaos.feed import History, sum_of
from chaos.faults.operator import OPEN, SHAPES, reset_body
from chaos.record import ACCEPTED, UNKNOWN
from harness.processes import HarnessError, wait_until

QTY_MAX = 1000
TRIES_MAX = 200        # of one order that the service is still recovering for
SETTLE_SECONDS = 10
ENDS_SECONDS = 60      # for orders whose time or round is over
THREADS = 12
RESERVED_FOR_LONG = """SELECT COUNT(*) FROM orders o LEFT JOIN sale s USING (sku)
    WHERE o.status = 'reserved' AND (o.expires_at IS NOT NULL OR s.round IS NULL
                                     OR o.round < s.round)"""


class Closing:
    """Each step returns nothing and notes violations under its title."""

    def __init__(self, cluster, record, crowd, reader, receivers):
        """crowd: the (order_id, qty) that were accepted beside those of the record; reader: of the
        feed, which has ended; receivers: of webhooks, which go on."""
        self.cluster, self.record, self.crowd, self.results = cluster, record, crowd, {}
        self.reader, self.receivers, self.events = reader, receivers, []
        self.client = Client(cluster, record, "closing")
        self.accounts = Accounts(self)

    def run(self):
        for title, step in (("the faults left no wrong count", self.audit_unsettled),
                            ("every unclear order is decided", self.decide_unclear),
                            ("every sale opens", self.open_sales),
                            ("every unclear payment is decided", self.accounts.decide),
                            ("orders that are over end", self.await_ends),
                            ("the ledger agrees with itself", self.audit_unsettled),
                            ("late money buys units while there are some, and they return",
                             self.accounts.pay_late),
                            ("an order whose payment fails keeps its units, until it is cancelled",
                             self.accounts.fail_some),
                            ("every unit that is left can be bought, in large quantities",
                             self.sell_rest),
                            ("payments are listed and audited as the ledger has them",
                             self.accounts.compare_lists),
                            ("no payment is counted twice", self.accounts.compare_counts),
                            ("orders, units sold and what Redis says agree", self.audit_strictly),
                            ("the feed of events has what the ledger has", self.compare_feed),
                            ("every receiver of webhooks but the dead one has all events",
                             self.compare_receivers)):
            self.title, self.results[title] = title, []
            try:
                step()
            except HarnessError as error:
                self.fail(str(error))

    def fail(self, text, told=()):
        at = told[0].start if told else self.record.now()
        self.results[self.title].append(Violation(self.title, text, at, list(told)))

    def repeat(self, what, good):
        """Asks daemon after daemon until the answer is good; None when it never is."""
        for number in range(TRIES_MAX):
            one = what(number % len(self.cluster.daemons))
            if good(one):
                return one
            time.sleep(0.05)
        self.fail(f"after {TRIES_MAX} tries still {one.answer}: {one}", [one])
        return None

    # steps

    def decide_unclear(self):
        """By a repeat of each key whose outcome nobody was told."""
        unclear = [tries[0] for (_, key), tries in by_key(self.record).items()
                   if key and not any(one.answer in ACCEPTED for one in tries)
                   and any(one.answer in UNKNOWN for one in tries)]
        self.side_by_side(unclear, lambda client, one: self.repeat(
            lambda daemon: client.order(daemon, one.sku, one.user, one.qty, one.key),
            lambda again: again.answer and again.answer[0] != "5"))

    def side_by_side(self, items, act):
        """act(client, item) for all of them, by several clients."""
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda group: self.act_on(group, act), batched(items, 50)))

    def act_on(self, group, act):
        client = Client(self.cluster, self.record, "deciding")
        for one in group:
            act(client, one)
        client.close()

    def open_sales(self):
        rows = dict(self.cluster.ledger.run("SELECT sku, round FROM sale"))
        for sku in SHAPES:
            if sku not in rows:
                key = f"closing{self.record.number()}"
                self.repeat(lambda daemon: self.client.change("reset", daemon, sku,
                                                              reset_body(sku), key), done)
            self.patch(sku, OPEN)

    def patch(self, sku, body):
        self.repeat(lambda daemon: self.client.change("patch", daemon, sku, body), done)

    def await_ends(self):
        wait_until(lambda: self.cluster.ledger.number(RESERVED_FOR_LONG) == 0,
                   "an end of all orders whose time or round is over", ENDS_SECONDS)

    def audit_unsettled(self):
        """Before anything sets Redis again: what it calls settled must be so."""
        self.audit(allow_dirty=True)

    def audit(self, allow_dirty):
        stack = self.cluster.stack
        accepted = {one.order_id: one.qty for one in self.record.tries if one.answer in ACCEPTED}
        report = audit_until_settled(SETTLE_SECONDS, (stack.mysql_url, stack.redis_url),
                                     [*SHAPES, SKU], acked=[*accepted.items(), *self.crowd],
                                     allow_dirty=allow_dirty)
        for text in report["differences"]:
            self.fail(text)

    def sell_rest(self):
        for sku in SHAPES:
            self.patch(sku, {"per_user_limit": None, "pay_within_s": None})
            self.sell_out(sku)
            self.accounts.sell_again(sku)
            self.sell_out(sku)

    def left(self, sku):
        return self.cluster.ledger.number("SELECT SUM(CAST(capacity AS SIGNED) - sold)"
                                          f" FROM stock_segment WHERE sku = '{sku}'")

    def sell_out(self, sku):
        """The rest in orders that are as large as they may be, the last one of all that is left."""
        while True:
            left = self.left(sku)
            if left == 0:
                break
            number = self.record.number()
            sold = self.repeat(
                lambda daemon: self.client.order(daemon, sku, f"last{number}", min(left, QTY_MAX),
                                                 f"k{number}"),
                lambda one: one.answer in ACCEPTED or (one.answer or "5")[0] != "5")
            if sold is None or sold.answer not in ACCEPTED:
                self.fail(f"{left} units of {sku} are left, an order is answered"
                          f" {sold and sold.answer}", [sold] if sold else [])
                return
        for daemon in range(len(self.cluster.daemons)):
            user = f"last{self.record.number()}"
            one = self.repeat(lambda _: self.client.order(daemon, sku, user, 1, f"k{user}"),
                              lambda one: one.answer and one.answer[0] != "5")
            if one and one.answer != "409 sold_out":
                self.fail(f"{sku} is sold to the last unit, an order is answered {one.answer}",
                          [one])

    def compare_feed(self):
        """Whatever a reader was told meanwhile, the feed still says, and nothing was left out."""
        ledger, history = self.cluster.ledger, History()
        wait_until(lambda: not ledger.number("SELECT COUNT(*) FROM event_batch WHERE position = 0"),
                   "the publishing of all events", SETTLE_SECONDS)
        for number, event in enumerate(self.reader.replay(), 1):
            history.take(number, event)
            self.events.append((event["sku"], sum_of(event)))
            if self.reader.sums[number - 1:number] not in ([], [sum_of(event)]):
                self.fail(f"a reader was told another event {number} than {event}")
        if len(self.events) < len(self.reader.sums):
            self.fail(f"a reader was told {len(self.reader.sums)} events, the feed has "
                      f"{len(self.events)}")
        for text in (*self.reader.faults, *history.compare(ledger)):
            self.fail(text)

    def compare_receivers(self):
        for text in self.receivers.catch_up(self.events):
            self.fail(text)

    def audit_strictly(self):
        for sku in (*SHAPES, SKU):
            self.repeat(lambda daemon: self.client.change("reconcile", daemon, sku), done)
        self.audit(allow_dirty=False)


def done(change):
    return change.answer == "200"


def batched(items, size):
    return [items[at:at + size] for at in range(0, len(items), size)]
