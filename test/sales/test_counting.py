"""A limit set in mid-sale counts each user's units: that may take long, and other sales go on."""

import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest

from harness.audit import answered, audit_after_faults, audit_sale
from harness.client import assert_problem
from harness.daemon import STEADY
from harness.ledger import numbers
from harness.processes import wait_until
from harness.proxy import COMMIT

FIRST = 1000  # id of the first order of fill
MEANWHILE = 20  # orders at each daemon during a counting
CHANGES_MAX = 1000  # that one client asks for, of which 20 must be made
PIECE = rb"UPDATE quota_count SET counted_to=\d"  # before its COMMIT


def fill(daemon, orders, users, expiring=0):
    """Writes that many orders of one unit each into the sale demo, of 20 segments. The last
    `expiring` of them expire in a second."""
    last = FIRST + orders - 1
    daemon.stack.ledger.run(f"""
        SET @soon = UTC_TIMESTAMP(3) + INTERVAL 1 SECOND;
        INSERT INTO orders(order_id, sku, round, user_id, qty, segment, created_at, expires_at)
        SELECT {FIRST} + seq - 1, 'demo', 1, CONCAT('filler-', CRC32(seq) % {users}), 1, seq % 20,
               UTC_TIMESTAMP(3), IF(seq > {orders - expiring}, @soon, NULL)
          FROM {numbers(orders)};
        INSERT INTO order_key(user_id, idempotency_key, order_id)
        SELECT user_id, CONCAT('#', order_id), order_id FROM orders WHERE sku = 'demo';
        INSERT INTO order_expiry SELECT @soon, {last - expiring + 1}, {last} WHERE {expiring} > 0;
        UPDATE stock_segment SET sold = {orders // 20}, fence = fence + 1 WHERE sku = 'demo'""")
    daemon.reconcile()


def is_counting(daemon):
    return daemon.stock().get("counting", False)


def miscounted(ledger):
    """Users whose counted units differ from their orders, and units of users without orders."""
    holding = "sku = 'demo' AND status IN ('reserved', 'paid')"
    return ledger.number(f"""
        SELECT COUNT(*) FROM (SELECT user_id, SUM(qty) AS had FROM orders WHERE {holding}
          GROUP BY user_id) o LEFT JOIN user_quota q ON q.sku = 'demo' AND q.round = 1
           AND q.user_id = o.user_id WHERE units IS NULL OR units <> had""") + ledger.number(f"""
        SELECT COALESCE((SELECT SUM(units) FROM user_quota WHERE sku = 'demo'), 0)
             - COALESCE((SELECT SUM(qty) FROM orders WHERE {holding}), 0)""")


@contextmanager
def counting_held(stack):
    """Within it the counting waits for a row that we have inserted, time and again."""
    with stack.ledger.transaction("INSERT INTO user_quota VALUES ('demo', 0, 'x', 0, 1, '')"):
        yield


def test_other_sales_do_not_notice(stack, spawn, load):
    """With the counting in one transaction they did: their orders waited in one batch with orders
    of the sale, as long as that took, and became outcome_unknown where the deadline came first."""
    pair = [spawn(stack) for _ in range(2)]
    pair[0].reset("demo", 1_000_000, 20)
    pair[0].reset("other", 1_000_000, 20)
    fill(pair[0], 8000, 8000)
    loads = [load(daemon, connections=4, seconds=120, delay_ms=20, users=8000) for daemon in pair]
    with counting_held(stack):
        changed = pair[0].admin("PATCH", "/admin/sale/demo", {"per_user_limit": 3})
        assert changed.status == 200 and changed.json()["counting"]
        for n in range(MEANWHILE):
            assert [daemon.order("other", f"u{n}").status for daemon in pair] == [201, 201]
        assert is_counting(pair[1])
    wait_until(lambda: pair[1].order(user_id="probe").answer in ("201", "409 limit_reached"),
               "the end of the counting")
    answers = [set(one.stop().answers) for one in loads]
    assert all("503 outcome_unknown" not in one for one in answers), answers
    assert miscounted(stack.ledger) == 0
    audit_sale(stack, "demo", allow_dirty=True)
    audit_sale(stack, "other", allow_dirty=True)


def test_order_of_a_sale_that_is_counted_may_be_tried_again(pair):
    """Its orders have ids from before the round, behind which they are first looked for."""
    one, other = pair
    one.reset("other")
    one.order("other")
    one.reset("demo", 1_000_000, 20)
    first = one.order(key="first").json()["order_id"]
    fill(one, 4000, 2000)
    one.stack.ledger.run("UPDATE stock_segment SET sold = sold + 1 WHERE segment ="
                         f" (SELECT segment FROM orders WHERE order_id = {first})")
    with counting_held(one.stack):
        assert one.change(per_user_limit=2)["counting"]
        for daemon in pair:
            assert_problem(daemon.order(), 503, "unavailable")
            assert_problem(daemon.order(key="second"), 503, "unavailable")
            repeat = daemon.order(key="first")
            assert (repeat.status, repeat.json()["order_id"]) == (200, first)
        paused = answered(lambda: other.admin("PATCH", "/admin/sale/demo", {"paused": True}))
        assert paused.json()["counting"]
        assert_problem(one.order(), 409, "sale_paused")
    wait_until(lambda: not is_counting(other), "the end of the counting")
    one.change(paused=False)
    assert other.order().status == 201
    assert_problem(one.order(), 409, "limit_reached")
    assert miscounted(one.stack.ledger) == 0


@pytest.mark.long
def test_counting_outlives_its_daemon_and_returned_orders(stack, proxies, spawn):
    """Orders are cancelled and expire while they are counted, by one daemon and then another: the
    first dies when it has counted a part of them."""
    proxy = proxies(stack.ledger.port)
    one = spawn(stack, mysql_url=proxy.url(stack.mysql_url))
    wait_until(lambda: one.metric("seckill_expiry_elected"), "its election")
    one.reset("demo", 1_000_000, 20)
    fill(one, 12_000, 4000, expiring=1000)
    picked = random.Random(12).sample(range(FIRST, FIRST + 11_000), 200)
    counted = []

    def die(_):
        counted.append(stack.ledger.number("SELECT counted_to FROM quota_count"))
        one.kill()
    proxy.once(PIECE, after=lambda _: proxy.once(
        PIECE, after=lambda _: proxy.once(COMMIT, after=die)))
    with suppress(ConnectionError):  # a slow call is answered, and its expiry worker goes on
        one.change(per_user_limit=2)
    wait_until(lambda: not one.running(), "its end")
    assert FIRST < counted[0] < FIRST + 11_000
    other = spawn(stack)
    with ThreadPoolExecutor(4) as pool:
        answers = Counter(pool.map(lambda order_id: other.cancel(order_id).answer, picked))
    assert set(answers) <= {"200", "503 unavailable"}, answers
    wait_until(lambda: not is_counting(other), "the end of the counting")
    one.start()
    ledger = one.stack.ledger
    wait_until(lambda: ledger.number("SELECT COUNT(*) FROM orders WHERE status = 'expired'")
               == 1000, "the end of the orders that are due", pause=0.1)
    assert miscounted(ledger) == 0
    assert one.order(user_id="new").status == 201
    audit_after_faults(other)


def test_orders_go_on_beside_a_flood_of_changes(stack, spawn):
    """The sale has a limit from the beginning, so none of them closes it."""
    daemon = spawn(stack, **STEADY)
    daemon.reset("demo", 100_000, 20, per_user_limit=5)
    over, changes = threading.Event(), []

    def change():
        try:
            for n in range(CHANGES_MAX):
                limit = 5 + n % 4
                changed = daemon.admin("PATCH", "/admin/sale/demo", {"per_user_limit": limit})
                changes.append(changed.status)
                if over.is_set():
                    return
        finally:
            over.set()

    def buy(n):
        answers = Counter()
        while not over.is_set() and (answers.total() < 10 or changes.count(200) < 20):
            i = answers.total()
            order = daemon.order(user_id=f"u{n}-{i}", key=f"k{i}" if n % 2 else None)
            answers[order.status] += 1
        return answers
    with ThreadPoolExecutor(20) as pool:
        changers = [pool.submit(change) for _ in range(4)]
        try:
            orders = sum(pool.map(buy, range(16)), Counter())
        finally:
            over.set()
        for changer in changers:
            changer.result()
    assert set(orders) == {201}, (orders, Counter(changes))
    assert changes.count(200) >= 20, Counter(changes)
