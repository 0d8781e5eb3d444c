"""Hosts that only a switch of ours connects: network namespaces, and the faults between them.

A host lives as long as the switch or a process on it, and the switch ends with us, so nothing is
left behind. The host of the operator is never cut off: a test looks and acts from there."""

import ctypes
import itertools
import os
import subprocess
import threading
from contextlib import contextmanager

from harness.processes import HarnessError, spawn

NETWORK = "10.77.0"
OPERATOR = "operator"
CLONE_NEWNET = 0x40000000
# How the rules of two faults on the same pair of hosts add up.
ADDED = {"cut": max, "loss": max, "twice": max, "jitter_ms": max, "delay_ms": sum,
         "larger": min, "rate": min, "queue": min, "port": min}


def set_namespace(descriptor):
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class Rule:
    """What happens to packets from some hosts to others."""

    def __init__(self, pairs, **fields):
        self.pairs, self.fields = set(pairs), fields


def one_way(sources, targets, **fields):
    return Rule(((one, other) for one in sources for other in targets if one != other),
                **(fields or {"cut": 1}))


def both_ways(some, others, **fields):
    rule = one_way(some, others, **fields)
    rule.pairs |= {(other, one) for one, other in rule.pairs}
    return rule


class Network:
    """Context manager: hosts by their names; the caller's main thread is on the operator's."""

    def __init__(self, program, names):
        self.program, self.names = program, [*names, OPERATOR]
        self.addresses = {name: f"{NETWORK}.{number}" for number, name in enumerate(self.names, 1)}
        self.rules, self.lock = [], threading.Lock()

    def __enter__(self):
        self.home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        self.switch = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", str(self.program), *self.addresses.values()],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            bufsize=1, start_new_session=True)
        try:
            self.spaces = dict(zip(self.names, map(self.read_space, self.names)))
            assert self.switch.stdout.readline() == "ready\n"
            self.enter(OPERATOR)
        except BaseException:
            self.__exit__()
            raise
        return self

    def read_space(self, name):
        words = self.switch.stdout.readline().split()
        if words[:2] != ["host", self.addresses[name]]:
            raise HarnessError(f"no network namespaces: {self.switch.stderr.read().strip()}")
        return f"/proc/{self.switch.pid}/fd/{words[2]}"

    def __exit__(self, *_):
        self.switch.kill()
        self.switch.communicate()
        try:
            set_namespace(self.home)
        finally:
            os.close(self.home)

    # where something runs

    def enter(self, name):
        """This thread, its sockets and its children are on that host from now on."""
        descriptor = os.open(self.spaces[name], os.O_RDONLY)
        try:
            set_namespace(descriptor)
        finally:
            os.close(descriptor)

    def argv(self, name, argv):
        """The command line of a program on that host."""
        return ["nsenter", f"--net={self.spaces[name]}", "--", *map(str, argv)]

    def spawn(self, name, argv, log, **options):
        with open(log, "ab") as file:
            return spawn(self.argv(name, argv), stdout=file, stderr=file, **options)

    def others(self, *names):
        """All hosts but these and the operator's."""
        return [name for name in self.names if name not in (*names, OPERATOR)]

    # faults

    def ask(self, command):
        self.switch.stdin.write(command + "\n")
        answer = self.switch.stdout.readline().split()
        if answer[:1] != ["ok"]:
            raise HarnessError(f"the switch answers {answer} to {command!r}")
        return answer[1:]

    def impose(self, rule):
        """Returns when it is in force."""
        with self.lock:
            self.rules.append(rule)
            self.say(rule.pairs)
        return rule

    def lift(self, rule):
        with self.lock:
            self.rules.remove(rule)
            self.say(rule.pairs)

    def say(self, pairs):
        """What now holds for these pairs."""
        for one, other in sorted(pairs):
            fields = [rule.fields for rule in self.rules if (one, other) in rule.pairs]
            names = dict.fromkeys(itertools.chain.from_iterable(fields))
            sums = {name: ADDED[name]([every[name] for every in fields if name in every])
                    for name in names if name != "port" or all(name in one for one in fields)}
            self.ask(" ".join(["rule", str(self.names.index(one)), str(self.names.index(other)),
                               *(f"{name}={value}" for name, value in sums.items())]))

    def lost(self, rule):
        """How many packets the switch has lost between the pairs of the rule since its start."""
        with self.lock:
            return sum(int(self.ask(f"count {self.names.index(one)} {self.names.index(other)}")[1])
                       for one, other in rule.pairs)

    @contextmanager
    def fault(self, rule):
        self.impose(rule)
        try:
            yield rule
        finally:
            self.lift(rule)
