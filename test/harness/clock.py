"""Clock shifts what a daemon takes for the time. Elapsed measures what passes in a test, and for
how long of it the machine stood still: longer than most bounds, and not the daemon's fault."""

import os
import struct
import threading
import time

from harness.processes import ROOT

PRELOAD = ROOT / os.environ.get("BUILD", "build") / "test" / "shifted_clock.so"
TEST_SECONDS_MAX = 180  # conftest.py ends a test that takes longer
TICK_S = 0.02
STILL_S = 0.2  # a shorter pause is one of the scheduler's


class Clock:
    """The shifts of a daemon's clocks, see shifted_clock.c."""

    def __init__(self, path):
        self.path = path
        self.set()

    def set(self, wall_s=0, boot_s=0):
        # In one write to the same file: the daemon has it mapped.
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT)
        os.write(fd, struct.pack("=qq", wall_s * 1000, boot_s * 1000))
        os.close(fd)

    def environment(self):
        asan = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        return {"LD_PRELOAD": str(PRELOAD), "SHIFTED_CLOCK": str(self.path), "ASAN_OPTIONS": asan}


class Elapsed:
    """Context manager: measures while it is entered. At the end `seconds` is what has passed, and
    `running` is that less the time in which not even a thread that only sleeps came to run."""

    def __enter__(self):
        self._still = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)
        self._started = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.seconds = time.monotonic() - self._started
        self._over.set()
        self._thread.join()
        self.running = self.seconds - self._still

    def _tick(self):
        before, over = self._started, False
        while not over:
            over = self._over.wait(TICK_S)
            now = time.monotonic()
            if now - before > STILL_S:
                self._still += now - before - TICK_S
            before = now


def timed(call):
    """(what the call returned, Elapsed)"""
    with Elapsed() as passed:
        answer = call()
    return answer, passed
