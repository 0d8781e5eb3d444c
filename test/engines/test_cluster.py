"""The service on a Redis Cluster: masters die, slots move away and back, and orders go on."""

import copy
import os
import subprocess
import time

import pytest

from harness.audit import audit, audit_after_faults, sell_out, sell_out_after_faults
from harness.daemon import STEADY
from harness.engines_cluster import RedisCluster
from harness.processes import BUILD, wait_until

SEGMENTS = 20
ANSWERS = {"201", "409 sold_out", "503 unavailable", "503 outcome_unknown", "503 overloaded"}
ACCEPTED = 'seckill_orders_total{outcome="accepted"}'
# Of the lock library's tests those that give each command, to locks of every kind.
CONFORMANCE = [("test_conformance", f": {case}") for case in (
    "excludes", "releases_once", "release_wakes_who_waits", "owner_enters_again", "watchdog_renews",
    "break_wakes_who_waits", "fence_grows", "status_tells", "scripts_are_flushed",
    "no_key_stays_for_ever")] + [("test_election", f": {case}") for case in (
        "leader_changes", "observers_are_woken")]
calm = pytest.mark.xdist_group("calm_cluster")  # one cluster for all that break none


@pytest.fixture(name="cluster")
def a_cluster():
    with RedisCluster() as cluster:
        yield cluster


def with_cluster(stack, cluster):
    """The shared ledger, and a cluster in the place of Redis."""
    other = copy.copy(stack)
    other.redis_url, other.redis = cluster.url, cluster
    return other


@pytest.fixture(name="on_cluster")
def a_stack_with_a_cluster(stack, cluster):
    return with_cluster(stack, cluster)


@pytest.fixture(scope="module")
def calm_servers():
    with RedisCluster() as cluster:
        cluster.calm()
        yield cluster


@pytest.fixture
def calm_cluster(calm_servers):
    """For tests that break no node, empty."""
    for node in calm_servers.masters():
        node("FLUSHALL")
    return calm_servers


@pytest.fixture
def on_calm_cluster(stack, calm_cluster):
    return with_cluster(stack, calm_cluster)


def segment_key(segment):
    return f"seckill:{{demo:{segment}}}:segment"


def segments_of(cluster, node):
    """The segments whose slots that master has."""
    return [n for n in range(SEGMENTS) if cluster.owner(segment_key(n)) is node]


def accept_more(daemon, units=1):
    """Waits for further accepted orders; the seconds until then."""
    start, before = time.monotonic(), daemon.metric(ACCEPTED)
    wait_until(lambda: daemon.metric(ACCEPTED) >= before + units, "further orders",
               pause=0.05)
    return time.monotonic() - start


def settle_anew(cluster, segments):
    """Waits until units were sold from each of the segments after this moment."""
    def settled(segment):
        try:
            return cluster.hash(segment_key(segment)).get("settled")
        except (OSError, RuntimeError, StopIteration):
            return None
    first = {n: settled(n) for n in segments}
    wait_until(lambda: all(settled(n) not in (None, first[n]) for n in segments),
               "orders from each of the segments", pause=0.1)


def finish(daemon, running):
    """Ends the load and audits what its clients were told."""
    running.stop()
    assert set(running.answers) <= ANSWERS, running.answers
    assert running.answers["201"] > 0
    audit_after_faults(daemon, accepted=running.accepted)


@calm
def test_sells_out_to_the_last_unit(on_calm_cluster, calm_cluster, spawn):
    cluster = calm_cluster
    daemon = spawn(on_calm_cluster, **STEADY)
    daemon.reset("demo", 200, SEGMENTS)
    assert all(segments_of(cluster, master) for master in cluster.masters()), "badly spread"
    assert len(sell_out(daemon)) == 200
    assert audit(daemon) == 200


def kill_master(cluster, daemon, running, lag=0.0):
    """Kills a master in mid-load; its replica has missed the writes of the last `lag` seconds."""
    victim = cluster.owner(segment_key(0))
    heir, segments = cluster.replica_of(victim), segments_of(cluster, victim)
    accept_more(daemon, 100)
    if lag:
        heir.signal(19)
        accept_more(daemon, 50)
        time.sleep(lag)
    victim.kill()
    start = time.monotonic()
    if lag:
        heir.signal(18)
    others = accept_more(daemon)
    cluster.wait(f"{heir.port} takes over", heir.is_master)
    promoted = time.monotonic() - start
    settle_anew(cluster, segments)
    print(f"orders went on after {others:.2f} s; the replica took over after {promoted:.2f} s,"
          f" and its {len(segments)} segments sold again after {time.monotonic() - start:.2f} s")
    assert running.process.poll() is None, "the load has ended too soon"


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("lag", [0, 0.3], ids=["replica up to date", "replica missed writes"])
def test_master_is_killed_in_mid_load(on_cluster, cluster, spawn, load, lag):
    daemon = spawn(on_cluster)
    daemon.reset("demo", 10_000_000, SEGMENTS)
    running = load(daemon, connections=16, seconds=250, delay_ms=100)
    kill_master(cluster, daemon, running, lag)
    finish(daemon, running)


@pytest.mark.long
def test_master_without_replica_takes_only_its_segments_along(on_cluster, cluster, spawn, load):
    daemon = spawn(on_cluster)
    daemon.reset("demo", 10_000_000, SEGMENTS)
    victim = cluster.owner(segment_key(0))
    cluster.replica_of(victim).kill()
    running = load(daemon, connections=16, seconds=250, delay_ms=100)
    accept_more(daemon, 100)
    victim.kill()
    seconds = accept_more(daemon, 500)
    wait_until(lambda: daemon.metric("seckill_redis_nodes_down") == 1, "the probe's notice")
    wait_until(lambda: daemon.get("/readyz").status == 200, "readiness without the master")
    victim.start()
    cluster.wait_whole()
    wait_until(lambda: daemon.metric("seckill_redis_nodes_down") == 0, "the probe's notice")
    settle_anew(cluster, range(SEGMENTS))
    print(f"500 orders after {seconds:.2f} s without the master")
    finish(daemon, running)


@calm
def test_slots_move_away_and_back_in_mid_load(on_calm_cluster, calm_cluster, spawn, load):
    cluster = calm_cluster
    daemon = spawn(on_calm_cluster)
    daemon.reset("demo", 10_000_000, SEGMENTS)
    source, target = cluster.masters()[:2]
    segments = segments_of(cluster, source)
    slots = [cluster.slot(segment_key(n)) for n in segments]
    running = load(daemon, connections=16, seconds=250, delay_ms=100)
    accept_more(daemon, 100)
    slowest = 0
    for start, end in ((source, target), (target, source)):
        for slot in slots:
            cluster.begin_move(slot, start, end)
        slowest = max(slowest, accept_more(daemon, 100))  # ASK and TRYAGAIN
        for slot in slots:
            cluster.move_keys(slot, start, end)
        slowest = max(slowest, accept_more(daemon, 100))
        for slot in slots:
            cluster.move_keys(slot, start, end)
            cluster.end_move(slot, end)
        settle_anew(cluster, segments)  # MOVED
        assert segments_of(cluster, end)[:1] and cluster.owner(segment_key(segments[0])) is end
    print(f"{len(slots)} slots moved twice; 100 orders took {slowest:.2f} s at most")
    finish(daemon, running)


@calm
@pytest.mark.long
def test_slots_move_at_once_and_back_in_mid_load(on_calm_cluster, calm_cluster, spawn, load):
    """Valkey 9 replicates a slot to its new owner, then hands it over: no client hears ASK."""
    cluster = calm_cluster
    if not cluster.moves_at_once():
        pytest.skip("the server moves the keys of a slot one by one")
    daemon = spawn(on_calm_cluster)
    daemon.reset("demo", 10_000_000, SEGMENTS)
    source, target = cluster.masters()[:2]
    segments = segments_of(cluster, source)
    slots = sorted({cluster.slot(segment_key(n)) for n in segments})
    running = load(daemon, connections=16, seconds=250, delay_ms=100)
    accept_more(daemon, 100)
    for start, end in ((source, target), (target, source)):
        cluster.move_at_once(slots, start, end)
        settle_anew(cluster, segments)
        assert cluster.owner(segment_key(segments[0])) is end
    print(f"{len(slots)} slots moved twice, all at once")
    finish(daemon, running)


@pytest.mark.long
def test_whole_cluster_is_killed_and_comes_back(on_cluster, cluster, spawn):
    daemon = spawn(on_cluster)
    daemon.reset("demo", 50, 5)
    assert daemon.order().status == 201
    for node in cluster.nodes:
        node.kill()
    assert daemon.order().status == 503
    for node in cluster.nodes:
        node.start()
    cluster.wait_whole()
    assert len(sell_out_after_faults(daemon)) == 49
    assert audit_after_faults(daemon) == 50


@calm
def test_rate_limits_are_spread(on_calm_cluster, calm_cluster, spawn):
    cluster = calm_cluster
    daemon = spawn(on_calm_cluster, rate_user_per_min=1, rate_user_burst=2, **STEADY)
    daemon.reset("demo", 1000, SEGMENTS)
    for user in range(30):
        answers = [daemon.order(user_id=f"u{user}").answer for _ in range(3)]
        assert answers == ["201", "201", "429 rate_limited"]
    keys = {master.port: master("KEYS", "seckill:{rate:*:users") for master in cluster.masters()}
    assert all(keys.values()), keys


@calm
@pytest.mark.long
def test_lock_library_conforms_on_a_cluster(stack, calm_cluster):
    """All kinds of locks but the majority lock, which refuses clusters."""
    environment = {**os.environ, "SECKILL_REDIS_URL": calm_cluster.url,
                   "SECKILL_MYSQL_URL": stack.mysql_url}
    environment.pop("SECKILL_ZOOKEEPER_URL", None)
    parts = [subprocess.Popen([BUILD / "test" / program, case], stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
             for program, case in CONFORMANCE]
    logs = [part.communicate()[0] for part in parts]
    failed = [log for part, log in zip(parts, logs) if part.returncode != 0]
    assert not failed, failed[0]
    few = [part.args for part, log in zip(parts, logs) if log.count("[       OK ]") < 5]
    assert not few, few
