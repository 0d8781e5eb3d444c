"""Locks of whole processes that stop, die and wait, and of servers that start again."""

import time
from contextlib import ExitStack

import pytest

from harness.processes import wait_until
from harness.servers import Etcd, RedisAlone, ZooKeeper
from harness.standstill import Elapsed
from locks import Driver, driver_words, seconds_since, settled

LEASE_MS, POLL_MS = 800, 400
REDIS_KINDS = ("simple", "timestamp", "spin", "reentrant", "fair", "read-write", "semaphore",
               "permit")
# Kinds that are tried at once, on the servers of the first.
GROUPS = {"redis": REDIS_KINDS, "table": ("table",), "queue": ("queue",), "red": ("red",),
          "get-lock": ("get-lock",), "etcd": ("etcd",)}
SLACK = 3  # seconds, for two processes on a busy machine


def servers_of(kind, stack, request):
    if kind == "queue":
        return [request.getfixturevalue("zookeeper").url]
    if kind == "etcd":
        return [request.getfixturevalue("etcd").url]
    if kind == "red":
        return [stack.redis_url.rpartition("/")[0] + f"/{db}" for db in (3, 4, 5)]
    return [stack.mysql_url if kind in ("table", "get-lock") else stack.redis_url]


@pytest.fixture
def servers(request, stack):
    kind = request.node.callspec.params.get("kind") or request.node.callspec.params["kinds"][0]
    return servers_of(kind, stack, request)


@pytest.fixture
def pair(servers):
    """Two drivers on the servers of the kind."""
    with Driver(*servers, lease=LEASE_MS, poll=POLL_MS) as one:
        with Driver(*servers, lease=LEASE_MS, poll=POLL_MS) as two:
            yield one, two


def options(kind):
    return {"limit": 1} if kind in ("semaphore", "permit") else {}


def acquire_all(driver, kinds=REDIS_KINDS, **more):
    """A hold of each kind, of that name; their fences by kind. ZooKeeper may still have the session
    of a driver that was killed at the end of the test before."""
    fences = {}
    more.setdefault("wait", 10000)
    for hold, kind in enumerate(kinds):
        words = driver_words(["acquire", hold, kind, kind], {**options(kind), **more})
        answer = settled(driver, *words)  # on a busy machine it may come after the lease
        assert answer["result"] == "ok", kind
        fences[kind] = answer["fence"]
    return fences


def assert_told(driver, kinds=REDIS_KINDS):
    """All its holds of acquire_all are found to be lost, and each is told once."""
    for hold, kind in enumerate(kinds):
        wait_until(lambda hold=hold: driver("state", hold)["lost"] == 1, f"call of on_lost: {kind}")
        assert driver("state", hold)["state"] == "lost"
        assert settled(driver, "release", hold)["result"] == "lost"
        assert driver("state", hold)["lost"] == 1


def assert_held(driver, kinds=REDIS_KINDS):
    """They are renewed, and given back."""
    for hold, kind in enumerate(kinds):
        assert settled(driver, "renew", hold)["result"] == "ok", kind
        assert settled(driver, "release", hold)["result"] == "ok", kind


class Resource:
    """A guarded resource: refuses a fence smaller than one it has seen."""

    SCRIPT = ("local seen = tonumber(redis.call('GET', KEYS[1]) or '0') "
              "if tonumber(ARGV[1]) < seen then return 0 end "
              "redis.call('SET', KEYS[1], ARGV[1]) return 1")

    def __init__(self, redis, name="guarded"):
        self.redis, self.name = redis, name

    def write(self, fence):
        return self.redis("EVAL", self.SCRIPT, 1, self.name, fence) == 1


def assert_later(stack, new, old):
    """Each guarded resource took the old fence once, takes the new one, then refuses the old."""
    for kind, fence in new.items():
        if fence != 0:
            resource = Resource(stack.redis, kind)
            assert resource.write(old[kind]) and resource.write(fence), kind
            assert fence > old[kind] and not resource.write(old[kind]), kind


def ends_within(kinds):
    """Seconds after which another can have what its holder renews no more."""
    least = {("queue",): 4, ("etcd",): 2.5}  # those servers have a least time
    return least.get(kinds, LEASE_MS / 1000) + POLL_MS / 1000 + SLACK


@pytest.mark.parametrize("kinds", GROUPS.values(), ids=GROUPS)
def test_holder_is_stopped_past_its_lease(stack, pair, kinds):
    holder, next_one = pair
    old = acquire_all(holder, kinds)
    holder.stop()
    with Elapsed() as passed:
        new = acquire_all(next_one, kinds, wait=20000, lease=20000)
    assert passed.running < ends_within(kinds)
    holder.resume()
    for hold, kind in enumerate(kinds):
        state = holder("state", hold)
        assert (state["state"], state["remaining_ms"]) == ("lost", 0), kind
    assert_told(holder, kinds)
    assert_later(stack, new, old)
    assert_held(next_one, kinds)


@pytest.mark.parametrize("kinds", GROUPS.values(), ids=GROUPS)
def test_holder_is_killed(servers, kinds):
    with ExitStack() as running:
        holder, *waiters = (running.enter_context(Driver(*servers, lease=LEASE_MS, poll=POLL_MS))
                            for _ in range(1 + len(kinds)))
        acquire_all(holder, kinds)
        for kind, waiter in zip(kinds, waiters):
            waiter.send("acquire", 1, kind, kind, wait=20000, lease=20000, **options(kind))
        time.sleep(LEASE_MS / 2000)
        with Elapsed() as passed:
            holder.kill()
            for waiter in waiters:
                assert waiter.read()["result"] == "ok"
        assert passed.running < ends_within(kinds)
        for waiter in waiters:
            assert settled(waiter, "release", 1)["result"] == "ok"


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("kind", ["reentrant", "fair", "read-write", "queue", "get-lock", "etcd"])
def test_waiter_is_killed(pair, servers, kind):
    """It does not get in the way of those who came later."""
    holder, waiter = pair
    with Driver(*servers, lease=LEASE_MS, poll=POLL_MS) as later:
        holder.acquire(kind, "n")
        waiter.send("acquire", 1, kind, "n", wait=60000)
        time.sleep(0.3)
        later.send("acquire", 1, kind, "n", wait=60000, lease=20000)
        time.sleep(0.3)
        waiter.kill()
        with Elapsed() as passed:
            holder("release", 1)
            assert later.read()["result"] == "ok"
        assert passed.running < 5 + SLACK
        assert later("release", 1)["result"] == "ok"


# ---- servers that start again ----


@pytest.fixture
def server():
    with RedisAlone() as server:
        yield server


def test_server_restarts_with_its_data(server):
    server.client("CONFIG", "SET", "appendfsync", "always")
    with Driver(server.url, lease=20000) as holder, Driver(server.url, lease=20000) as other:
        old = acquire_all(holder)
        server.kill()
        server.start()
        for hold, kind in enumerate(REDIS_KINDS):
            words = driver_words(["acquire", hold, kind, kind], options(kind))
            assert settled(other, *words)["result"] == "busy"
            assert settled(holder, "renew", hold)["result"] == "ok"
            assert holder("state", hold)["state"] == "held"
            assert settled(holder, "release", hold)["result"] == "ok"
        new = acquire_all(other, wait=5000)
        assert all(new[kind] > old[kind] for kind in REDIS_KINDS)


def test_server_restarts_without_its_data(stack, server):
    """Then there are two holders for a moment, as lock.h says, and the fence tells them apart."""
    with Driver(server.url, lease=2000) as holder, Driver(server.url) as other:
        old = acquire_all(holder)
        server.kill()
        server.forget()
        server.start()
        assert_later(stack, acquire_all(other, wait=5000), old)
        assert_told(holder)
        assert_held(other)


def replicate(server, replica, port):
    """Makes a replica of a server, by way of a port, and waits until it has all."""
    server.client("CONFIG", "SET", "repl-diskless-sync-delay", 0)
    replica.client("REPLICAOF", "127.0.0.1", port)
    wait_until(lambda: b"master_link_status:up" in replica.client("INFO", "replication"),
               "replication")


def test_replica_that_missed_writes_is_promoted(stack, server, proxies):
    """It has neither the locks nor their last fences, only older ones; new ones are greater still.
    Two hold each lock for a moment, as lock.h says, and what it guards knows who came later."""
    link, place = proxies(server.port), proxies(server.port)  # where clients look for the server
    url = place.url(server.url)
    with RedisAlone() as replica, Driver(url) as holder, Driver(url) as other:
        replicate(server, replica, link.port)
        first = acquire_all(holder)
        for hold in range(len(REDIS_KINDS)):
            assert holder("release", hold)["result"] == "ok"
        server.client("WAIT", 1, 10000)
        link.refuse()  # from here on it misses everything
        last = acquire_all(holder, lease=2000)
        for kind in REDIS_KINDS:
            assert last[kind] > first[kind]
            assert int(replica.client("GET", f"{{{kind}}}:fence")) == first[kind]
        replica.client("REPLICAOF", "NO", "ONE")
        place.target_port = replica.port
        place.cut()
        assert_later(stack, acquire_all(other, wait=5000), last)
        assert_told(holder)
        assert_held(other)


def test_table_survives_a_restart(private_stack):
    maria = private_stack.maria_server
    with Driver(maria.url, lease=20000) as holder, Driver(maria.url, lease=20000) as other:
        old = holder.acquire("table", "n")
        maria.kill()
        maria.start()
        assert settled(other, "acquire", 1, "table", "n")["result"] == "busy"
        assert settled(holder, "renew", 1)["result"] == "ok"
        assert settled(holder, "release", 1)["result"] == "ok"
        new = settled(other, "acquire", 1, "table", "n")
        assert new["result"] == "ok" and new["fence"] > old["fence"]


@pytest.mark.long
def test_queue_survives_a_restart():
    """The holder stands still meanwhile: a server that is not ready yet may leave its connection
    without an answer, and the library waits for that until the hold has ended."""
    if not ZooKeeper.PROGRAM.exists():
        pytest.skip("no ZooKeeper is installed")
    with ZooKeeper() as server, Driver(server.url, lease=45000, timeout=3000) as holder:
        old = settled(holder, "acquire", 1, "queue", "n")
        assert old["result"] == "ok"
        holder.stop()
        server.kill()
        server.start()
        holder.resume()
        with Driver(server.url, lease=45000, timeout=3000) as other:
            assert settled(other, "acquire", 1, "queue", "n")["result"] == "busy"
            assert settled(holder, "renew", 1, timeout=30)["result"] == "ok"
            assert settled(holder, "release", 1)["result"] == "ok"
            new = other.acquire("queue", "n", wait=20000)
            assert new["result"] == "ok" and new["fence"] > old["fence"]


@pytest.mark.long
def test_etcd_survives_a_restart():
    if not Etcd.PROGRAM:
        pytest.skip("no etcd is installed")
    with Etcd() as server, Driver(server.url, lease=20000) as holder:
        with Driver(server.url, lease=20000) as other:
            old = holder.acquire("etcd", "n")
            server.kill()
            server.start()
            assert settled(other, "acquire", 1, "etcd", "n")["result"] == "busy"
            assert settled(holder, "renew", 1)["result"] == "ok"
            assert settled(holder, "release", 1)["result"] == "ok"
            new = settled(other, "acquire", 1, "etcd", "n")
            assert new["result"] == "ok" and new["fence"] > old["fence"]


def test_red_bears_the_minority():
    with ExitStack() as running:
        servers = [running.enter_context(RedisAlone()) for _ in range(3)]
        urls = [server.url for server in servers]
        holder, other = (running.enter_context(
            Driver(*urls, lease=9000, timeout=300, outage=300)) for _ in range(2))
        assert settled(holder, "acquire", 1, "red", "n")["result"] == "ok"
        servers[0].kill()
        servers[0].forget()
        renewals = holder("stats")["renewals"]
        wait_until(lambda: holder("stats")["renewals"] > renewals, "renewal")
        assert settled(other, "acquire", 1, "red", "n")["result"] == "busy"
        servers[0].start()
        wait_until(lambda: servers[0].client("GET", "{n}:red"), "gift of the lock to who lost it")
        servers[1].kill()
        renewals = holder("stats")["renewals"]
        wait_until(lambda: holder("stats")["renewals"] > renewals + 3, "renewals beyond a lease")
        assert holder("state", 1)["state"] == "held"
        servers[2].kill()
        wait_until(lambda: holder("state", 1)["state"] == "lost", "loss of the majority")
        wait_until(lambda: holder("state", 1)["lost"] == 1, "call of on_lost")
        assert other.acquire("red", "n")["result"] == "failed"  # not "busy": nobody can have it


def test_red_keeps_a_slow_server_that_forgot_its_scripts(server, proxies):
    """Its answer comes after the majority has agreed, and no caller waits for it."""
    with RedisAlone() as second, RedisAlone() as third:
        proxy = proxies(server.port)
        urls = [proxy.url(server.url), second.url, third.url]
        with Driver(*urls, lease=9000) as holder:
            proxy.delay = 0.02
            assert holder.acquire("red", "n")["result"] == "ok"
            wait_until(lambda: holder("stats")["renewals"] > 0, "renewal")
            server.client("SCRIPT", "FLUSH")
            renewals = holder("stats")["renewals"]
            wait_until(lambda: holder("stats")["renewals"] > renewals + 3,
                       "renewals beyond a lease")
            assert server.client("PTTL", "{n}:red") > 0
            assert holder("release", 1)["result"] == "ok"
            wait_until(lambda: not server.client("EXISTS", "{n}:red"), "release")


# ---- the queue ----

WAITERS, DEAD = 50, (0, 7, 8, 25, 48)


def test_fifty_waiters_come_in_order(stack):
    with ExitStack() as running:
        holder, *waiters = (running.enter_context(Driver(stack.redis_url, lease=30000))
                            for _ in range(WAITERS + 1))
        last = holder.acquire("fair", "n")["fence"]
        for number, waiter in enumerate(waiters, 1):
            waiter.send("acquire", 1, "fair", "n", wait=120000)
            wait_until(lambda: holder("status", "fair", "n")["waiting"] >= number, "queueing up")
        for number in DEAD:
            waiters[number].kill()
        start = time.monotonic()
        assert holder("release", 1)["result"] == "ok"
        for number, waiter in enumerate(waiters):
            if number not in DEAD:
                answer = waiter.read()
                assert (answer["result"], answer["lost"]) == ("ok", 0)
                assert answer["fence"] > last, f"waiter {number} came too early"
                last = answer["fence"]
                assert waiter("release", 1)["result"] == "ok"
        assert seconds_since(start) < 60
        assert holder("status", "fair", "n")["waiting"] == 0
