"""A program that serves HTTP: started, found by what it logs, stopped, killed or paused by pid."""

import math
import re
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from harness.client import send
from harness.processes import (HarnessError, clean_environment, send_signal, spawn, thread_stat,
                               threads_of, wait_until)

LISTENING = re.compile(
    r"event\"?[=:]\"?listening\b.*\baddress\"?[=:]\"?\[?([\d.]+|[\da-f:]+)\]?:(\d+)")
SANITIZER = re.compile(r"AddressSanitizer|ThreadSanitizer|LeakSanitizer|runtime error:")
ASSERTION = "Assertion"
REPORT_END = re.compile(r"^ *SUMMARY: .*", re.M)
REPORT_MAX = 8000
# libmicrohttpd 0.9.75 joins a folded header line at the end of its memory by a memcpy onto itself,
# within its own buffer. glibc's memcpy copes with that, and nothing of ours can prevent it.
KNOWN_REPORT = re.compile(
    r"==\d+==ERROR: AddressSanitizer: memcpy-param-overlap[^#]*#0 [^\n]*memcpy[^\n]*\n"
    r" +#1 [^\n]*libmicrohttpd.*?SUMMARY: AddressSanitizer: memcpy-param-overlap [^\n]*\n",
    re.DOTALL)
LOG_SHOWN_MAX = 4000


def sanitizer_report(text):
    """The first report of a sanitizer in a program's log, up to its summary; "" if there is none
    that is ours to mend."""
    text = KNOWN_REPORT.sub("", text)
    found = SANITIZER.search(text)
    if not found:
        return ""
    end = REPORT_END.search(text, found.start())
    return text[found.start():end.end() if end else None][:REPORT_MAX]


class Program:
    """Context manager: leaving it sends SIGTERM. The program must then end with one of
    `good_statuses`, and must have logged no failed assertion and no sanitizer's report."""

    good_statuses = (0, -signal.SIGTERM)
    must_be_ready = True  # before it counts as started
    pass_fds = ()  # descriptors that it inherits

    def __init__(self, program, *words, directory):
        self.program, self.words = Path(program), words
        self.directory = Path(directory)
        self.env = {}
        self.log_paths = []
        self.process = self.address = None
        self.end_expected = False
        self.log_writer = None  # the stat of its thread
        self.stopped_until = 0  # the time until when it was stopped by a signal

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.reap()
            raise

    def __exit__(self, *_):
        try:
            if self.running():
                self.cont()
                self.stop()
        finally:
            self.reap()
        if not self.end_expected:
            raise self.failure(f"died: {self.process.returncode}")
        for path in self.log_paths:
            text = path.read_text(errors="replace")
            report = sanitizer_report(text)
            if ASSERTION in text or report:
                raise HarnessError(report or text)

    # its life

    def argv(self):
        return [self.program, *self.words]

    def start(self):
        """Starts it (again, after a kill); every start has a port and a log of its own."""
        self.launch()
        return self.wait_started()

    def launch(self):
        """Only from the main thread, see spawn()."""
        if not self.program.exists():
            raise HarnessError(f"{self.program} is not there; make builds our own")
        self.log_paths.append(self.directory / f"{self.program.name}-{time.monotonic_ns()}.log")
        self.end_expected, self.log_writer = False, None
        with open(self.log_paths[-1], "wb") as log:
            self.process = spawn(self.argv(), stdout=log, stderr=log,
                                 pass_fds=self.pass_fds,
                                 env={**clean_environment(), **self.env})

    def wait_started(self):
        self.address = self.wait_until(self.listening, "listening")
        if self.must_be_ready:
            self.wait_ready()
        return self

    def listening(self):
        """Its address; None before it listens."""
        found = LISTENING.search(self.log())
        return found and (found[1], int(found[2]))

    def ready(self):
        """Whether it can be asked; only a daemon does more until then than listen."""
        return True

    def wait_ready(self):
        self.wait_until(self.ready, "ready")

    def wait_until(self, condition, what):
        def alive_and_true():
            if not self.running():
                raise self.failure("ended")
            return condition()
        return wait_until(alive_and_true, f"{self.program.name} {what}")

    def failure(self, what):
        return HarnessError(f"{self.program.name} {what}\n{self.log()[-LOG_SHOWN_MAX:]}")

    def running(self):
        return self.process is not None and self.process.poll() is None

    def await_writer(self):
        """Until the thread that writes the log has written all lines: it sleeps only then."""
        def sleeps():
            with suppress(OSError):  # it has ended
                return thread_stat(self.log_writer)[1][0] not in "RD"
            return True
        if self.running() and not self.log_writer:
            self.log_writer = next((path for path, (name, _) in threads_of(self.process).items()
                                    if name == "log-writer"), None)
        if self.running() and self.log_writer:
            wait_until(sleeps, "the log's writer")

    def log(self):
        """The log since the last start."""
        self.await_writer()
        return self.log_paths[-1].read_text(errors="replace")

    def signal(self, number):
        if number == signal.SIGSTOP:
            self.stopped_until = math.inf
        send_signal(self.process, number)
        if number == signal.SIGCONT:
            self.stopped_until = time.monotonic()

    def wait(self, timeout=30):
        """The exit status; a signal's is negative."""
        status = self.process.wait(timeout)
        self.end_expected = True
        return status

    def stop(self):
        """SIGTERM: drains and ends."""
        self.signal(signal.SIGTERM)
        try:
            status = self.wait()
        except subprocess.TimeoutExpired:
            raise self.failure("hangs in its drain") from None
        if status not in self.good_statuses:
            raise self.failure(f"ended with exit status {status}")

    def kill(self):
        """SIGKILL."""
        if not self.running():
            raise self.failure("died before it was killed")
        self.reap()
        self.end_expected = True

    def reap(self):
        """Cleans up, whatever state it is in."""
        if self.running():
            self.signal(signal.SIGKILL)
            self.process.wait()

    def pause(self):
        self.signal(signal.SIGSTOP)

    def cont(self):
        self.signal(signal.SIGCONT)

    # its interface

    def url(self, path=""):
        return "http://%s:%d%s" % (*self.address, path)

    def request(self, method, path, body=None, headers=(), timeout=30):
        return send(self.address, method, path, body, headers, timeout)

    def get(self, path):
        return self.request("GET", path)
