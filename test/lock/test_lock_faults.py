"""Locks through a network that fails: answers lost after the server has done what it was asked."""

import threading
import time
from contextlib import ExitStack

import pytest

from harness.processes import wait_until
from harness.proxy import Link
from harness.standstill import Elapsed
from locks import Driver, each_kind, settled

HASHES = ("reentrant", "fair", "read-write")
# What is sent for a spin lock is what is sent for a simple one.
REDIS_KINDS = ("simple", "timestamp", *HASHES, "semaphore", "permit")
KINDS = ("simple", "table", "etcd", *REDIS_KINDS[1:])  # a test in short has one of each server
# A driver's commands for changes, besides EVAL and EVALSHA.
SENT = {"timestamp": rb"EXEC", "table": rb"UPDATE distributed_lock",
        "etcd": rb"/v3/kv/(txn|deleterange)"}


pytestmark = pytest.mark.usefixtures("form")


@pytest.fixture
def server(stack, request):
    """The server of the kind: its port and its URL."""
    kind = request.getfixturevalue("kind") if "kind" in request.fixturenames else "simple"
    if kind == "etcd":
        etcd = request.getfixturevalue("etcd")
        return etcd.port, etcd.url
    if kind == "table":
        return stack.ledger.port, stack.mysql_url
    return stack.redis.address[1], stack.redis_url


@pytest.fixture
def near(stack, server):
    """A driver next to the servers, to see what really is."""
    urls = dict.fromkeys((stack.redis_url, stack.mysql_url, server[1]))
    with Driver(*urls, lease=20000, timeout=10000) as driver:
        yield driver


@pytest.fixture
def proxy(server, proxies):
    return proxies(server[0])


@pytest.fixture
def far_url(server, proxy):
    """The server of the kind, behind the proxy."""
    return proxy.url(server[1])


def a_kind(url):
    """One that is on the server."""
    return {"mysql": "table", "etcd": "etcd"}.get(url.partition(":")[0], "simple")


@pytest.fixture
def far(far_url):
    """A driver behind the proxy. It hears that a connection is cut, and asks again at once."""
    with Driver(far_url, lease=20000, timeout=10000, outage=10000) as driver:
        driver("status", a_kind(far_url), "n")  # connects
        yield driver


@pytest.fixture
def curt(far_url):
    """A driver behind a proxy that goes deaf: this one gives up after its time-out."""
    with Driver(far_url, lease=20000, timeout=500, outage=10000) as driver:
        settled(driver, "status", a_kind(far_url), "n")
        yield driver


@pytest.fixture
def hasty(far_url):
    """A driver behind the proxy that soon gives up. A slow machine may make it do so early."""
    with Driver(far_url, lease=20000, timeout=250) as driver:
        settled(driver, "status", a_kind(far_url), "n")
        yield driver


def options(kind):
    return {"limit": 1} if kind in ("semaphore", "permit") else {}


def lose_answer(proxy, kind):
    return proxy.once(SENT.get(kind, rb"EVAL"), after=Link.cut)


def go_deaf(proxy, kind):
    """The next change is made, but neither its answer comes nor any after it."""
    return proxy.once(SENT.get(kind, rb"EVAL"), after=lambda _: proxy.fail("deaf"))


def assert_free(near, kind, name="n"):
    assert settled(near, "status", kind, name)["held"] == 0
    assert near.acquire(kind, name, **options(kind))["result"] == "ok"
    assert near("release", 1)["result"] == "ok"


@each_kind(KINDS)
def test_answer_to_acquire_is_lost(near, far, proxy, kind):
    trap = lose_answer(proxy, kind)
    answer = far.acquire(kind, "n", **options(kind))
    trap.wait()
    assert answer["result"] == "ok"
    status = near("status", kind, "n")
    assert (status["count"], status["fence"]) == (1, answer["fence"])
    assert near.acquire(kind, "n", **options(kind))["result"] == "busy"
    assert far("release", 1)["result"] == "ok"
    assert_free(near, kind)


@each_kind([kind for kind in KINDS if kind != "etcd"], keep=2)
def test_answers_to_two_tries_are_lost(near, far_url, proxy, kind):
    """The lease counts from the request that is answered, here as well as at the server."""
    def lose_late(link):
        time.sleep(0.4)  # more than the holder gives away of its lease
        link.cut()
    with Driver(far_url, timeout=5000, outage=60000) as far:
        assert_free(near, kind)  # from now on a table has its row
        traps = [proxy.once(SENT.get(kind, rb"EVAL"), after=lose_late) for _ in range(2)]
        answer = far.acquire(kind, "n", wait=30000, lease=10000, fixed=1, **options(kind))
        for trap in traps:
            trap.wait()
        assert answer["result"] == "ok"
        status = near("status", kind, "n")
        assert far("state", 1)["remaining_ms"] <= status["remaining_ms"]
        assert (status["count"], status["fence"]) == (1, answer["fence"])
        assert far("release", 1)["result"] == "ok"
        assert_free(near, kind)


class LateSendings:
    """The next sendings like `sent` lose their connections, and reach the server only by
    arrive()."""

    def __init__(self, proxy, sent, count, traps=()):
        self.gate, self.arrived = threading.Event(), []
        self.traps = [*traps, *(proxy.once(sent, before=self.keep, after=self.arrived.append)
                                for _ in range(count))]

    def keep(self, link):
        link.cut_client()
        self.gate.wait(60)

    def arrive(self, least):
        """Lets them go, until that many have arrived."""
        for trap in self.traps:
            trap.wait()
        self.gate.set()
        wait_until(lambda: len(self.arrived) >= least, "late sendings")


def late_answer(proxy, kind):
    """The next acquisition is answered after its lease of 1 s, and its two releases come late."""
    sent = SENT.get(kind, rb"EVAL")
    return LateSendings(proxy, sent, 2, [proxy.once(sent, after=lambda _: time.sleep(1.1))])


@each_kind(["simple", "table", "etcd", "fair"])
def test_release_of_a_late_acquisition_comes_later_still(near, far, proxy, kind):
    """It must not take the lock from the next try of the same caller, which has it by then."""
    assert_free(near, kind)  # from now on a table has its row
    late = late_answer(proxy, kind)
    answer = far.acquire(kind, "n", wait=30000, lease=1000)
    assert answer["result"] == "ok"
    late.arrive(1)
    status = near("status", kind, "n")
    assert (status["held"], status["fence"]) == (1, answer["fence"])
    assert far("release", 1)["result"] == "ok"


@each_kind(["simple", "table", "etcd", "fair"])
def test_late_acquisition_that_is_not_given_back_is_unknown(near, far, proxy, kind):
    assert_free(near, kind)
    late = late_answer(proxy, kind)
    answer = far.acquire(kind, "n", lease=1000)
    assert (answer["result"], answer["state"]) == ("unknown", "lost")
    assert far("release", 1)["result"] == "lost"
    late.arrive(1)
    assert_free(near, kind)


@each_kind(["simple", "table", "etcd", "timestamp"])
def test_acquisition_is_in_doubt_though_its_repeat_certainly_failed(near, far, proxy, kind):
    """The first sending has taken the lock, and the second finds no server."""
    assert_free(near, kind)
    trap = proxy.once(SENT.get(kind, rb"EVAL"), after=lambda _: proxy.refuse())
    answer = far.acquire(kind, "n")
    trap.wait()
    assert near("status", kind, "n")["held"] == 1
    assert (answer["result"], answer["state"]) == ("unknown", "unknown")
    proxy.admit()
    assert settled(far, "release", 1)["result"] == "ok"
    assert_free(near, kind)


@each_kind(["simple", "table"], keep=2)
def test_fence_of_a_hold_in_doubt_is_that_of_its_last_try(near, far_url, proxy, kind):
    """The first try is answered after its lease, and given back; the second is not answered."""
    sent = SENT.get(kind, rb"EVAL")
    with Driver(far_url, timeout=15000, outage=1) as far:
        assert_free(near, kind)
        settled(far, "status", kind, "n")
        proxy.once(sent, after=lambda _: time.sleep(3.1))
        proxy.once(sent)
        lost = proxy.once(sent, after=lambda _: proxy.refuse())
        assert far.acquire(kind, "n", wait=30000, lease=3000)["result"] == "unknown"
        lost.wait()
        proxy.admit()
        answer = settled(far, "renew", 1)
        assert (answer["result"], answer["fence"]) == ("ok", near("status", kind, "n")["fence"])
        assert settled(far, "release", 1)["result"] == "ok"


@each_kind(["table", "fair", "reentrant", "read-write"], keep=2)
def test_answer_to_reentry_is_lost(near, far, proxy, kind):
    first = far.acquire(kind, "n", hold=1)
    trap = lose_answer(proxy, kind)
    second = far.acquire(kind, "n", hold=2)
    trap.wait()
    assert (second["result"], second["count"]) == ("ok", 2)
    assert second["fence"] == first["fence"]
    assert near("status", kind, "n")["count"] == 2
    assert far("release", 2)["result"] == "ok"
    assert near("status", kind, "n")["held"] == 1
    assert far("release", 1)["result"] == "ok"
    assert_free(near, kind)


@each_kind(KINDS)
def test_answer_to_renew_is_lost(near, far, proxy, kind):
    far.acquire(kind, "n", lease=20000, **options(kind))
    trap = lose_answer(proxy, kind)
    answer = far("renew", 1)
    trap.wait()
    assert (answer["result"], answer["state"], answer["lost"]) == ("ok", "held", 0)
    if kind != "etcd":  # whose leases are shared
        assert near("status", kind, "n")["remaining_ms"] > 15000
    assert far("release", 1)["result"] == "ok"
    assert_free(near, kind)


@each_kind(KINDS)
def test_answer_to_release_is_lost(near, far, proxy, kind):
    far.acquire(kind, "n", **options(kind))
    trap = lose_answer(proxy, kind)
    answer = far("release", 1)
    trap.wait()
    assert (answer["result"], answer["state"]) == ("ok", "released")
    assert_free(near, kind)


@each_kind(KINDS)
def test_answer_to_release_is_lost_and_others_follow(near, far, proxy, kind):
    """They take the lock and give it back before the release is sent again."""
    far.acquire(kind, "n", **options(kind))

    def follow(link):
        for _ in range(5):
            assert near.acquire(kind, "n", **options(kind))["result"] == "ok"
            assert near("release", 1)["result"] == "ok"
        link.cut()
    trap = proxy.once(SENT.get(kind, rb"EVAL"), after=follow)
    answer = far("release", 1)
    trap.wait()
    assert (answer["result"], answer["state"]) == ("ok", "released")
    assert_free(near, kind)


@each_kind(["table", "fair", "reentrant", "read-write"], keep=2)
def test_answer_to_one_of_two_releases_is_lost(near, far, proxy, kind):
    far.acquire(kind, "n", hold=1)
    far.acquire(kind, "n", hold=2)
    trap = lose_answer(proxy, kind)
    assert far("release", 2)["result"] == "ok"
    trap.wait()
    assert near("status", kind, "n")["count"] == 1
    assert near.acquire(kind, "n")["result"] == "busy"
    assert far("release", 1)["result"] == "ok"
    assert_free(near, kind)


@each_kind(["table", "fair", "reentrant", "read-write"], keep=2)
def test_nobody_answers_one_of_three(near, curt, proxy, kind):
    """Neither the acquisition nor the release that is asked about later, after another one, takes
    or gives back more than its own hold."""
    curt.acquire(kind, "n", hold=1, wait=9000, lease=60000)
    go_deaf(proxy, kind)
    assert curt.acquire(kind, "n", hold=2, lease=60000)["result"] == "unknown"
    proxy.heal()
    proxy.cut()
    assert curt.acquire(kind, "n", hold=3, wait=9000, lease=60000)["count"] == 3
    assert settled(curt, "renew", 2)["result"] == "ok"
    go_deaf(proxy, kind)
    assert curt("release", 1)["result"] == "unknown"
    proxy.heal()
    proxy.cut()
    assert settled(curt, "release", 2)["result"] == "ok"
    assert settled(curt, "release", 1)["result"] == "ok"
    assert near("status", kind, "n")["count"] == 1
    assert near.acquire(kind, "n")["result"] == "busy"
    assert settled(curt, "release", 3)["result"] == "ok"
    assert_free(near, kind)


@each_kind(["etcd", "read-write"], keep=1)
def test_answers_to_a_reader_are_lost(near, far, proxy, kind):
    near.acquire(kind, "n", hold=2, mode="read")
    for ask, readers in ((lambda: far.acquire(kind, "n", mode="read"), 2),
                         (lambda: far("renew", 1), 2), (lambda: far("release", 1), 1)):
        trap = lose_answer(proxy, kind)
        assert ask()["result"] == "ok"
        trap.wait()
        assert near("status", kind, "n")["count"] == readers
    assert near("release", 2)["result"] == "ok"
    assert_free(near, kind)


@pytest.mark.parametrize("kind", ["semaphore", "permit"])
def test_answers_of_several_permits_are_lost(near, far, proxy, kind):
    trap = lose_answer(proxy, kind)
    assert far.acquire(kind, "n", permits=2, limit=3)["result"] == "ok"
    trap.wait()
    assert near("status", kind, "n")["count"] == 2
    trap = lose_answer(proxy, kind)
    assert far("release", 1)["result"] == "ok"
    trap.wait()
    assert near("status", kind, "n")["count"] == 0


def test_answers_about_a_permit_by_id_are_lost(near, far, proxy):
    token = near.acquire("permit", "n", limit=1)["token"]
    for words, result in ((("permit-extend", "n", token, 9000), "ok"),
                          (("permit-release", "n", token), "ok"),
                          (("permit-release", "n", token), "ok"),  # the last one is remembered
                          (("permit-extend", "n", token, 9000), "lost")):
        trap = lose_answer(proxy, "permit")
        assert far(*words)["result"] == result
        trap.wait()
    assert near("status", "permit", "n")["count"] == 0


def test_answers_about_a_latch_are_lost(near, far, proxy):
    assert near("latch-set", "n", 5)["result"] == "ok"
    trap = lose_answer(proxy, "latch")
    assert far("latch-down", "n", "order-1")["left"] == 4
    trap.wait()
    trap = lose_answer(proxy, "latch")
    assert far("latch-down", "n")["left"] == 3
    trap.wait()
    assert near("latch-count", "n")["left"] == 3
    trap = lose_answer(proxy, "latch")
    assert far("latch-set", "m", 2)["result"] in ("ok", "unknown")
    trap.wait()
    assert near("latch-count", "m")["left"] == 2


@pytest.mark.parametrize("request_words", [(), ("order-1",)])
def test_count_down_of_before_is_not_counted_in_a_latch_that_is_set_anew(near, far, proxy,
                                                                         request_words):
    assert near("latch-set", "n", 1)["result"] == "ok"

    def follow(link):
        assert near("latch-set", "n", 5)["result"] == "ok"
        link.cut()
    trap = proxy.once(rb"EVAL", after=follow)
    assert far("latch-down", "n", *request_words)["result"] == "ok"
    trap.wait()
    assert near("latch-count", "n")["left"] == 5
    assert far("latch-down", "n", *request_words)["left"] == 4  # another call


def test_answer_to_setting_permits_is_lost(near, far, proxy):
    trap = proxy.once(rb"604800", after=Link.cut)
    assert far("set", "semaphore", "n", 2)["result"] == "ok"
    trap.wait()
    assert near("status", "semaphore", "n")["limit"] == 2


def test_answer_to_break_is_lost(near, far, proxy):
    near.acquire("simple", "n")
    trap = proxy.once(rb"DEL", after=Link.cut)
    assert far("break", "simple", "n")["result"] in ("ok", "not owner", "unknown")
    trap.wait()
    assert near("status", "simple", "n")["held"] == 0


@pytest.mark.parametrize("store, sent", [(0, rb"EVAL"), (1, rb"lock_value")])
def test_answer_to_swap_is_lost(stack, proxies, near, store, sent):
    assert near("swap", store, "v", 0, "one")["result"] == "ok"
    version = near("read", store, "v")["version"]
    proxy = proxies(stack.ledger.port if store else stack.redis.address[1])
    with Driver(proxy.url(stack.mysql_url if store else stack.redis_url), timeout=10000) as far:
        far("read", store, "v")
        trap = proxy.once(sent, after=Link.cut)
        answer = far("swap", store, "v", version, "two")
        trap.wait()
    now = near("read", store, "v")
    assert now["value"] == "two"
    assert answer["result"] == "ok" and answer["version"] == now["version"]


@pytest.mark.parametrize("store, sent", [(0, rb"EVAL"), (1, rb"UPDATE lock_value")])
def test_answer_to_an_update_is_lost_and_another_follows(stack, proxies, near, store, sent):
    """A change is made once at most, whoever changes the value after it."""
    assert near("swap", store, "v", 0, "1")["result"] == "ok"
    proxy = proxies(stack.ledger.port if store else stack.redis.address[1])
    with Driver(proxy.url(stack.mysql_url if store else stack.redis_url), timeout=10000) as far:
        far("read", store, "v")

        def follow(link):
            assert near("add", store, "v")["result"] == "ok"
            link.cut()
        trap = proxy.once(sent, after=follow)
        answer = far("add", store, "v")
        trap.wait()
    assert near("read", store, "v")["value"] == "3"
    assert answer["result"] == "unknown"


def test_get_lock_goes_with_its_connection(stack, proxies, near):
    proxy = proxies(stack.ledger.port)
    with Driver(proxy.url(stack.mysql_url), lease=900, timeout=500) as far:
        for sent in (rb"GET_LOCK\(", rb"RELEASE_LOCK"):
            trap = proxy.once(sent, after=Link.cut)
            answer = far.acquire("get-lock", "n", wait=3000)
            if answer["result"] == "ok":
                assert far("release", 1)["result"] in ("ok", "lost")
            trap.wait()
            assert near.acquire("get-lock", "n", wait=5000)["result"] == "ok"
            assert near("release", 1)["result"] == "ok"
        assert far.acquire("get-lock", "n", wait=3000)["result"] == "ok"
        proxy.cut()
        wait_until(lambda: far("state", 1)["lost"] == 1, "call of on_lost")
        assert far("state", 1)["state"] == "lost"
        assert near.acquire("get-lock", "n", wait=9000)["result"] == "ok"
        assert far("release", 1)["result"] == "lost"


@each_kind(KINDS)
def test_nobody_answers_the_acquisition(near, hasty, proxy, kind):
    """It may have been done or not: renewing tells, releasing gives back whatever it was."""
    assert_free(near, kind)  # from now on a table has its row
    go_deaf(proxy, kind)
    with Elapsed() as passed:
        answer = hasty.acquire(kind, "n", lease=20000, **options(kind))
    assert (answer["result"], answer["state"]) == ("unknown", "unknown")
    assert passed.running < 3
    assert near("status", kind, "n")["held"] == 1
    proxy.heal()
    proxy.cut()
    answer = settled(hasty, "renew", 1)
    assert (answer["result"], answer["state"]) == ("ok", "held")
    assert answer["fence"] == near("status", kind, "n")["fence"]
    assert settled(hasty, "release", 1)["result"] == "ok"
    assert_free(near, kind)


def test_hold_that_was_in_doubt_is_renewed_as_long_as_told(near, hasty, proxy):
    """Its time counts from the acquisition, not from the beginning of the clock."""
    go_deaf(proxy, "simple")
    assert hasty.acquire("simple", "n", lease=6000, keep=60000)["result"] == "unknown"
    proxy.heal()
    proxy.cut()
    wait_until(lambda: hasty("state", 1)["state"] == "held", "answer to the watchdog")
    renewals = hasty("stats")["renewals"]
    wait_until(lambda: hasty("stats")["renewals"] > renewals + 1, "renewals")
    assert settled(hasty, "release", 1)["result"] == "ok"
    assert_free(near, "simple")


def test_nobody_answers_the_first_look(near, curt, proxy):
    """A timestamp lock writes nothing before it has looked: no doubt that it has failed."""
    proxy.once(rb"WATCH", after=lambda _: proxy.fail("deaf"))
    assert curt.acquire("timestamp", "n")["result"] == "failed"
    proxy.heal()
    proxy.cut()
    assert settled(curt, "acquire", 1, "timestamp", "n")["result"] == "ok"
    proxy.once(rb"WATCH", after=Link.cut)  # the connection is gone, not the server
    assert settled(curt, "release", 1)["result"] == "ok"
    assert_free(near, "timestamp")


@each_kind(["table"], keep=1)
def test_nobody_answers_the_making_of_a_row(near, curt, proxy, kind):
    """The call takes no lock, so it is certain that no lock exists."""
    trap = proxy.once(rb"INSERT IGNORE INTO distributed_lock",
                      after=lambda _: proxy.fail("deaf"))
    answer = curt.acquire(kind, "n", lease=9000)
    trap.wait()
    assert answer["result"] == "failed"
    assert near("status", kind, "n")["held"] == 0
    proxy.heal()
    proxy.cut()
    assert_free(near, kind)


@each_kind(KINDS)
def test_unknown_acquisition_is_given_back(near, hasty, proxy, kind):
    assert_free(near, kind)
    go_deaf(proxy, kind)
    assert hasty.acquire(kind, "n", lease=60000, **options(kind))["result"] == "unknown"
    assert hasty("release", 1)["result"] in ("unknown", "failed")
    proxy.heal()
    proxy.cut()
    assert settled(hasty, "release", 1)["result"] == "ok"
    assert_free(near, kind)


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("kind, mode", [*((kind, {}) for kind in REDIS_KINDS),
                                        ("read-write", {"mode": "read"}),
                                        ("etcd", {}), ("etcd", {"mode": "read"})])
def test_acquisition_that_comes_after_its_release_takes_nothing(near, curt, proxy, kind, mode):
    """Its caller has heard that it holds nothing, and would neither renew nor release it."""
    assert_free(near, kind)
    released, arrived = threading.Event(), threading.Event()

    def delay(_):
        released.wait(30)
    # it may be sent twice
    traps = [proxy.once(SENT.get(kind, rb"EVAL"), before=delay, after=lambda _: arrived.set())
             for _ in range(2)]
    answer = curt.acquire(kind, "n", lease=60000, **options(kind), **mode)
    assert answer["result"] == "unknown"
    for trap in traps:
        proxy.forget(trap)
    assert settled(curt, "release", 1)["result"] == "lost"
    released.set()
    assert arrived.wait(30)
    assert_free(near, kind)


def test_hold_whose_acquisition_took_long_is_renewed(stack, near, proxy):
    """At once: the watchdog has looked at it twice before it was held, and a third look would come
    when the lease ends."""
    with Driver(proxy.url(stack.redis_url), timeout=20000) as slow:
        assert slow("status", "simple", "n")["held"] == 0  # connects
        trap = proxy.once(rb"EVAL", after=lambda _: time.sleep(7.1))
        with Elapsed() as passed:
            assert slow.acquire("simple", "n", lease=10000)["result"] == "ok"
            trap.wait()
            wait_until(lambda: slow("stats")["renewals"] > 0, "renewal")
        assert passed.running < 9.6
        assert slow("state", 1)["state"] == "held"
        assert slow("release", 1)["result"] == "ok"
        assert_free(near, "simple")


@each_kind(["simple", "table", "etcd", "timestamp"])
@pytest.mark.parametrize("how", ["hold", "deaf", "refuse"])
def test_hold_ends_when_the_server_is_out_of_reach(near, far_url, proxy, kind, how):
    """The holder knows before anybody else can have it, though a renewal still waits."""
    with Driver(far_url, timeout=8000) as far:
        assert settled(far, "acquire", 1, kind, "n", "lease=900")["result"] == "ok"
        proxy.fail(how)
        assert near.acquire(kind, "n", wait=9000)["result"] == "ok"
        state = far("state", 1)
        assert (state["state"], state["remaining_ms"]) == ("lost", 0)
        # on a busy machine, for the thread that tells; a renewal waits much longer
        with Elapsed() as passed:
            wait_until(lambda: far("state", 1)["lost"] == 1, "call of on_lost")
        assert passed.running < 3
        proxy.heal()
        proxy.cut()
        assert settled(far, "release", 1)["result"] == "lost"
        assert far("state", 1)["lost"] == 1
        assert near("renew", 1)["result"] == "ok"


def test_silent_mysql_does_not_delay_renewals_at_redis(stack, proxies):
    proxy = proxies(stack.ledger.port)
    with Driver(stack.redis_url, proxy.url(stack.mysql_url), timeout=8000) as driver:
        assert driver.acquire("table", "n", hold=1, lease=9000)["result"] == "ok"
        assert driver.acquire("simple", "n", hold=2, lease=6000)["result"] == "ok"
        proxy.hold()
        wait_until(lambda: driver("state", 1)["lost"] == 1, "loss at MySQL")
        state = driver("state", 2)
        assert (state["state"], state["lost"]) == ("held", 0)
        assert driver("release", 2)["result"] == "ok"


WAIT_MS, TIMEOUT_MS, SLACK_MS = 400, 5000, 3000  # so much slack, and still less than a time-out


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("wait", [WAIT_MS, 0])
def test_wait_is_bounded_though_the_server_is_silent(stack, etcd, proxies, wait):
    """By one time-out more: not by one for each sending, and again for leaving the queue. All kinds
    wait at the same time."""
    places = [(stack.redis_url, proxies(stack.redis.address[1]), REDIS_KINDS),
              (stack.mysql_url, proxies(stack.ledger.port), ("table", "get-lock")),
              (etcd.url, proxies(etcd.port), ("etcd",))]
    with ExitStack() as running:
        near = running.enter_context(
            Driver(*(url for url, _, _ in places), lease=60000, timeout=10000))
        waiters = {kind: running.enter_context(
                       Driver(proxy.url(url), timeout=TIMEOUT_MS, outage=60000))
                   for url, proxy, kinds in places for kind in kinds}
        for hold, (kind, far) in enumerate(waiters.items()):
            assert near.acquire(kind, kind, hold, **options(kind))["result"] == "ok"
            assert far.acquire(kind, kind, **options(kind))["result"] == "busy"

        def silence():
            for _, proxy, _ in places:
                proxy.hold()
        if wait == 0:
            silence()
        with Elapsed() as passed:
            for kind, far in waiters.items():
                far.send("acquire", 1, kind, kind, wait=wait, **options(kind))
            if wait:
                time.sleep(wait / 2000)
                silence()
            answers = {kind: far.read()["result"] for kind, far in waiters.items()}
        assert set(answers.values()) <= {"unknown", "failed", "timeout"}, answers
        assert passed.running * 1000 < wait + TIMEOUT_MS + SLACK_MS
        for far in waiters.values():
            far.kill()  # it would wait for the server once more, to give back what it may have


def test_short_outage_does_not_lose_a_hold(near, far, proxy):
    far.acquire("simple", "n", lease=9000)
    renewals = far("stats")["renewals"]
    proxy.refuse()
    time.sleep(4)  # over the time of the first renewal
    assert far("stats")["renewals"] == renewals
    proxy.admit()
    wait_until(lambda: far("stats")["renewals"] > renewals, "renewal")
    state = far("state", 1)
    assert (state["state"], state["lost"]) == ("held", 0)
    assert far("release", 1)["result"] == "ok"
    assert_free(near, "simple")


def test_who_awaits_a_latch_bears_an_outage(stack, proxy, near):
    assert near("latch-set", "n", 1)["result"] == "ok"
    with Driver(proxy.url(stack.redis_url), timeout=500, outage=7000) as far:
        far.send("latch-await", "n", 60000)
        time.sleep(0.3)
        proxy.refuse()
        time.sleep(1.3)  # it looks once a second
        proxy.admit()
        time.sleep(0.3)
        assert near("latch-down", "n")["left"] == 0
        with Elapsed() as passed:
            assert far.read()["result"] == "ok"
        assert passed.running < 5
        proxy.refuse()
        assert far("latch-await", "m", 60000)["result"] == "failed"  # after outage_ms


def test_waiter_bears_an_outage(near, far, proxy):
    near.acquire("simple", "n")
    far.send("acquire", 1, "simple", "n", wait=60000)
    time.sleep(0.3)
    proxy.cut()
    time.sleep(0.3)
    near("release", 1)
    with Elapsed() as passed:
        assert far.read()["result"] == "ok"
    assert passed.running < 5  # it asks once a second, and need not wait for the lease


BREAKS = {"table": rb"UPDATE distributed_lock", "etcd": rb"request_delete_range"}


@each_kind(["simple", "table", "etcd", "fair"])
def test_answer_to_a_break_is_lost(near, far, proxy, kind):
    """Its repeat finds nobody, who may have been taken away by it or may have gone."""
    assert near.acquire(kind, "n")["result"] == "ok"
    trap = proxy.once(BREAKS.get(kind, rb"DEL"), after=Link.cut)
    assert far("break", kind, "n")["result"] == "unknown"
    trap.wait()
    assert_free(near, kind)
    assert far("break", kind, "n")["result"] == "not owner"


@pytest.mark.parametrize("change", [("break", "semaphore", "n"), ("set", "semaphore", "n", 3)])
def test_change_whose_repeat_cannot_be_sent_is_unknown(near, far, proxy, change):
    assert near.acquire("semaphore", "n", limit=1)["result"] == "ok"
    trap = proxy.once(rb"DEL" if change[0] == "break" else rb"SET", after=lambda _: proxy.refuse())
    assert far(*change)["result"] == "unknown"
    trap.wait()
    proxy.admit()


# ---- proclamations ----

ELECTING = ("simple", "table", "etcd", "timestamp", *HASHES)
PROCLAIMS = {"timestamp": rb"EXEC", "table": rb"INSERT INTO lock_leader", "etcd": rb"request_put"}


def proclaimed(near, kind):
    leader = near("leader", kind, "n")
    assert leader["result"] == "ok"
    return leader["value"] if leader["led"] else None


@each_kind(ELECTING)
def test_answer_to_a_proclamation_is_lost(near, far, proxy, kind):
    """It is sent again, and is the same proclamation."""
    term = far("campaign", 1, kind, "n", "one")["fence"]
    trap = proxy.once(PROCLAIMS.get(kind, rb"EVAL"), after=Link.cut)
    assert far("proclaim", 1, "two")["result"] == "ok"
    trap.wait()
    assert proclaimed(near, kind) == "two"
    assert near("leader", kind, "n")["term"] == term
    assert far("release", 1)["result"] == "ok"
    assert proclaimed(near, kind) is None
    assert_free(near, kind)


@each_kind(ELECTING)
def test_proclamation_that_is_not_answered_is_unknown(near, curt, proxy, kind):
    """It is made; the caller hears so when it asks again."""
    assert settled(curt, "campaign", 1, kind, "n", "one", "lease=60000")["result"] == "ok"
    trap = proxy.once(PROCLAIMS.get(kind, rb"EVAL"), after=lambda _: proxy.fail("deaf"))
    answer = curt("proclaim", 1, "two")
    trap.wait()
    assert answer["result"] == "unknown"
    assert proclaimed(near, kind) == "two"
    proxy.heal()
    proxy.cut()
    assert settled(curt, "proclaim", 1, "two")["result"] == "ok"
    assert proclaimed(near, kind) == "two"
    assert settled(curt, "proclaim", 1, "three")["result"] == "ok"
    assert proclaimed(near, kind) == "three"
    assert settled(curt, "release", 1)["result"] == "ok"


@each_kind(ELECTING)
def test_proclamation_that_is_not_sent_has_failed(near, far, proxy, kind):
    """The former value stays, also when renewals reach the server again."""
    assert far("campaign", 1, kind, "n", "one", "lease=9000")["result"] == "ok"
    proxy.refuse()
    first = far("proclaim", 1, "two")["result"]  # of which a part may be on its way already
    assert first in ("failed", "unknown")
    assert far("proclaim", 1, "three")["result"] == "failed"
    proxy.admit()
    assert settled(far, "renew", 1)["result"] == "ok"
    assert proclaimed(near, kind) in ({"one"} if first == "failed" else {"one", "two"})
    assert settled(far, "proclaim", 1, "four")["result"] == "ok"
    assert proclaimed(near, kind) == "four"


def late_proclamation(far, proxy, kind):
    """Proclaims "late", of which two sendings come late."""
    late = LateSendings(proxy, PROCLAIMS.get(kind, rb"EVAL"), 2)
    while not all(trap.sprung.is_set() for trap in late.traps):
        assert far("proclaim", 1, "late")["result"] in ("ok", "unknown", "failed")
    return late


@each_kind(ELECTING)
def test_late_proclamation_undoes_no_later_one(near, far_url, proxy, kind):
    with Driver(far_url, lease=60000, timeout=1500, outage=10000) as far:
        assert settled(far, "campaign", 1, kind, "n", "one")["result"] == "ok"
        late = late_proclamation(far, proxy, kind)
        assert settled(far, "proclaim", 1, "last")["result"] == "ok"
        assert proclaimed(near, kind) == "last"
        late.arrive(2)
        assert proclaimed(near, kind) == "last"
        assert settled(far, "release", 1)["result"] == "ok"
        assert proclaimed(near, kind) is None


@each_kind(ELECTING)
def test_late_proclamation_changes_no_later_term(near, far_url, proxy, kind):
    with Driver(far_url, lease=60000, timeout=1500, outage=10000) as far:
        assert settled(far, "campaign", 1, kind, "n", "one")["result"] == "ok"
        late = late_proclamation(far, proxy, kind)
        assert near("break", kind, "n")["result"] == "ok"
        assert near("campaign", 1, kind, "n", "next")["result"] == "ok"
        late.arrive(2)
        assert proclaimed(near, kind) == "next"
        assert settled(far, "proclaim", 1, "late")["result"] in ("lost", "not owner")
        assert proclaimed(near, kind) == "next"
        assert near("release", 1)["result"] == "ok"


@each_kind(ELECTING)
def test_answer_to_a_campaign_is_lost(near, far, proxy, kind):
    """Either of its two steps."""
    assert_free(near, kind)  # from now on a table has its row
    for step in range(2):
        if step == 0:
            trap = lose_answer(proxy, kind)
        else:
            proxy.once(SENT.get(kind, rb"EVAL"))
            trap = proxy.once(PROCLAIMS.get(kind, rb"EVAL"), after=Link.cut)
        assert far("campaign", 1, kind, "n", f"in-{step}")["result"] == "ok"
        trap.wait()
        assert proclaimed(near, kind) == f"in-{step}"
        assert near("status", kind, "n")["count"] == 1
        assert far("release", 1)["result"] == "ok"
        assert_free(near, kind)
