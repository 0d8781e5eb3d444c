"""One round of one fault in a set-up of its own: load, fault, heal, checks and figures."""

import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field

from chaos.clients import Client, InThreads
from chaos.record import Record
from harness.daemon import RESET_SETTINGS
from harness.processes import HarnessError, wait_until
from network.closing import Closing, check_all
from network.hosts import both_ways, one_way
from network.load import OneOrder, clients_of
from network.watch import Watch

UNITS, SEGMENTS = 30_000, 10
QUIET_ORDERS = 10      # accepted by each daemon before the fault
SERVED_SECONDS_MAX = 120   # after the heal; only a hang takes longer
POLL_S = 0.05
LOOK_UP_S = 6.0        # more than a daemon may take for an answer


@dataclass
class Round:
    """What came out of it. Times are in seconds; None: not measured."""

    violations: list = field(default_factory=list)  # of safety
    behaviours: list = field(default_factory=list)  # (letter, what was expected, whether it was so)
    without: float = None         # longest time in the cut in which no daemon accepted an order
    without_worst: float = None   # the same of the daemon that did worst
    after: float = None           # from the heal until every daemon has accepted an order
    health: str = ""
    accepted: int = 0    # orders
    operations: int = 0  # in histories
    notes: list = field(default_factory=list)
    story: list = field(default_factory=list)


class Asked:
    """Daemons as chaos' clients find them: their numbers are places in this list."""

    def __init__(self, daemons):
        self.daemons = daemons


class Case:
    """What a fault's function sees of its round."""

    def __init__(self, setup, fault, seed):
        self.setup, self.fault, self.seed = setup, fault, seed
        self.asked, self.operated = Asked(setup.fronts()), Asked(setup.operated())
        self.skus = setup.skus()  # that are ordered at each of these
        self.network = setup.network
        self.record, self.round = Record(), Round()
        self.watches = [Watch(self.record, daemon) for daemon in setup.daemons]
        self.began = self.healed = None
        self.began_load = time.monotonic()
        self.idle = threading.Event()  # while it is set, clients send nothing

    def run(self):
        """Returns the Round, whatever happens."""
        try:
            self.open_sale()
            # A thread's children end with it, so only the main thread acts.
            with InThreads(*clients_of(self), *self.watches) as clients:
                self.wait_accepted()
                self.fault.act(self)
                self.idle.clear()
                self.measure_after()
            self.round.violations += clients.failures
            for sku in dict.fromkeys(self.skus):
                Closing(self, sku).run()
            check_all(self)
            self.measure()
        except HarnessError as error:
            self.round.violations.append(str(error))
        self.tell_story()
        return self.round

    def open_sale(self):
        client = Client(self.operated, self.record, "opening")
        body = {"total": UNITS, "segments": SEGMENTS, "end_round": True, **RESET_SETTINGS}
        for sku, number in {sku: number for number, sku in enumerate(self.skus)}.items():
            wait_until(lambda s=sku, n=number: client.change(
                "reset", n, s, body, f"reset{self.seed}").answer == "200", "the sale")
        client.close()

    # what faults do

    @contextmanager
    def fault_of(self, rule):
        """The rule holds within; the first of a round begins the cut, the last ends it."""
        self.impose(rule)
        try:
            yield rule
        finally:
            self.lift(rule)

    def impose(self, rule):
        self.network.impose(rule)
        self.began = self.record.now() if self.began is None else self.began
        return rule

    def lift(self, rule):
        self.network.lift(rule)
        self.healed = self.record.now()

    def cut(self, some, others=None):
        """Nothing passes between some hosts and others, or all others but clients and operator."""
        return self.fault_of(self.rule_of(some, others))

    def cut_to(self, sources, targets):
        return self.fault_of(one_way(sources, targets))

    def degrade(self, some, others, **fields):
        return self.fault_of(both_ways(some, others, **fields))

    def inside(self, *names):
        """All hosts but these, the clients' and the operator's."""
        return [name for name in self.network.others(*names) if name != "clients"]

    def rule_of(self, some, others=None, **fields):
        return both_ways(some, others or self.inside(*some), **fields)

    def cut_port(self, host, port):
        """Only what a server on the host has there; the host's other servers go on."""
        return self.fault_of(self.rule_of([host], cut=1, port=port))

    def everywhere(self):
        hosts = self.network.others()
        return hosts, hosts

    def hold(self, seconds):
        """The cut lasts for so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(POLL_S)

    def hold_until(self, condition, what, seconds_max):
        """Until it is so, or for so long: what then is not so, the figures tell."""
        until = time.monotonic() + seconds_max
        while time.monotonic() < until:
            if condition():
                return True
            time.sleep(POLL_S)
        self.note(f"not within {seconds_max} s: {what}")
        return False

    def is_served(self, since, daemon=None):
        """A new order that was sent since then has been accepted (by that daemon)."""
        return any(one.start >= since and one.answer == "201" and daemon in (None, one.daemon)
                   for one in reversed(list(self.record.tries)))

    def accepted(self, since=0.0, daemon=None):
        """Orders that were acknowledged since then."""
        return [one for one in list(self.record.tries) if one.answer == "201"
                and one.end >= since and daemon in (None, one.daemon)]

    def burst(self, count):
        """So many orders at once, and a second."""
        clients = [OneOrder(self, number) for number in range(count)]
        with InThreads(*clients):
            self.hold(1)

    def look_up(self, daemon, orders):
        """{answer: number of orders that the daemon looked up so}"""
        client, answers = Client(self.asked, self.record, "looking"), Counter()
        for one in orders:
            answers[client.call("get", daemon, one.order_id, LOOK_UP_S).answer or "no answer"] += 1
        client.close()
        return dict(answers)

    def expect(self, letter, what, is_so):
        """One of the behaviours that are checked beside safety."""
        self.round.behaviours.append((letter, what, bool(is_so)))

    def violate(self, text):
        self.round.violations.append(text)

    def note(self, text):
        self.round.notes.append(text)

    # figures

    def wait_accepted(self):
        for number in range(len(self.asked.daemons)):
            wait_until(lambda n=number: len(self.accepted(daemon=n)) >= QUIET_ORDERS,
                       "orders before the fault", pause=POLL_S)

    def measure_after(self):
        for number in range(len(self.asked.daemons)):
            wait_until(lambda n=number: self.is_served(self.healed, n),
                       f"an order of daemon {number} after the heal", SERVED_SECONDS_MAX)
        for watch in self.watches:
            wait_until(lambda w=watch: w.was_ready(self.healed, self.record.now()),
                       f"a ready {watch.daemon.host} after the heal", SERVED_SECONDS_MAX)

    def measure(self):
        good = [one for one in self.record.tries if one.answer == "201"]
        daemons = range(len(self.asked.daemons))
        self.round.accepted = len(good)
        ends = [sorted(one.end for one in good if one.daemon == number) for number in daemons]
        if not self.fault.idle:
            self.round.without = self.longest_gap(sorted(sum(ends, [])))
            self.round.without_worst = max(map(self.longest_gap, ends))
        self.round.after = max(
            min(one.end for one in good if one.daemon == number and one.start >= self.healed)
            for number in daemons) - self.healed
        self.round.health = "; ".join(f"{watch.daemon.host}: "
                                      f"{watch.in_short(self.began, self.healed)}"
                                      for watch in self.watches)

    def longest_gap(self, ends):
        """Within the cut, from one accepted order to the next."""
        inside = [self.began, *(end for end in ends if self.began <= end <= self.healed),
                  self.healed]
        return max(later - earlier for earlier, later in zip(inside, inside[1:]))

    # what is kept of it

    def tell_story(self):
        began = self.began or 0.0
        lines = [f"times in seconds since the cut; healed at {(self.healed or 0) - began:.2f}"]
        for watch in self.watches:
            lines += [f"{at:8.2f} {watch.daemon.host} {text}" for at, text in watch.changes(began)]
        for second in range(int(self.record.now() - began) + 1):
            answers = {}
            for one in self.record.tries:
                if second <= one.end - began < second + 1:
                    name = f"{one.daemon}: {one.answer or 'no answer'}"
                    answers[name] = answers.get(name, 0) + 1
            lines.append(f"{second:8.2f} orders " + ", ".join(
                f"{count} × daemon {name}" for name, count in sorted(answers.items())))
        for watch in self.watches:
            lines += [f"log of {watch.daemon.host}: {line}" for line in watch.log_lines()]
        self.round.story = lines
