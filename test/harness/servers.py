"""A Redis, a MariaDB, a ZooKeeper and an etcd on ports of their own, which a test may kill, pause
and start again."""

import functools
import getpass
import os
import shutil
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path

from harness.ledger import Ledger
from harness.processes import (ROOT, HarnessError, free_port, send_signal, server_folder,
                               spawn_server, wait_until)
from harness.redis import Redis

STACK_TOOL = ROOT / "deploy" / "stack"
# A MySQL 8 may take the place of the installed MariaDB.
MYSQLD = os.environ.get("MYSQLD", "mariadbd")
# Where the initialised data folder lies that every private MariaDB begins with a copy of.
TEMPLATE_VARIABLE = "SECKILL_STACK_TEMPLATE"


@functools.cache
def is_mysql():
    """True when MYSQLD is a MySQL, not a MariaDB."""
    if "MYSQLD" not in os.environ:
        return False
    done = subprocess.run([MYSQLD, "--version"], capture_output=True, text=True, check=True)
    return "MariaDB" not in done.stdout


class Server:
    """A server process that comes back on the same port whenever it is started. With a `clock`, its
    time of day may be shifted."""

    def __init__(self, directory, clock=None):
        self.env = clock.environment() if clock else {}
        self.directory = Path(directory)
        self.port = free_port()
        self.process = None

    def argv(self):
        raise NotImplementedError

    def start(self, wait=True):
        with open(self.directory / "log", "ab") as log:
            self.process = spawn_server(self.argv(), log, self.env)
        if wait:
            self.wait_answers()

    def wait_answers(self):
        """A MariaDB was seen that never answered, once in thousands of starts: it gets one more."""
        what = f"an answer of {type(self).__name__}"
        try:
            wait_until(self._answers, what)
        except HarnessError:
            if self.process.poll() is not None:
                raise
            self.kill()
            self.start(wait=False)
            wait_until(self._answers, what)

    def _answers(self):
        if self.process.poll() is not None:
            text = (self.directory / "log").read_text(errors="replace")
            raise HarnessError(f"{type(self).__name__} ended at its start:\n{text[-2000:]}")
        return self.client.answers()

    def signal(self, number):
        send_signal(self.process, number)

    def kill(self):
        """SIGKILL: clients get no goodbye, and nothing is flushed."""
        self.signal(signal.SIGKILL)
        self.process.wait()

    def close(self):
        if self.process and self.process.poll() is None:
            self.kill()


class RedisServer(Server):
    def __init__(self, directory, clock=None):
        super().__init__(directory, clock)
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.client = Redis(self.url)

    def argv(self):
        return ["redis-server", "--port", self.port, "--bind", "127.0.0.1",
                "--dir", self.directory, "--appendonly", "yes", "--maxmemory-policy", "noeviction",
                "--save", ""]

    def forget(self):
        """Deletes what Redis wrote to disk: the next start comes back empty."""
        shutil.rmtree(self.directory / "appendonlydir", ignore_errors=True)


def mysqld_argv(directory, port, *options):
    """Without a binary log and without a schema of figures, which MySQL has unless it is told, and
    with small caches for MyISAM and Aria, which have system and temporary tables alone."""
    small = ["--key-buffer-size=1M", "--loose-aria-pagecache-buffer-size=8M",
             "--innodb-autoextend-increment=8"]
    mysql = ["--skip-log-bin", "--performance-schema=OFF", "--loose-mysqlx=OFF",
             "--secure-file-priv=NULL", "--loose-innodb-redo-log-capacity=16M"]
    return [MYSQLD, "--no-defaults", f"--datadir={directory}/data", f"--user={getpass.getuser()}",
            f"--tmpdir={directory}", f"--socket={directory}/sock", f"--port={port}",
            "--bind-address=127.0.0.1", "--skip-name-resolve", "--max-connections=500", *small,
            *(mysql if is_mysql() else ["--innodb-log-file-size=16M"]), *options]


def user_sql(user, rights, password=""):
    """Statements, a line each, that make an account anew."""
    return (f"DROP USER IF EXISTS {user};\nCREATE USER {user} IDENTIFIED BY '{password}';\n"
            f"GRANT {rights} TO {user} WITH GRANT OPTION;\n")


ROOT_WITHOUT_PASSWORD = "".join(user_sql(f"root@'{host}'", "ALL ON *.*")
                                for host in ("localhost", "127.0.0.1"))


class MariaServer(Server):
    def __init__(self, directory, *options, clock=None):
        super().__init__(directory, clock)
        self.options = options
        self.url = f"mysql://root@127.0.0.1:{self.port}/seckill"
        self.client = Ledger(self.url)
        copy_template(self.directory / "data")
        (self.directory / "init.sql").write_text(ROOT_WITHOUT_PASSWORD, encoding="ascii")

    def argv(self):
        return mysqld_argv(self.directory, self.port, f"--init-file={self.directory}/init.sql",
                           "--innodb-buffer-pool-size=64M", *self.options)


def copy_template(data):
    """A MariaDB data folder with nothing but the system tables in it."""
    template = os.environ.get(TEMPLATE_VARIABLE)
    if template is None:
        template = data.parent / "template"
    run_tool("template", template)
    subprocess.run(["cp", "-r", "--reflink=auto", Path(template, "data"), data], check=True)


def run_tool(verb, directory, *words, check=True, env=None):
    """Runs deploy/stack; returns its output."""
    done = subprocess.run([STACK_TOOL, verb, directory, *words], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, start_new_session=True,
                          env={**os.environ, **(env or {})}, check=False)
    if check and done.returncode != 0:
        raise HarnessError(f"deploy/stack {verb}: {done.stderr.strip()}")
    return done.stdout


def wrapped(program, line, folder):
    """A program of the same name in a new folder, which runs a line of shell before the real one.
    (What Redis was started with, /proc does not tell: its title has that place.)"""
    real = shutil.which(program, path=f"{os.environ['PATH']}:/usr/local/sbin:/usr/sbin")
    folder.mkdir()
    wrapper = folder / program
    wrapper.write_text(f'#!/bin/sh\n{line}\nexec {real} "$@"\n', encoding="ascii")
    wrapper.chmod(0o755)
    return wrapper


class RedisAlone:
    """Context manager: a Redis of this test's own, which it may kill and start again."""

    def __enter__(self):
        self.server = RedisServer(server_folder())
        try:
            self.server.start()
        except BaseException:
            self.__exit__()
            raise
        return self.server

    def __exit__(self, *_):
        self.server.close()
        shutil.rmtree(self.server.directory)


class OwnServer(Server):
    """Context manager: a server of this test's own, in a folder of its own."""

    def __init__(self):
        super().__init__(server_folder())
        self.client = self

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.close()
        shutil.rmtree(self.directory)


class ZooKeeper(OwnServer):
    """Context manager: a ZooKeeper of this test's own, with further lines in its settings."""

    PROGRAM = Path("/usr/share/java/zookeeper.jar")  # names the other archives that it needs,
    LOG = "/usr/share/java/slf4j-simple.jar"  # but none that writes its log

    def __init__(self, *lines):
        super().__init__()
        self.url = f"zookeeper://127.0.0.1:{self.port}"
        (self.directory / "zoo.cfg").write_text(
            "tickTime=500\nmaxSessionTimeout=60000\n"
            f"dataDir={self.directory}/data\nclientPort={self.port}\n"
            "clientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
            "4lw.commands.whitelist=srvr\ndigest.enabled=false\n"
            + "".join(f"{line}\n" for line in lines), encoding="ascii")

    def argv(self):
        return ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m", "-cp",
                f"{self.PROGRAM}:{self.LOG}", "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                self.directory / "zoo.cfg"]

    def answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as sock:
                sock.sendall(b"srvr")
                return sock.recv(9) == b"Zookeeper"  # else it says that it does not serve yet
        except OSError:
            return False


class Etcd(OwnServer):
    """Context manager: an etcd of this test's own, or a member of a cluster, whose members are all
    given to each of them by join() before any starts."""

    PROGRAM = shutil.which("etcd")

    def __init__(self, **options):
        """options are etcd's own, with _ for -."""
        super().__init__()
        self.peer_port = free_port()
        self.options, self.scheme = options, "https" if "cert_file" in options else "http"
        self.url = f"etcd{'s' if self.scheme == 'https' else ''}://127.0.0.1:{self.port}"
        self.name = f"etcd-{self.port}"
        self.members = [self]

    def join(self, members):
        self.members = members

    def argv(self):
        here = f"{self.scheme}://127.0.0.1:{self.port}"
        peer = f"http://127.0.0.1:{self.peer_port}"
        cluster = ",".join(f"{member.name}=http://127.0.0.1:{member.peer_port}"
                           for member in self.members)
        options = {"name": self.name, "data_dir": self.directory / "data",
                   "listen_client_urls": here, "advertise_client_urls": here,
                   "listen_peer_urls": peer, "initial_advertise_peer_urls": peer,
                   "initial_cluster": cluster, "initial_cluster_token": self.members[0].name,
                   "log_level": "error", "logger": "zap", **self.options}
        return ["etcd", *(f"--{name.replace('_', '-')}={value}" for name, value in options.items())]

    def answers(self):
        """With certificates nobody is asked: that it accepts connections will do."""
        try:
            if self.scheme == "https":
                socket.create_connection(("127.0.0.1", self.port), timeout=2).close()
                return True
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=2) as reply:
                return b'"true"' in reply.read()
        except OSError:
            return False

    def clear(self):
        """Deletes all keys."""
        body = b'{"key":"AA==","range_end":"AA=="}'  # from the first key to the last
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v3/kv/deleterange", body,
                                    timeout=30) as reply:
            reply.read()

    def ctl(self, *words):
        """Runs etcdctl; returns its output."""
        done = subprocess.run(["etcdctl", f"--endpoints=127.0.0.1:{self.port}", *words],
                              env={**os.environ, "ETCDCTL_API": "3"}, capture_output=True,
                              text=True, check=True)
        return done.stdout
