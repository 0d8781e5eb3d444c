"""Fills the ledger with an earlier sale, and asks it for times."""

from harness.ledger import numbers

PAST_SKU = "past"
CHUNK = 100_000
FILL = """
SET unique_checks = 0;
INSERT INTO orders (order_id, sku, round, user_id, qty, segment, status, created_at)
    SELECT id, '{sku}', 1, CONCAT('u', id), 1, id % {segments}, 'reserved', '2026-01-01'
    FROM {ids};
INSERT INTO order_key (user_id, idempotency_key, order_id)
    SELECT CONCAT('u', id), CONCAT('#', id), id FROM {ids};
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
    for before in range(0, orders, CHUNK):
        ids = f"(SELECT {before} + seq id FROM {numbers(min(CHUNK, orders - before))}) ids"
        stack.ledger.run(FILL.format(sku=PAST_SKU, segments=segments, ids=ids), timeout=None)
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
