"""Daemons die or sleep at the worst moment; the others sell on, and nobody repairs anything."""

import threading
import time

import pytest

from harness.audit import answered, audit_after_faults, sell_out_after_faults
from harness.load import kill_under_load
from harness.processes import wait_until
from harness.proxy import COMMIT, SEGMENT_LOCK, STEPS, WRITE, kill_at

ANSWERS = {"201", "409 sold_out", "503 unavailable", "503 outcome_unknown", "503 overloaded"}


@pytest.fixture
def slow_ledger(stack, proxies):
    """A proxy before MariaDB that makes every transaction long enough for a kill."""
    proxy = proxies(stack.ledger.port)
    proxy.delay = 0.008
    return proxy


@pytest.mark.long
def test_kill_9_in_mid_load_again_and_again(stack, slow_ledger, spawn, load):
    """Also different moments of a batch: each transaction takes some 40 ms of which a kill hits
    any, and the units last longer than the kills."""
    options = {"mysql_url": slow_ledger.url(stack.mysql_url), "max_batch": 2}
    steady, victim = spawn(stack, **options), spawn(stack, **options)
    steady.reset("demo", 20_000, 20)
    loads = [load(steady, connections=8, seconds=250, delay_ms=20),
             *kill_under_load(victim, load, times=5)]
    slow_ledger.delay = 0
    accepted = [order for one in loads for order in one.stop().accepted]
    assert all(set(one.answers) <= ANSWERS for one in loads)
    wait_until(lambda: steady.metric("seckill_queue_depth") == 0, "the end of orders under way")
    assert steady.stock()["available"] > 0, "the sale was over too soon for this test"
    while (left := min(steady.stock()["available"], 1000)) > 0:  # single units would take long
        order = answered(lambda: steady.order(user_id="many", qty=left, key=f"k{len(accepted)}"))
        accepted.append((order.json()["order_id"], left))
    assert steady.order().answer == "409 sold_out"
    assert audit_after_faults(victim, accepted=accepted) == 20_000


@pytest.mark.long(keep=3)
@pytest.mark.parametrize("pattern, when, how, sold", reversed(STEPS.values()),
                         ids=reversed(STEPS))
def test_kill_9_at_each_step_of_an_order(stack, proxies, spawn, pattern, when, how, sold):
    proxy = proxies(stack.ledger.port)
    victim = spawn(stack, mysql_url=proxy.url(stack.mysql_url))
    other = spawn(stack)
    other.reset("demo", 5, 1)
    assert victim.order(key="first").status == 201
    trap = kill_at(victim, proxy, pattern, when, how)
    with pytest.raises(ConnectionError):
        victim.order(key="k")
    trap.wait()
    assert len(sell_out_after_faults(other)) == 4 - sold
    assert audit_after_faults(other) == 5
    repeat = other.order(key="k")
    assert repeat.answer == ("200" if sold else "409 sold_out")


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("pattern, units",
                         [(COMMIT, 1), (SEGMENT_LOCK, 1), (WRITE, 1), (COMMIT, 9)],
                         ids=["before the commit", "before Redis", "after the take", "large order"])
def test_lane_that_sleeps_through_its_lease_is_fenced_off(stack, proxies, spawn, pattern, units):
    """Its request to a server arrives only when somebody else has sold everything."""
    server = "redis" if pattern == SEGMENT_LOCK else "mysql"
    proxy = proxies(stack.redis.address[1] if server == "redis" else stack.ledger.port)
    url = f"{server}_url"
    sleeper = spawn(stack, **{url: proxy.url(getattr(stack, url)), "deadline_ms": 5000})
    other = spawn(stack)
    other.reset("demo", 20, 5)
    assert sleeper.order().status == 201

    def sleep(link):
        sleeper.pause()
        time.sleep(1)  # two leases
        others.extend(sell_out_after_faults(other))
        sleeper.cont()
    others = []
    trap = proxy.once(pattern, before=sleep)
    response = sleeper.order(qty=units)
    trap.wait()
    assert response.answer in ANSWERS
    accepted = others + ([(response.json()["order_id"], units)] if response.status == 201 else [])
    accepted += sell_out_after_faults(sleeper)
    assert audit_after_faults(other, accepted=accepted) == 20


@pytest.mark.long
def test_sigstop_longer_than_the_lease_in_mid_load(stack, proxies, spawn, load):
    """First while a batch's write is on its way, so that it holds segments, then at any moment."""
    ledger = proxies(stack.ledger.port)
    steady, sleeper = spawn(stack), spawn(stack, mysql_url=ledger.url(stack.mysql_url))
    steady.reset("demo", 10_000_000, 20)
    loads = [load(daemon, connections=32, seconds=250, delay_ms=200)
             for daemon in (steady, sleeper)]
    awake = threading.Event()
    trap = ledger.once(WRITE, before=lambda link: awake.wait(60))
    trap.wait()
    sleeper.pause()
    wait_until(lambda: steady.metric("seckill_recoveries_total") > 0, "a lease that ran out")
    awake.set()
    sleeper.cont()
    for _ in range(3):
        time.sleep(0.2)
        sleeper.pause()
        time.sleep(0.7)
        sleeper.cont()
    time.sleep(0.2)
    accepted = [order for one in loads for order in one.stop().accepted]
    assert all(set(one.answers) <= ANSWERS for one in loads)
    audit_after_faults(sleeper, accepted=accepted)


def test_sleeping_daemon_stops_nobody_from_selling_out(stack, proxies, spawn, load):
    """It holds a segment: its write has not come to the ledger yet."""
    ledger = proxies(stack.ledger.port)
    steady = spawn(stack)
    sleeper = spawn(stack, mysql_url=ledger.url(stack.mysql_url), lease_ms=5000)
    steady.reset("demo", 150, 3)
    awake = threading.Event()
    trap = ledger.once(WRITE, before=lambda link: awake.wait(60))
    running = load(sleeper, connections=64, delay_ms=100, stop_after=10**9)
    trap.wait()
    sleeper.pause()
    accepted = sell_out_after_faults(steady)
    assert steady.metric("seckill_recoveries_total") > 0
    awake.set()
    sleeper.cont()
    accepted += running.stop().accepted
    accepted += sell_out_after_faults(sleeper)
    assert audit_after_faults(steady, accepted=accepted) == 150


def test_killed_daemon_comes_back_with_other_order_ids(stack, spawn):
    daemon = spawn(stack)
    daemon.reset()
    order_ids = set()
    for _ in range(5):
        order_ids |= {daemon.order().json()["order_id"] for _ in range(20)}
        daemon.kill()
        daemon.start()
    assert len(order_ids) == 100
    assert audit_after_faults(daemon) == 100


def test_sigkill_of_every_daemon_leaves_a_sale_that_sells_out(stack, slow_ledger, spawn, load):
    options = {"mysql_url": slow_ledger.url(stack.mysql_url), "order_workers": 3, "max_batch": 8}
    daemons = [spawn(stack, **options) for _ in range(2)]
    daemons[0].reset("demo", 300, 5)
    loads = [load(daemon, connections=32, seconds=250) for daemon in daemons]
    wait_until(lambda: daemons[0].stock()["sold"] > 50, "some sales")
    for one in loads:
        one.wait_answered()
    for daemon in daemons:
        daemon.kill()
    accepted = [order for one in loads for order in one.stop().accepted]
    slow_ledger.delay = 0
    survivor = spawn(stack)
    accepted_later = sell_out_after_faults(survivor)
    assert audit_after_faults(survivor, accepted=accepted + accepted_later) == 300


def test_cut_link_is_only_a_retry(stack, proxies, spawn):
    """Every connection of the daemon is cut between two orders, ten times."""
    redis, ledger = proxies(stack.redis.address[1]), proxies(stack.ledger.port)
    daemon = spawn(stack, redis_url=redis.url(stack.redis_url),
                   mysql_url=ledger.url(stack.mysql_url))
    daemon.reset("demo", 100, 4)
    for number in range(10):
        for proxy in (redis, ledger):
            proxy.cut()
        response = daemon.order()
        if response.status != 201:
            assert response.answer in ANSWERS
            wait_until(lambda: daemon.order().status == 201, "an order after a cut")
    sell_out_after_faults(daemon)
    assert audit_after_faults(daemon) == 100
