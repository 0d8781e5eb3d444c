"""What tests cost: the processor time of whoever runs a test, of its children, and of the servers
that it shares with other tests.

usage: costs.py FILE    the 100 dearest of the tests in it, and the sums of the files, as a page"""

import collections
import contextlib
import os
import resource
import sys
from pathlib import Path

VARIABLE = "TEST_COSTS"  # the file to which each test adds a line
TICKS = os.sysconf("SC_CLK_TCK")
SHOWN = 100
servers = set()  # the pids of servers that run from one test to the next


def of_process(pid):
    """(user, system) seconds of a process and of its children that it has waited for."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(") ", 1)[1].split()
    except OSError:  # it has ended
        return 0, 0
    user, system, waited_user, waited_system = (int(field) / TICKS for field in fields[11:15])
    return user + waited_user, system + waited_system


def spent():
    """(user, system) seconds so far: ours, those of children that have ended, and the servers'."""
    ours = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    times = [(usage.ru_utime, usage.ru_stime) for usage in ours]
    return total([*times, *map(of_process, servers)])


def total(times):
    return tuple(map(sum, zip((0, 0), *times, strict=False)))


@contextlib.contextmanager
def measured(times, tell):
    """If costs are kept: tell(user, system) is told by how much times() has grown within it."""
    if VARIABLE not in os.environ:
        yield
        return
    since = times()
    yield
    tell(*(after - before for before, after in zip(since, times(), strict=True)))


def keep(test, user, system):
    """Adds the test's line."""
    line = f"{max(user, 0):.3f} {max(system, 0):.3f} {test}\n".encode()
    with open(os.environ[VARIABLE], "ab", buffering=0) as file:
        file.write(line)


def rows(costs):
    """Lines of a table: what costs most is the first."""
    yield "| user s | system s | |\n|---|---|---|"
    for name, (user, system) in sorted(costs.items(), key=lambda pair: -sum(pair[1]))[:SHOWN]:
        yield f"| {user:.2f} | {system:.2f} | {name} |"


def page(path):
    tests, files = {}, collections.defaultdict(list)
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        user, system, test = line.split(" ", 2)
        tests[test] = float(user), float(system)
        files[test.split("::")[0]].append(tests[test])
    user, system = total(tests.values())
    files = {f"{name} ({len(times)})": total(times) for name, times in files.items()}
    return "\n".join([f"{len(tests)} tests: user time {user:.0f} s, system time {system:.0f} s",
                      "", *rows(tests), "", *rows(files)])


if __name__ == "__main__":
    print(page(sys.argv[1]))
