"""Resets of a sale while orders are under way: rounds never mix."""

import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from audit import audit, audit_after_faults, sell_out, sell_out_after_faults, sold_by_orders
from harness.processes import wait_until
from proxy import COMMIT, WRITE, Link

ANSWERS = {"201", "409 sold_out", "503 unavailable", "503 overloaded"}


def units_of_round(stack, round_no):
    return sum(sold_by_orders(stack.ledger, "demo", round_no).values())


def round_of(stack, order_id):
    return stack.ledger.number(f"SELECT round FROM orders WHERE order_id = {order_id}")


def try_reset(daemon, total, segments):
    """Resets, or loses the race against other resets: the new round, or None."""
    response = daemon.admin("POST", "/admin/stock/reset",
                            {"sku": "demo", "total": total, "segments": segments})
    assert response.answer in ("200", "503 unavailable", "503 outcome_unknown"), response
    return response.json()["round"] if response.status == 200 else None


@pytest.mark.parametrize("shapes", [
    [(1000, 20)] * 6, [(1000, 20), (300, 3), (2000, 40), (7, 7), (5000, 1), (1000, 50)]],
    ids=["same shape", "fewer and more segments"])
def test_reset_in_mid_load(pair, load, shapes):
    stack = pair[0].stack
    totals = {pair[0].reset("demo", 100_000, 20)["round"]: 100_000}
    loads = [load(daemon, connections=32, qty=(1, 2), stop_after=10**9) for daemon in pair]
    for total, segments in shapes:
        time.sleep(0.1)
        sale = pair[random.randrange(2)].reset("demo", total, segments)
        assert (sale["total"], sale["segments"], sale["sold"]) == (total, segments, 0)
        totals[sale["round"]] = total
    assert list(totals) == list(range(1, len(shapes) + 2))
    time.sleep(0.2)
    accepted = [order for one in loads for order in one.stop().accepted]
    assert all(set(one.answers) <= ANSWERS for one in loads)
    accepted += sell_out(pair[1])
    assert audit(pair[0], accepted=accepted, changed=True) == shapes[-1][0]
    for round_no, total in totals.items():
        assert units_of_round(stack, round_no) <= total


def test_order_after_a_reset_belongs_to_the_new_round_on_every_daemon(pair, load):
    pair[0].reset("demo", 1000, 20)
    noise = [load(daemon, connections=8, stop_after=10**9) for daemon in pair]
    for _ in range(10):
        sale = pair[0].reset("demo", 100_000, 20)
        for daemon in pair:
            response = daemon.order()
            assert response.status == 201
            assert round_of(daemon.stack, response.json()["order_id"]) == sale["round"]
    for one in noise:
        one.stop()
    audit(pair[0], changed=True)


def test_resets_from_two_daemons_race_each_other(pair, load):
    pair[0].reset("demo", 1000, 20)
    loads = [load(daemon, connections=16, stop_after=10**9) for daemon in pair]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda n: try_reset(pair[n % 2], 100 + n, 1 + n), range(24)))
    rounds = [round_no for round_no in results if round_no]
    assert rounds, "no reset succeeded at all"
    assert len(set(rounds)) == len(rounds)
    accepted = [order for one in loads for order in one.stop().accepted]
    assert all(set(one.answers) <= ANSWERS for one in loads)
    sell_out(pair[0])
    total = pair[1].stock()["total"]
    assert audit(pair[0], accepted=accepted, changed=True) == total
    for number, round_no in enumerate(results):
        if round_no:
            assert units_of_round(pair[0].stack, round_no) <= 100 + number


def test_segments_of_a_larger_round_are_forgotten(daemon):
    daemon.reset("demo", 1000, 100)
    daemon.order()
    daemon.reset("demo", 10, 2)
    assert len(daemon.stock()["segments"]) == 2
    assert daemon.stack.redis("KEYS", "seckill:{demo:99}:segment") == []
    assert len(sell_out(daemon)) == 10
    daemon.reset("demo", 300, 100)
    assert len(sell_out(daemon)) == 300
    assert audit(daemon) == 300


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
    assert slow.order().status == 201
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


@pytest.mark.parametrize("lost", ["request", "answer"])
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
    assert daemon.get(f"/order/{last.json()['order_id']}").json() == last.json()
    assert daemon.pay(last.json()["order_id"]).json()["round"] == 3
    for path in ("/user/u1/orders", "/admin/orders"):
        assert [order["round"] for order in daemon.admin("GET", path).json()["orders"]] == [1, 2, 3]
    lines = daemon.admin("GET", "/admin/orders.csv").body.decode().split("\r\n")
    assert [line.rsplit(",", 1)[1] for line in lines if line] == ["round", "1", "2", "3"]
