"""The end of a run, as far as it is about money: a Closing does these steps, too."""

from collections import Counter

from chaos.faults.operator import SHAPES
from chaos.failures import by_payment, is_failed, is_refunded
from chaos.record import FAILED, UNKNOWN
from chaos.shop import Lists

LATE_EACH = 12         # late payments of each sale that has a time to pay
WITH_TIME = ("limited", "brief")
LISTED_MAX = 1000      # payments of a page
NO_TIME = {"per_user_limit": None, "pay_within_s": None, "grace_s": None, "late_payment": "retake"}
FAIL_EACH = 6          # orders of each sale whose payment fails
PAID = """SELECT order_id, qty, payment_ref FROM orders JOIN sale USING (sku, round)
    JOIN payment USING (order_id)
    WHERE sku = '{}' AND status = 'paid' AND state = 'taken'
    AND order_id NOT IN (SELECT order_id FROM refund_due) LIMIT {}"""
EXPIRED = """SELECT order_id, qty FROM orders o JOIN sale USING (sku, round)
    WHERE sku = '{}' AND status = 'expired'
    AND NOT EXISTS (SELECT 1 FROM payment p WHERE p.order_id = o.order_id) LIMIT {}"""
PAYMENTS = """SELECT p.order_id, payment_ref, state, outcome, status FROM payment p
    JOIN orders USING (order_id) ORDER BY p.order_id, payment_ref"""


def is_answered(call):
    return bool(call.answer) and call.answer[0] != "5"


def undecided(record):
    """One call of each payment, and of each refund and failure, of which no answer told what became
    of it."""
    for calls in by_payment(record).values():
        pays = [one for one in calls if one.what == "pay"]
        if any(one.answer in UNKNOWN for one in pays) and not any(map(is_answered, pays)):
            yield pays[0]
        refunds = [one for one in calls if one.what == "refund" and not one.keep]
        if any(one.answer in UNKNOWN for one in refunds) and not any(map(is_refunded, refunds)):
            yield refunds[0]
        unpays = [one for one in calls if one.what == "unpay"]
        if any(one.answer in UNKNOWN for one in unpays) and not any(map(is_failed, calls)):
            yield unpays[0]


class Accounts:
    """The steps of a Closing about payments."""

    def __init__(self, closing):
        self.closing, self.ledger = closing, closing.cluster.ledger
        self.shop = Lists(closing.cluster, closing.record, "closing shop")
        self.daemons = range(len(closing.cluster.daemons))

    def again(self, client, one):
        """Repeats a payment, a refund or a failure until it is answered."""
        return self.closing.repeat(
            lambda daemon: client.call(one.what, daemon, one.order_id, ref=one.ref,
                                       restock=one.restock), is_answered)

    def ask(self, what, order_id, first=0, **asked):
        """At the daemon `first`, and at others while that does not answer."""
        return self.closing.repeat(
            lambda daemon: self.shop.call(what, (first + daemon) % len(self.daemons), order_id,
                                          **asked), is_answered)

    # steps

    def decide(self):
        """By a repeat of each payment, refund and failure whose outcome nobody was told."""
        self.closing.side_by_side(list(undecided(self.closing.record)), self.again)

    def pay_late(self):
        """A late payment gets units while its sale has as many left, which a refund returns."""
        for sku in WITH_TIME:
            self.closing.patch(sku, NO_TIME)
            for order_id, qty in self.ledger.run(EXPIRED.format(sku, LATE_EACH)):
                self.pay_one_late(sku, order_id, int(qty))

    def pay_one_late(self, sku, order_id, qty):
        left, ref = self.closing.left(sku), f"pi{self.closing.record.number()}"
        one = self.ask("pay", order_id, ref=ref)
        taken = qty if left >= qty else 0
        self.expect(one, "200" if taken else "409 payment_too_late", f"{left} units were left")
        self.expect_left(sku, left - taken, one)
        if int(order_id) % 2:
            back = self.ask("refund", order_id, ref=ref, restock=True)
            self.expect(back, "200", "a refund of any payment is noted")
            self.expect_left(sku, left, back)

    def fail_some(self):
        """An order whose payment fails keeps its units, is paid by another, and is cancelled when
        that one fails, too."""
        for sku in SHAPES:
            self.closing.patch(sku, NO_TIME)
            for number, (order_id, qty, ref) in enumerate(
                    self.ledger.run(PAID.format(sku, FAIL_EACH))):
                self.fail_one(sku, order_id, ref)
                if number % 2:
                    self.cancel_unpaid(sku, order_id, int(qty))

    def fail_one(self, sku, order_id, ref):
        left = self.closing.left(sku)
        for daemon in self.daemons:
            self.expect_reserved(self.ask("unpay", order_id, daemon, ref=ref))
        self.expect(self.ask("pay", order_id, ref=ref), FAILED, f"{ref} has failed")
        self.expect(self.ask("refund", order_id, ref=ref), "409 invalid_state",
                    f"{ref} has failed: there is nothing to refund")
        paid = self.ask("pay", order_id, ref=f"pi{self.closing.record.number()}")
        self.expect(paid, "200", f"order {order_id} is reserved again")
        self.expect_left(sku, left, paid)

    def cancel_unpaid(self, sku, order_id, qty):
        left, paid = self.closing.left(sku), self.ledger.run(
            f"SELECT payment_ref FROM payment WHERE order_id = {order_id} AND state = 'taken'")
        for ref, in paid:
            self.expect_reserved(self.ask("unpay", order_id, ref=ref))
        self.expect_left(sku, left, None)
        gone = self.ask("cancel", order_id)
        self.expect(gone, "200", f"order {order_id} is reserved again")
        self.expect_left(sku, left + qty, gone)

    def expect_reserved(self, one):
        self.expect(one, "200", "its payment pays it, in its round")
        if one and (one.status != "reserved" or "expires_at" in one.told):
            self.closing.fail("its payment has failed in a sale without a time to pay, yet it is"
                              f" {one.status}, {one.told}", [one])

    def expect(self, one, answer, why):
        if one and one.answer != answer:
            self.closing.fail(f"{why}; {one.what} is answered {one.answer}", [one])

    def expect_left(self, sku, units, one):
        left = self.closing.left(sku)
        if left != units:
            self.closing.fail(f"{sku} has {left} units left, not {units}", [one] if one else [])

    def sell_again(self, sku):
        """Of a sale that has sold its last unit: late money is due back, and what a refund puts
        back on sale is bought again, all of it."""
        for order_id, _ in self.ledger.run(EXPIRED.format(sku, 1)):
            self.expect(self.ask("pay", order_id, ref=f"pi{self.closing.record.number()}"),
                        "409 payment_too_late", f"{sku} is sold out")
        for order_id, qty, ref in self.ledger.run(PAID.format(sku, 1)):
            back = self.ask("refund", order_id, ref=ref, restock=True)
            self.expect(back, "200", f"order {order_id} is paid by {ref}")
            self.expect_left(sku, int(qty), back)

    def compare_lists(self):
        """What the service lists is what the ledger has. The shop then pays back what is due of one
        sale, so that all states remain."""
        rows = self.ledger.run(PAYMENTS)
        for state in ("taken", "refund_due", "refunded", "failed"):
            listed = self.list_all(state)
            kept = [row for row in rows if row[2] == state]
            told = [(row["order_id"], row["payment_ref"], row["state"], row["outcome"],
                     row["order_status"]) for row in listed]
            if told != kept:
                odd = sorted(set(told) ^ set(kept))
                self.closing.fail(f"{len(told)} payments are listed as {state}, the ledger has"
                                  f" {len(kept)}; differing: {odd[:5]}")
        self.compare_sums(rows)
        due = self.shop.list_due(self.daemons[0], "limited") or []
        for row in due:
            back = self.ask("refund", row["order_id"], ref=row["payment_ref"])
            self.expect(back, "200", "what is due can be refunded")
        left = self.shop.list_due(self.daemons[-1], "limited")
        if left != []:
            self.closing.fail(f"all that was due is refunded, still listed: {left}")

    def compare_counts(self):
        """A daemon that was killed has lost its counts, but none may count a payment twice, unless
        the answer to its commit was lost."""
        most = Counter(f'seckill_payments_total{{outcome="{outcome}"}}'
                       for outcome, in self.ledger.run("SELECT outcome FROM payment"))
        most["seckill_payments_refunded_total"] = self.ledger.number(
            "SELECT COUNT(*) FROM payment WHERE state = 'refunded'")
        most["seckill_payments_failed_total"] = self.ledger.number(
            "SELECT COUNT(*) FROM payment WHERE state = 'failed'")
        most["seckill_orders_refunded_total"] = self.ledger.number(
            "SELECT COUNT(*) FROM orders WHERE status = 'refunded'")
        counted, doubts = Counter(), 0
        for daemon in self.closing.cluster.daemons:
            shown = daemon.metrics()
            counted.update({name: value for name, value in shown.items() if name in most})
            doubts += shown["seckill_unknown_commits_total"]
        for name, count in counted.items():
            if count > most[name] + doubts:  # the docs name this exception
                self.closing.fail(f"the daemons count {count:.0f} {name}, the ledger {most[name]}")

    def list_all(self, state):
        """From any daemon that answers all its pages."""
        for daemon in self.daemons:
            rows = self.shop.list_payments(daemon, state=state, limit=LISTED_MAX,
                                           as_operator=daemon % 2 == 0)
            if rows is not None:
                return rows
        self.closing.fail(f"no daemon lists the payments that are {state}")
        return []

    def compare_sums(self, rows):
        """The service's own audit counts the payments of all rounds of its sales."""
        sums, audited = Counter(state for _, _, state, *_ in rows), Counter()
        for sku in SHAPES:
            sales = self.shop.audit(self.daemons[-1], sku)
            if sales is None:
                self.closing.fail(f"the audit of {sku} is not answered")
            for sale in sales or ():
                audited.update(sale["payments"])
                if sale["unmatched"]:
                    self.closing.fail(f"the audit finds {sale['unmatched']} unmatched in {sku}")
        if +audited != sums:
            self.closing.fail(f"the audit counts {audited} payments, the ledger has {sums}")
