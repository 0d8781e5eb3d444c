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


@dataclass
class Books:
    orders: dict = field(default_factory=dict)    # {order_id: Row}
    restocks: dict = field(default_factory=dict)  # {(sku, key): (units, round)}
    resets: dict = field(default_factory=dict)    # {(sku, key): (round, total)}
    sales: dict = field(default_factory=dict)     # {sku: (round, total)}

    def by_user(self):
        """{(user, key): [rows]}"""
        groups = defaultdict(list)
        for row in self.orders.values():
            groups[row.user, row.key].append(row)
        return groups


def read_books(ledger, except_sku):
    """Of all sales but one, whose orders are compared elsewhere."""
    books = Books()
    for order_id, sku, round_no, user, qty, status, key, expires in ledger.run(
            "SELECT order_id, sku, round, user_id, qty, status, idempotency_key,"
            f" expires_at IS NOT NULL FROM orders WHERE sku <> '{except_sku}'"):
        books.orders[order_id] = Row(order_id, sku, int(round_no), user, int(qty), status, key,
                                     expires == "1")
    for sku, key, units, round_no in ledger.run(
            "SELECT sku, idempotency_key, units, round FROM restock"):
        books.restocks[sku, key] = int(units), int(round_no)
    for sku, key, round_no, total in ledger.run(
            "SELECT sku, idempotency_key, round, total FROM sale_reset"):
        books.resets[sku, key] = int(round_no), int(total)
    for sku, round_no, total in ledger.run("SELECT sku, round, total FROM sale"):
        books.sales[sku] = int(round_no), int(total)
    return books
