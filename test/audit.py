"""Compares what clients were told with the ledger, and the ledger with Redis."""

import sys
import time
from collections import Counter

from harness.processes import ROOT, wait_until

sys.path.append(str(ROOT / "loadtest"))
from lib import audit as sales  # noqa: E402  after the line that says where it is


HOLDING = "status IN ('reserved', 'paid')"  # orders that have units


def sold_by_orders(ledger, sku, round_no):
    """{segment: units} as the orders of one round add up, allocations included."""
    rows = ledger.run(f"""
        SELECT segment, SUM(qty) FROM orders WHERE {HOLDING}
           AND sku = '{sku}' AND round = {round_no} AND segment IS NOT NULL GROUP BY segment
        UNION ALL
        SELECT a.segment, SUM(a.qty) FROM order_allocation a JOIN orders o USING (order_id)
         WHERE o.sku = '{sku}' AND o.round = {round_no} AND o.segment IS NULL AND {HOLDING}
         GROUP BY a.segment""")
    sold = Counter()
    for segment, units in rows:
        sold[int(segment)] += int(units)
    return sold


def statuses(ledger, sku="demo"):
    """{status: (orders, units)} of the present round."""
    rows = ledger.run("SELECT status, COUNT(*), SUM(qty) FROM orders JOIN sale USING (sku, round)"
                      f" WHERE sku = '{sku}' GROUP BY status")
    return {status: (int(orders), int(units)) for status, orders, units in rows}


def audit_redis(stack, sku):
    """Every segment's counter in Redis is what the ledger has left, and no round is open."""
    rows = stack.ledger.run("SELECT segment, s.round, capacity - sold FROM stock_segment s"
                            f" JOIN sale USING (sku) WHERE sku = '{sku}' AND s.round = sale.round")
    expected = {int(s): (units, round_no, "") for s, round_no, units in rows}
    found = {}
    for segment in expected:
        fields = stack.redis.hash(f"seckill:{{{sku}:{segment}}}:segment")
        found[segment] = tuple(fields.get(name) for name in ("available", "round", "open"))
    assert found == expected


def answered(call):
    """Repeats a call until its answer is not 503: the service may still be recovering."""
    response = wait_until(lambda: [r for r in [call()] if r.status != 503], "an answer")[0]
    assert response.status in (200, 201, 404), response
    return response


def audit_sale(stack, sku, accepted=(), allow_dirty=False):
    """The audit of loadtest/audit alone. Returns the units sold."""
    report = sales.audit((stack.mysql_url, stack.redis_url), [sku], acked=list(accepted),
                         allow_dirty=allow_dirty)
    assert report["consistent"], report["differences"]
    return report["sold"]


def audit(daemon, sku="demo", accepted=()):
    """Makes that audit, while no order is under way. The daemon reconciles Redis
    first: a segment whose holder died may stay dirty until somebody wants it. accepted: what a
    client was told, as (order_id, qty). Returns the units sold."""
    reconciled = answered(lambda: daemon.admin("POST", "/admin/reconcile", {"sku": sku}))
    assert reconciled.json()["consistent"], reconciled
    sold = audit_sale(daemon.stack, sku, accepted=accepted)
    stock = answered(lambda: daemon.admin("GET", f"/admin/stock/{sku}")).json()
    assert (stock["sold"], stock["available"]) == (sold, stock["total"] - sold)
    return sold


def sell_out(daemon, sku="demo", patience=200):
    """Buys single units until the sale says sold out, through outages if need be. Returns the
    accepted (order_id, qty)."""
    accepted = []
    while True:
        response = daemon.order(sku, user_id=f"last-{len(accepted)}")
        if response.answer == "409 sold_out":
            return accepted
        if response.status == 201:
            accepted.append((response.json()["order_id"], 1))
            continue
        assert response.status == 503, response
        patience -= 1
        assert patience, "the service does not recover"
        time.sleep(0.05)
