"""Starts real Redis and MariaDB servers on ports of their own, and stops them by pid."""

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

ROOT = Path(__file__).resolve().parent.parent
STACK_TOOL = ROOT / "deploy" / "stack"


def free_port():
    """A loopback port below the ephemeral range: a server that is down for a moment must not lose
    its port to somebody's outgoing connection, nor must a client connect to itself."""
    while True:
        port = random.randrange(10000, 30000)
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
        assert time.monotonic() < end, f"{what} did not happen within {timeout} s"
        time.sleep(pause)


def spawn_process(argv, log, env=None):
    """Starts a child that the kernel kills should this process die, in whatever way."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", *map(str, argv)],
                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)


class Redis:
    """The smallest RESP client: `redis("GET", "key")`. A connection per call, so that it does not
    care what became of the server in between."""

    def __init__(self, url):
        parts = urlsplit(url)
        self.address = (parts.hostname, parts.port)
        self.login = [word for word in (parts.username, parts.password) if word]
        self.db = parts.path.strip("/") or "0"

    def __call__(self, *words):
        with socket.create_connection(self.address, timeout=10) as sock:
            with sock.makefile("rb") as replies:
                if self.login:
                    self._exchange(sock, replies, "AUTH", *self.login)
                self._exchange(sock, replies, "SELECT", self.db)
                return self._exchange(sock, replies, *words)

    def _exchange(self, sock, replies, *words):
        raw = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        sock.sendall(b"*%d\r\n" % len(raw) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in raw))
        return self._reply(replies)

    def _reply(self, replies):
        line = replies.readline()
        if not line:
            raise ConnectionError("Redis closed the connection")
        kind, text = line[:1], line[1:-2]
        if kind == b"-":
            raise RuntimeError(text.decode())
        if kind == b":":
            return int(text)
        if kind == b"$":
            return None if text == b"-1" else replies.read(int(text) + 2)[:-2]
        if kind == b"*":
            return [self._reply(replies) for _ in range(int(text))]
        return text.decode()

    def hash(self, key):
        """HGETALL as a dict of strings."""
        flat = [item.decode() for item in self("HGETALL", key)]
        return dict(zip(flat[::2], flat[1::2]))

    def answers(self):
        try:
            return self("PING") == "PONG"
        except (OSError, RuntimeError):
            return False


class Ledger:
    """Queries through the mariadb command-line client."""

    def __init__(self, url):
        parts = urlsplit(url)
        self.user, self.password = parts.username or "root", parts.password or ""
        self.host, self.port, self.database = parts.hostname, parts.port, parts.path.strip("/")

    def run(self, sql, database=None):
        """All rows as tuples of strings, NULL as None."""
        database = self.database if database is None else database
        done = subprocess.run(
            ["mariadb", "--no-defaults", "--batch", "--skip-column-names", "--connect-timeout=10",
             f"--host={self.host}", f"--port={self.port}", f"--user={self.user}", "-e", sql,
             *([database] if database else [])],
            env={**os.environ, "MYSQL_PWD": self.password}, capture_output=True, text=True,
            timeout=60)
        assert done.returncode == 0, done.stderr
        return [tuple(None if cell == "NULL" else cell for cell in line.split("\t"))
                for line in done.stdout.splitlines()]

    def number(self, sql):
        return int(self.run(sql)[0][0])

    def recreate(self):
        self.run(f"DROP DATABASE IF EXISTS `{self.database}`; CREATE DATABASE `{self.database}`",
                 database="")

    def answers(self):
        try:
            return bool(self.run("SELECT 1", database=""))
        except (AssertionError, subprocess.TimeoutExpired):
            return False


class Server:
    """A server process that tests may kill, pause and start again on the same port."""

    def __init__(self, directory):
        self.directory = Path(directory)
        self.port = free_port()
        self.process = None

    def argv(self):
        raise NotImplementedError

    def start(self, wait=True):
        with open(self.directory / "log", "ab") as log:
            self.process = spawn_process(self.argv(), log)
        if wait:
            wait_until(self.client.answers, f"answer of {type(self).__name__}", timeout=60)

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        """SIGKILL: no goodbye to clients, nothing flushed."""
        self.signal(signal.SIGKILL)
        self.process.wait()

    def close(self):
        if self.process and self.process.poll() is None:
            self.kill()


class RedisServer(Server):
    def __init__(self, directory):
        super().__init__(directory)
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.client = Redis(self.url)

    def argv(self):
        return ["redis-server", "--port", self.port, "--bind", "127.0.0.1", "--dir", self.directory,
                "--appendonly", "yes", "--maxmemory-policy", "noeviction", "--save", ""]

    def forget(self):
        """Deletes what Redis wrote to disk: the next start comes back empty."""
        shutil.rmtree(self.directory / "appendonlydir", ignore_errors=True)


class MariaServer(Server):
    def __init__(self, directory):
        super().__init__(directory)
        self.url = f"mysql://root@127.0.0.1:{self.port}/seckill"
        self.client = Ledger(self.url)
        self.common = ["--no-defaults", f"--datadir={self.directory}/data",
                       "--innodb-log-file-size=16M", f"--tmpdir={directory}"]
        self.common += ["--user=root"] if os.geteuid() == 0 else []
        subprocess.run(["mariadb-install-db", *self.common, "--skip-test-db",
                        "--auth-root-authentication-method=normal"],
                       check=True, capture_output=True)

    def argv(self):
        return ["mariadbd", *self.common, f"--socket={self.directory}/sock", f"--port={self.port}",
                "--bind-address=127.0.0.1", "--skip-name-resolve", "--max-connections=500",
                "--innodb-buffer-pool-size=64M"]


class Stack:
    """One Redis and one MariaDB as the daemon is to use them: two addresses and a client each."""

    def __init__(self, redis_url, mysql_url, redis_server=None, maria_server=None):
        self.redis_url, self.mysql_url = redis_url, mysql_url
        self.redis, self.ledger = Redis(redis_url), Ledger(mysql_url)
        self.redis_server, self.maria_server = redis_server, maria_server

    def aside(self, name, redis_db):
        """The same servers with another database and another number in Redis, both empty."""
        redis_url = urlunsplit(urlsplit(self.redis_url)._replace(path=f"/{redis_db}"))
        mysql_url = urlunsplit(urlsplit(self.mysql_url)._replace(path=f"/seckill_{name}"))
        other = Stack(redis_url, mysql_url)
        other.redis("FLUSHDB")
        other.ledger.recreate()
        return other

    def clean(self):
        """From nothing: an empty Redis and an empty database."""
        self.redis("FLUSHALL")
        self.ledger.recreate()
        return self


class PrivateStack:
    """Context manager: servers of this test's own, which it may kill."""

    def __enter__(self):
        # Not under pytest's tmp_path: a socket's path must be short, and a data directory is large.
        self.directory = tempfile.mkdtemp(prefix="seckill-")
        paths = [Path(self.directory, name) for name in ("redis", "maria")]
        for path in paths:
            path.mkdir()
        self.servers = [RedisServer(paths[0]), MariaServer(paths[1])]
        try:
            for server in self.servers:
                server.start(wait=False)
            for server in self.servers:
                wait_until(server.client.answers, "start of the private servers", timeout=60)
            redis, maria = self.servers
            return Stack(redis.url, maria.url, redis, maria).clean()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        for server in self.servers:
            server.close()
        shutil.rmtree(self.directory, ignore_errors=True)


class ToolStack:
    """Context manager: servers that `deploy/stack` starts, for all tests that leave them be."""

    def __enter__(self):
        self.directory = tempfile.mkdtemp(prefix="seckill-")
        # Those servers have a session of their own; this stops them even should we be killed.
        self.caretaker = subprocess.Popen(
            ["sh", "-c", 'cat; "$0" down "$1"; rm -rf "$1"', STACK_TOOL, self.directory],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
        small = {"SECKILL_STACK_LOG_SIZE": "64M", "SECKILL_STACK_BUFFER_POOL": "128M"}
        try:
            done = subprocess.run([STACK_TOOL, "up", self.directory], env={**os.environ, **small},
                                  capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stdout + done.stderr
        except BaseException:
            self.__exit__()
            raise
        urls = dict(line.split("=", 1) for line in done.stdout.splitlines() if "_URL=" in line)
        return Stack(urls["SECKILL_REDIS_URL"], urls["SECKILL_MYSQL_URL"])

    def __exit__(self, *_):
        self.caretaker.stdin.close()
        self.caretaker.wait(120)
