"""Compares what clients were told with the ledger, and the ledger with Redis."""

import sys
import time

from harness.daemon import STEADY
from harness.processes import ROOT, wait_until

sys.path.append(str(ROOT / "loadtest"))
from lib import audit as sales  # noqa: E402  after the line that says where it is


SETTLE_S_MAX = 10
RETRIES_MAX = 200  # of orders while the service recovers
HOLDING = "status IN ('reserved', 'paid')"  # orders that have units


def sold_by_orders(ledger, sku, round_no):
    """The units of one round as its orders add up."""
    (units,), = ledger.run(f"SELECT COALESCE(SUM(qty), 0) FROM orders WHERE {HOLDING}"
                           f" AND sku = '{sku}' AND round = {round_no}")
    return int(units)


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
    """The audit of load campaigns alone. Returns the units sold. A worker answers an order before
    it settles its batch, so the audit waits for a moment, but no lease may run out meanwhile."""
    report = sales.audit_until_settled(SETTLE_S_MAX, (stack.mysql_url, stack.redis_url), [sku],
                                       acked=list(accepted), allow_dirty=allow_dirty)
    assert report["consistent"], report["differences"]
    return report["sold"]


def audit_stock(daemon, sku, sold):
    stock = answered(lambda: daemon.admin("GET", f"/admin/stock/{sku}")).json()
    assert (stock["sold"], stock["available"]) == (sold, stock["total"] - sold)


def audit(daemon, sku="demo", accepted=(), changed=False):
    """Makes that audit, while no order is under way, after a test without faults: Redis is as the
    ledger says, though nobody has reconciled or, on any daemon of the test, recovered a segment.
    changed: the sale was reset or its settings changed while it sold, which dirties segments.
    accepted: what clients were told, as (order_id, qty). Returns the units sold."""
    peers = [peer for peer in daemon.peers if peer.stack is daemon.stack and peer.running()]
    assert all(peer.options["lease_ms"] >= STEADY["lease_ms"] for peer in peers), \
        "on a slow machine the lease may run out: start the daemon with **STEADY"
    sold = audit_sale(daemon.stack, sku, accepted=accepted)
    if not changed:
        recoveries = [peer.metric("seckill_recoveries_total") for peer in peers]
        assert not any(recoveries), recoveries
    audit_stock(daemon, sku, sold)
    return sold


def audit_after_faults(daemon, sku="demo", accepted=()):
    """The same after faults: a segment whose holder died may stay dirty until somebody wants it,
    and so the daemon reconciles Redis first."""
    answered(lambda: daemon.admin("POST", "/admin/reconcile", {"sku": sku}))
    sold = audit_sale(daemon.stack, sku, accepted=accepted)
    audit_stock(daemon, sku, sold)
    return sold


def sell_out(daemon, sku="demo", retries=0):
    """Buys single units until the sale says sold out; at most so many orders may be answered 503.
    Returns the accepted (order_id, qty)."""
    accepted = []
    while True:
        response = daemon.order(sku, user_id=f"last-{len(accepted)}")
        if response.answer == "409 sold_out":
            return accepted
        if response.status == 201:
            accepted.append((response.json()["order_id"], 1))
            continue
        assert response.status == 503 and retries > 0, response
        retries -= 1
        time.sleep(0.05)


def sell_out_after_faults(daemon, sku="demo"):
    """The same while the service may still be recovering."""
    return sell_out(daemon, sku, RETRIES_MAX)
