"""Servers on hosts: Redis with its sentinels, and MariaDB with semi-synchronous replicas, with the
settings that docs/deployment.md asks for. Their ports are those of the documents."""

import functools
import getpass
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pymysql

from harness.daemon import TOKEN, PlainDaemon
from harness.ledger import Ledger
from harness.processes import (HarnessError, send_signal, server_folder, spawn_server,
                               wait_until)
from harness.redis import Redis
from harness.servers import MYSQLD, ROOT_WITHOUT_PASSWORD, copy_template, user_sql

REDIS, SENTINEL, MYSQL, HTTP = 6379, 26379, 3306, 8080
END_SECONDS = 60
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
# No account but on hosts of the network; root is the operator.
ACCOUNTS = user_sql("root@'10.77.%'", "ALL ON *.*") + user_sql("shop@'10.77.%'", "ALL ON seckill.*")


class Service:
    """A server on a host, which comes back with its data whenever it is started."""

    def __init__(self, network, host, directory):
        self.network, self.host = network, host
        self.address = network.addresses[host]
        self.directory = Path(directory)
        self.directory.mkdir()
        self.process, self.env = None, {"PATH": PATH, "LC_ALL": "C"}

    def argv(self):
        raise NotImplementedError

    def answers(self):
        raise NotImplementedError

    def start(self):
        self.process = self.network.spawn(self.host, self.argv(), self.directory / "log",
                                          env=self.env)

    def wait_answers(self):
        def answered():
            if self.process.poll() is not None:
                text = (self.directory / "log").read_text(errors="replace")
                raise HarnessError(f"{self.directory.name} ended at its start:\n{text[-2000:]}")
            return self.answers()
        wait_until(answered, f"an answer of {self.directory.name}")

    def running(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        send_signal(self.process, number)

    def kill(self):
        if self.running():
            self.signal(signal.SIGKILL)
            self.process.wait()


class RedisOnHost(Service):
    """A redis-server, or a sentinel."""

    def __init__(self, network, host, directory, port, options):
        super().__init__(network, host, directory)
        self.port, self.client = port, Redis(f"redis://{self.address}:{port}/0")
        # Without a password Redis refuses other hosts unless protected-mode is off.
        own = [f"port {port}", f"bind {self.address}", "protected-mode no",
               f"dir {self.directory}"]
        self.config = self.directory / "redis.conf"
        self.config.write_text("\n".join([*own, *options, ""]), encoding="ascii")

    def argv(self):
        return ["redis-server", self.config, *(["--sentinel"] if self.port == SENTINEL else [])]

    def ask(self, *words):
        return self.client.ask(*words)

    def answers(self):
        try:
            return self.ask("PING") == "PONG"
        except (OSError, RuntimeError):
            return False

    def info(self):
        """INFO replication by name."""
        text = self.ask("INFO", "replication").decode()
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


@functools.cache
def prepared_data():
    """A data folder with the accounts; every server begins with a copy of it."""
    directory = Path(server_folder())
    copy_template(directory / "data")
    make_accounts(directory, [shutil.which(MYSQLD, path=PATH) or MYSQLD, "--no-defaults",
                              f"--datadir={directory}/data", f"--tmpdir={directory}"])
    return directory / "data"


def make_accounts(directory, words):
    """Starts the server once, without a network, and lets it end in order."""
    init, sock = directory / "init.sql", directory / "sock"
    init.write_text(ROOT_WITHOUT_PASSWORD + ACCOUNTS, encoding="ascii")
    with open(directory / "log", "ab") as log:
        server = spawn_server([*words, f"--user={getpass.getuser()}", f"--init-file={init}",
                               f"--socket={sock}", "--skip-networking"], log)

    def answers():
        if server.poll() is not None:
            raise HarnessError((directory / "log").read_text(errors="replace")[-2000:])
        with suppress(pymysql.MySQLError, OSError):
            Ledger("mysql://root@localhost").connect("", socket=str(sock)).close()
            return True
        return False
    try:
        wait_until(answers, "a server with accounts")
        server.send_signal(signal.SIGTERM)
        server.wait(END_SECONDS)
    finally:
        server.kill()
        server.wait()
    (directory / "data" / "auto.cnf").unlink(missing_ok=True)


class MariaOnHost(Service):
    """A MariaDB. `run` is the operator's."""

    SETTINGS = ["--log-bin=bin", "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1",
                "--binlog-format=ROW", "--gtid-strict-mode=ON", "--log-slave-updates=ON",
                "--rpl-semi-sync-master-wait-point=AFTER_SYNC",
                "--rpl-semi-sync-master-timeout=4294967295",
                "--rpl-semi-sync-master-wait-no-slave=ON", "--rpl-semi-sync-slave-enabled=ON",
                "--rpl-semi-sync-slave-kill-conn-timeout=1", "--read-only=1"]
    FOLLOW = ("CHANGE MASTER TO master_host='{}', master_user='root',"
              " master_use_gtid=slave_pos, master_connect_retry=1; START SLAVE")

    def __init__(self, network, host, directory, number, settings=None, data=None):
        super().__init__(network, host, directory)
        self.number, self.settings = number, settings or self.SETTINGS
        self.data = data or prepared_data()
        self.client = Ledger(f"mysql://root@{self.address}:{MYSQL}/seckill")
        self.new_data()

    def new_data(self):
        subprocess.run(["cp", "-r", "--reflink=auto", self.data, self.directory / "data"],
                       check=True)

    def argv(self):
        return [shutil.which(MYSQLD, path=PATH) or MYSQLD, "--no-defaults",
                f"--datadir={self.directory}/data", f"--user={getpass.getuser()}",
                f"--tmpdir={self.directory}", f"--socket={self.directory}/sock",
                f"--bind-address={self.address}", f"--port={MYSQL}", "--skip-name-resolve",
                f"--server-id={self.number}", f"--report-host={self.address}",
                "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M",
                "--key-buffer-size=1M", "--loose-aria-pagecache-buffer-size=8M", *self.settings]

    def run(self, sql, **how):
        return self.client.run(sql, database="", **how)

    def answers(self):
        return self.client.answers()

    def status(self, name):
        return self.run(f"SHOW GLOBAL STATUS LIKE '{name}'")[0][1]

    def replica_status(self):
        """SHOW SLAVE STATUS by name."""
        with self.client.connect("") as connection, \
                connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute("SHOW SLAVE STATUS")
            return cursor.fetchone() or {}

    def follow(self, primary):
        self.run("SET GLOBAL rpl_semi_sync_master_enabled=0;"
                 + self.FOLLOW.format(primary.address))


class DaemonOnHost(PlainDaemon):
    """The service on a host, with the options that it has by default."""

    def __init__(self, program, network, host, directory, redis_url, mysql_url, **options):
        class Urls:
            pass
        Urls.redis_url, Urls.mysql_url = redis_url, mysql_url
        super().__init__(program, Urls, directory, True, {"SECKILL_ADMIN_TOKEN": TOKEN},
                         listen=f"{network.addresses[host]}:{HTTP}", events_retention_h=24,
                         **options)
        self.network, self.host, self.token = network, host, TOKEN

    def argv(self):
        return self.network.argv(self.host, super().argv())
