"""Orders that nobody pays in time expire by themselves, and their units are sold again."""

import random
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import pytest

from harness.audit import audit, audit_after_faults, sell_out, sell_out_after_faults, statuses
from harness.client import assert_problem, assert_refused
from harness.daemon import STEADY
from harness.ledger import numbers
from harness.processes import BUILD, wait_until

ELECTED = "event=expiry_worker_elected"


def sale(daemon, total, segments, pay_within_s):
    """A sale whose orders are to be paid within so many seconds; None: at any time."""
    daemon.reset("demo", total, segments, pay_within_s=pay_within_s)


def status(daemon, order_id):
    return daemon.get(f"/order/{order_id}").json()["status"]


def expired_by(*daemons):
    return sum(daemon.metric("seckill_orders_expired_total") for daemon in daemons)


def moment(text):
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%f%z")


def make_overdue(stack):
    """Ends the time to pay of all orders, however long it takes to sell them."""
    stack.ledger.run("UPDATE orders SET expires_at = '2020-01-01';"
                     " UPDATE order_expiry SET expires_at = '2020-01-01'")


def elected_of(pair):
    """(the daemon that expires orders, the other one). On a machine that stood still, both may have
    been elected before."""
    def find():
        found = [daemon for daemon in pair if daemon.metric("seckill_expiry_elected")]
        return found if len(found) == 1 else None
    first, = wait_until(find, "an election")
    return first, pair[1 - pair.index(first)]


def test_unpaid_orders_expire_and_paid_ones_do_not(pair):
    one, other = pair
    sale(one, 10, 5, 600)
    orders = [one.order(qty=qty, key=f"k{qty}").json() for qty in (1, 2, 5)]
    for order in orders:
        assert moment(order["expires_at"]) - moment(order["created_at"]) == timedelta(seconds=600)
        assert other.get(f"/order/{order['order_id']}").json()["expires_at"] == order["expires_at"]
    assert one.pay(orders[0]["order_id"]).status == 200
    assert len(sell_out(other)) == 2
    make_overdue(one.stack)
    for order in orders[1:]:
        wait_until(lambda: status(one, order["order_id"]) == "expired", "expiry of an order")
        response = one.pay(order["order_id"])
        assert_refused(response, "pay", "expired")
        assert_problem(one.cancel(order["order_id"], keep=1), 409, "invalid_state")
    wait_until(lambda: other.stock()["sold"] == 1, "expiry of the others")
    assert status(other, orders[0]["order_id"]) == "paid"
    wait_until(lambda: other.order().status == 201, "a sale of what came back")
    repeat = one.order(qty=5, key="k5")
    told = {**repeat.json(), "expires_at": orders[2]["expires_at"]}  # which make_overdue changed
    assert (repeat.status, told) == (200, {**orders[2], "status": "expired"})
    make_overdue(one.stack)
    wait_until(lambda: expired_by(*pair) == 5, "expiry of the last")
    assert audit(one) == 1


def test_operator_sees_which_daemon_is_elected(stack, spawn):
    pair = [spawn(stack, lease_ms=5000) for _ in range(2)]

    def proclaimed():
        shown = subprocess.run(
            [BUILD / "seclock", "--server", stack.redis_url, "--prefix", "seckill:",
             "status", "expirer"], capture_output=True, text=True, timeout=60, check=False).stdout
        return [line.split(":")[2] for line in shown.splitlines() if line.startswith("proclaims")]
    first, other = elected_of(pair)
    wait_until(lambda: proclaimed() == [str(first.process.pid)], "its process")
    first.kill()
    wait_until(lambda: proclaimed() == [str(other.process.pid)], "that of the other")


def test_order_whose_segment_was_busy_when_it_was_due_expires_later(daemon):
    stack = daemon.stack
    sale(daemon, 4, 1, 600)
    order_id = daemon.order(qty=3).json()["order_id"]
    wait_until(lambda: stack.redis("SET", "seckill:{demo:0}:lock", "elsewhere", "NX"), "the lock")
    make_overdue(stack)
    before = stack.redis.calls("evalsha")
    wait_until(lambda: stack.redis.calls("evalsha") > before + 400, "tries of several passes")
    assert status(daemon, order_id) == "reserved"
    stack.redis("DEL", "seckill:{demo:0}:lock")
    wait_until(lambda: status(daemon, order_id) == "expired", "its end")
    assert len(sell_out(daemon)) == 4
    assert audit(daemon) == 4


def test_sale_without_a_time_to_pay_has_none(daemon):
    sale(daemon, 40, 2, None)
    assert "expires_at" not in daemon.order().json()
    with ThreadPoolExecutor(32) as pool:
        list(pool.map(lambda _: daemon.order(), range(32)))
    ledger = daemon.stack.ledger
    assert ledger.number("SELECT COUNT(*) FROM orders WHERE expires_at IS NOT NULL") == 0
    assert ledger.number("SELECT COUNT(*) FROM order_expiry") == 0
    assert audit(daemon) == 33


def test_too_late_to_pay_even_if_nobody_has_expired_it(stack, spawn):
    daemon = spawn(stack, **STEADY)
    sale(daemon, 10, 2, 1)
    order_id = daemon.order().json()["order_id"]
    stack.redis("SET", "seckill:{expirer}:lock", "somebody", "PX", 600_000)
    make_overdue(stack)
    response = daemon.pay(order_id)
    assert_refused(response, "pay", response.json()["order_status"])
    stack.redis("DEL", "seckill:{expirer}:lock")
    wait_until(lambda: status(daemon, order_id) == "expired", "expiry")
    assert audit(daemon) == 0


def test_clock_that_is_set_back_loses_no_order(stack, proxies, spawn):
    """Between the look for what is due and that for its orders; of this one connection only."""
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url))
    sale(daemon, 10, 2, 600)
    order_id = daemon.order().json()["order_id"]
    wait_until(lambda: ELECTED in daemon.log(), "its election")
    stack.redis("SET", "seckill:{expirer}:lock", "somebody", "PX", 600_000)
    wait_until(lambda: "event=expiry_worker_lost_lock" in daemon.log(), "the end of its office")
    look = rb"last_id FROM order_expiry"

    def set_back(link):
        query = b"\3SET timestamp=1000000000"
        link.server.sendall(len(query).to_bytes(3, "little") + b"\0" + query)
        link.server.recv(1 << 16)
    make_overdue(stack)
    trap = proxy.once(look, after=set_back)
    stack.redis("DEL", "seckill:{expirer}:lock")
    trap.wait()
    proxy.once(look).wait()
    assert status(daemon, order_id) == "reserved"
    proxy.cut()
    wait_until(lambda: status(daemon, order_id) == "expired", "expiry once the clock is right")
    assert audit_after_faults(daemon) == 0


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("how", ["kill", "stop", "pause"])
def test_another_daemon_takes_over(stack, spawn, how):
    pair = spawn(stack), spawn(stack)
    first, second = elected_of(pair)
    sale(second, 30, 3, 600)
    getattr(first, how)()
    assert len(sell_out_after_faults(second)) == 30
    make_overdue(stack)
    wait_until(lambda: second.stock()["sold"] == 0, "expiry by the other daemon")
    wait_until(lambda: expired_by(second) == 30, "its count of them")
    if how == "pause":
        first.cont()
        wait_until(lambda: "event=expiry_worker_lost_lock" in first.log(), "the end of its office")
    assert len(sell_out_after_faults(second)) == 30
    make_overdue(stack)
    wait_until(lambda: second.stock()["sold"] == 0, "expiry once more")
    assert statuses(stack.ledger) == {"expired": (60, 60)}
    assert audit_after_faults(second) == 0


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("how", ["refuse", "hold"])
def test_daemon_cut_off_from_the_ledger_leaves_its_office(stack, proxies, spawn, how):
    """The daemon still reaches Redis, and would keep the lock for ever."""
    proxy = proxies(stack.ledger.port)
    first = spawn(stack, mysql_url=proxy.url(stack.mysql_url), mysql_timeout_ms=1000)
    wait_until(lambda: ELECTED in first.log(), "its election")
    second = spawn(stack)
    sale(second, 30, 3, 600)
    assert len(sell_out_after_faults(second)) == 30
    proxy.fail(how)
    make_overdue(stack)
    wait_until(lambda: second.stock()["sold"] == 0, "expiry by the other daemon")
    assert ELECTED in second.log()
    proxy.heal()
    assert audit_after_faults(second) == 0


def test_payments_race_expiry(pair):
    one, other = pair
    sale(one, 200, 4, 1)

    def buy_and_pay(n):
        order = pair[n % 2].order(qty=1 + n % 3).json()
        late = (moment(order["expires_at"]) - datetime.now(timezone.utc)).total_seconds()
        time.sleep(max(0, late + random.uniform(-0.1, 0.4)))
        return order["order_id"], pair[(n + 1) % 2].pay(order["order_id"]).status
    with ThreadPoolExecutor(24) as pool:
        paid = dict(pool.map(buy_and_pay, range(72)))
    assert set(paid.values()) <= {200, 409}
    ledger = one.stack.ledger
    wait_until(lambda: set(statuses(ledger)) <= {"paid", "expired"}, "the end of all orders")
    in_ledger = dict(ledger.run("SELECT order_id, status FROM orders"))
    assert {order_id: {"paid": 200, "expired": 409}[word]
            for order_id, word in in_ledger.items()} == paid
    assert audit(other) == statuses(ledger).get("paid", (0, 0))[1]


def settle(daemon):
    """Waits until every order that is to expire has expired."""
    wait_until(lambda: daemon.stack.ledger.number("SELECT COUNT(*) FROM order_expiry") == 0,
               "expiry of all that is unpaid")


@pytest.mark.long
@pytest.mark.parametrize("fault", ["kill", "flush", "reset"])
def test_units_go_round_under_load(stack, spawn, load, fault):
    """Sold, expired, sold again, by two daemons; the one that expires orders is killed, or Redis
    forgets everything, or the sale is reset; meanwhile some orders are paid and cancelled."""
    pair = spawn(stack), spawn(stack)
    sale(pair[0], 400, 10, 1)
    first, second = elected_of(pair)
    loads = [load(daemon, connections=4, qty=(1, 3), delay_ms=50, stop_after=10**9, seconds=250)
             for daemon in pair]
    paid, seen = {}, 0
    for turn in range(24):
        time.sleep(0.1)
        orders = loads[pair.index(second)].accepted[seen:]
        seen += len(orders)
        for order_id, _ in orders[-2:]:
            paid[order_id] = second.pay(order_id).status
        for order_id, _ in orders[-4:-2]:
            wait_until(lambda order_id=order_id: second.cancel(order_id).status in (200, 409),
                       "a cancel, for which a slow machine may have too little time")
        if turn == 10 and fault == "kill":
            first.kill()
        elif turn == 10 and fault == "flush":
            stack.redis("FLUSHALL")
        elif turn == 10:
            sale(second, 500, 7, 1)
    accepted = [order for one in loads for order in one.stop().accepted]
    total = second.stock()["total"]
    settle(second)
    in_ledger = dict(stack.ledger.run("SELECT order_id, status FROM orders"))
    assert {order_id for order_id, code in paid.items() if code == 200} == {
        order_id for order_id, word in in_ledger.items() if word == "paid"}
    holding = statuses(stack.ledger)
    assert set(holding) == {"paid", "cancelled", "expired"}
    assert sum(orders for orders, _ in holding.values()) > total / 3
    assert audit_after_faults(second, accepted=accepted) == holding["paid"][1]
    assert stack.ledger.number("SELECT COUNT(*) FROM orders") >= len(accepted)
    second.change(pay_within_s=None)
    assert len(sell_out_after_faults(second)) == total - holding["paid"][1]
    assert audit_after_faults(second) == total


def test_user_may_buy_again_what_was_not_paid(pair):
    one, other = pair
    one.reset("demo", 20, 4, pay_within_s=600, per_user_limit=3)
    order = one.order(user_id="alice", qty=2).json()
    assert other.order(user_id="alice", qty=2).answer == "409 limit_reached"
    assert other.order(user_id="alice", qty=1).status == 201
    make_overdue(one.stack)
    wait_until(lambda: other.order(user_id="alice", qty=3).status == 201, "room for three more")
    assert status(one, order["order_id"]) == "expired"
    make_overdue(one.stack)
    settle(one)
    assert audit(other) == 0


@pytest.mark.long
def test_stops_at_once_while_it_expires(stack, spawn):
    daemon = spawn(stack)
    sale(daemon, 8000, 20, 600)
    wait_until(lambda: ELECTED in daemon.log(), "its election")
    stack.ledger.run(
        "INSERT INTO orders(order_id, sku, round, user_id, qty, segment, created_at, expires_at)"
        " SELECT seq, 'demo', 1, 'u', 1, seq % 20, '2020-01-01', '2020-01-01'"
        f" FROM {numbers(8000)};"
        " INSERT INTO order_key(user_id, idempotency_key, order_id)"
        f" SELECT 'u', CONCAT('#', seq), seq FROM {numbers(8000)};"
        " UPDATE stock_segment SET sold = 400;"
        " INSERT INTO order_expiry VALUES ('2020-01-01', 1, 8000)")
    wait_until(lambda: expired_by(daemon) > 0, "the first to expire")
    daemon.stop()
    daemon.start()
    settle(daemon)
    assert statuses(stack.ledger) == {"expired": (8000, 8000)}
    assert audit_after_faults(daemon) == 0
