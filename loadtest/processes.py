"""The processes of a load test: private servers, the service, the bare one; stopped by pid."""

import http.client
import json
import os
import re
import resource
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import metrics

ROOT = Path(__file__).resolve().parent.parent
LISTENING = re.compile(r"event=listening\b.*\baddress=\"?([\d.]+):(\d+)")
START_TIMEOUT_S = 30
STOP_TIMEOUT_S = 15
DESCRIPTORS = 20_000


class BenchError(Exception):
    """What keeps a load test from going on; its text is for the user."""


def spawn(argv, **options):
    """Starts a child outside the terminal's process group: Ctrl-C reaches the bench alone, which
    stops its children itself. Should the bench die in another way, the kernel kills them."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", *map(str, argv)],
                            stdin=subprocess.DEVNULL, start_new_session=True, **options)


def clean_environment():
    """Ours without options of the service that the user may have exported."""
    return {name: value for name, value in os.environ.items()
            if not name.startswith("SECKILL_")}


def leave(number, _):
    """Ends by unwinding, which stops what was started, and which no second signal disturbs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + number)


def raise_descriptor_limit():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Stack:
    """Context manager: a private Redis and MariaDB with their data in a directory of their own."""

    tool = ROOT / "deploy" / "stack"
    servers = ("redis", "mariadb")

    def __enter__(self):
        self.directory = tempfile.mkdtemp(prefix="seckill-bench-")
        try:
            lines = [line for name in self.servers for line in self._run("up", name).splitlines()]
            self.connect(dict(line.split("=", 1) for line in lines))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in self.servers:
            self._run("down", name, check=False)
        shutil.rmtree(self.directory, ignore_errors=True)

    def connect(self, urls):
        self.redis_url, self.mysql_url = urls["SECKILL_REDIS_URL"], urls["SECKILL_MYSQL_URL"]

    def pids(self):
        """The servers' process ids by name, a list each."""
        return {name: [int(Path(self.directory, name, "pid").read_text(encoding="ascii"))]
                for name in self.servers}

    def _run(self, verb, name, check=True):
        done = subprocess.run([self.tool, verb, self.directory, name], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, start_new_session=True)
        if check and done.returncode != 0:
            raise BenchError(f"deploy/stack {verb} {name}: {done.stderr.strip()}")
        return done.stdout


class Server:
    """Context manager: a program that logs `event=listening address=…` on stderr and serves."""

    def __init__(self, argv, directory, env=None):
        self.argv, self.env = argv, env
        self.log_path = Path(directory) / f"{Path(argv[0]).name}-{time.monotonic_ns()}.log"
        self.process = None

    def __enter__(self):
        if not Path(self.argv[0]).exists():
            raise BenchError(f"{self.argv[0]} is not there: build it with make")
        with open(self.log_path, "wb") as log:
            self.process = spawn(self.argv, stderr=log, stdout=log, env=self.env)
        try:
            self.wait_listening()
            self.wait_ready()
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(self, kind, *_):
        self.process.terminate()
        try:
            status = self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            status = "still running after SIGTERM"
            self._kill()
        if kind is None and status not in self.good_statuses():
            raise BenchError(f"{self.argv[0]}: exit status {status}\n{self.log()[-2000:]}")

    def _kill(self):
        self.process.kill()
        self.process.wait()

    def good_statuses(self):
        return (-15,)

    def wait_listening(self):
        found = self.wait_until(lambda: LISTENING.search(self.log()), "listening")
        self.host, self.port = found[1], int(found[2])

    def wait_ready(self):
        """Returns when it can be measured; a service has more to wait for than a bare server."""

    def wait_until(self, condition, what):
        end = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise BenchError(f"{self.argv[0]} ended at its start:\n{self.log()[-2000:]}")
            value = condition()
            if value:
                return value
            time.sleep(0.02)
        raise BenchError(f"{self.argv[0]} is not {what} after {START_TIMEOUT_S} s:\n"
                         f"{self.log()[-2000:]}")

    def log(self):
        return self.log_path.read_text(errors="replace")

    @property
    def url(self):
        return f"http://{self.host}:{self.port}/order"


class Daemon(Server):
    """The service on a free port, with options of its own given by name."""

    def __init__(self, program, stack, **options):
        self.options = options
        self.token = secrets.token_hex(16)
        env = {**clean_environment(), "SECKILL_REDIS_URL": stack.redis_url,
               "SECKILL_MYSQL_URL": stack.mysql_url, "SECKILL_ADMIN_TOKEN": self.token}
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        super().__init__([program, "--listen=127.0.0.1:0", *flags], stack.directory, env)

    def good_statuses(self):
        return (0,)

    def wait_ready(self):
        self.wait_until(lambda: self.ask("GET", "/readyz")[0] == 200, "ready")

    def ask(self, method, path, body=None):
        """(status, text) of one call on a connection of its own."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=10)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except (OSError, http.client.HTTPException) as error:
            return 0, str(error)
        finally:
            connection.close()

    def reset(self, sku, total, segments, **options):
        body = {"sku": sku, "total": total, "segments": segments, **options}
        status, text = self.ask("POST", "/admin/stock/reset", body)
        if status != 200:
            raise BenchError(f"POST /admin/stock/reset {body}: {status} {text}")

    def outcomes(self):
        """How many orders had which outcome so far."""
        return metrics.outcomes(metrics.read(self))
