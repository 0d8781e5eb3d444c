"""The service beside a Redis that sentinels watch: masters die, stand still and come back."""

import subprocess
import time

import pytest

from harness.audit import audit_after_faults
from harness.daemon import HASTY
from harness.engines_sentinel import SentinelTrio
from harness.processes import BUILD, clean_environment, wait_until
from harness.stack import Stack

ACCEPTED = 'seckill_orders_total{outcome="accepted"}'
UNITS = 50_000
ANSWERS = {"201", "409 sold_out", "503 unavailable", "503 outcome_unknown", "503 overloaded",
           "503 deadline"}


@pytest.fixture
def trio():
    with SentinelTrio() as servers:
        yield servers


@pytest.fixture
def shop(trio, stack):
    """The shared ledger, and the master of the moment."""
    return Stack(trio.master().url, stack.mysql_url)


class Rush:
    """A sale under load at a daemon that goes by the sentinels."""

    def __init__(self, shop, trio, spawn, load):
        self.shop, self.trio = shop, trio
        self.daemon = spawn(shop, redis_url=trio.url, **HASTY)
        self.daemon.reset("demo", UNITS, 20)
        self.load = load(self.daemon, connections=8, seconds=150, stop_after=10**9, delay_ms=100)
        self.wait_sales("the first orders", 50)

    def accepted(self):
        return self.daemon.metric(ACCEPTED)

    def wait_sales(self, what, count=20):
        wanted = self.accepted() + count
        wait_until(lambda: self.accepted() >= wanted, what, pause=0.1)

    def say_time(self, began, what):
        """From `began` until orders are accepted at the new master."""
        self.wait_sales("orders at the new master", 1)
        print(f"{what}: serves again after {time.monotonic() - began:.1f} s")

    def end(self):
        """Ends with the audit; Redis is the present master."""
        one = self.load.stop()
        master = self.trio.calm()
        self.shop.redis_url, self.shop.redis = master.url, master.client
        assert set(one.answers) <= ANSWERS, one.answers
        sold = audit_after_faults(self.daemon, accepted=one.accepted)
        assert UNITS > sold >= len(one.accepted) > 0


@pytest.fixture
def rush(shop, trio, spawn, load):
    return Rush(shop, trio, spawn, load)


def test_master_is_killed_in_mid_load(rush, trio):
    old = trio.master()
    began = time.monotonic()
    old.kill()
    trio.wait_promoted(old)
    rush.say_time(began, "master killed")
    up = f"event=redis_up address=127.0.0.1:{trio.master().port}"
    wait_until(lambda: up in rush.daemon.log(), "the new master's place in the log")
    old.start()  # it comes back as a replica
    rush.wait_sales("orders beside the old master")
    rush.end()


@pytest.mark.long
def test_promoted_replica_has_missed_writes(rush, trio):
    """The replicas' link is cut and they do not get in again, while the sale goes on."""
    old = trio.master()
    for replica in trio.replicas():
        replica.client("CONFIG", "SET", "masterauth", "wrong")
    old.client("CLIENT", "KILL", "TYPE", "replica")
    wait_until(lambda: trio.in_step(old) == 0, "replicas without their master")
    rush.wait_sales("orders that no replica hears of", 100)
    began = time.monotonic()
    old.kill()
    for replica in trio.servers:
        if replica is not old:
            replica.client("CONFIG", "SET", "masterauth", trio.PASSWORD)
    trio.wait_promoted(old)
    rush.say_time(began, "master killed, writes lost")
    rush.wait_sales("orders at a master with old counters", 100)
    rush.end()


@pytest.mark.long
def test_master_stands_still_and_comes_back_writable(rush, trio):
    """Until a sentinel has told it, it takes writes that no other server sees."""
    old = trio.master()
    began = time.monotonic()
    old.stop()
    trio.wait_promoted(old)
    old.go_on()
    rush.say_time(began, "master stood still")
    wait_until(lambda: old.client.role() == b"slave", "the old master as a replica")
    rush.wait_sales("orders after that", 100)
    rush.end()


def test_sentinels_that_are_dead_or_stand_still_are_passed_over(shop, trio, spawn):
    trio.sentinels[0].kill()
    trio.sentinels[1].stop()
    daemon = spawn(shop, redis_url=trio.url, **HASTY)
    daemon.reset("demo", 10, 2)
    assert [daemon.order(user_id=f"u{i}").status for i in range(10)] == [201] * 10
    assert daemon.order(user_id="late").answer == "409 sold_out"
    assert audit_after_faults(daemon) == 10
    assert trio.PASSWORD not in daemon.log() and trio.SENTINEL_PASSWORD not in daemon.log()


@pytest.fixture(scope="module")
def whole_trio():
    """One that no test breaks, and no busy machine either."""
    with SentinelTrio(down_after_ms=60_000) as servers:
        yield servers


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("change, words", [
    (("/shop/", "/nobody/"), "knows no master"),
    ((SentinelTrio.SENTINEL_PASSWORD, "wrong"), "WRONGPASS"),
    ((f":{SentinelTrio.PASSWORD}@", ":wrong@"), "WRONGPASS")], ids=["name", "sentinels", "servers"])
def test_mistakes_are_told(whole_trio, stack, spawn, change, words):
    shop = Stack(whole_trio.master().url, stack.mysql_url)
    daemon = spawn(shop, ready=False, redis_url=whole_trio.url.replace(*change))
    wait_until(lambda: words in daemon.log(), "the reason in the log")
    assert daemon.get("/readyz").status == 503


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("program, tests", [
    ("test_conformance", ": excludes"), ("test_waiter", None), ("test_loop", None),
    ("test_conformance", ": release_wakes_who_waits"), ("test_conformance", ": fence_grows"),
    ("test_conformance", ": scripts_are_flushed"),
    ("test_conformance", ": no_key_stays_for_ever"),
    ("test_conformance_loop", ": release_wakes_who_waits")])
def test_lock_library(whole_trio, stack, program, tests):
    """Of the conformance suite those cases, for every kind, that no busy machine makes late."""
    done = subprocess.run([f"{BUILD}/test/{program}", *([tests] if tests else [])], text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=150, check=False,
                          env={**clean_environment(), "SECKILL_REDIS_URL": whole_trio.url,
                               "SECKILL_MYSQL_URL": stack.mysql_url})
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
