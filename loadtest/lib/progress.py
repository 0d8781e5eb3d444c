"""One line on a terminal that says what runs, and what the service's metrics say meanwhile."""

import shutil
import sys
import time

from lib import metrics

LOOK_EVERY_S = 0.5


class Progress:
    """One line on a terminal that says what runs; nothing elsewhere."""

    def __init__(self):
        self.shown = sys.stderr.isatty()
        self.start = time.monotonic()
        self.where = self.text = self.live = ""
        self.end_s = None

    def say(self, text):
        self.text, self.live = text, ""
        self.tick()

    def begin(self, where):
        """Begins a part, whose name then stays before everything that say() says."""
        self.where = f"{where}: "
        self.say("")

    def expect(self, seconds):
        """Tells that everything will have ended in so many seconds from now."""
        self.end_s = time.monotonic() - self.start + seconds

    def tick(self):
        if self.shown:
            seconds = time.monotonic() - self.start
            left = "" if self.end_s is None else f", {left_text(self.end_s - seconds)} left"
            line = f"[{seconds:3.0f} s{left}] {self.where}{self.text}{self.live}"
            columns = shutil.get_terminal_size().columns
            sys.stderr.write(f"\r\033[K{line[:columns - 1]}")
            sys.stderr.flush()

    def clear(self):
        if self.shown:
            sys.stderr.write("\r\033[K")


def left_text(seconds):
    return f"{seconds / 60:.0f} min" if seconds > 90 else f"{max(seconds, 0):.0f} s"


class Meter:
    """Asks the daemons for their metrics twice a second and puts their rates into the line."""

    def __init__(self, progress, daemons):
        self.progress, self.daemons = progress, daemons
        self.seen_at, self.seen = 0, None

    def tick(self):
        now = time.monotonic()
        if self.progress.shown and now - self.seen_at >= LOOK_EVERY_S:
            found = metrics.add([metrics.read(daemon) for daemon in self.daemons])
            if self.seen:
                self.progress.live = live_text(self.seen, found, now - self.seen_at)
            self.seen_at, self.seen = now, found
        self.progress.tick()


def live_text(before, after, seconds):
    gone = {name: after[name] - before.get(name, 0) for name in after}
    accepted = metrics.outcome(after, "accepted")
    rate = metrics.outcome(gone, "accepted") / seconds
    errors = sum(metrics.outcome(after, name) for name in metrics.ERRORS)
    p50_ms, p99_ms = (1000 * metrics.quantile(gone, "seckill_order_seconds", share)
                      for share in (0.5, 0.99))
    return (f" {rate:,.0f} orders/s, p50 {p50_ms:.1f} p99 {p99_ms:.1f} ms, "
            f"{accepted:,.0f} sold, {errors:,.0f} errors")
