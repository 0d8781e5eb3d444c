"""Child processes that never outlive us, free ports, and waiting for what they do."""

import fcntl
import functools
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.path.realpath(os.environ.get("SECKILL_DAEMON", ROOT / "build" / "seckilld"))
BUILD = Path(PROGRAM).parent  # all programs under test

# Below the ports of deploy/stack and of clients, beyond the last one that browsers refuse (10080).
PORT_FIRST, PORT_COUNT = 10_100, 9_900
PORTS_FILE = Path(tempfile.gettempdir(), f"seckill-ports-{os.getuid()}")
MEMORY, MEMORY_MIN = Path("/dev/shm"), 6 << 30  # bytes that must be free
PAUSE_MAX = 0.1  # seconds between two polls
SERVERS_VARIABLE = "SECKILL_STACK_SERVERS"  # the folder of the servers' folders
ports = random.SystemRandom()  # a test that seeds its random numbers gets other ports all the same
reserved = set()  # the ports that this process was given


class HarnessError(Exception):
    """A program or server did not do what was asked of it; the text is for the user."""


@contextmanager
def servers_in_memory():
    """Within it server_folder() gives folders in memory, if there is plenty, and all are removed at
    its end. Tests kill servers, which find their files again, and no machine: so nothing that they
    show depends on a disk, and half of their time would go into its files and syncs."""
    if SERVERS_VARIABLE in os.environ:  # one of several workers, whose folder its parent made
        yield
        return
    memory = os.statvfs(MEMORY) if MEMORY.exists() else None
    plenty = memory and memory.f_bavail * memory.f_frsize >= MEMORY_MIN
    with tempfile.TemporaryDirectory(prefix="seckill-test-", dir=MEMORY if plenty else None,
                                     ignore_cleanup_errors=True) as folder:
        os.environ[SERVERS_VARIABLE] = folder
        try:
            yield
        finally:
            del os.environ[SERVERS_VARIABLE]


def server_folder():
    """A new folder for the files of servers. Not one of pytest's: a socket's path must be short."""
    return tempfile.mkdtemp(prefix="seckill-", dir=os.environ.get(SERVERS_VARIABLE))


def spawn(argv, **options):
    """Starts a child in a session of its own, so that Ctrl-C reaches us alone and we stop it. If we
    die in another way, the kernel kills the child. Only for the main thread: the kernel also kills
    the child when the thread that started it ends."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", *map(str, argv)],
                            stdin=subprocess.DEVNULL, start_new_session=True, **options)


def spawn_server(argv, log=subprocess.DEVNULL, env=None):
    """Starts a server that is not ours, whose output goes to `log`. It gets a locale that every
    machine has: Redis 8 does not start in one that is not installed."""
    return spawn(argv, stdout=log, stderr=log, env={**os.environ, "LC_ALL": "C", **(env or {})})


def clean_environment():
    """Our environment without options of the service that the user may have exported."""
    return {name: value for name, value in os.environ.items()
            if not name.startswith("SECKILL_")}


@functools.cache
def ports_file():
    """Open until the process ends, and with it the locks."""
    return open(PORTS_FILE, "ab")


def free_port():
    """A free loopback port below the ephemeral range: a server that is down for a moment must not
    lose its port to somebody's outgoing connection, nor must a client connect to itself. Nor to
    another process that asks here: while this one lives it has a lock on its ports' bytes of a
    file, and it gives no port twice."""
    file = ports_file()
    while True:
        port = PORT_FIRST + ports.randrange(PORT_COUNT)
        with socket.socket() as sock, suppress(OSError):
            if port not in reserved:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
                sock.bind(("127.0.0.1", port))
                reserved.add(port)
                return port


def wait_until(condition, what, timeout=100, pause=0.02):
    """Polls until condition() is truthy and returns that; the timeout is a bound for hangs. The
    longer it takes, the longer are the pauses: a tenth of the time so far, up to PAUSE_MAX."""
    began = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        waited = time.monotonic() - began
        if waited >= timeout:
            raise HarnessError(f"{what} did not happen within {timeout} s")
        time.sleep(max(pause, min(waited / 10, PAUSE_MAX)))


def thread_stat(path):
    """(name, fields) of a thread, by the path of its stat: those of proc(5) from the state on."""
    with open(path, encoding="ascii", errors="replace") as file:
        name, fields = file.read().split(" (", 1)[1].rsplit(") ", 1)
    return name, fields.split()


def threads_of(process):
    """{path of its stat: (name, fields)} of the process's threads."""
    found = {}
    with suppress(FileNotFoundError):  # it has ended
        for thread in os.listdir(f"/proc/{process.pid}/task"):
            path = f"/proc/{process.pid}/task/{thread}/stat"
            with suppress(OSError):  # the thread has ended meanwhile
                found[path] = thread_stat(path)
    return found


def send_signal(process, number):
    """A thread on another processor goes on for a moment: after SIGSTOP it waits for that."""
    process.send_signal(number)
    if number == signal.SIGSTOP:
        wait_until(lambda: all(fields[0] == "T" for _, fields in threads_of(process).values()),
                   "a standstill of all threads")
