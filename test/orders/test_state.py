"""Payments and cancels: each order changes once, and its units can be sold again at once."""

import re
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.audit import (answered, audit, audit_after_faults, sell_out, sell_out_after_faults,
                           statuses)
from harness.client import assert_problem, assert_refused
from harness.daemon import STEADY
from harness.processes import wait_until
from harness.proxy import COMMIT, SEGMENT_LOCK, Link, kill_at
from harness.standstill import timed

MOVE = rb"UPDATE orders"  # the changes of a payment or a return, before their COMMIT


def test_paid_and_cancelled_orders_are_shown_and_stay(pair):
    one, other = pair
    one.reset("demo", 10, 5)
    whole, several = one.order(qty=2).json(), one.order(qty=7).json()
    for daemon in (one, other, one):
        assert daemon.pay(whole["order_id"]).json() == {**whole, "status": "paid"}
        response = daemon.cancel(several["order_id"])
        assert (response.status, response.json()) == (200, {**several, "status": "cancelled"})
        assert daemon.get(f"/order/{whole['order_id']}").json()["status"] == "paid"
        assert daemon.get(f"/order/{several['order_id']}").json()["status"] == "cancelled"
        assert_refused(daemon.cancel(whole["order_id"]), "cancel", "paid")
        assert_refused(daemon.pay(several["order_id"]), "pay", "cancelled")
    assert len(sell_out(other)) == 8
    assert audit(one) == 10
    counted = Counter()
    for daemon in pair:
        counted["paid"] += daemon.metric("seckill_orders_paid_total")
        counted["cancelled"] += daemon.metric("seckill_orders_cancelled_total")
    assert counted == {"paid": 1, "cancelled": 1}


def test_cancel_ends_the_memory_of_a_sold_out_sale_everywhere(pair):
    one, other = pair
    one.reset("demo", 20, 4)
    orders = sell_out(one)
    for daemon in pair:
        assert daemon.order().answer == "409 sold_out"
    for order_id, _ in orders[:3]:
        assert one.cancel(order_id).status == 200
        wait_until(lambda: other.order().status == 201, "a sale of the unit at the other daemon")
        assert one.order().answer == "409 sold_out"
    assert audit(other) == 20


def test_every_daemon_is_told_of_a_return(stack, pair):
    pair[0].reset("demo", 4, 1)
    orders = [pair[0].order().json()["order_id"] for _ in range(2)]
    for order_id in orders:
        before = stack.redis.calls("publish")
        assert pair[1].cancel(order_id).status == 200
        assert stack.redis.calls("publish") == before + 1
    assert audit(pair[0]) == 0


def test_unit_that_comes_back_while_the_ledger_is_asked_for_units_is_sold(stack, proxies, spawn):
    """The answer, that the sale is sold out, was right and is no more."""
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url), **STEADY)
    daemon.reset("demo", 4, 1)
    orders = [daemon.order().json()["order_id"] for _ in range(4)]
    trap = proxy.once(rb"fence FROM stock_segment WHERE sku='demo' ORDER BY segment",
                      after=lambda link: daemon.cancel(orders[0]))
    assert daemon.order().answer in ("409 sold_out", "201")
    trap.wait()
    left = daemon.stock()["available"]
    assert [daemon.order().status for _ in range(2)] == [201] * left + [409] * (2 - left)
    assert audit(daemon) == 4


def scripts_run(stack):
    return int(re.search(rb"cmdstat_evalsha:calls=(\d+)", stack.redis("INFO", "commandstats"))[1])


def test_cancels_that_wait_for_a_segment_let_other_calls_go_first(stack, spawn):
    daemon = spawn(stack, deadline_ms=60_000, **STEADY)
    daemon.reset("demo", 10, 1)
    ids = [daemon.order().json()["order_id"] for _ in range(5)]
    wait_until(lambda: stack.redis("SET", "seckill:{demo:0}:lock", "elsewhere", "NX"), "the lock")
    before = scripts_run(stack)
    with ThreadPoolExecutor(4) as clients:
        cancels = [clients.submit(daemon.cancel, order_id) for order_id in ids[:4]]
        wait_until(lambda: scripts_run(stack) > before + 50, "cancels that try again")
        assert daemon.pay(ids[4]).status == 200
        assert not any(cancel.done() for cancel in cancels)
        stack.redis("DEL", "seckill:{demo:0}:lock")
        assert [cancel.result().status for cancel in cancels] == [200] * 4
    assert audit(daemon) == 1


@pytest.mark.parametrize("how", ["cancel", "expire"])
def test_units_come_back_while_the_segment_they_were_taken_from_is_locked(daemon, how):
    """Units have no home: other segments take them in, and they are sold again from there."""
    stack = daemon.stack
    daemon.reset("demo", 12, 4, pay_within_s=600)
    orders = [daemon.order(user_id=f"u{n}").json() for n in range(12)]
    segment = orders[0]["segment"]
    ids = [order["order_id"] for order in orders if order["segment"] == segment]
    lock = f"seckill:{{demo:{segment}}}:lock"
    wait_until(lambda: stack.redis("SET", lock, "elsewhere", "NX", "PX", 600_000), "the lock")
    if how == "cancel":
        assert [daemon.cancel(order_id).status for order_id in ids] == [200] * 3
    else:
        listed = ",".join(ids)
        stack.ledger.run("UPDATE orders SET expires_at = '2020-01-01'"
                         f" WHERE order_id IN({listed});"
                         " UPDATE order_expiry SET expires_at = '2020-01-01'"
                         f" WHERE first_id IN({listed})")
        wait_until(lambda: statuses(stack.ledger).get("expired") == (3, 3), "their end")
    held = stack.ledger.run(f"SELECT sold FROM stock_segment WHERE segment = {segment}")
    assert (daemon.stock()["available"], held) == (3, [("3",)])
    wait_until(lambda: daemon.order(user_id="next").status == 201, "a sale of what came back")
    assert len(sell_out(daemon)) == 2
    assert stack.redis("GET", lock) == b"elsewhere"
    stack.redis("DEL", lock)
    assert audit(daemon) == 12


def test_older_rounds_orders_give_nothing_back(pair):
    one, other = pair
    one.reset("demo", 10, 5)
    old = [one.order(qty=qty).json()["order_id"] for qty in (1, 6)]
    one.reset("demo", 4, 2)
    one.stack.wait_rounds_ended()
    one.stack.ledger.run("UPDATE orders SET status = 'reserved'")  # as before they are expired
    assert other.cancel(old[0]).status == one.cancel(old[1]).status == 200
    assert len(sell_out(one)) == 4
    assert audit(one) == 4


def test_racing_cancels_of_two_daemons_return_units_once(pair):
    pair[0].reset("demo", 60, 4)
    orders = [pair[0].order(qty=1 + n % 3).json() for n in range(24)]
    calls = [(n, order["order_id"]) for order in orders for n in range(4)]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda call: pair[call[0] % 2].cancel(call[1]).answer, calls))
    assert Counter(answers) == {"200": len(calls)}
    assert sum(daemon.metric("seckill_orders_cancelled_total") for daemon in pair) == 24
    assert len(sell_out(pair[0])) == 60
    assert audit(pair[1]) == 60


def test_payment_races_cancel(pair):
    one, other = pair
    one.reset("demo", 60, 4)
    orders = [one.order().json()["order_id"] for _ in range(40)]
    with ThreadPoolExecutor(16) as pool:
        paid = [pool.submit(one.pay, order_id) for order_id in orders]
        cancelled = [pool.submit(other.cancel, order_id) for order_id in orders]
    for paying, cancelling in zip(paid, cancelled):
        answers = (paying.result().answer, cancelling.result().answer)
        assert answers in (("200", "409 invalid_state"), ("409 invalid_state", "200")), answers
    paid = sum(call.result().status == 200 for call in paid)
    assert statuses(one.stack.ledger).get("paid", (0, 0)) == (paid, paid)
    assert audit(one) == paid


def all_at_once(calls, clients=64):
    """The results of all calls, begun at the same moment as far as clients go."""
    with ThreadPoolExecutor(clients) as pool:
        return [one.result() for one in [pool.submit(call, *rest) for call, *rest in calls]]


def test_each_of_many_look_ups_gets_its_own_order(pair):
    pair[0].reset("demo", 400, 8)
    orders = [pair[n % 2].order(user_id=f"u{n}", qty=60 if n % 10 == 0 else 1).json()
              for n in range(30)]
    calls = [(daemon.get, f"/order/{order['order_id']}") for order in orders for daemon in pair * 4]
    unknown = [(daemon.get, "/order/1") for daemon in pair * 20]
    answers = all_at_once(calls + unknown)
    for (_, path), response in zip(calls, answers):
        order = next(order for order in orders if path.endswith(order["order_id"]))
        assert (response.status, response.json()) == (200, {**order, "version": 1})
    assert {response.answer for response in answers[len(calls):]} == {"404 unknown_order"}


def test_many_payments_of_the_same_orders_count_once(pair):
    pair[0].reset("demo", 100, 4)
    ids = [pair[0].order(qty=1 + n % 2).json()["order_id"] for n in range(40)]

    def pay_and_look(daemon, other, order_id):
        response = daemon.pay(order_id)
        seen = other.get(f"/order/{order_id}").json()["status"]
        return response.answer, response.json()["status"], seen
    calls = [(pay_and_look, pair[n % 2], pair[(n + 1) % 2], order_id)
             for n in range(3) for order_id in ids]
    assert set(all_at_once(calls)) == {("200", "paid", "paid")}
    assert sum(daemon.metric("seckill_orders_paid_total") for daemon in pair) == 40
    assert statuses(pair[0].stack.ledger)["paid"] == (40, 60)
    assert audit(pair[1]) == 60


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("segments", [1, 6])
def test_payments_and_cancels_in_the_same_moment(pair, segments):
    """Of one segment, and of orders that several segments filled; each call twice, at each
    daemon."""
    pair[0].reset("demo", 60, segments)
    ids = [pair[0].order(qty=15).json()["order_id"]]
    ids += [pair[0].order().json()["order_id"] for _ in range(29)]
    calls = [(getattr(daemon, move), order_id) for order_id in ids for daemon in pair
             for move in ("pay", "cancel") for _ in range(2)]
    answers, said = all_at_once(calls), {order_id: set() for order_id in ids}
    for (call, order_id), response in zip(calls, answers):
        if response.status == 200:
            said[order_id].add(response.json()["status"])
        else:
            assert_problem(response, 409, "invalid_state")
            said[order_id].add(response.json()["order_status"])
        assert (response.status == 200) == (
            response.json().get("status") == {"pay": "paid", "cancel": "cancelled"}[call.__name__])
    assert all(len(states) == 1 for states in said.values()), said
    for daemon in pair:
        for order_id, states in said.items():
            assert {daemon.get(f"/order/{order_id}").json()["status"]} == states
    paid = sum(states == {"paid"} for states in said.values())
    counted = [sum(daemon.metric(f"seckill_orders_{name}_total") for daemon in pair)
               for name in ("paid", "cancelled")]
    assert counted == [paid, len(ids) - paid]
    kept = statuses(pair[0].stack.ledger).get("paid", (0, 0))[1]
    assert audit(pair[0]) == kept
    assert len(sell_out(pair[1])) == 60 - kept
    assert audit(pair[1]) == 60


def test_user_may_buy_again_what_was_cancelled(pair):
    """Eight users with a limit of two buy and cancel through two daemons at once."""
    pair[0].reset("demo", 1000, 4, per_user_limit=2)

    def shop(n):
        answers, daemon, user = Counter(), pair[n % 2], f"u{n % 8}"
        for qty in (1, 2, 1, 1, 2, 1):
            response = daemon.order(user_id=user, qty=qty)
            answers[response.answer] += 1
            if response.status == 201 and (qty + n) % 3:
                answers[pair[n % 3 % 2].cancel(response.json()["order_id"]).answer] += 1
        return answers
    with ThreadPoolExecutor(16) as pool:
        answers = sum(pool.map(shop, range(32)), Counter())
    assert set(answers) <= {"201", "200", "409 limit_reached"}
    audit(pair[0])
    held = dict(pair[0].stack.ledger.run("SELECT user_id, units FROM user_quota"))
    for n in range(8):
        left = 2 - int(held.get(f"u{n}", 0))
        if left:
            assert pair[1].order(user_id=f"u{n}", qty=left).status == 201
        assert pair[0].order(user_id=f"u{n}").answer == "409 limit_reached"
    assert audit(pair[1]) == 16


def cancel_many(daemon, orders, over):
    """Cancels what the load was given, until the event; the answers."""
    answers, done = Counter(), 0
    with ThreadPoolExecutor(4) as pool:
        while not over.is_set():
            batch = orders()[done:done + 64]
            done += len(batch)
            for answer in pool.map(lambda order: try_cancel(daemon, order[0]), batch):
                answers[answer] += 1
            time.sleep(0.01)
    return answers


def wait_cancelled(daemon, count):
    """Until the daemon has cancelled so many more orders."""
    before = daemon.metric("seckill_orders_cancelled_total")
    wait_until(lambda: daemon.metric("seckill_orders_cancelled_total") >= before + count, "cancels")


def try_cancel(daemon, order_id):
    try:
        return daemon.cancel(order_id).answer
    except OSError:  # the daemon was killed meanwhile
        return "no answer"


@pytest.mark.long
def test_cancels_under_load_of_two_daemons_with_a_kill(stack, spawn, load):
    steady, victim = spawn(stack), spawn(stack)
    steady.reset("demo", 600, 20)
    loads = [load(daemon, connections=8, qty=(1, 3), delay_ms=40, stop_after=10**9, seconds=250)
             for daemon in (steady, victim)]
    over = threading.Event()
    with ThreadPoolExecutor(3) as pool:
        at_steady = pool.submit(cancel_many, steady, lambda: loads[0].accepted, over)
        at_victim = pool.submit(cancel_many, victim, lambda: loads[1].accepted, over)
        try:
            wait_cancelled(victim, 100)
            victim.kill()
            of_victim = pool.submit(cancel_many, steady, lambda: loads[1].accepted, over)
            wait_cancelled(steady, 100)
        finally:
            over.set()
    accepted = [order for one in loads for order in one.stop().accepted]
    assert set(of_victim.result()) <= {"200", "503 unavailable", "503 outcome_unknown"}
    assert set(at_steady.result()) <= {"200", "503 unavailable", "503 outcome_unknown"}
    assert at_steady.result()["200"] > 10
    assert set(at_victim.result()) <= {"200", "503 unavailable", "503 outcome_unknown",
                                       "no answer"}
    victim.start()
    accepted += sell_out_after_faults(victim)
    assert audit_after_faults(steady, accepted=accepted) == 600
    counts = statuses(stack.ledger)
    assert set(counts) == {"reserved", "cancelled"}
    assert counts["reserved"][1] == 600


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("pattern, when, how, gone", [
    (COMMIT, "after", "sent", True), (COMMIT, "before", "lost", False),
    (COMMIT, "before", "sent", True), (SEGMENT_LOCK, "before", "lost", False),
    (SEGMENT_LOCK, "after", "sent", False),
    (MOVE, "before", "lost", False), (MOVE, "after", "sent", False)],
    ids=["between commit and load", "before the commit", "commit on its way", "before Redis",
         "with the locks", "before the transaction", "in the transaction"])
def test_kill_9_at_each_step_of_a_cancel(stack, proxies, spawn, pattern, when, how, gone):
    server = "redis" if pattern == SEGMENT_LOCK else "mysql"
    proxy = proxies(stack.redis.address[1] if server == "redis" else stack.ledger.port)
    victim = spawn(stack, **{f"{server}_url": proxy.url(getattr(stack, f"{server}_url"))})
    other = spawn(stack)
    other.reset("demo", 6, 2)
    order_id = other.order(qty=4).json()["order_id"]
    assert len(sell_out_after_faults(other)) == 2
    assert victim.order().status == 409  # it knows the sale, and its connections are there
    assert victim.cancel(1).answer == "404 unknown_order"
    trap = kill_at(victim, proxy, pattern, when, how)
    with pytest.raises(ConnectionError):
        victim.cancel(order_id)
    trap.wait()
    wait_until(lambda: other.get(f"/order/{order_id}").json()["status"] ==
               ("cancelled" if gone else "reserved"), "the end of the transaction")
    if gone:  # nobody was told: the memory of a sold-out sale ends by itself
        wait_until(lambda: other.order(user_id="next").status == 201, "a sale of the units")
    assert len(sell_out_after_faults(other)) == (3 if gone else 0)
    assert answered(lambda: other.cancel(order_id)).status == 200
    assert len(sell_out_after_faults(other)) == (0 if gone else 4)
    assert audit_after_faults(other) == 6


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("move", ["pay", "cancel"])
@pytest.mark.parametrize("lost", ["answer", "request"])
def test_commit_of_a_move_lost(stack, proxies, spawn, move, lost):
    """The daemon asks the ledger, so that the client need not ask."""
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url))
    daemon.reset("demo", 6, 2)
    order_id = daemon.order(qty=4).json()["order_id"]
    trap = proxy.once(COMMIT, **{"before" if lost == "request" else "after": Link.cut})
    response = getattr(daemon, move)(order_id)
    trap.wait()
    assert (response.status, response.json()["status"]) == (200, {"pay": "paid",
                                                                  "cancel": "cancelled"}[move])
    assert len(sell_out_after_faults(daemon)) == (2 if move == "pay" else 6)
    assert audit_after_faults(daemon) == 6


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("move", ["pay", "cancel"])
def test_move_that_cannot_be_asked_after_is_called_unclear(stack, proxies, spawn, move):
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url), deadline_ms=2000)
    daemon.reset("demo", 6, 2)
    order_id = daemon.order(qty=4).json()["order_id"]
    proxy.once(COMMIT, after=lambda link: proxy.refuse())
    response = getattr(daemon, move)(order_id)
    assert_problem(response, 503, "outcome_unknown")
    assert_problem(getattr(daemon, move)(order_id), 503, "unavailable")
    proxy.admit()
    assert answered(lambda: getattr(daemon, move)(order_id)).status == 200
    assert len(sell_out_after_faults(daemon)) == (2 if move == "pay" else 6)
    assert audit_after_faults(daemon) == 6


def soon():
    """1,000 seconds from now."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() + 1000))


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("what", ["extend", "cancel a part", "refund a part"])
def test_change_in_doubt_is_not_refused_for_what_came_behind_it(stack, proxies, spawn, what):
    """It was carried out, and the order's status as it is now does not show that."""
    proxy = proxies(stack.ledger.port)
    one, other = spawn(stack, mysql_url=proxy.url(stack.mysql_url), **STEADY), spawn(stack)
    other.reset("demo", 9, 1, pay_within_s=600, hold_max_s=6000)
    order, until, answers = other.order(qty=3).json()["order_id"], soon(), []
    assert one.cancel(one.order().json()["order_id"]).status == 200  # it knows the sale
    if what == "refund a part":
        assert other.pay(order, "a").status == 200

    def overtake(link):
        overtaking = other.refund if what == "refund a part" else other.pay
        answers.append(overtaking(order, "a").status)
        link.cut()
    written = rb"expires_at=" if what == "extend" else rb"UPDATE orders SET ordered"
    trap = proxy.once(written, after=lambda _: proxy.once(COMMIT, after=overtake))
    response = {"extend": lambda: one.extend(order, until),
                "cancel a part": lambda: one.cancel(order, keep=1),
                "refund a part": lambda: one.refund(order, "a", keep=1)}[what]()
    trap.wait()
    assert answers == [200]
    assert_problem(response, 503, "outcome_unknown")
    shown = other.get(f"/order/{order}").json()
    assert (shown["qty"], shown["expires_at"] == until) == (
        (3, True) if what == "extend" else (1, False))


def test_payment_of_an_order_that_is_changing_is_refused_before_its_deadline(stack, spawn):
    """The client gets to know that nothing was done, instead of an unclear outcome."""
    daemon = spawn(stack, deadline_ms=6000)
    daemon.reset("demo", 6, 2)
    order_id = daemon.order().json()["order_id"]
    with stack.ledger.transaction(f"SELECT 1 FROM orders WHERE order_id={order_id} FOR UPDATE"):
        answer, passed = timed(lambda: daemon.pay(order_id))
        assert passed.running < 6
    assert_problem(answer, 503, "unavailable")
    assert "nothing was done" in answer.json()["detail"]
    assert daemon.pay(order_id).status == 200


@pytest.mark.long
def test_order_whose_row_is_held_keeps_no_other_from_being_cancelled(stack, spawn):
    daemon = spawn(stack)
    daemon.reset("demo", 60, 2)
    orders = [daemon.order().json()["order_id"] for _ in range(60)]
    held = orders[30]  # in the midst of others, with some of which it shares a transaction
    with stack.ledger.transaction(f"SELECT 1 FROM orders WHERE order_id={held} FOR UPDATE"):
        with ThreadPoolExecutor(12) as pool:
            answers = dict(zip(orders, pool.map(daemon.cancel, orders)))
        assert answers.pop(held).answer == "503 unavailable"
        assert {response.status for response in answers.values()} == {200}
    assert daemon.cancel(held).status == 200
    assert audit_after_faults(daemon) == 0


def test_cancel_after_redis_lost_everything(stack, spawn):
    pair = spawn(stack), spawn(stack)
    one, other = pair
    one.reset("demo", 12, 3)
    orders = [one.order(qty=qty).json()["order_id"] for qty in (1, 5, 2)]
    one.stack.redis("FLUSHALL")
    assert answered(lambda: other.cancel(orders[1])).status == 200
    assert answered(lambda: one.cancel(orders[0])).status == 200
    assert len(sell_out_after_faults(one)) == 10
    assert audit_after_faults(one) == 12


@pytest.mark.long
def test_cancels_during_resets(pair, load):
    pair[0].reset("demo", 100_000, 8)
    running = load(pair[0], connections=8, qty=(1, 2), delay_ms=40, stop_after=10**9, seconds=250)
    over = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        cancels = pool.submit(cancel_many, pair[1], lambda: running.accepted, over)
        try:
            for segments in (8, 3, 12, 8):
                wait_cancelled(pair[1], 10)
                body = {"sku": "demo", "total": 300, "segments": segments, "end_round": True}
                answered(lambda: pair[0].admin("POST", "/admin/stock/reset", body))
            wait_cancelled(pair[1], 10)
        finally:
            over.set()
    accepted = running.stop().accepted
    assert set(cancels.result()) <= {"200", "409 invalid_state", "503 unavailable",
                                     "503 outcome_unknown"}
    assert cancels.result()["200"] > 10
    accepted += sell_out(pair[1])
    assert audit(pair[0], accepted=accepted, changed=True) == 300
    sales = pair[0].stack.ledger.run(
        "SELECT status, COUNT(*) FROM orders GROUP BY status")
    assert {status for status, _ in sales} == {"reserved", "cancelled", "expired"}


def test_cancel_without_redis_or_ledger_changes_nothing(stack, proxies, spawn):
    for url, port in (("redis_url", stack.redis.address[1]), ("mysql_url", stack.ledger.port)):
        proxy = proxies(port)
        daemon = spawn(stack, **{url: proxy.url(getattr(stack, url))})
        daemon.reset("demo", 4, 2)
        order_id = daemon.order().json()["order_id"]
        proxy.refuse()
        assert_problem(daemon.cancel(order_id), 503, "unavailable")
        proxy.admit()
        daemon.wait_ready()
        assert len(sell_out_after_faults(daemon)) == 3
        assert answered(lambda: daemon.cancel(order_id)).status == 200
        assert len(sell_out_after_faults(daemon)) == 1
        assert audit_after_faults(daemon) == 4


def test_cancel_that_is_committed_over_a_second_connection_is_answered_200(stack, proxies, spawn):
    """Its first one is lost in the transaction. Who cancelled need not be confirmed by anybody."""
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url))
    daemon.reset("demo", 10, 1)
    order_id = daemon.order().json()["order_id"]
    proxy.delay = 0.01  # so that there is no time for a further try
    trap = proxy.once(rb"FROM orders o .* FOR UPDATE", before=Link.cut)
    response = daemon.cancel(order_id)
    trap.wait()
    assert (response.status, response.json().get("status")) == (200, "cancelled"), response
    audit_after_faults(daemon)
