"""Compares sales in the ledger, counters in Redis and orders that clients saw accepted, by
SQL and Redis commands: a daemon might misread its tables. Tests also ask the daemon, and assert."""

import os
import subprocess
import time
from collections import Counter
from urllib.parse import unquote, urlsplit

from harness.daemon import STEADY
from harness.ledger import Ledger
from harness.processes import HarnessError, wait_until

IDS_SHOWN_MAX = 5
CLIENT_TIMEOUT_S = 120
SETTLE_S_MAX = 10
RETRIES_MAX = 200  # of orders while the service recovers
# Segments that the service rebuilds from the ledger before it sells from them again.
AWAITING_RECOVERY = {"dirty", "missing", "damaged", "round", "stale"}

LEDGER_QUERY = """
SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ;
START TRANSACTION WITH CONSISTENT SNAPSHOT;
SELECT 'sale', sku, round, total, segments FROM sale WHERE sku IN ({skus});
SELECT 'segment', sku, segment, round, capacity, sold, fence FROM stock_segment
    WHERE sku IN ({skus});
SELECT 'state', o.sku, o.status, COUNT(*), SUM({held})
    FROM orders o JOIN sale s USING (sku, round)
    WHERE o.sku IN ({skus}) GROUP BY o.sku, o.status;
SELECT 'over_limit', sku, COUNT(*) FROM user_quota JOIN sale s USING (sku, round)
    WHERE sku IN ({skus}) AND units > allowed AND s.per_user_limit IS NOT NULL GROUP BY sku;
SELECT 'miscounted', sku, COUNT(*) FROM (
    SELECT sku, user_id FROM (
        SELECT sku, user_id, units FROM user_quota JOIN sale s USING (sku, round)
            WHERE sku IN ({skus}) AND s.per_user_limit IS NOT NULL
        UNION ALL
        SELECT sku, user_id, -CAST({held} AS SIGNED) FROM orders o JOIN sale s USING (sku, round)
            WHERE o.sku IN ({skus}) AND {held} > 0 AND s.per_user_limit IS NOT NULL) counts
    GROUP BY sku, user_id HAVING SUM(units) <> 0) differing GROUP BY sku;
SELECT 'repeated', o.sku, COUNT(*) - COUNT(DISTINCT o.user_id, o.idempotency_key) FROM orders o
    WHERE o.sku IN ({skus}) AND o.idempotency_key IS NOT NULL AND {kept} GROUP BY o.sku;
SELECT 'unkeyed', o.sku, COUNT(*) FROM orders o
    LEFT JOIN order_key k ON k.user_id = o.user_id
        AND k.idempotency_key = COALESCE(o.idempotency_key, CONCAT('#', o.order_id))
    WHERE o.sku IN ({skus}) AND {kept}
    AND (k.order_id IS NULL OR k.order_id <> o.order_id) GROUP BY o.sku;
SELECT 'without_expiry', o.sku, COUNT(*) FROM orders o
    LEFT JOIN order_expiry e
    ON e.expires_at = o.expires_at + INTERVAL COALESCE(o.grace_s, 0) SECOND
    AND o.order_id BETWEEN e.first_id AND e.last_id
    WHERE o.sku IN ({skus}) AND o.status = 'reserved' AND o.expires_at IS NOT NULL
    AND e.first_id IS NULL GROUP BY o.sku;
SELECT 'without_order', {first}, COUNT(*) FROM order_expiry e LEFT JOIN orders o
    ON o.order_id = e.first_id
    AND (o.expires_at + INTERVAL COALESCE(o.grace_s, 0) SECOND >= e.expires_at
         OR EXISTS (SELECT 1 FROM payment f WHERE f.order_id = o.order_id AND f.state = 'failed'))
    WHERE o.order_id IS NULL;
SELECT 'unmatched', o.sku, COUNT(DISTINCT o.order_id) FROM orders o
    JOIN payment p USING (order_id) LEFT JOIN refund_due d USING (order_id, payment_ref)
    WHERE o.sku IN ({skus}) AND (
        p.state = 'taken' AND o.status <> 'paid'
        OR p.outcome IN ('in_time', 'retaken') AND p.state <> 'failed' AND {unpaid_since}
            AND (p.state <> 'taken' OR o.status <> 'paid')
            AND (p.state <> 'refunded' OR o.status <> 'refunded')
        OR (p.state = 'refund_due') <> (d.order_id IS NOT NULL)) GROUP BY o.sku;
SELECT 'paid_twice', sku, COUNT(*) FROM (SELECT o.sku, order_id FROM payment p
    JOIN orders o USING (order_id) WHERE o.sku IN ({skus}) AND p.state = 'taken'
    GROUP BY o.sku, order_id HAVING COUNT(*) > 1) twice GROUP BY sku;
SELECT 'unpaid_refund', o.sku, COUNT(*) FROM orders o
    LEFT JOIN payment p ON p.order_id = o.order_id AND p.state = 'refunded'
    WHERE o.sku IN ({skus}) AND o.status = 'refunded' AND p.order_id IS NULL GROUP BY o.sku;
SELECT 'money', o.sku, p.state, COUNT(*), 0 FROM payment p JOIN orders o USING (order_id)
    WHERE o.sku IN ({skus}) GROUP BY o.sku, p.state;
COMMIT;
"""
HOLDING_STATES = ("reserved", "paid")  # of orders that have units
STATES = (*HOLDING_STATES, "cancelled", "expired", "refunded")
# Units of an order that count as sold: its own, and those refunded and not put back on sale.
HELD = f"(IF(o.status IN {HOLDING_STATES}, o.qty, 0) + COALESCE(o.unreturned, 0))"
# No other payment of the order pays it, or has failed after it had.
UNPAID_SINCE = """NOT EXISTS (SELECT 1 FROM payment f WHERE f.order_id = p.order_id
    AND f.payment_ref <> p.payment_ref AND f.state IN ('taken', 'failed'))"""
# The service still has the order's key: retention_days deletes the keys of rounds long over.
KEPT = """NOT EXISTS (SELECT 1 FROM sale_round r WHERE r.sku = o.sku AND r.round = o.round
    AND (r.step <> 'keys' OR r.purged_to > 0))"""
# Of all sales: a load of several skus keeps one list of the orders that it saw.
QUANTITIES_QUERY = "SELECT order_id, COALESCE(ordered, qty) FROM orders"

# Rows that must not be, by the name of the query that counts them.
FAULTS = {"over_limit": "users who have more than their limit",
          "miscounted": "users whose counted units differ from their orders",
          "repeated": "orders that repeat an idempotency key",
          "unkeyed": "orders that neither a key nor their user leads to",
          "without_expiry": "reserved orders that would never expire",
          "without_order": "entries of the expiry index, of any sale, that cover no order",
          "unmatched": "orders that contradict their payments",
          "paid_twice": "orders that two payments have paid",
          "unpaid_refund": "orders that are refunded without a payment"}


# --- The ledger and Redis -----------------------------------------------------------------------

def read_ledger(url, skus):
    """{sku: what the ledger has of its sale}"""
    names = ",".join(f"'{sku}'" for sku in skus)
    ledgers = {sku: {"segments": {}, "orders": 0, "ordered": 0, "states": {}, "money": {},
                     **dict.fromkeys(FAULTS, 0)} for sku in skus}
    query = LEDGER_QUERY.format(skus=names, first=f"'{skus[0]}'", held=HELD, kept=KEPT,
                                unpaid_since=UNPAID_SINCE)
    for kind, sku, *cells in Ledger(url).run(query, timeout=CLIENT_TIMEOUT_S):
        state = cells.pop(0) if kind in ("state", "money") else None
        add_row(ledgers[sku], kind, [int(cell) for cell in cells], state)
    unknown = [sku for sku, ledger in ledgers.items() if "round" not in ledger]
    if unknown:
        raise HarnessError(f"the ledger has no sale {some(unknown)}")
    return ledgers


def add_row(ledger, kind, numbers, state):
    if kind == "sale":
        ledger["round"], ledger["total"], ledger["segment_count"] = numbers
    elif kind == "segment":
        names = ("round", "capacity", "sold", "fence")
        ledger["segments"][numbers[0]] = dict(zip(names, numbers[1:]))
    elif kind == "state":
        ledger["states"][state] = numbers[0]
        ledger["orders"] += numbers[0] if state in HOLDING_STATES else 0
        ledger["ordered"] += numbers[1]
    elif kind == "money":
        ledger["money"][state] = numbers[0]
    else:
        ledger[kind] = numbers[0]


def ask_redis(url, commands):
    """The lines of what Redis answers. Any server of a cluster leads to the others."""
    parts = urlsplit(url)
    if parts.scheme != "redis+cluster":
        return ask_server(url, commands)
    login, at, places = parts.netloc.rpartition("@")
    failure = None
    for place in places.split(","):
        try:
            found = ask_server(f"redis://{login}{at}{place}", commands, "-c")
            return [line for line in found if not line.startswith("-> Redirected to slot")]
        except HarnessError as error:
            failure = error
    raise failure


def ask_server(url, commands, *options):
    parts = urlsplit(url)
    argv = ["redis-cli", *options, "--raw", "-h", parts.hostname or "127.0.0.1", "-p",
            str(parts.port or 6379), "-n", parts.path.strip("/") or "0"]
    env = {}
    if parts.password:
        env["REDISCLI_AUTH"] = unquote(parts.password)
        if parts.username:
            argv += ["--user", unquote(parts.username)]
    try:
        done = subprocess.run(argv, input="PING\n" + commands, capture_output=True, text=True,
                              timeout=CLIENT_TIMEOUT_S, env={**os.environ, **env}, check=False,
                              start_new_session=True)  # Ctrl-C is for the caller to act upon
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HarnessError(f"{argv[0]}: {error}") from error
    pong, *lines = done.stdout.splitlines() or [""]
    if done.returncode != 0 or pong != "PONG":
        raise HarnessError(f"redis-cli: {done.stderr.strip() or pong}")
    return lines


def read_redis(url, segments):
    """For each (sku, segment) None or a dict of its hash."""
    names = ("available", "round", "open", "settled")
    commands = "".join(f"HMGET seckill:{{{sku}:{n}}}:segment {' '.join(names)}\n"
                       for sku, n in segments)
    lines = ask_redis(url, commands)
    if len(lines) != len(names) * len(segments):
        raise HarnessError(f"redis-cli: unexpected answer {lines[:2]}")
    found = {}
    for place, segment in enumerate(segments):
        fields = dict(zip(names, lines[place * len(names):]))
        found[segment] = fields if fields["available"] != "" else None
    return found


# --- Differences --------------------------------------------------------------------------------

def units_left(cached):
    """None when Redis has no segment, or no number in it: somebody may have written there."""
    try:
        return int(cached["available"]) if cached else None
    except ValueError:
        return None


def segment_state(row, cached):
    """'' when Redis and the ledger agree, else a word for their difference."""
    if cached is None:
        return "missing"
    if units_left(cached) is None:
        return "damaged"
    if cached["open"] != "":
        return "dirty"
    if cached["round"] != str(row["round"]):
        return "round"
    if cached["settled"] != str(row["fence"]):
        return "stale"
    return "" if units_left(cached) == row["capacity"] - row["sold"] else "mismatch"


def segment_rows(sku, ledger, redis):
    for number, row in sorted(ledger["segments"].items()):
        cached = redis[sku, number]
        yield {"segment": number, **row,
               "left": units_left(cached),
               "state": segment_state(row, cached)}


def segment_differences(row, round_now, allow_dirty):
    where = f"segment {row['segment']}"
    if row["round"] != round_now:
        yield f"{where}: the ledger has it in round {row['round']}, the sale in {round_now}"
    if row["sold"] > row["capacity"]:
        yield f"{where}: oversold, {row['sold']} of {row['capacity']}"
    if row["state"] == "mismatch":
        yield (f"{where}: Redis has {row['left']} left, the ledger "
               f"{row['capacity'] - row['sold']}")
    elif row["state"] and not allow_dirty:
        yield f"{where}: {row['state']} in Redis"


def ledger_differences(ledger):
    capacity = sum(row["capacity"] for row in ledger["segments"].values())
    sold = sum(row["sold"] for row in ledger["segments"].values())
    if sorted(ledger["segments"]) != list(range(ledger["segment_count"])):
        yield f"{ledger['segment_count']} segments in the sale, {len(ledger['segments'])} rows"
    if capacity != ledger["total"]:
        yield f"total {ledger['total']}, capacity of the segments {capacity}"
    if sold > ledger["total"]:
        yield f"oversold: {sold} of {ledger['total']}"
    if sold != ledger["ordered"]:
        yield f"{sold} units sold, {ledger['ordered']} held by orders"
    for state in sorted(ledger["states"].keys() - set(STATES)):
        yield f"{ledger['states'][state]} orders are {state!r}, which no order may be"
    for kind, fault in FAULTS.items():
        if ledger[kind]:
            yield f"{ledger[kind]} {fault}"


def some(ids):
    shown = sorted(ids)
    return ", ".join(shown[:IDS_SHOWN_MAX]) + (", …" if len(shown) > IDS_SHOWN_MAX else "")


def acked_differences(acked, known):
    """acked: (id, quantity or None); known: quantities by id."""
    times = Counter(order for order, _ in acked)
    missing = [order for order in times if order not in known]
    twice = [order for order, count in times.items() if count > 1]
    other = [order for order, qty in acked if qty is not None and known.get(order, qty) != qty]
    for orders, fault in ((missing, "acknowledged orders are not in the ledger"),
                          (twice, "orders were acknowledged as new more than once"),
                          (other, "acknowledged orders have another quantity in the ledger")):
        if orders:
            yield f"{len(orders)} {fault}: {some(orders)}"


def sale_report(sku, ledger, redis, allow_dirty):
    rows = list(segment_rows(sku, ledger, redis))
    differences = list(ledger_differences(ledger))
    for row in rows:
        differences += segment_differences(row, ledger["round"], allow_dirty)
    return {"sku": sku, "round": ledger["round"], "total": ledger["total"],
            "orders": ledger["orders"], "ordered": ledger["ordered"], "states": ledger["states"],
            "money": ledger["money"],
            "sold": sum(row["sold"] for row in rows),
            "oversold": max(ledger["ordered"] - ledger["total"], 0),
            "awaiting_recovery": sum(row["state"] in AWAITING_RECOVERY for row in rows),
            "acked": None, "segments": rows, "differences": differences}


def several(sales):
    """One report of several sales, with the report of each in it."""
    report = {name: sum(sale[name] for sale in sales)
              for name in ("total", "orders", "ordered", "sold", "oversold", "awaiting_recovery")}
    differences = [f"{sale['sku']}: {text}" for sale in sales for text in sale["differences"]]
    report["states"] = dict(sum((Counter(sale["states"]) for sale in sales), Counter()))
    return {**report, "acked": None, "sales": sales, "differences": differences}


def audit_sales(urls, skus, acked=None, states_min=(), allow_dirty=False):
    """The report of sales, with all `differences`, the units `oversold`, and the number of orders
    `lost`: accepted, as clients saw it, but not in the ledger. urls: of the ledger and of Redis.
    acked: orders that clients saw accepted, as (id, quantity or None); None: nobody kept them. For
    each (state, number) of states_min so many orders must be in that state. Segments that await
    recovery are differences unless allow_dirty."""
    mysql_url, redis_url = urls
    ledgers = read_ledger(mysql_url, skus)
    redis = read_redis(redis_url, [(sku, number) for sku, ledger in ledgers.items()
                                   for number in sorted(ledger["segments"])])
    sales = [sale_report(sku, ledger, redis, allow_dirty) for sku, ledger in ledgers.items()]
    report = sales[0] if len(sales) == 1 else several(sales)
    differences = report["differences"]
    report["lost"] = 0
    if acked is not None:
        report["acked"] = len({order for order, _ in acked})
        known = {order: int(qty) for order, qty in
                 Ledger(mysql_url).run(QUANTITIES_QUERY, timeout=CLIENT_TIMEOUT_S)}
        differences += acked_differences(acked, known)
        report["lost"] = sum(order not in known for order in {order for order, _ in acked})
    for state, least in states_min:
        found = report["states"].get(state, 0)
        if found < least:
            differences.append(f"{least} orders were answered as {state}, {found} are")
    report["consistent"] = not differences
    return report


def of_pods(reports):
    """One report of several pods."""
    sales = [sale for report in reports for sale in report.get("sales", [report])]
    report = {**several(sales), "lost": 0}
    report["consistent"] = not report["differences"]
    return report


def audit_until_settled(wait_s, *what, **options):
    """Repeats the audit for a while: rounds under way when the load ended may need a moment, and a
    server that has just become a replica or a master ends its connections."""
    end = time.monotonic() + wait_s
    while True:
        try:
            report = audit_sales(*what, **options)
            if report["consistent"] or time.monotonic() >= end:
                return report
        except HarnessError:
            if time.monotonic() >= end:
                raise
        time.sleep(0.1)


# --- Assertions of tests ------------------------------------------------------------------------

def sold_by_orders(ledger, sku, round_no):
    """The units of one round as its orders add up."""
    return ledger.number(f"SELECT COALESCE(SUM({HELD}), 0) FROM orders o WHERE"
                         f" sku = '{sku}' AND round = {round_no}")


def statuses(ledger, sku="demo"):
    """{status: (orders, units)} of the present round."""
    rows = ledger.run("SELECT status, COUNT(*), SUM(qty) FROM orders JOIN sale USING (sku, round)"
                      f" WHERE sku = '{sku}' GROUP BY status")
    return {status: (int(orders), int(units)) for status, orders, units in rows}


def answered(call, *others):
    """Repeats a call until its answer is not 503: the service may still be recovering, or its disk
    be slower than its deadline. The answer's status is an ordinary one, or one of the others."""
    response = wait_until(lambda: [r for r in [call()] if r.status != 503], "an answer")[0]
    assert response.status in (200, 201, 404, *others), response
    return response


def audit_sale(stack, sku, accepted=(), allow_dirty=False):
    """Asserts that ledger, Redis and clients agree. Returns the units sold. A worker answers
    an order before it settles its batch, so the audit waits for a moment, but no lease may run out
    meanwhile."""
    report = audit_until_settled(SETTLE_S_MAX, (stack.mysql_url, stack.redis_url), [sku],
                                 acked=list(accepted), allow_dirty=allow_dirty)
    assert report["consistent"], report["differences"]
    return report["sold"]


def audit_stock(daemon, sku, sold):
    stock = answered(lambda: daemon.admin("GET", f"/admin/stock/{sku}")).json()
    assert (stock["sold"], stock["available"]) == (sold, stock["total"] - sold)


def audit(daemon, sku="demo", accepted=(), changed=False):
    """The audit at the end of a test without faults, while no order is under way. Redis must be as
    the ledger says, though nobody reconciled and no daemon of the test recovered a segment.
    changed: the sale was reset, reconciled or its settings changed while it sold, which dirties
    segments.
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


def audit_after_faults(daemon, sku="demo", accepted=(), leaks=False):
    """The audit at the end of a test with faults. First of Redis as they left it: a segment may be
    dirty or stale, for its holder died, but one that Redis calls settled has what the ledger has
    left. Then the daemon reconciles Redis, which must make all segments so, unless one of its locks
    runs out meanwhile, as its answer says. leaks: a strategy for
    comparison left Redis behind, whose units stay away until a reconcile."""
    if not leaks:
        audit_sale(daemon.stack, sku, accepted=accepted, allow_dirty=True)
    wait_until(lambda: answered(lambda: daemon.admin("POST", "/admin/reconcile", {"sku": sku}))
               .json()["consistent"], "a reconcile that keeps its locks")
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
    """Sells out while the service may still be recovering."""
    return sell_out(daemon, sku, RETRIES_MAX)
