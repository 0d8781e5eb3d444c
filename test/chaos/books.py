"""The ledger's tables as the checks want them: read once, when everything is over."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Optional


@dataclass(slots=True)
class Row:
    """An order in the ledger."""

    order_id: str
    sku: str
    round: int
    user: str
    qty: int
    status: str
    key: Optional[str]
    expires: bool  # it had a time to pay
    ordered: Optional[int] = None   # units at first, once they differ
    unreturned: int = 0             # units that were refunded and not put back on sale
    until: Optional[float] = None   # when its time to pay is over, grace and all; UTC, in seconds
    grace: int = 0

    @property
    def asked(self):
        return self.qty if self.ordered is None else self.ordered

    @property
    def held(self):
        return (self.qty if self.status in ("reserved", "paid") else 0) + self.unreturned


@dataclass(slots=True)
class Payment:
    """A payment in the ledger."""

    state: str
    outcome: str
    listed: bool = False  # among those that are due

    @property
    def pays(self):
        """It pays its order, or has paid it."""
        return self.outcome in ("in_time", "retaken")


@dataclass
class Books:
    orders: dict = field(default_factory=dict)    # {order_id: Row}
    restocks: dict = field(default_factory=dict)  # {(sku, key): (units, round)}
    resets: dict = field(default_factory=dict)    # {(sku, key): (round, total)}
    sales: dict = field(default_factory=dict)     # {sku: (round, total)}
    payments: dict = field(default_factory=dict)  # {(order_id, ref): Payment}

    def by_user(self):
        """{(user, key): [rows]}"""
        groups = defaultdict(list)
        for row in self.orders.values():
            groups[row.user, row.key].append(row)
        return groups

    def by_order(self):
        """{order_id: {ref: Payment}}"""
        groups = defaultdict(dict)
        for (order_id, ref), payment in self.payments.items():
            groups[order_id][ref] = payment
        return groups

    def is_over(self, row):
        """The round of that order has ended."""
        return row.sku not in self.sales or row.round < self.sales[row.sku][0]


def read_books(ledger, except_sku):
    """Of all sales but one, whose orders are compared elsewhere."""
    books = Books()
    for order_id, sku, round_no, user, qty, status, key, ordered, unreturned, until, grace in \
            ledger.run(
                "SELECT order_id, sku, round, user_id, qty, status, idempotency_key, ordered,"
                " COALESCE(unreturned, 0), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', expires_at)"
                f" / 1e6, COALESCE(grace_s, 0) FROM orders WHERE sku <> '{except_sku}'"):
        books.orders[order_id] = Row(order_id, sku, int(round_no), user, int(qty), status, key,
                                     until is not None, ordered and int(ordered), int(unreturned),
                                     until and float(until) + int(grace), int(grace))
    for order_id, ref, state, outcome, listed in ledger.run(
            "SELECT p.order_id, p.payment_ref, state, outcome, d.order_id IS NOT NULL"
            " FROM payment p LEFT JOIN refund_due d USING (order_id, payment_ref)"):
        books.payments[order_id, ref] = Payment(state, outcome, listed == "1")
    for sku, key, units, round_no in ledger.run(
            "SELECT sku, idempotency_key, units, round FROM restock"):
        books.restocks[sku, key] = int(units), int(round_no)
    for sku, key, round_no, total in ledger.run(
            "SELECT sku, idempotency_key, round, total FROM sale_reset"):
        books.resets[sku, key] = int(round_no), int(total)
    for sku, round_no, total in ledger.run("SELECT sku, round, total FROM sale"):
        books.sales[sku] = int(round_no), int(total)
    return books
