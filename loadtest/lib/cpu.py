"""The processors' time during a run: used by our processes, by others, or idle."""

import contextlib
import os
import resource

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def used_by(pid):
    """Seconds of processor time that a process has used so far; 0 when it has ended."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S
    return 0


def used_by_children():
    """Seconds of processor time that children used which have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def whole_machine():
    """(seconds of all processors, of them idle, of them in interrupts, which no process is charged
    for: mostly the network's)"""
    with open("/proc/stat", encoding="ascii") as stat:
        times = [int(field) / TICKS_PER_S for field in stat.readline().split()[1:9]]
    return sum(times), times[3] + times[4], times[5] + times[6]


class Account:
    """Context manager: `shares` holds in the end each name's share of the machine's processors,
    with `wrk` (children that ended meanwhile), `idle`, `interrupts`, and `others`, which disturb
    the figures."""

    def __init__(self, pids):
        """pids: name to a list of them."""
        self.pids = pids
        self.shares = {}

    def _read(self):
        names = {name: sum(map(used_by, pids)) for name, pids in self.pids.items()}
        names["wrk"] = used_by_children()
        whole, names["idle"], names["interrupts"] = whole_machine()
        return whole, names

    def __enter__(self):
        self.whole, self.names = self._read()
        return self

    def __exit__(self, *_):
        whole, names = self._read()
        spent = max(whole - self.whole, 1 / TICKS_PER_S)
        self.shares = {name: (names[name] - self.names[name]) / spent for name in names}
        self.shares["others"] = max(0, 1 - sum(self.shares.values()))
