"""Waiters on a Redis Cluster: the node that has a lock's slot wakes them, and it alone."""

import time
from contextlib import ExitStack

import pytest

from harness.engines_cluster import RedisCluster
from locks import Driver, each_kind, seconds_since, settled

POLL_MS = 120_000  # a waiter that no message wakes tries after 96 s at the earliest
WOKEN_S = 60  # so one that tries within this time was woken; more, a machine may stand still
LEASE_MS = 300_000
KINDS = ("simple", "reentrant", "fair", "read-write", "semaphore", "permit", "timestamp")
OLDER = [word for name in ("SPUBLISH", "SSUBSCRIBE", "SUNSUBSCRIBE")
         for word in ("--rename-command", name, "")]  # as before Redis 7


pytestmark = pytest.mark.usefixtures("form")


@pytest.fixture(name="calm", scope="module")
def a_cluster_whose_nodes_stay():
    with RedisCluster(replicas=0) as cluster:
        cluster.calm()
        yield cluster


@pytest.fixture(name="cluster")
def a_cluster():
    with RedisCluster() as cluster:
        yield cluster


class Contest:
    """Context manager: one client holds locks, and a client for each of them waits for it."""

    def __init__(self, cluster, **options):
        self.cluster, self.waiters = cluster, {}
        self.options = {"lease": LEASE_MS, "poll": POLL_MS, "outage": 60000, **options}

    def __enter__(self):
        self.running = ExitStack()
        self.holder = self.running.enter_context(Driver(self.cluster.url, **self.options))
        return self

    def __exit__(self, *_):
        self.running.close()

    def begin(self, kind, name, **options):
        """Takes a lock, and lets another client wait for it."""
        hold = len(self.waiters)
        options = {"limit": 1, **options} if kind in ("semaphore", "permit") else options
        assert self.holder.acquire(kind, name, hold, **options)["result"] == "ok"
        self.wait_for(name, "acquire", 1, kind, name, f"wait={LEASE_MS}",
                      *(f"{key}={value}" for key, value in options.items()))

    def wait_for(self, name, *words):
        """Lets a client of its own do what waits."""
        waiter = self.running.enter_context(Driver(self.cluster.url, **self.options))
        self.waiters[name] = waiter
        waiter.send(*words)

    def ends(self, name):
        start = time.monotonic()
        answer = self.waiters[name].read()
        assert answer["result"] == "ok", answer
        assert seconds_since(start) < WOKEN_S, "it was not woken"

    def hand_over(self, name):
        hold = list(self.waiters).index(name)
        assert settled(self.holder, "release", hold)["result"] == "ok"
        self.ends(name)


def name_at(cluster, node, prefix):
    """The name of a lock whose keys that node has."""
    names = (f"{prefix}-{i}" for i in range(10_000))
    return next(name for name in names if cluster.owner(f"{{{name}}}") is node)


def channels(node, name):
    """The sharded channels of a lock that somebody listens to at that node."""
    return node("PUBSUB", "SHARDCHANNELS", f"{{{name}}}:*")


def wait_heard(cluster, node, name):
    """Waits until the lock's waiter listens at the node. Then it may still have to try once more,
    because the subscription wakes it; the release comes before that or after it."""
    cluster.wait(f"the waiter for {name} listens", lambda: channels(node, name))


def passed_on(cluster):
    """Messages that the nodes sent to each other, which a cluster sends from each to all others."""
    return sum(int(node.info().get("cluster_stats_messages_publish_sent", 0))
               for node in cluster.alive())


@each_kind(KINDS, keep=1)
def test_message_reaches_the_owner_alone(calm, kind):
    masters = calm.masters()
    with Contest(calm) as contest:
        names = {name_at(calm, node, f"owner-{kind}-{Driver.program.name}"): node
                 for node in masters}
        for name, node in names.items():
            contest.begin(kind, name)
            wait_heard(calm, node, name)
        for name, node in names.items():
            assert not any(channels(other, name) for other in masters if other is not node)
            contest.hand_over(name)
            calm.wait("nobody listens", lambda name=name, node=node: not channels(node, name))
    assert passed_on(calm) == 0


def test_latch_and_operators_wake_at_the_owner(calm):
    prefix = f"others-{Driver.program.name}"
    with Contest(calm) as contest:
        assert contest.holder("latch-set", f"{prefix}-latch", 1)["result"] == "ok"
        contest.wait_for(f"{prefix}-latch", "latch-await", f"{prefix}-latch", LEASE_MS)
        contest.begin("simple", f"{prefix}-simple")
        contest.begin("fair", f"{prefix}-fair")
        contest.begin("semaphore", f"{prefix}-semaphore")
        for name in contest.waiters:
            wait_heard(calm, calm.owner(f"{{{name}}}"), name)
        assert contest.holder("latch-down", f"{prefix}-latch", "r")["result"] == "ok"
        contest.ends(f"{prefix}-latch")
        for kind in ("simple", "fair"):
            assert contest.holder("break", kind, f"{prefix}-{kind}")["result"] == "ok"
            contest.ends(f"{prefix}-{kind}")
        assert contest.holder("set", "semaphore", f"{prefix}-semaphore", 2)["result"] == "ok"
        contest.ends(f"{prefix}-semaphore")
    assert passed_on(calm) == 0


def test_slots_move_while_waiters_wait(calm):
    """One waiter's slot moves and moves back, another's moves only, and a third one's stays."""
    source, target, _ = calm.masters()
    there, back, stays = (name_at(calm, source, f"move-{n}-{Driver.program.name}")
                          for n in range(3))
    slots = {name: calm.slot(f"{{{name}}}") for name in (there, back)}
    with Contest(calm) as contest:
        for kind, name in (("simple", there), ("fair", back), ("simple", stays)):
            contest.begin(kind, name)
            wait_heard(calm, source, name)
        for name in (there, back):
            calm.move(slots[name], target)
            wait_heard(calm, target, name)
        calm.move(slots[back], source)
        wait_heard(calm, source, back)
        for name in (there, back, stays):
            contest.hand_over(name)
    calm.move(slots[there], source)
    assert passed_on(calm) == 0


@pytest.mark.long
@pytest.mark.parametrize("killed", [False, True], ids=["failed over", "killed"])
def test_owner_is_failed_over_while_waiters_wait(cluster, killed):
    """A failover keeps the clients' connections to the old owner, a death does not."""
    owner, other = cluster.masters()[:2]
    heir = cluster.replica_of(owner)
    names = [name_at(cluster, owner, f"lost-{n}") for n in range(3)]
    unharmed = name_at(cluster, other, "unharmed")
    with Contest(cluster, timeout=1000) as contest:
        for name, node in (*((name, owner) for name in names), (unharmed, other)):
            contest.begin("simple", name)
            wait_heard(cluster, node, name)
        cluster.wait("the heir has the locks", lambda: owner("WAIT", 1, 1000) == 1)
        if killed:
            owner.kill()
            cluster.wait("the heir takes over", heir.is_master)
        else:
            cluster.fail_over(heir)
        contest.hand_over(unharmed)
        for name in names:
            wait_heard(cluster, heir, name)
            contest.hand_over(name)
    assert passed_on(cluster) == 0


@each_kind(["simple", "timestamp", "fair"], keep=0)
def test_older_cluster_passes_messages_on(kind):
    """Its servers know no sharded channels, so they pass a message on to all nodes."""
    with RedisCluster(replicas=0, options=OLDER) as cluster, Contest(cluster) as contest:
        cluster.calm()
        node = cluster.masters()[0]
        name = name_at(cluster, node, "older")
        contest.begin(kind, name)
        cluster.wait("the waiter listens", lambda: node("PUBSUB", "CHANNELS", f"{{{name}}}:*"))
        contest.hand_over(name)
        assert passed_on(cluster) > 0
