"""Child processes that never outlive us, free ports, and waiting for what they do."""

import os
import random
import socket
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PORT_FIRST, PORT_COUNT = 10_000, 20_000  # below the ports that the kernel gives to clients
WORKERS_MAX = 16
# Processes of one test run share the ports without ever choosing the same one: each has its slice.
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % WORKERS_MAX


class HarnessError(Exception):
    """A program or server did not do what was asked of it; the text is for the user."""


def spawn(argv, **options):
    """Starts a child in a session of its own, so that Ctrl-C reaches us alone and we stop it. If we
    die in another way, the kernel kills the child. Only for the main thread: the kernel also kills
    the child when the thread that started it ends."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", *map(str, argv)],
                            stdin=subprocess.DEVNULL, start_new_session=True, **options)


def clean_environment():
    """Our environment without options of the service that the user may have exported."""
    return {name: value for name, value in os.environ.items()
            if not name.startswith("SECKILL_")}


def free_port():
    """A free loopback port below the ephemeral range: a server that is down for a moment must not
    lose its port to somebody's outgoing connection, nor must a client connect to itself."""
    while True:
        port = PORT_FIRST + WORKERS_MAX * random.randrange(PORT_COUNT // WORKERS_MAX) + WORKER
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def wait_until(condition, what, timeout=30, pause=0.02):
    """Polls until condition() is truthy and returns that; the timeout is a bound for hangs."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= end:
            raise HarnessError(f"{what} did not happen within {timeout} s")
        time.sleep(pause)
