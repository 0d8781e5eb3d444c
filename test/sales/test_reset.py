"""Resets of a sale while orders are under way: rounds never mix."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.audit import (answered, audit, audit_after_faults, sell_out, sell_out_after_faults,
                           sold_by_orders)
from harness.client import assert_problem
from harness.daemon import STEADY
from harness.load import stop_all
from harness.processes import wait_until
from harness.proxy import COMMIT, WRITE, Link

ANSWERS = {"201", "409 sold_out", "503 unavailable", "503 overloaded"}
HANG_SECONDS = 20
PATIENT = {"mysql_timeout_ms": 30_000, "deadline_ms": 60_000}  # of daemons that a test holds up


def units_of_round(stack, round_no):
    return sold_by_orders(stack.ledger, "demo", round_no)


def round_of(stack, order_id):
    return stack.ledger.number(f"SELECT round FROM orders WHERE order_id = {order_id}")


def try_reset(daemon, total, segments):
    """Resets, or loses the race against other resets: the new round, or None."""
    response = daemon.admin("POST", "/admin/stock/reset",
                            {"sku": "demo", "total": total, "segments": segments,
                             "end_round": True})
    assert response.answer in ("200", "503 unavailable", "503 outcome_unknown"), response
    return response.json()["round"] if response.status == 200 else None


@pytest.mark.long
@pytest.mark.parametrize("shapes", [
    [(1000, 20), (300, 3), (2000, 40), (7, 7), (5000, 1), (300, 50)], [(300, 20)] * 6],
    ids=["fewer and more segments", "same shape"])
def test_reset_in_mid_load(pair, load, shapes):
    stack = pair[0].stack
    totals = {pair[0].reset("demo", 100_000, 20)["round"]: 100_000}
    loads = [load(daemon, connections=32, qty=(1, 2), delay_ms=50, stop_after=10**9)
             for daemon in pair]
    for total, segments in shapes:
        time.sleep(0.1)
        sale = pair[random.randrange(2)].reset("demo", total, segments)
        assert (sale["total"], sale["segments"], sale["sold"]) == (total, segments, 0)
        totals[sale["round"]] = total
    assert list(totals) == list(range(1, len(shapes) + 2))
    time.sleep(0.1)
    accepted = stop_all(loads)
    assert all(set(one.answers) <= ANSWERS for one in loads)
    accepted += sell_out(pair[1])
    assert audit(pair[0], accepted=accepted, changed=True) == shapes[-1][0]
    for round_no, total in totals.items():
        assert units_of_round(stack, round_no) <= total


def test_order_after_a_reset_belongs_to_the_new_round_on_every_daemon(pair, load):
    pair[0].reset("demo", 1000, 20)
    noise = [load(daemon, connections=8, delay_ms=40, stop_after=10**9) for daemon in pair]
    for _ in range(6):
        sale = pair[0].reset("demo", 100_000, 20)
        for daemon in pair:
            response = daemon.order()
            assert response.status == 201
            assert round_of(daemon.stack, response.json()["order_id"]) == sale["round"]
    for one in noise:
        wait_until(lambda one=one: one.accepted, "an order")
        one.stop()
    audit(pair[0], changed=True)


def test_resets_from_two_daemons_race_each_other(pair, load):
    pair[0].reset("demo", 1000, 20)
    loads = [load(daemon, connections=16, delay_ms=20, stop_after=10**9) for daemon in pair]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda n: try_reset(pair[n % 2], 100 + n, 1 + n), range(24)))
    rounds = [round_no for round_no in results if round_no]
    assert rounds, "no reset succeeded at all"
    assert len(set(rounds)) == len(rounds)
    accepted = stop_all(loads)
    assert all(set(one.answers) <= ANSWERS for one in loads)
    sell_out(pair[0])
    total = pair[1].stock()["total"]
    assert audit(pair[0], accepted=accepted, changed=True) == total
    for number, round_no in enumerate(results):
        if round_no:
            assert units_of_round(pair[0].stack, round_no) <= 100 + number


def test_segments_of_a_larger_round_are_forgotten(daemon):
    daemon.reset("demo", 200, 100)
    daemon.order()
    daemon.reset("demo", 10, 2)
    assert len(daemon.stock()["segments"]) == 2
    assert daemon.stack.redis("KEYS", "seckill:{demo:99}:segment") == []
    assert len(sell_out(daemon)) == 10
    daemon.reset("demo", 101, 100)
    assert len(sell_out(daemon)) == 101
    assert audit(daemon) == 101


def test_reset_while_a_segment_is_dirty_or_redis_is_empty(daemon):
    daemon.reset("demo", 40, 4)
    daemon.stack.redis("HSET", "seckill:{demo:1}:segment", "open", "somebody-who-died")
    daemon.reset("demo", 40, 4)
    daemon.stack.redis("FLUSHALL")
    daemon.reset("demo", 30, 3)
    assert len(sell_out(daemon)) == 30
    assert audit(daemon) == 30


def test_order_caught_in_mid_transaction_by_a_reset(stack, proxies, spawn):
    """Its lease has run out, so the reset need not wait for it; its write then comes too late."""
    proxy = proxies(stack.ledger.port)
    slow, other = spawn(stack, mysql_url=proxy.url(stack.mysql_url)), spawn(stack)
    other.reset("demo", 10, 1)
    assert slow.pay(slow.order().json()["order_id"]).status == 200
    rounds = []

    def reset_meanwhile(_):
        time.sleep(0.8)
        rounds.append(other.reset("demo", 20, 2)["round"])
    trap = proxy.once(WRITE, before=reset_meanwhile)
    response = slow.order(user_id="caught")
    trap.wait()
    assert rounds == [2]
    if response.status == 201:
        assert round_of(stack, response.json()["order_id"]) == 2
    else:
        assert response.status == 503
    sell_out_after_faults(slow)
    assert units_of_round(stack, 1) == 1
    assert audit_after_faults(other) == 20


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("lost", ["answer", "request"])
def test_commit_of_a_reset_lost(stack, proxies, spawn, lost):
    """The operator may be told that it is unclear, never what is not so; a repeat settles it."""
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url))
    daemon.reset("demo", 10, 2)
    trap = proxy.once(COMMIT, **{"before" if lost == "request" else "after": Link.cut})
    round_no = try_reset(daemon, 20, 4)
    trap.wait()
    stock = wait_until(lambda: daemon.get("/stock/demo").status == 200 and daemon.stock(), "stock")
    if round_no:
        assert (stock["round"], stock["total"]) == (round_no, 20)
    assert daemon.reset("demo", 30, 3)["round"] == stock["round"] + 1
    assert len(sell_out_after_faults(daemon)) == 30
    assert audit_after_faults(daemon) == 30


def test_reset_without_redis_or_ledger_is_503(stack, proxies, spawn):
    for url, port in (("redis_url", stack.redis.address[1]), ("mysql_url", stack.ledger.port)):
        proxy = proxies(port)
        daemon = spawn(stack, **{url: proxy.url(getattr(stack, url))})
        daemon.reset("demo", 10, 2)
        daemon.order()
        proxy.refuse()
        assert try_reset(daemon, 20, 4) is None
        proxy.admit()
        daemon.wait_ready()
        sell_out_after_faults(daemon)
        assert audit_after_faults(daemon) == daemon.stock()["total"]


def test_every_look_at_an_order_names_its_round(daemon):
    daemon.reset("demo", 10, 2)
    for round_no in (1, 2):
        order = daemon.order(user_id="u1", key=f"k{round_no}").json()
        assert order["round"] == round_no
        daemon.cancel(order["order_id"])
        daemon.reset("demo", 10, 2)
    last = daemon.order(user_id="u1", qty=6, key="k3")
    assert (last.status, last.json()["round"]) == (201, 3)
    again = daemon.order(user_id="u1", qty=6, key="k3")
    assert (again.status, again.json()) == (200, last.json())
    assert daemon.get(f"/order/{last.json()['order_id']}").json() == {**last.json(), "version": 1}
    assert daemon.pay(last.json()["order_id"]).json()["round"] == 3
    for path in ("/user/u1/orders", "/admin/orders"):
        assert [order["round"] for order in daemon.admin("GET", path).json()["orders"]] == [1, 2, 3]


def ask_reset(daemon, total=20, segments=4, key=None, **body):
    """A reset as an operator sends it; nothing is added to make it pass."""
    headers = {"Authorization": f"Bearer {daemon.token}", "Idempotency-Key": key}
    return daemon.request("POST", "/admin/stock/reset",
                          {"sku": "demo", "total": total, "segments": segments, **body}, headers)


def test_a_reset_sent_twice_sells_once(daemon):
    assert ask_reset(daemon, 2, 1).status == 200
    sold = sell_out(daemon)
    daemon.pay(sold[0][0])
    again = ask_reset(daemon, 2, 1)
    assert_problem(again, 409, "round_in_use")
    told = again.json()
    assert (told["round"], told["units"], told["reserved"], told["paid"]) == (1, 2, 1, 1)
    assert told["counted"] is True
    assert daemon.order().answer == "409 sold_out"
    assert daemon.pay(sold[1][0]).status == 200
    assert audit(daemon, accepted=sold) == 2


def test_reset_of_a_round_whose_units_all_came_back_needs_no_word(daemon):
    ask_reset(daemon)
    daemon.cancel(daemon.order().json()["order_id"])
    assert ask_reset(daemon).json()["round"] == 2


def test_end_round_ends_reserved_orders_and_keeps_paid_ones(pair):
    one, other = pair
    ask_reset(one, 6, 3)
    reserved = [one.order(user_id=f"u{n}").json()["order_id"] for n in range(3)]
    split = one.order(qty=2).json()["order_id"]
    paid = one.order().json()["order_id"]
    assert one.pay(paid).status == 200
    assert ask_reset(one, 6, 3, end_round=True).json()["round"] == 2
    for order_id in [*reserved, split]:
        late = other.pay(order_id)
        assert_problem(late, 409, "invalid_state")
        assert "later round" in late.json()["detail"]
        wait_until(lambda: other.get(f"/order/{order_id}").json()["status"] == "expired", "its end")
        assert_problem(other.cancel(order_id, keep=1), 409, "invalid_state")
    assert other.get(f"/order/{paid}").json()["status"] == "paid"
    assert other.pay(paid).status == 200  # a repeat
    one.stack.wait_rounds_ended()

    def are_counted(ends):
        wait_until(lambda: ends == sum(daemon.metric("seckill_orders_expired_total")
                                       for daemon in pair), f"a count of {ends} ends")
    are_counted(4)
    # Of very many orders the reset ends a part, and the expiry worker the others.
    one.stack.ledger.run(f"UPDATE orders SET status = 'reserved' WHERE order_id = {split};"
                         "INSERT INTO round_end (sku, round, units) VALUES ('demo', 1, 2)")
    are_counted(5)
    assert len(sell_out(other)) == 6
    assert audit(one, changed=True) == 6


def test_orders_of_an_ended_round_give_the_next_one_no_units(daemon):
    """Overdue or cancelled after the reset, before anybody has expired them."""
    ask_reset(daemon, 4, 2, pay_within_s=1)
    bought = [daemon.order(user_id=f"u{n}").json()["order_id"] for n in range(4)]
    daemon.stack.ledger.run("UPDATE orders SET status = 'paid' WHERE order_id = " + bought[0])
    ask_reset(daemon, 3, 1, end_round=True, pay_within_s=None)
    daemon.stack.ledger.run("UPDATE orders SET status = 'reserved' WHERE order_id = " + bought[0])
    assert daemon.cancel(bought[0]).json()["status"] == "cancelled"
    for order_id in bought[1:]:
        wait_until(lambda: daemon.get(f"/order/{order_id}").json()["status"] == "expired", "an end")
    assert len(sell_out(daemon)) == 3
    assert audit(daemon, changed=True) == 3


def test_key_makes_a_reset_happen_once(pair):
    call = {"total": 9, "segments": 3, "key": "k1", "pay_within_s": 900}
    first = ask_reset(pair[0], **call)
    assert first.status == 200
    assert pair[1].order().status == 201
    again = ask_reset(pair[1], **call).json()
    assert (again["round"], again["sold"]) == (1, 1)
    for other in ({"total": 8}, {"paused": True}, {"pay_within_s": 600}, {"pay_within_s": None},
                  {"if_round": 0}, {"end_round": True}):
        reused = ask_reset(pair[1], **{**call, **other})
        assert_problem(reused, 422, "idempotency_key_reused")
    assert ask_reset(pair[0], 5, 1, key="k2", end_round=True).json()["round"] == 2
    late = ask_reset(pair[1], **call).json()
    assert late == first.json()  # what it did, though the sale has gone on
    assert pair[0].stock()["round"] == 2
    assert len(sell_out(pair[0])) == 5
    assert audit(pair[1], changed=True) == 5


def test_key_does_not_outlive_the_sale_that_it_began(pair):
    assert ask_reset(pair[0], 9, 3, key="k1").json()["round"] == 1
    assert pair[1].admin("DELETE", "/admin/sale/demo").status == 200
    for daemon in pair:
        assert_problem(ask_reset(daemon, 9, 3, key="k1"), 422, "idempotency_key_reused")
        assert_problem(daemon.get("/stock/demo"), 404, "unknown_sku")
    assert ask_reset(pair[0], 9, 3, key="k2").json()["round"] == 2
    assert_problem(ask_reset(pair[1], 9, 3, key="k1"), 422, "idempotency_key_reused")
    assert ask_reset(pair[1], 9, 3, key="k2").json()["round"] == 2


def test_one_key_from_many_operators_at_once(pair):
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: ask_reset(pair[n % 2], 10, 2, key="k"), range(12)))
    assert {response.status for response in answers} <= {200, 503}
    assert {response.json()["round"] for response in answers if response.status == 200} == {1}
    assert answered(lambda: ask_reset(pair[0], 10, 2, key="k")).json()["round"] == 1


def test_if_round_lets_one_of_two_operators_through(pair):
    for seen in range(3):
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda n: ask_reset(pair[n % 2], 10, 2, if_round=seen),
                                    range(8)))
        done = [response for response in answers if response.status == 200]
        assert len(done) == 1 and done[0].json()["round"] == seen + 1
        for response in answers:
            if response.status == 409:
                assert_problem(response, 409, "round_mismatch")
                assert response.json()["round"] == seen + 1
            else:
                assert response.status in (200, 503), response
    assert_problem(ask_reset(pair[0], if_round=0), 409, "round_mismatch")


def test_sale_is_created_paused_and_stays_so(daemon):
    settings = {"per_user_limit": 3, "pay_within_s": 900, "ends_at": "2100-01-01T00:00:00.000Z",
                "starts_at": "2020-01-01T00:00:00.000Z"}
    assert ask_reset(daemon, paused=True, **settings).json()["paused"] is True
    assert daemon.order().answer == "409 sale_paused"
    kept = ask_reset(daemon, 30, 3).json()
    assert {name: kept[name] for name in settings} == settings
    assert (kept["paused"], kept["total"], kept["round"]) == (True, 30, 2)
    assert daemon.order().answer == "409 sale_paused"
    opened = ask_reset(daemon, paused=False, per_user_limit=None, ends_at=None).json()
    assert opened["paused"] is False and not {"per_user_limit", "ends_at"} & opened.keys()
    assert opened["pay_within_s"] == 900
    assert daemon.order(qty=4).status == 201


def test_reset_keeps_no_end_that_has_passed(daemon):
    ask_reset(daemon)
    daemon.change(ends_at="2021-01-01T00:00:00Z")
    refused = ask_reset(daemon)
    assert_problem(refused, 400, "invalid_request")
    assert "ends_at" in refused.json()["detail"]
    assert ask_reset(daemon, ends_at=None).json()["round"] == 2


def test_reset_refuses_what_it_does_not_know(daemon):
    for body in ({"if_round": -1}, {"if_round": "1"}, {"if_round": None}, {"if_round": 4294967296},
                 {"end_round": 1}, {"end_round": None}, {"paused": "no"}, {"round": 1}):
        assert_problem(ask_reset(daemon, **body), 400, "invalid_request")
        assert daemon.get("/stock/demo").status == 404
    assert_problem(ask_reset(daemon, key="a key"), 400, "invalid_request")
    assert daemon.get("/stock/demo").status == 404


def test_no_payment_slips_into_a_round_that_is_over(pair):
    """Whatever was paid was paid before the new round began: afterwards nothing changes."""
    one = pair[0]
    ask_reset(one, 3000, 10)
    ledger = one.stack.ledger
    for round_no in range(1, 4):
        ids = [one.order(user_id=f"u{n}").json()["order_id"] for n in range(40)]
        with ThreadPoolExecutor(8) as pool:
            paying = [pool.submit(pair[n % 2].pay, order_id) for n, order_id in enumerate(ids)]
            wait_until(lambda: any(call.done() for call in paying), "a payment")
            assert answered(lambda: ask_reset(one, 3000, 10, end_round=True)).status == 200
            paid = {row[0] for row in ledger.run("SELECT order_id FROM orders WHERE"
                                                 f" status = 'paid' AND round = {round_no}")}
            answers = [call.result() for call in paying]
        for order_id, response in zip(ids, answers):
            assert response.answer in ("200", "409 invalid_state"), response
            assert (response.status == 200) == (order_id in paid)
        assert one.pay(ids[0]).status == (200 if ids[0] in paid else 409)
    wait_until(lambda: ledger.number("SELECT COUNT(*) FROM orders WHERE status = 'reserved'") == 0,
               "the end of all")
    assert audit(one, changed=True) == 0


def test_reset_waits_for_a_payment_under_way(stack, proxies, spawn):
    proxy = proxies(stack.ledger.port)
    one, other = spawn(stack, mysql_url=proxy.url(stack.mysql_url), **PATIENT), spawn(stack)
    ask_reset(other, 10, 2)
    order_id = one.order().json()["order_id"]
    resets, rounds = [], []

    def reset_meanwhile(_):  # a reset that waits for a second gives up, and is asked for again
        resets.append(pool.submit(answered, lambda: ask_reset(other, 10, 2, end_round=True)))
        wait_until(lambda: resets[0].done() or
                   stack.ledger.status("Innodb_row_lock_current_waits"), "the reset")
        rounds.append(other.stock()["round"])
    with ThreadPoolExecutor(1) as pool:
        trap = proxy.once(rb"UPDATE orders", after=lambda link: proxy.once(
            COMMIT, before=reset_meanwhile))
        assert one.pay(order_id).status == 200
        trap.wait()
        assert rounds == [1]
        assert resets[0].result().status == 200
    assert one.pay(order_id).status == 200
    assert audit_after_faults(other) == 0


def test_order_that_is_committed_before_a_reset_is_not_ended_without_a_word(stack, proxies, spawn):
    """It had outlived its lease, so the reset did not wait for it."""
    slow_line, line = proxies(stack.ledger.port), proxies(stack.ledger.port)
    slow = spawn(stack, mysql_url=slow_line.url(stack.mysql_url), lease_ms=300, **PATIENT)
    other = spawn(stack, mysql_url=line.url(stack.mysql_url), **STEADY, **PATIENT)
    ask_reset(other, 10, 1)
    asleep, awake = threading.Event(), threading.Event()

    def sleep(_):
        asleep.set()
        awake.wait(HANG_SECONDS)

    def wake(_):
        awake.set()
        wait_until(order.done, "the order")
    with ThreadPoolExecutor(1) as pool:
        slow_line.once(WRITE, before=sleep)
        order = pool.submit(slow.order)
        assert asleep.wait(HANG_SECONDS)
        trap = line.once(rb"INSERT IGNORE INTO sale\(", before=wake)
        response = ask_reset(other, 20, 2)
        trap.wait()
        assert order.result().status == 201
    assert response.code == "round_in_use"
    assert len(sell_out_after_faults(other)) == 9
    assert audit_after_faults(other) == 10


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("when, how, done", [
    ("after", "sent", True), ("before", "sent", True), ("before", "lost", False)],
    ids=["between commit and load", "commit on its way", "before the commit"])
def test_kill_9_in_a_reset(stack, proxies, spawn, when, how, done):
    proxy = proxies(stack.ledger.port)
    victim, other = spawn(stack, mysql_url=proxy.url(stack.mysql_url)), spawn(stack)
    ask_reset(other, 10, 2)
    order = other.order(qty=2).json()

    def die(link):
        victim.kill()
        if how == "lost":
            link.cut()
    trap = proxy.once(rb"INSERT INTO sale_reset", after=lambda link: proxy.once(
        COMMIT, **{when: die}))
    with pytest.raises(ConnectionError):
        ask_reset(victim, 20, 4, key="k", end_round=True)
    trap.wait()
    wait_until(lambda: other.stock()["round"] == (2 if done else 1), "its end")
    again = answered(lambda: ask_reset(other, 20, 4, key="k", end_round=True)).json()
    assert (again["round"], again["total"]) == (2, 20)
    assert_problem(other.pay(order["order_id"]), 409, "invalid_state")
    wait_until(lambda: other.get(f"/order/{order['order_id']}").json()["status"] == "expired",
               "the order's end")
    assert len(sell_out_after_faults(other)) == 20
    assert audit_after_faults(other) == 20
