"""Time that passes in a test, and for how long of it the machine stood still: longer than most
bounds, and no fault of a daemon's."""

import threading
import time
import warnings

from harness.processes import HarnessError

TICK_S = 0.02
STILL_S = 0.2  # a shorter pause is one of the scheduler's
STILL_MAX_S = 60  # more shows a machine on which nothing can be measured


class Watch:
    """A thread that only sleeps. Whenever it slept for too long, the machine stood still."""

    def __init__(self):
        self.lock = threading.Lock()
        self.still = []  # (from, until), the times of time.monotonic()
        self.seen = time.monotonic()
        threading.Thread(target=self.tick, daemon=True, name="standstill").start()

    def tick(self):
        while True:
            time.sleep(TICK_S)
            self.look()

    def look(self):
        with self.lock:
            now = time.monotonic()
            if now - self.seen > STILL_S:
                self.still.append((self.seen + TICK_S, now))
            self.seen = now

    def between(self, since, until):
        """For how many seconds the machine stood still."""
        self.look()  # the thread that sleeps may not have come to run yet
        return sum(max(0, min(until, end) - max(since, start)) for start, end in self.still)

    def running_s(self, since):
        """How long ago that is, without standstills."""
        now = time.monotonic()
        return now - since - self.between(since, now)


_watch = None


def watch():
    """The one of this process; it must run before what is measured begins."""
    global _watch
    if _watch is None:
        _watch = Watch()
    return _watch


class Elapsed:
    """Context manager: measures while it is entered. At the end `seconds` is what has passed, and
    `running` is that less the time of standstills, of which it warns."""

    def __enter__(self):
        self._watch, self.started = watch(), time.monotonic()
        return self

    def __exit__(self, *_):
        ended = time.monotonic()
        self.seconds = ended - self.started
        still = self._watch.between(self.started, ended)
        self.running = self.seconds - still
        if still > STILL_MAX_S:
            raise HarnessError(f"the machine stood still for {still:.0f} s: this measures nothing")
        if still:
            warnings.warn(f"the machine stood still for {still:.1f} s of {self.seconds:.1f} s, "
                          "which do not count", stacklevel=2)


def timed(call):
    """(what the call returned, Elapsed)"""
    with Elapsed() as passed:
        answer = call()
    return answer, passed


def undisturbed(call, failed):
    """What the call returned. It is made again when it failed and the machine stood still
    meanwhile: leases end in that time."""
    while True:
        answer, passed = timed(call)
        if passed.running == passed.seconds or not failed(answer):
            return answer
