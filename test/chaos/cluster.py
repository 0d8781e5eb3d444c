"""The cluster that faults strike: a Redis, a MariaDB, three daemons, and fault proxies between."""

import getpass
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

from harness.clock import Clock
from harness.daemon import TOKEN, PlainDaemon
from harness.processes import PROGRAM, free_port
from harness.proxy import FaultProxy
from harness.servers import MariaServer, RedisServer, user_sql
from harness.stack import Stack

DAEMONS = 3
BEHIND_PROXIES = 2  # the first daemons; the last one asks the servers without a detour
# The defaults of the service but for mysql_timeout_ms: a ledger that is deaf for a moment must not
# cost 5 s when 5 s are the bound.
OPTIONS = {"lease_ms": 3000, "deadline_ms": 2000, "redis_timeout_ms": 500,
           "mysql_timeout_ms": 2000, "events_retention_h": 24,
           "webhook_networks": "127.0.0.0/8"}
# A server whose files may not grow is to see an error, not a signal.
NO_SIGNAL = ["env", "--ignore-signal=XFSZ"]


class Redis(RedisServer):
    def __init__(self, directory):
        self.clock = Clock(directory / "clock")
        self.clock.behind_s = 0  # what was asked of it never goes forward again
        super().__init__(directory, self.clock)

    def argv(self):
        return [*NO_SIGNAL, *super().argv(), "--appendfsync", "everysec"]


class Maria(MariaServer):
    """The daemons are no administrators here, so that read_only concerns them."""

    USER = "".join(user_sql(f"seckill@'{host}'", "ALL ON seckill.*", "chaos")
                   for host in ("localhost", "127.0.0.1"))

    def __init__(self, directory):
        super().__init__(directory)
        with open(self.directory / "init.sql", "a", encoding="ascii") as file:
            file.write(self.USER)
        self.daemons_url = self.url.replace("root@", "seckill:chaos@")

    def argv(self):
        return [*NO_SIGNAL, *super().argv(), f"--log-bin={self.directory}/data/binlog",
                "--binlog-format=ROW", "--sync-binlog=1", "--max-binlog-size=1G",
                "--loose-innodb-deadlock-report=off", f"--user={getpass.getuser()}"]


class Cluster:
    """Context manager. The logs of the daemons lie in `directory` and stay there."""

    def __init__(self, directory):
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.operator = None  # a Client, for the faults that are an operator's calls

    def __enter__(self):
        with ExitStack() as started:
            # A socket's path must be short, so the data lies elsewhere.
            home = tempfile.mkdtemp(prefix="seckill-chaos-")
            started.callback(shutil.rmtree, home, ignore_errors=True)
            self._start_servers(Path(home), started)
            self._start_daemons(started)
            self.running = started.pop_all()
        return self

    def __exit__(self, *error):
        return self.running.__exit__(*error)

    def _start_servers(self, home, started):
        servers = []
        for kind in (Redis, Maria):
            path = home / kind.__name__.lower()
            path.mkdir()
            servers.append(kind(path))
            started.callback(shutil.copy, path / "log", self.directory / f"{path.name}.log")
            started.callback(servers[-1].close)
            servers[-1].start(wait=False)
        for server in servers:
            server.wait_answers()
        self.redis_server, self.maria_server = servers
        self.stack = Stack(servers[0].url, servers[1].url, *servers).clean()
        self.redis, self.ledger = self.stack.redis, self.stack.ledger

    def _start_daemons(self, started):
        self.daemons, self.redis_lines, self.maria_lines, self.clocks = [], [], [], []
        for number in range(DAEMONS):
            self.daemons.append(self._start_daemon(number, started))

    def _start_daemon(self, number, started):
        redis_url, mysql_url = self.redis_server.url, self.maria_server.daemons_url
        if number < BEHIND_PROXIES:
            redis_line = started.enter_context(FaultProxy(self.redis_server.port))
            maria_line = started.enter_context(FaultProxy(self.maria_server.port))
            self.redis_lines.append(redis_line)
            self.maria_lines.append(maria_line)
            redis_url, mysql_url = redis_line.url(redis_url), maria_line.url(mysql_url)
        path = self.directory / f"daemon{number}"
        path.mkdir(exist_ok=True)
        self.clocks.append(Clock(path / "clock"))
        # A port of its own for good: clients come back to the same address.
        daemon = PlainDaemon(PROGRAM, self.stack, path, listen=f"127.0.0.1:{free_port()}",
                             redis_url=redis_url, mysql_url=mysql_url, **OPTIONS)
        daemon.token = TOKEN
        daemon.env = {"SECKILL_ADMIN_TOKEN": TOKEN, **self.clocks[-1].environment()}
        return started.enter_context(daemon)
