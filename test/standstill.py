"""Times that tests measure, and how long the machine stood still meanwhile: that is nobody's fault,
and longer than most bounds. A machine that is merely busy is no excuse."""

import threading
import time

TICK_S = 0.02
STILL_S = 0.2  # a shorter pause is one of the scheduler's


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
