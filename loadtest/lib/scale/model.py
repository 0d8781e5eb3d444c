"""Predicts the capacity of daemons, Redis masters and ledgers from measured costs:
each resource's own limit, and the least of them. docs/scaling.md explains it."""

import dataclasses

NODES_MAX = 1024        # numbers that the ids of orders have for daemons
SHARDS_MAX = 16         # numbers that they have for ledgers
GROUP_SEEN_MAX = 256    # members that a daemon asks for
CORE_US = 1e6           # of a processor, in a second
STEPS = 200             # of the search for the rate at which contention and rate agree


@dataclasses.dataclass(frozen=True)
class Plan:
    """A set-up. Each daemon, each ledger and each master has a machine of its own."""

    daemons: int
    masters: int = 3
    ledgers: int = 3
    segments: int = 20        # of a sale
    sales: int = 100          # that are wanted at a time, spread over the ledgers
    daemon_cores: float = 2
    ledger_cores: float = 8


def cpu_us(costs, part, batch):
    """Processor time of one order."""
    cost = costs["cpu_us"].get(part, {"order": 0, "batch": 0})
    return cost["order"] + cost["batch"] / batch


def batch_ms(costs, batch, tried=1.0):
    """How long a worker is busy with a batch: its round trips to Redis, one more for each further
    try, and the commit. With one try that is how long it holds its segment."""
    ledger = costs["ledger_ms"]
    return (costs["redis_ms"] * (costs["redis_trips"] + tried - 1)
            + ledger["batch"] + ledger["order"] * batch)


def idle_us(costs, plan):
    """(of each master, of each ledger): processor time a second that daemons cost which sell
    nothing: pings, leases, what each tells the group and reads of all others."""
    idle, seen = costs["idle_traffic"], min(plan.daemons, GROUP_SEEN_MAX)
    redis, ledger = idle["redis"], idle["ledger"]
    redis_us = redis["each"] * redis["us"] + redis["each_pair"] * seen * redis["pair_us"]
    return (plan.daemons * redis_us / plan.masters,
            plan.daemons * ledger["each"] * ledger["us"])


def limits(costs, plan, batch, tried=1.0):
    """Orders a second that each resource allows by itself."""
    redis_idle, ledger_idle = idle_us(costs, plan)
    busy_s = batch_ms(costs, batch, tried) / 1e3
    try_us = costs["cpu_us"]["redis"]["batch"] / costs["redis_trips"]
    redis_us = cpu_us(costs, "redis", batch) + (tried - 1) * try_us / batch
    workers = plan.daemons * costs["order_workers"] * plan.ledgers
    return {
        "HTTP thread": plan.daemons * CORE_US / costs["http_us"],
        "daemon's cores": plan.daemons * plan.daemon_cores * CORE_US / cpu_us(
            costs, "server", batch),
        "order workers": workers * batch / busy_s,
        "Redis": plan.masters * max(0, CORE_US - redis_idle) / redis_us,
        "ledger": plan.ledgers * max(0, plan.ledger_cores * CORE_US - ledger_idle) / cpu_us(
            costs, "mariadb", batch),
        "segments": plan.sales * plan.segments * batch / (batch_ms(costs, batch) / 1e3),
    }


def held(costs, plan, batch, per_s):
    """Segments of one sale that are held at a time when so many orders a second are sold (Little's
    law), never more than the workers that could hold them."""
    workers = plan.daemons * costs["order_workers"] * plan.ledgers / plan.sales
    return min(per_s / batch * batch_ms(costs, batch) / 1e3 / plan.sales, workers)


def predict(costs, plan, batch=None):
    """The rate, what limits it, and what a batch meets on its way to a segment. By bisection: the
    rate sets how many segments are held, which sets the tries, which lower the limits."""
    batch = batch or costs["batch"]
    low, high = 0.0, min(limits(costs, plan, batch).values())
    for _ in range(STEPS):
        middle = (low + high) / 2
        tried = tries(plan.segments, held(costs, plan, batch, middle))
        if tried is not None and min(limits(costs, plan, batch, tried).values()) >= middle:
            low = middle
        else:
            high = middle
    taken = held(costs, plan, batch, low)
    tried = tries(plan.segments, taken) or plan.segments
    found = limits(costs, plan, batch, tried)
    return {**dataclasses.asdict(plan), "batch": batch, "per_s": low,
            "limit": min(found, key=found.get), "limits": found, "tries": tried,
            "missed": shares_missed(plan.segments, taken),
            "idle_share_of_redis": idle_us(costs, plan)[0] / CORE_US,
            "possible": plan.daemons < NODES_MAX and plan.ledgers <= SHARDS_MAX}


def on_one_machine(costs, cores, batch, idle=0.0, parts=None):
    """Orders a second when everything, the load included, shares these cores. idle: the share of
    them that nobody uses because the parts wait for each other."""
    parts = parts or costs["cpu_us"]
    return cores * (1 - idle) * CORE_US / sum(cpu_us(costs, part, batch) for part in parts)


def shares_missed(segments, held):
    """The probability that others hold a random segment."""
    return min(1.0, held / segments)


def tries(segments, held):
    """The mean number of segments that a batch tries until it finds a free one: from a random one
    on, in turn, as in open addressing with linear probing. Holders gather in runs, as each of them
    sits behind those that it met, so it is more than with independent tries (Knuth, The Art of
    Computer Programming 6.4, theorem K). held may be a mean. None when no segment is free."""
    if held >= segments:
        return None
    total, term = 0.0, 1.0
    for k in range(segments):
        total += (k + 1) * term
        term *= max(0.0, held - k) / segments
        if term == 0.0:
            break
    return (1 + total) / 2


def contention(workers, share_held, segments):
    """(probability that a try meets a held segment, tries a batch) for one of so many workers that
    each hold a segment for this share of their time."""
    others = (workers - 1) * share_held
    return shares_missed(segments, others), tries(segments, others)
