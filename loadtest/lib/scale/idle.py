"""The costs of idle daemons: pings, leases, messages to each other."""

import contextlib
import time

from lib import cpu, limits
from lib.fleet import Fleet

DAEMONS = (1, 2, 4, 8)
SETTLE_S, LOOK_S = 2, 4
SAID_BYTES = 1000           # of what a daemon tells the group: about those of one with a few sales
PIPELINE, READS = 128, 200_000


def counters(stack):
    """(commands that Redis, statements that the ledger has been asked)"""
    stats = dict(line.split(":", 1) for line in stack.redis("INFO", "stats").decode().split()
                 if ":" in line)
    return int(stats["total_commands_processed"]), stack.ledger.status("Questions")


def used(stack):
    """Seconds of processor time of (Redis, the ledger)."""
    pids = stack.pids()
    return tuple(sum(map(cpu.used_by, pids[kind])) for kind in ("redis", "mariadb"))


def watch(stack):
    """Per second: commands, statements, and the processor time of both in microseconds."""
    begin, asked, spent = time.monotonic(), counters(stack), used(stack)
    time.sleep(LOOK_S)
    asked_now, spent_now, took = counters(stack), used(stack), time.monotonic() - begin
    return ([(now - before) / took for before, now in zip(asked, asked_now)],
            [1e6 * (now - before) / took for before, now in zip(spent, spent_now)])


def read_us(stack):
    """Microseconds of one of many reads in a pipeline, as a daemon reads what the others told."""
    stack.redis("SET", "said", "x" * SAID_BYTES)
    rate = limits.redis_benchmark(stack, PIPELINE, 1, READS, ("GETRANGE", "said", "0", "16383"))
    stack.redis("DEL", "said")
    return 1e6 / rate


def line(points):
    """(a, b) of y = a + b x by least squares; b is not below 0."""
    count, sum_x, sum_y = len(points), sum(x for x, _ in points), sum(y for _, y in points)
    xx, xy = sum(x * x for x, _ in points), sum(x * y for x, y in points)
    slope = max(0.0, (count * xy - sum_x * sum_y) / (count * xx - sum_x * sum_x))
    return (sum_y - slope * sum_x) / count, slope


def measure(program, stack, say):
    """Idle traffic: of each daemon, and of each pair of them."""
    commands, queries = [], []
    stack.clean()
    for count in DAEMONS:
        say(f"{count} idle daemons")
        with contextlib.ExitStack() as running:
            running.enter_context(Fleet(program, stack, {}, count))
            time.sleep(SETTLE_S)
            (redis_s, ledger_s), (redis_us, ledger_us) = watch(stack)
        commands.append((count, redis_s / count))
        queries.append((count, ledger_s / count))
    each, each_pair = line(commands)
    return {"redis": {"each": each, "each_pair": each_pair, "us": redis_us / redis_s,
                      "pair_us": read_us(stack)},
            "ledger": {"each": sum(rate for _, rate in queries) / len(queries),
                       "us": ledger_us / ledger_s},
            "seen": {"commands": commands, "queries": queries}}
