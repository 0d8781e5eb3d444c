"""The lock library's tools as processes: seclock, and the drivers that tests command."""

import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from daemon import PROGRAM
from harness.processes import wait_until
from harness.servers import RedisServer, Server

BUILD = Path(PROGRAM).parent
SECLOCK = BUILD / "seclock"
DRIVER, HISTORY = BUILD / "test/lock_driver", BUILD / "test/lock_history"


def driver_words(words, options):
    """The words of a command, and KEY=VALUE for each option."""
    return [*map(str, words), *(f"{key}={value}" for key, value in options.items())]


class Driver:
    """Context manager: a process that holds locks as it is told. Answers are dicts."""

    def __init__(self, *servers, **options):
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", str(DRIVER), *driver_words(servers, options)],
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
        self.process.send_signal(signal.SIGSTOP)

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


class RedisAlone:
    """Context manager: a Redis of this test's own, which it may kill and start again."""

    def __enter__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="seckill-lock-")
        self.server = RedisServer(self.directory.name)
        self.server.start()
        return self.server

    def __exit__(self, *_):
        self.server.close()
        self.directory.cleanup()


class ZooKeeper(Server):
    """Context manager: a ZooKeeper of this test's own."""

    PROGRAM = Path("/usr/share/zookeeper/bin/zkServer.sh")

    def __init__(self):
        self.home = tempfile.TemporaryDirectory(prefix="seckill-zookeeper-")
        super().__init__(self.home.name)
        self.url = f"zookeeper://127.0.0.1:{self.port}"
        self.client = self
        (self.directory / "zoo.cfg").write_text(
            "tickTime=500\nmaxSessionTimeout=60000\n"
            f"dataDir={self.directory}/data\nclientPort={self.port}\n"
            "clientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
            "4lw.commands.whitelist=srvr\ndigest.enabled=false\n"
            "maxSessionTimeout=60000\n", encoding="ascii")

    def argv(self):
        return ["env", f"ZOO_LOG_DIR={self.directory}", self.PROGRAM, "start-foreground",
                self.directory / "zoo.cfg"]

    def answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as sock:
                sock.sendall(b"srvr")
                return sock.recv(9) == b"Zookeeper"  # else it says that it does not serve yet
        except OSError:
            return False

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.close()
        self.home.cleanup()


def seconds_since(start):
    return time.monotonic() - start


def run_seclock(*words, server, timeout=60, **options):
    """Runs seclock to its end; the finished process with its output."""
    return subprocess.run([SECLOCK, "--server", server, *words], capture_output=True, text=True,
                          timeout=timeout, check=False, stdin=subprocess.DEVNULL,
                          env={**os.environ, **options})
