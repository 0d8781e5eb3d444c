"""One Redis and one MariaDB as the service uses them, kept by deploy/stack or killed by a test."""

import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlunsplit, urlsplit

from harness.ledger import Ledger
from harness.processes import PROGRAM, clean_environment, server_folder, wait_until
from harness.redis import Redis
from harness.servers import STACK_TOOL, MariaServer, RedisServer, run_tool


class Stack:
    """Two addresses and a client for each."""

    migrated = None

    def __init__(self, redis_url, mysql_url, redis_server=None, maria_server=None):
        self.redis_url, self.mysql_url = redis_url, mysql_url
        self.redis, self.ledger = Redis(redis_url), Ledger(mysql_url)
        self.redis_server, self.maria_server = redis_server, maria_server

    def aside(self, name, redis_db):
        """These servers with another database and another number in Redis, both empty."""
        redis_url = urlunsplit(urlsplit(self.redis_url)._replace(path=f"/{redis_db}"))
        mysql_url = urlunsplit(urlsplit(self.mysql_url)._replace(path=f"/seckill_{name}"))
        other = Stack(redis_url, mysql_url)
        other.redis("FLUSHDB")
        other.ledger.recreate()
        return other

    def wait_unlocked(self, sku="demo"):
        """Until no segment of the sale is locked: a worker settles its last batch after answers."""
        wait_until(lambda: not self.redis("KEYS", f"seckill:{{{sku}:*:lock"),
                   "the end of the last batch")

    def wait_rounds_ended(self):
        """Until the orders of earlier rounds are ended, which a reset does after its answer."""
        wait_until(lambda: self.ledger.number("SELECT COUNT(*) FROM round_end") == 0,
                   "the end of the rounds before")

    def migrate(self):
        """From now on clean() leaves empty tables, so that no daemon has to make them first."""
        subprocess.run([PROGRAM, "--migrate"], check=True, capture_output=True,
                       env={**clean_environment(), "SECKILL_MYSQL_URL": self.mysql_url})
        self.migrated = Migrated(self.ledger)

    def clean(self):
        """Begins from nothing: an empty Redis, and a database that is empty or has empty tables."""
        self.redis("FLUSHALL")
        if self.migrated:
            self.migrated.restore()
        else:
            self.ledger.recreate()
        return self


class Migrated:
    """The tables of a new ledger, as the migrations leave them. To make them again is quicker than
    to migrate, and to delete their rows quicker still, which does unless a test has changed them;
    only numbers that the server counts by itself go on. A test that wrote nothing leaves nothing to
    delete."""

    KEPT = ("schema_version", "node_lease")
    FREED = ("UPDATE node_lease SET holder=NULL, leased_until='2025-01-01', ids_before=0"
             " WHERE holder IS NOT NULL OR ids_before>0;")

    def __init__(self, ledger):
        self.ledger = ledger
        names = [name for name, in ledger.run("SHOW TABLES")]
        rows = {name: self.insertion(name) for name in names}
        self.made = "".join(ledger.run(f"SHOW CREATE TABLE `{name}`")[0][1] + ";" + rows[name]
                            for name in names)
        self.emptied = self.FREED + "".join(f"DELETE FROM `{name}`;" + rows[name]
                                            for name in names if name not in self.KEPT)
        self.changes = ledger.changes()

    def insertion(self, name):
        """A statement that inserts the table's rows; "" for none."""
        rows = self.ledger.run(f"SELECT * FROM `{name}`")
        values = ",".join(f"({','.join(map(self.quoted, row))})" for row in rows)
        return f"INSERT INTO `{name}` VALUES{values};" if values else ""

    @staticmethod
    def quoted(cell):
        return "NULL" if cell is None else f"'{cell}'"

    def restore(self):
        changes = self.ledger.changes()
        if changes == self.changes:
            return
        if changes[0] == self.changes[0]:
            self.ledger.run(self.emptied)
        else:
            self.ledger.recreate(self.made)
        self.changes = self.ledger.changes()


class PrivateStack:
    """Context manager: servers of one test, which may kill them and shift the clock of each. The
    options are for MariaDB."""

    def __init__(self, *maria_options, redis_clock=None, maria_clock=None):
        self.maria_options = maria_options
        self.redis_clock, self.maria_clock = redis_clock, maria_clock

    def __enter__(self):
        self.directory = server_folder()
        self.servers = []
        try:
            for name, make in (("redis", lambda path: RedisServer(path, self.redis_clock)),
                               ("maria", lambda path: MariaServer(path, *self.maria_options,
                                                                  clock=self.maria_clock))):
                path = Path(self.directory, name)
                path.mkdir()
                self.servers.append(make(path))
                self.servers[-1].start(wait=False)
            for server in self.servers:
                server.wait_answers()
            redis, maria = self.servers
            return Stack(redis.url, maria.url, redis, maria).clean()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        for server in self.servers:
            server.close()
        shutil.rmtree(self.directory, ignore_errors=True)


class ToolServers:
    """Context manager: servers that deploy/stack runs in a directory of their own, for those who
    leave them alone. `urls` has the address of each by its kind: redis, mariadb, zookeeper or
    etcd."""

    VARIABLES = {"redis": "SECKILL_REDIS_URL", "mariadb": "SECKILL_MYSQL_URL",
                 "zookeeper": "SECKILL_ZOOKEEPER_URL", "etcd": "SECKILL_ETCD_URL"}
    # The servers have sessions of their own. This child's input ends when we die, in whatever way,
    # and the child then stops them; their data is thrown away, so SIGKILL will do.
    CARETAKER = ('cat >/dev/null; tool=$1 directory=$2; shift 2;'
                 ' for kind; do "$tool" kill "$directory" "$kind"; done; rm -rf "$directory"')

    def __init__(self, kinds=("redis", "mariadb"), **sizes):
        """sizes are variables of deploy/stack, such as SECKILL_STACK_LOG_SIZE."""
        self.kinds, self.sizes = kinds, sizes

    def __enter__(self):
        self.directory = server_folder()
        self.caretaker = subprocess.Popen(
            ["sh", "-c", self.CARETAKER, "caretaker", STACK_TOOL, self.directory, *self.kinds],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
        try:
            lines = [line for kind in self.kinds for line in
                     run_tool("up", self.directory, kind, env=self.sizes).splitlines()]
        except BaseException:
            self.__exit__()
            raise
        found = dict(line.split("=", 1) for line in lines if "_URL=" in line)
        self.urls = {kind: found[self.VARIABLES[kind]] for kind in self.kinds}
        return self

    def __exit__(self, *_):
        self.caretaker.stdin.close()
        self.caretaker.wait(120)

    def pids(self):
        """The servers' process ids by kind, a list each."""
        return {kind: [int(Path(self.directory, kind, "pid").read_text(encoding="ascii"))]
                for kind in self.kinds}


class ToolStack(ToolServers, Stack):
    """Context manager: a Redis and a MariaDB that deploy/stack runs."""

    def __enter__(self):
        super().__enter__()
        Stack.__init__(self, self.urls["redis"], self.urls["mariadb"])
        return self
