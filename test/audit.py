"""Compares what clients were told with the ledger, and the ledger with Redis."""

import time
from collections import Counter

from harness.processes import wait_until


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


def audit_ledger(ledger, sku):
    """Compares rows of segments with rows of orders in the ledger. Returns the units sold."""
    round_no, total, count = map(int, ledger.run(
        f"SELECT round, total, segments FROM sale WHERE sku = '{sku}'")[0])
    segments = [tuple(map(int, row)) for row in ledger.run(
        "SELECT segment, round, capacity, sold FROM stock_segment"
        f" WHERE sku = '{sku}' AND round = {round_no} ORDER BY segment")]
    assert [segment for segment, *_ in segments] == list(range(count))
    assert sum(capacity for _, _, capacity, _ in segments) == total
    by_orders = sold_by_orders(ledger, sku, round_no)
    assert {s: sold for s, _, _, sold in segments if sold} == dict(by_orders)
    assert all(0 <= sold <= capacity for _, _, capacity, sold in segments), segments
    units = ledger.number(f"SELECT COALESCE(SUM(qty), 0) FROM orders WHERE sku = '{sku}'"
                          f" AND round = {round_no} AND {HOLDING}")
    assert units == sum(by_orders.values()), "an order's allocations do not add up to its qty"
    audit_expiry(ledger, sku)
    return units


def audit_limits(ledger, sku):
    """No user of a sale with a limit has more units than allowed, and the units counted for a user
    are those of the user's orders."""
    counted = {user: (int(units), int(allowed)) for user, units, allowed in ledger.run(
        "SELECT user_id, units, allowed FROM user_quota JOIN sale USING (sku, round)"
        f" WHERE sku = '{sku}' AND per_user_limit IS NOT NULL AND units > 0")}
    ordered = {user: int(units) for user, units in ledger.run(
        "SELECT user_id, SUM(qty) FROM orders JOIN sale USING (sku, round)"
        f" WHERE sku = '{sku}' AND per_user_limit IS NOT NULL"
        " AND status IN ('reserved', 'paid') GROUP BY user_id")}
    assert {user: units for user, (units, _) in counted.items()} == ordered
    assert all(units <= allowed for units, allowed in counted.values()), counted


def audit_expiry(ledger, sku):
    """The expiry index leads to every reserved order that has a time to pay, and each entry covers
    at least one order."""
    among = "order_id BETWEEN e.first_id AND e.last_id AND o.expires_at = e.expires_at"
    assert ledger.number("SELECT COUNT(*) FROM orders o WHERE status = 'reserved'"
                         f" AND o.expires_at IS NOT NULL AND sku = '{sku}' AND NOT EXISTS"
                         f" (SELECT 1 FROM order_expiry e WHERE {among})") == 0
    assert ledger.number("SELECT COUNT(*) FROM order_expiry e WHERE NOT EXISTS"
                         f" (SELECT 1 FROM orders o WHERE {among})") == 0


def statuses(ledger, sku="demo"):
    """{status: (orders, units)} of the present round."""
    rows = ledger.run("SELECT status, COUNT(*), SUM(qty) FROM orders JOIN sale USING (sku, round)"
                      f" WHERE sku = '{sku}' GROUP BY status")
    return {status: (int(orders), int(units)) for status, orders, units in rows}


def audit_accepted(ledger, accepted):
    """Every order that a client was told of is in the ledger, with its qty, and told only once."""
    times = Counter(order_id for order_id, _ in accepted)
    assert all(count == 1 for count in times.values()), times.most_common(3)
    in_ledger = {order_id: int(qty) for order_id, qty in
                 ledger.run("SELECT order_id, qty FROM orders")}
    missing = [order for order in accepted if in_ledger.get(order[0]) != order[1]]
    assert not missing, f"{len(missing)} acknowledged orders not in the ledger: {missing[:5]}"


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


def audit(daemon, sku="demo", accepted=()):
    """Checks everything, while no order is under way. The daemon reconciles Redis first: a segment
    whose holder died may stay dirty until somebody wants it. Returns the units sold."""
    audit_accepted(daemon.stack.ledger, accepted)
    sold = audit_ledger(daemon.stack.ledger, sku)
    audit_limits(daemon.stack.ledger, sku)
    reconciled = answered(lambda: daemon.admin("POST", "/admin/reconcile", {"sku": sku}))
    assert reconciled.json()["consistent"], reconciled
    audit_redis(daemon.stack, sku)
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
