"""Fills the ledger with an earlier sale, and asks it for times."""

PAST_SKU = "past"
CHUNK = 1_000_000
FILL = """
SET unique_checks = 0;
INSERT INTO orders (order_id, sku, round, user_id, qty, segment, status, created_at)
    SELECT seq, '{sku}', 1, CONCAT('u', seq), 1, seq % {segments}, 'reserved', '2026-01-01'
    FROM seq_{first}_to_{last};
INSERT INTO order_key (user_id, idempotency_key, order_id)
    SELECT CONCAT('u', seq), CONCAT('#', seq), seq FROM seq_{first}_to_{last};
"""
SOLD = """
UPDATE stock_segment s JOIN
    (SELECT segment, COUNT(*) units FROM orders WHERE sku = '{sku}' GROUP BY segment) o
    USING (segment) SET s.sold = o.units WHERE s.sku = '{sku}';
"""


def fill(stack, fleet, orders, segments, tick):
    """Makes a sale that has sold `orders` units to as many customers. The daemon then takes its
    segments over from the ledger, as it would after a loss of Redis."""
    fleet.reset(PAST_SKU, orders, segments)
    for first in range(1, orders + 1, CHUNK):
        last = min(first + CHUNK - 1, orders)
        stack.ledger.run(FILL.format(sku=PAST_SKU, segments=segments, first=first, last=last),
                         timeout=None)
        tick()
    stack.ledger.run(SOLD.format(sku=PAST_SKU), timeout=None)
    fleet.reconcile(PAST_SKU)


def sale_seconds(stack, sku):
    """From the first order of a sale's present round to its last."""
    rows = stack.ledger.run(f"""
        SELECT TIMESTAMPDIFF(MICROSECOND, MIN(o.created_at), MAX(o.created_at)) / 1e6
        FROM orders o JOIN sale USING (sku, round) WHERE o.sku = '{sku}'""")
    return max(float(rows[0][0]), 0.001)


def deferred(ledger):
    """Work that the service has put off: reserved orders whose time to pay is over."""
    return {"overdue": ledger.number("SELECT COUNT(*) FROM orders WHERE status = 'reserved'"
                                     " AND expires_at < UTC_TIMESTAMP(3)")}
