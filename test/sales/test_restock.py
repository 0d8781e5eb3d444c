"""Units are added in mid-sale: once, over all segments, and every daemon sells them at once."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.audit import answered, audit, audit_after_faults, sell_out, sell_out_after_faults
from harness.client import assert_problem
from harness.load import stop_all
from harness.processes import wait_until
from harness.proxy import COMMIT, Link


def left(daemon):
    return [segment["available"] for segment in daemon.stock()["segments"]]


def test_added_units_are_spread_and_sold_by_every_daemon(pair):
    one, other = pair
    one.reset("demo", 20, 4)
    assert len(sell_out(one)) == 20
    assert other.order().answer == "409 sold_out"
    sale = one.add(10)
    assert sale.status == 200
    assert {name: sale.json()[name] for name in ("round", "total", "segments", "sold", "available")
            } == {"round": 1, "total": 30, "segments": 4, "sold": 20, "available": 10}
    assert sorted(left(other)) == [2, 2, 3, 3]
    wait_until(lambda: other.order().status == 201, "a sale at the other daemon")
    assert len(sell_out(one)) == 9
    assert audit(other, changed=True) == 30


def test_uneven_segments_are_evened_out(daemon):
    daemon.reset("demo", 40, 4)
    daemon.stack.ledger.run("UPDATE stock_segment SET capacity = IF(segment = 2, 37, 1)")
    daemon.reconcile()
    assert daemon.order(qty=11).status == 201
    assert daemon.add(3).status == 200
    assert left(daemon) == [8, 8, 8, 8]
    assert len(sell_out(daemon)) == 32
    assert audit(daemon) == 43


def test_key_belongs_to_the_round_in_which_it_was_used(pair):
    pair[0].reset(total=10, segments=2)
    assert pair[0].add(5, key="k").json()["total"] == 15
    pair[1].reset(total=10, segments=2, end_round=True)
    for daemon in pair:
        assert_problem(daemon.add(5, key="k"), 422, "idempotency_key_reused")
        assert daemon.stock()["total"] == 10
    assert pair[0].add(5, key="k2").json()["total"] == 15


def test_key_adds_once_whoever_repeats_it(pair):
    pair[0].reset("demo", 10, 3)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: pair[n % 2].add(5, key="k"), range(16)))
    assert {response.status for response in answers} <= {200, 503}
    assert answered(lambda: pair[0].add(5, key="k")).json()["total"] == 15
    assert_problem(pair[1].add(6, key="k"), 422, "idempotency_key_reused")
    assert pair[1].add(5, key="k2").json()["total"] == 20
    assert len(sell_out(pair[1])) == 20
    assert audit(pair[0]) == 20


def test_repeat_tells_every_daemon_of_units_whose_first_try_told_nobody(stack, pair):
    pair[0].reset("demo", 10, 3)
    assert pair[0].add(5, key="k").json()["total"] == 15
    before = stack.redis.calls("publish")
    assert pair[1].add(5, key="k").json()["total"] == 15
    assert stack.redis.calls("publish") == before + 1
    assert_problem(pair[1].add(6, key="k"), 422, "idempotency_key_reused")
    assert stack.redis.calls("publish") == before + 1
    assert len(sell_out(pair[0])) == 15
    assert audit(pair[1]) == 15


def test_every_daemon_is_told_of_each_change_of_a_sale(stack, pair):
    for change in (lambda: pair[0].reset("demo", 10, 2), lambda: pair[1].add(5),
                   lambda: pair[0].change(paused=True), lambda: pair[1].reset("demo", 4, 1)):
        before = stack.redis.calls("publish")
        change()
        assert stack.redis.calls("publish") == before + 1


def test_restocks_race_each_other_under_load(pair, load):
    pair[0].reset("demo", 300, 10)
    loads = [load(daemon, connections=16, qty=(1, 3), delay_ms=20, stop_after=10**9)
             for daemon in pair]
    with ThreadPoolExecutor(4) as pool:
        added = list(pool.map(lambda n: n * (pair[n % 2].add(n).status == 200), range(1, 25)))
    accepted = stop_all(loads)
    assert sum(added) > 0
    accepted += sell_out(pair[1])
    assert audit(pair[0], accepted=accepted, changed=True) == 300 + sum(added)


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("when, how, done", [
    ("after", "sent", True), ("before", "sent", True), ("before", "lost", False)],
    ids=["between commit and load", "commit on its way", "before the commit"])
def test_kill_9_in_a_restock_under_load(stack, proxies, spawn, load, when, how, done):
    proxy = proxies(stack.ledger.port)
    victim, other = spawn(stack, mysql_url=proxy.url(stack.mysql_url)), spawn(stack)
    other.reset("demo", 500, 5)
    running = load(other, connections=16, qty=(1, 3), delay_ms=20, stop_after=10**9, seconds=250)

    def die(link):
        victim.kill()
        if how == "lost":
            link.cut()
    trap = proxy.once(rb"UPDATE sale SET total", after=lambda link: proxy.once(
        COMMIT, **{when: die}))
    with pytest.raises(ConnectionError):
        victim.add(100, key="k")
    trap.wait()
    wait_until(lambda: other.stock()["total"] == (600 if done else 500), "its end")
    wait_until(lambda: other.stock()["available"] == 0, "the sale of all")
    accepted = running.stop().accepted
    assert answered(lambda: other.add(100, key="k")).json()["total"] == 600
    accepted += sell_out_after_faults(other)
    assert audit_after_faults(other, accepted=accepted) == 600


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("lost", ["answer", "request"])
def test_commit_of_a_restock_lost(stack, proxies, spawn, lost):
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url))
    daemon.reset("demo", 10, 2)
    for key, total in (("k", 15), (None, 20)):
        trap = proxy.once(COMMIT, **{"before" if lost == "request" else "after": Link.cut})
        response = daemon.add(5, key=key)
        trap.wait()
        if key:
            assert response.json()["total"] == total
        else:
            assert_problem(response, 503, "outcome_unknown")
    total = 15 if lost == "request" else 20
    wait_until(lambda: daemon.get("/stock/demo").status == 200, "the ledger")
    assert len(sell_out_after_faults(daemon)) == total
    assert audit_after_faults(daemon) == total


def test_restock_after_redis_lost_everything(daemon):
    daemon.reset("demo", 10, 3)
    daemon.order(qty=4)
    daemon.stack.redis("FLUSHALL")
    assert answered(lambda: daemon.add(6)).json()["available"] == 12
    assert len(sell_out(daemon)) == 12
    assert audit(daemon) == 16
