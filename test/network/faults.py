"""The faults, each a function of its round; what it wants of the service stands beside it."""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Callable

from harness.processes import wait_until
from network.servers import REDIS as REDIS_PORT
from network.servers import SENTINEL as SENTINEL_PORT
from network.watch import Sessions

FAULTS = []
SILENT_S = 11.0      # more than min-replicas-max-lag
HOLD_S = 8.0         # of most cuts: more than Sentinel's election and a daemon's time-outs
GALERA_S = 16.0      # more than evs.suspect_timeout, 5 s, and evs.inactive_timeout, 15 s
LONG_S = 80.0        # more than MariaDB's slave_net_timeout, 60 s
SESSIONS_MAX = 60    # of two daemons: the documents allow 35 each
UNREADY_S = 2.0      # at the end of a cut
LOOKED_UP = 50       # of the newest orders of the right side
BURST = 40           # orders at once, which fill large packets and queues
FAILED_OVER_S = 30   # for orders behind a fail-over; only a hang takes longer


@dataclass
class Fault:
    name: str
    act: Callable
    setups: tuple
    quick: bool = False
    long: bool = False   # one round of it will do
    idle: bool = False   # no order is sent in the cut


def fault(name, *setups, **how):
    def register(act):
        FAULTS.append(Fault(name, act, setups, **how))
        return act
    return register


REDIS = ("sentinel+ledger3",)
CLUSTER = ("cluster",)
GALERA = ("galera",)
LEDGER = ("sentinel+ledger3", "ledger2")


def apps(case):
    return list(case.setup.DAEMONS)


def databases(case):
    return list(case.setup.ledgers.names)


# --- Redis --------------------------------------------------------------------------------------

def served_at_last(case, since):
    """Sentinel has promoted another master: the daemons must find it while the first is away."""
    numbers = range(len(case.setup.DAEMONS))
    case.hold_until(lambda: all(case.is_served(since, number) for number in numbers),
                    "orders at the new master by every daemon", FAILED_OVER_S)
    for number, host in enumerate(case.setup.DAEMONS):
        case.expect("A", f"{host} accepts an order before the heal",
                    case.is_served(since, number))


def note_promotion(case):
    """Notes how soon Sentinel promoted another master; returns when."""
    wait_until(lambda: case.setup.redis.master() not in (None, "redis1"), "another master")
    promoted = case.record.now()
    case.note(f"another master {promoted - case.began:.1f} s after the cut")
    return promoted


@fault("the Redis master and its sentinel are cut off", *REDIS)
def master_and_sentinel(case):
    """Their host is the first in the daemons' list."""
    with case.cut(["redis1"]):
        promoted = note_promotion(case)
        case.hold(HOLD_S)
        served_at_last(case, promoted)


@fault("the Redis master is cut off, its sentinel is not", *REDIS)
def master_alone(case):
    with case.cut_port("redis1", REDIS_PORT):
        case.hold(HOLD_S)


@fault("a sentinel alone is cut off", *REDIS)
def sentinel_alone(case):
    """The one that the daemons ask first."""
    with case.cut_port("redis1", SENTINEL_PORT):
        case.hold(HOLD_S)


@fault("the Redis master hears nothing", *REDIS)
def master_deaf(case):
    with case.cut_to(case.inside("redis1"), ["redis1"]):
        case.hold(HOLD_S)


@fault("the Redis master is not heard", *REDIS)
def master_mute(case):
    with case.cut_to(["redis1"], case.inside("redis1")):
        case.hold(HOLD_S)


@fault("a host with a Redis replica and a sentinel is cut off", *REDIS)
def minority(case):
    with case.cut(["redis3"]):
        case.hold(HOLD_S)


@fault("the Redis master and its sentinel are cut off from the other two", *REDIS, quick=True)
def master_without_replicas(case):
    """Daemons see all of them. The sentinel that they ask first goes on naming the old master,
    which refuses writes once its replicas have been silent for min-replicas-max-lag."""
    with case.cut(["redis1"], ["redis2", "redis3"]):
        note_promotion(case)
        case.hold(SILENT_S)
        since = case.record.now()
        case.hold(HOLD_S)
        served_at_last(case, since)


def ready_says_no(case, *watches):
    """In the last seconds of the cut, in which no commit can succeed."""
    now = case.record.now()
    for watch in watches or case.watches:
        case.expect("D", f"/readyz of {watch.daemon.host} says no at the end of the cut",
                    not watch.was_ready(now - UNREADY_S, now))


# --- Redis Cluster ------------------------------------------------------------------------------

@fault("a master of the cluster is cut off", *CLUSTER)
def cluster_master(case):
    with case.cut(["redis1"]):
        case.hold(HOLD_S)


@fault("a master of the cluster is cut off from the other nodes alone", *CLUSTER)
def cluster_master_from_nodes(case):
    """Daemons see the old master and the new one."""
    with case.cut(["redis1"], [f"redis{number}" for number in range(2, 7)]):
        case.hold(HOLD_S)


@fault("two hosts of six are cut off: a master, and another one's replica", *CLUSTER)
def cluster_two(case):
    with case.cut(["redis1", "redis5"]):
        case.hold(HOLD_S)


@fault("two hosts of six are cut off: a master and its replica", *CLUSTER)
def cluster_shard(case):
    """Its segments are out of sale until the heal; the others sell on."""
    with case.cut(["redis1", "redis4"]):
        case.hold(HOLD_S)


# --- A daemon -----------------------------------------------------------------------------------

def other_serves(case):
    case.hold(HOLD_S)
    if not case.is_served(case.began, 0):
        case.violate("the daemon that was not cut off accepted nothing")


@fault("one daemon is cut off from Redis", *REDIS, *CLUSTER)
def daemon_without_redis(case):
    with case.cut(["app2"], list(case.setup.redis.NAMES)):
        other_serves(case)
        ready_says_no(case, case.watches[1])


@fault("one daemon is cut off from the ledger", *LEDGER, *GALERA)
def daemon_without_ledger(case):
    with case.cut(["app2"], databases(case)):
        other_serves(case)
        ready_says_no(case, case.watches[1])


@fault("one daemon is cut off from everything", *LEDGER, quick=True)
def daemon_alone(case):
    with case.cut(["app2"]):
        other_serves(case)


@fault("a daemon's host is cut off while nobody orders", *REDIS, idle=True)
def half_open(case):
    """Its connections are half-open when the first orders come."""
    case.idle.set()
    case.hold(1)
    with case.cut(["app2"]):
        case.hold(2 * HOLD_S)


# --- The ledger ---------------------------------------------------------------------------------

@fault("the primary is cut off from all replicas", *LEDGER, quick=True)
def primary_without_replicas(case):
    """Commits wait for a replica until the heal."""
    ledgers = case.setup.ledgers
    with case.cut([ledgers.primary], ledgers.replicas()):
        case.hold(HOLD_S)
        ready_says_no(case)


@fault("the primary is cut off from one replica", *REDIS)
def primary_without_one(case):
    ledgers = case.setup.ledgers
    with case.cut([ledgers.primary], ledgers.replicas()[:1]):
        case.hold(HOLD_S)


def look_up_at_wrong_side(case):
    some = case.accepted(case.began, daemon=0)[-LOOKED_UP:]
    answers = case.look_up(1, some)
    case.note(f"the wrong side says of acknowledged orders: {answers}")
    case.expect("C", "look-ups of acknowledged orders are answered 503 or the truth",
                all(one[:3] in ("200", "503", "no ") for one in answers))


def fail_over(case, **how):
    """Ends when orders are accepted behind it; notes how long that took from the command."""
    command = case.record.now()
    case.setup.ledgers.fail_over(**how)
    took = case.record.now() - command
    case.hold_until(lambda: case.is_served(command + took), "an order behind the fail-over",
                    FAILED_OVER_S)
    case.note(f"fail-over {took:.2f} s, an order {case.record.now() - command:.2f} s after the "
              "command")


@fault("the primary's host is lost, and failed over", *LEDGER, quick=True)
def primary_lost(case):
    """The heal is the new primary's: the old one never comes back."""
    ledgers = case.setup.ledgers
    rule = case.impose(case.rule_of([ledgers.primary]))
    ledgers.node.kill()
    fail_over(case)
    case.healed = case.record.now()
    case.network.lift(rule)


@fault("the primary is lost while one replica lags, and failed over", *REDIS)
def primary_lost_with_lag(case):
    """The replica that is named first lacks the last commits: the other one is to be promoted."""
    ledgers = case.setup.ledgers
    lagging = ledgers.replicas()[0]
    with case.cut([ledgers.primary], [lagging]):
        case.hold(2)
        ledgers.node.kill()
    fail_over(case)
    case.healed = case.record.now()
    if ledgers.primary == lagging:
        case.violate("the replica was promoted that lacks commits")


@fault("the primary is cut off with one daemon, and failed over (split brain)", *REDIS, quick=True)
def split_brain(case):
    """The operator is wrong: the old primary lives. C: what the right side has acknowledged, the
    daemon of the wrong side must not call unknown."""
    ledgers, wrong = case.setup.ledgers, "app2"
    old = ledgers.node
    with case.cut([ledgers.primary, wrong], case.inside(ledgers.primary, wrong)):
        case.hold(1)
        fail_over(case, end_old=False)
        case.hold(HOLD_S)
        look_up_at_wrong_side(case)
    case.hold(2)  # both live, and each daemon sees both
    old.kill()
    case.healed = case.record.now()


@fault("the primary is cut off from all replicas for 80 s", *LEDGER, long=True)
def long_cut(case):
    """max_connections is small. B: the sessions of daemons that wait for a replica are bounded."""
    ledgers = case.setup.ledgers
    ledgers.node.run("SET GLOBAL max_connections=80")
    sessions = Sessions(ledgers.node)
    with case.cut([ledgers.primary], ledgers.replicas()):
        for _ in range(int(LONG_S)):
            case.hold(1)
            sessions.look()
        ready_says_no(case)
    case.note(f"sessions at the primary, every 10 s: {sessions.counts[::10]}")
    sessions.connection.close()
    case.expect("B", f"at most {SESSIONS_MAX} sessions of daemons at the primary",
                max(sessions.counts) <= SESSIONS_MAX)


# --- Galera -------------------------------------------------------------------------------------

@fault("the writer is cut off from the other nodes and all daemons", *GALERA)
def galera_writer(case):
    """The others find it out by evs.suspect_timeout, and the second one takes the writes."""
    with case.cut(["db1"]):
        case.hold(GALERA_S)


@fault("the writer is cut off from the other nodes alone", *GALERA)
def galera_writer_from_nodes(case):
    """Daemons see it, and that it takes no writes."""
    with case.cut(["db1"], ["db2", "db3"]):
        case.hold(GALERA_S)


@fault("a node that nobody writes to is cut off", *GALERA)
def galera_minority(case):
    with case.cut(["db3"]):
        case.hold(GALERA_S)


@fault("each node is cut off from each other", *GALERA)
def galera_none(case):
    """None takes writes until the heal."""
    with case.cut(["db1", "db2", "db3"], ["db1", "db2", "db3"]):
        case.hold(GALERA_S)


@fault("the writer is cut off with one daemon", *GALERA)
def galera_split(case):
    """C: the wrong side's daemon must not call unknown what the right side has acknowledged."""
    with case.cut(["db1", "app2"], ["db2", "db3", "app1"]):
        case.hold(GALERA_S)
        look_up_at_wrong_side(case)


# --- A bad network ------------------------------------------------------------------------------

@fault("5 % of all packets are lost", *REDIS, *CLUSTER, *GALERA)
def loss(case):
    with case.degrade(*case.everywhere(), loss=50):
        case.hold(HOLD_S)


@fault("1 Mbit/s everywhere", *REDIS)
def slow(case):
    with case.degrade(*case.everywhere(), rate=125_000, queue=65_536) as rule:
        for _ in range(int(HOLD_S)):
            case.burst(BURST)
        case.note(f"{case.network.lost(rule)} packets lost")


@fault("200 ms each way everywhere", *REDIS)
def far(case):
    with case.degrade(*case.everywhere(), delay_ms=200):
        case.hold(2 * HOLD_S)


@fault("packets come twice and overtake each other", *REDIS)
def twice(case):
    with case.degrade(*case.everywhere(), twice=100, jitter_ms=20):
        case.hold(HOLD_S)


@fault("packets over 1,000 bytes are lost between daemons and ledger", *REDIS)
def large_lost(case):
    with case.degrade(apps(case), databases(case), larger=1000) as rule:
        for _ in range(int(HOLD_S)):
            case.burst(BURST)
        case.note(f"{case.network.lost(rule)} packets lost")


# --- Two at once --------------------------------------------------------------------------------

def pair(case, one, other, first):
    """Both begin, then the one that is named heals, then the other."""
    with ExitStack() as stack:
        rules = [case.impose(case.rule_of(*one)), case.impose(case.rule_of(*other))]
        stack.callback(lambda: [case.lift(rule) for rule in rules])
        case.hold(HOLD_S / 2)
        case.lift(rules.pop(first))
        case.hold(HOLD_S / 2)


@fault("the Redis master and a daemon are cut off; the master heals first", *REDIS)
def redis_then_daemon(case):
    pair(case, (["redis1"],), (["app2"],), 0)


@fault("the Redis master and a daemon are cut off; the daemon heals first", *REDIS)
def daemon_then_redis(case):
    pair(case, (["redis1"],), (["app2"],), 1)


@fault("Redis master and ledger primary are cut off; the master heals first", *REDIS)
def redis_then_ledger(case):
    pair(case, (["redis1"],), ([case.setup.ledgers.primary],), 0)


@fault("Redis master and ledger primary are cut off; the primary heals first", *REDIS)
def ledger_then_redis(case):
    pair(case, (["redis1"],), ([case.setup.ledgers.primary],), 1)
