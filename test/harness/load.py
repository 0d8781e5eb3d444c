"""Runs wrk with load.lua and reads the answers that wrk wrote down."""

import random
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from harness import standstill
from harness.bounds import bound_s, is_late
from harness.daemon import PlainDaemon
from harness.processes import wait_until

SCRIPT = Path(__file__).with_name("load.lua")


class Load:
    """Context manager: one running wrk. It ends after `stop_after` refusals without an accepted
    order between them, or after `seconds`."""

    def __init__(self, daemon, directory, connections=128, seconds=30, skus=("demo",), qty=(1, 1),
                 stop_after=300, delay_ms=0, users=1_000_000_000):
        self.prefix = Path(directory) / f"load-{time.monotonic_ns()}"
        self.seconds = seconds
        self.daemon = daemon
        self.output = self.process = None
        script = {"prefix": self.prefix, "skus": ",".join(skus), "qty_min": qty[0],
                  "qty_max": qty[1], "stop_after": stop_after, "delay_ms": delay_ms,
                  "users": users}
        self.argv = ["wrk", "--threads=2", f"--connections={connections}", f"--duration={seconds}s",
                     "--timeout=20s", f"--script={SCRIPT}", daemon.url(), "--",
                     *(f"{name}={value}" for name, value in script.items())]

    def __enter__(self):
        if self.process:  # of a fixture, which will end it, too
            return self
        self.watch, self.began = standstill.watch(), time.monotonic()
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", *self.argv],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def wait_answered(self):
        """Until the daemon, to which only wrk has sent orders since its start, has answered wrk.
        Before, wrk would die of the signal of stop(), and give up when the daemon is gone."""
        answers = "seckill_order_seconds_count"
        wait_until(lambda: self.daemon.metric(answers) > 0, "an answer to wrk")

    def stop(self):
        """Ends wrk early; requests in flight stay unanswered. While wrk begins its threads it takes
        no notice of the signal, though the first of them orders already."""
        while self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(0.5)
        return self.wait()

    def wait(self):
        self.end()
        assert self.process.returncode == 0, self.output
        print(self.output)
        self.check_slowest()
        return self

    def end(self):
        """Waits for the end of wrk, which also ends for want of a daemon."""
        if self.output is None:
            self.output, _ = self.process.communicate(timeout=self.seconds + 30)
            self.ended = time.monotonic()

    def remove(self):
        """Deletes what wrk has written down."""
        for path in self.prefix.parent.glob(f"{self.prefix.name}.*"):
            path.unlink()

    def check_slowest(self):
        """No answer of a daemon came after the bound of orders, unless the test stopped it."""
        if not isinstance(self.daemon, PlainDaemon) or self.daemon.stopped_until > self.began:
            return
        took_s = self._counted("slowest")["us"] / 1e6
        took_s -= self.watch.between(self.began, self.ended)
        assert not is_late("/order", took_s, self.daemon.options), (
            f"an answer took {took_s:.2f} s, without standstills; the bound of orders is "
            f"{bound_s('/order', self.daemon.options)} s")

    def _counted(self, word):
        counts = Counter()
        for line in self.output.splitlines():
            cells = line.split("\t")
            if cells[0] == word:
                counts[cells[1]] += int(cells[2])
        return counts

    @property
    def answers(self):
        """How often each answer came, like {"201": 1000, "409 sold_out": 23511}; after the end."""
        return self._counted("answer")

    @property
    def errors(self):
        """wrk's own: connect, read, write, timeout, status."""
        return self._counted("error")

    def _written(self, status):
        lines = (line.split() for path in self.prefix.parent.glob(f"{self.prefix.name}.*")
                 for line in path.read_text().splitlines(keepends=True) if line.endswith("\n"))
        return [words[1:] for words in lines if words[0] == status]

    @property
    def accepted(self):
        """[(order_id, qty)] of every 201 so far, repeats included."""
        return [(order_id, int(qty)) for order_id, qty in self._written("201")]

    @property
    def unclear(self):
        """Order ids of every 503 outcome_unknown."""
        return [order_id for order_id, in self._written("503")]


def stop_all(loads):
    """Ends loads early, each after its first answer. Returns all that was accepted."""
    for one in loads:
        one.wait_answered()
    return [order for one in loads for order in one.stop().accepted]


def crowd(daemon, path, seconds, connections=700, script=None):
    """wrk, which asks for the path over many connections; or asks what the script says."""
    return subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "--", "wrk", "--threads=1", "--timeout=10s",
         f"--connections={connections}", f"--duration={seconds}s",
         *([f"--script={script}"] if script else []), daemon.url(path)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def kill_under_load(daemon, load, times):
    """Kills the daemon so often, each time in the midst of orders, and starts it again. Returns the
    loads that ordered there."""
    loads = []
    accepted = 'seckill_orders_total{outcome="accepted"}'
    for _ in range(times):
        loads.append(load(daemon, connections=8, seconds=250))
        before = daemon.metric(accepted)
        wait_until(lambda: daemon.metric(accepted) > before, "an order at the daemon to be killed")
        time.sleep(random.uniform(0, 0.05))
        daemon.kill()
        loads[-1].stop()
        daemon.start()
    return loads
