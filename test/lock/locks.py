"""The lock library's tools as processes: seclock, and the drivers that tests command."""

import json
import os
import signal
import subprocess
import time

import pytest

from harness.processes import BUILD, send_signal, wait_until

SECLOCK = BUILD / "seclock"
DRIVER, LOOP_DRIVER = BUILD / "test/lock_driver", BUILD / "test/lock_driver_loop"
HISTORY, LOOP_HISTORY = BUILD / "test/lock_history", BUILD / "test/lock_history_loop"


# A loop takes the steps of a server's kinds in one way: these are one or two for each way.
LOOP_KINDS = ("simple", "timestamp", "fair", "table", "queue", "etcd")


def each_kind(kinds, keep=3):
    """Marks a test of each of these kinds in the form that waits, and of LOOP_KINDS in that for
    event loops. The test is long but for the first kinds, which shall be of different servers,
    and the first one with a loop."""
    waits = [(DRIVER, kind) for kind in kinds]
    loops = [(LOOP_DRIVER, kind) for kind in kinds if kind in LOOP_KINDS]
    cases = waits[:keep] + loops[:1] + waits[keep:] + loops[1:]
    names = [f"{'waits' if program is DRIVER else 'loop'}-{kind}" for program, kind in cases]

    def mark(test):
        return pytest.mark.long(keep=keep + 1)(
            pytest.mark.parametrize("form, kind", cases, indirect=["form"], ids=names)(test))
    return mark


def driver_words(words, options):
    """The words of a command, and KEY=VALUE for each option."""
    return [*map(str, words), *(f"{key}={value}" for key, value in options.items())]


class Driver:
    """Context manager: a process that holds locks as it is told. Answers are dicts."""

    program = DRIVER  # or LOOP_DRIVER
    defaults = {"timeout": 5000}  # options: a second is short on a busy machine

    def __init__(self, *servers, **options):
        self.process = subprocess.Popen(
            [self.program, *driver_words(servers, {**self.defaults, **options})],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def send(self, *words, **options):
        """Tells it without waiting for the answer, which the next read() gives."""
        self.process.stdin.write(" ".join(driver_words(words, options)) + "\n")

    def read(self):
        line = self.process.stdout.readline()
        assert line, f"the driver ended with status {self.process.wait()}"
        return json.loads(line)

    def __call__(self, *words, **options):
        self.send(*words, **options)
        return self.read()

    def acquire(self, kind, name, hold=1, **options):
        return self("acquire", hold, kind, name, **options)

    def stop(self):
        """SIGSTOP, as a machine that is put aside."""
        send_signal(self.process, signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                pipe.close()
            except BrokenPipeError:
                pass  # what was still in the buffer


def settled(driver, *words, timeout=30):
    """The answer once the server is in reach again: until then it is not known, or not done."""
    answers = []

    def settles():
        answers.append(driver(*words))
        return answers[-1]["result"] not in ("failed", "unknown")
    wait_until(settles, f"answer to {words}", timeout=timeout)
    return answers[-1]


def seconds_since(start):
    return time.monotonic() - start


def run_seclock(*words, server, timeout=60, **options):
    """Runs seclock to its end; the finished process with its output."""
    return subprocess.run([SECLOCK, "--server", server, *words], capture_output=True, text=True,
                          timeout=timeout, check=False, stdin=subprocess.DEVNULL,
                          env={**os.environ, **options})
