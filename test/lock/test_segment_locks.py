"""The locks under segment_lock: each sells out exactly and bears the death of holder or server."""

import time
from contextlib import ExitStack

import pytest

from harness.audit import (answered, audit, audit_after_faults, audit_sale, sell_out,
                           sell_out_after_faults)
from harness.daemon import STEADY
from harness.load import stop_all
from harness.processes import wait_until
from harness.proxy import WRITE
from harness.servers import RedisAlone, ZooKeeper
from locks import Driver

LOCKS = ("redis", "redlock", "mysql", "zookeeper")
SOLD_OUT = {"201", "409 sold_out"}

every_lock = pytest.mark.parametrize("lock", LOCKS)


@pytest.fixture(scope="module")
def red_servers():
    with ExitStack() as running:
        yield [running.enter_context(RedisAlone()) for _ in range(3)]


@pytest.fixture
def lock_options(request, lock):
    """The daemon's options for the lock. The lease is long enough for slow machines."""
    options = {"lock": lock, "lease_ms": 2000}
    if lock == "redlock":
        servers = request.getfixturevalue("red_servers")
        options["lock_servers"] = ",".join(server.url for server in servers)
    if lock == "zookeeper":
        options["lock_servers"] = request.getfixturevalue("zookeeper").url
    return options


@pytest.mark.long(keep=4)
@pytest.mark.parametrize("lock, max_batch", [*((lock, 1) for lock in LOCKS), ("redis", 128)])
def test_two_daemons_sell_exactly_the_total(stack, spawn, load, lock_options, max_batch):
    pair = [spawn(stack, max_batch=max_batch, **{**lock_options, **STEADY}) for _ in range(2)]
    pair[0].reset("demo", 500, 10)
    loads = [load(daemon, connections=32, qty=(1, 3), stop_after=300) for daemon in pair]
    accepted = [order for one in loads for order in one.wait().accepted]
    assert all(set(one.answers) <= SOLD_OUT for one in loads)
    accepted += sell_out(pair[0])
    audit_sale(stack, "demo")
    assert audit(pair[1], accepted=accepted) == 500


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("lock, kind", [("redlock", "red"), ("mysql", "table"),
                                        ("zookeeper", "queue")])
def test_segment_whose_lock_is_held_elsewhere_waits_and_the_others_sell(stack, spawn, lock_options,
                                                                        kind):
    daemon = spawn(stack, deadline_ms=3000, **lock_options)
    daemon.reset("demo", 10, 2)
    servers = lock_options.get("lock_servers", stack.mysql_url).split(",")
    with Driver(*servers, prefix="seckill:guard:", lease=60_000, timeout=2000) as elsewhere:
        assert elsewhere.acquire(kind, "demo:0")["result"] == "ok"
        for _ in range(5):
            order = daemon.order()
            assert (order.status, order.json()["segment"]) == (201, 1)
        # It may be accepted yet, if an order worker had it just then.
        assert daemon.order().status == 503
        assert elsewhere("release", 1)["result"] == "ok"
        assert daemon.order().json()["segment"] == 0
    assert audit_after_faults(daemon) in (6, 7)


@pytest.mark.long(keep=2)
@every_lock
def test_segment_of_a_dead_holder_is_sold_in_the_end(stack, proxies, spawn, lock_options):
    proxy = proxies(stack.ledger.port)
    victim = spawn(stack, **{**lock_options, "mysql_url": proxy.url(stack.mysql_url)})
    other = spawn(stack, **lock_options)
    other.reset("demo", 20, 2)
    assert victim.order().status == 201
    trap = proxy.once(WRITE, before=lambda link: (victim.kill(), link.cut()))
    with pytest.raises(ConnectionError):
        victim.order(qty=15)
    trap.wait()
    assert len(sell_out_after_faults(other)) == 19
    assert audit_after_faults(other) == 20


@pytest.mark.long(keep=1)
@every_lock
def test_reset_and_reconcile_in_mid_load(stack, spawn, load, lock_options):
    pair = [spawn(stack, max_batch=8, **{**lock_options, **STEADY}) for _ in range(2)]
    pair[0].reset("demo", 100_000, 5)
    loads = [load(daemon, connections=16, seconds=250, delay_ms=80) for daemon in pair]
    for _ in range(3):
        time.sleep(0.2)
        pair[0].reconcile()
        pair[1].reset("demo", 100_000, 5)
    time.sleep(0.2)
    accepted = stop_all(loads)
    assert all(set(one.answers) <= {"201"} for one in loads)
    for daemon in pair:
        wait_until(lambda: daemon.metric("seckill_queue_depth") == 0, "the end of the orders")
    audit(pair[0], accepted=accepted, changed=True)


@pytest.mark.parametrize("lock", ["redlock"])
def test_redlock_bears_the_loss_of_a_minority_and_says_so_of_a_majority(stack, spawn, lock_options):
    with ExitStack() as running:
        servers = [running.enter_context(RedisAlone()) for _ in range(3)]
        lock_options["lock_servers"] = " ".join(server.url for server in servers)
        daemon = spawn(stack, **lock_options)
        daemon.reset("demo", 20, 5)
        servers[0].kill()
        for _ in range(5):
            wait_until(lambda: daemon.order().status == 201, "an order without a minority")
        servers[1].kill()
        assert daemon.order().answer == "503 unavailable"
        servers[1].start()
        wait_until(lambda: daemon.order().status == 201, "an order with a majority again")
        sell_out_after_faults(daemon)
        assert audit_after_faults(daemon) == 20


@pytest.mark.long
@pytest.mark.parametrize("lock", ["zookeeper"])
def test_zookeeper_that_is_gone_is_503_and_that_is_back_sells(stack, spawn, lock_options):
    if not ZooKeeper.PROGRAM.exists():
        pytest.skip("no ZooKeeper is installed")
    with ZooKeeper() as server:
        daemon = spawn(stack, **{**lock_options, "lock_servers": server.url, "deadline_ms": 3000})
        daemon.reset("demo", 5, 2)
        # The first use of a server that has just started may take longer than an order has.
        assert answered(daemon.order).status == 201
        server.kill()
        assert daemon.order().status == 503
        server.start()
        assert len(sell_out_after_faults(daemon)) >= 3
        assert audit_after_faults(daemon) == 5


def test_daemons_with_different_locks_never_oversell(stack, spawn, load, red_servers, zookeeper):
    """The lock in Redis and the ledger notice what guard locks do not see of each other."""
    servers = " ".join([*(server.url for server in red_servers), zookeeper.url])
    daemons = [spawn(stack, lock=lock, lock_servers=servers, **STEADY) for lock in LOCKS]
    daemons[0].reset("demo", 500, 7)
    loads = [load(daemon, connections=16, qty=(1, 3), stop_after=300) for daemon in daemons]
    accepted = [order for one in loads for order in one.wait().accepted]
    assert all(set(one.answers) <= SOLD_OUT for one in loads)
    accepted += sell_out(daemons[0])
    assert audit(daemons[1], accepted=accepted) == 500
