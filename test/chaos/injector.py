"""Carries the schedule out, turn by turn: faults, then the time until everything serves again."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from chaos.faults import (client, daemon, line, maria, operator,  # noqa: F401  they register kinds
                          redis)
from chaos.kinds import KINDS

FAULT_SECONDS_MAX = 120  # beyond every fault's own bound, for a busy machine


@dataclass
class Struck:
    """A turn that is over. `served`: seconds from the end of its last fault until each daemon had
    answered an order 201; None: it never did."""

    turn: object
    start: float
    end: float
    served: list

    @property
    def worst(self):
        return float("inf") if None in self.served else max(self.served)


class Injector:
    """Context manager. Its two threads start servers and daemons, which die with them: leave it
    when nothing of the cluster is needed any more."""

    def __init__(self, cluster, record):
        self.cluster, self.record = cluster, record
        self.probe = None  # a Probe, before the first turn
        self.quiet = []    # seconds that probes took without a fault
        self.struck = []

    def __enter__(self):
        self.pool = ThreadPoolExecutor(2)
        return self

    def __exit__(self, *_):
        self.pool.shutdown()

    def strike(self, turn):
        """Carries one turn out."""
        time.sleep(turn.quiet)
        start = self.record.now()
        acts = [self.pool.submit(KINDS[fault.kind].act, self.cluster, **dict(fault.parameters))
                for fault in turn.faults]
        for act in acts:
            act.result(FAULT_SECONDS_MAX)
        ended, end = time.monotonic(), self.record.now()
        struck = Struck(turn, start, end, self.probe.wait_served(ended))
        self.struck.append(struck)
        return struck

    def near(self, at, seconds=6):
        """The turns that struck about then."""
        return [one for one in self.struck if one.start - seconds < at < one.end + seconds]
