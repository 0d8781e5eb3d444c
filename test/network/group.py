"""Group Replication of three MySQL servers, on hosts, and its faults. MYSQLD_GROUP names the
server's program: the MySQL that Debian's stable versions have is none, or too old."""

import functools
import getpass
import os
import subprocess
from pathlib import Path

from harness.processes import HarnessError, server_folder, wait_until
from network.faults import fault, look_up_at_wrong_side
from network.servers import MYSQL, MariaOnHost, make_accounts

PROGRAM = os.environ.get("MYSQLD_GROUP")
PORT = 33061  # of the group's own messages
GROUP = ("group",)
EXPELLED_S = 40.0  # until another primary takes writes: 24 s in the tests
INITIALISE_SECONDS = 120


class MySqlOnHost(MariaOnHost):
    """One member."""

    SETTINGS = ["--log-bin=bin", "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1",
                "--gtid-mode=ON", "--enforce-gtid-consistency=ON",
                "--plugin-load-add=group_replication.so", "--mysqlx=OFF",
                "--group-replication-group-name=5ec11110-0000-11ee-8000-000000000001",
                "--group-replication-start-on-boot=OFF",
                "--group-replication-unreachable-majority-timeout=5"]

    def __init__(self, network, host, directory, number, seeds):
        super().__init__(network, host, directory, number, [
            *self.SETTINGS, f"--group-replication-group-seeds={seeds}",
            f"--group-replication-local-address={network.addresses[host]}:{PORT}"],
            prepared_data())

    def argv(self):
        return [PROGRAM, "--no-defaults", f"--datadir={self.directory}/data",
                f"--user={getpass.getuser()}", f"--tmpdir={self.directory}",
                f"--socket={self.directory}/sock", f"--bind-address={self.address}",
                f"--port={MYSQL}", "--skip-name-resolve", f"--server-id={self.number}",
                f"--report-host={self.address}", "--innodb-buffer-pool-size=32M",
                "--innodb-redo-log-capacity=16M", "--secure-file-priv=NULL", *self.settings]

    def members(self):
        """{address: (state, role)} as this one sees them; {} without an answer."""
        try:
            return {host: (state, role) for host, state, role in self.run(
                "SELECT member_host, member_state, member_role FROM"
                " performance_schema.replication_group_members", timeout=5)}
        except HarnessError:
            return {}


@functools.cache
def prepared_data():
    """A data folder with the accounts, which has written no binary log."""
    directory = Path(server_folder())
    words = [PROGRAM, "--no-defaults", f"--datadir={directory}/data", f"--tmpdir={directory}",
             "--skip-log-bin", "--mysqlx=OFF", "--secure-file-priv=NULL",
             "--innodb-redo-log-capacity=16M"]
    with open(directory / "log", "wb") as log:
        subprocess.run([*words, f"--user={getpass.getuser()}", "--initialize-insecure"],
                       check=True, stdout=log, stderr=log, timeout=INITIALISE_SECONDS)
    make_accounts(directory, words)
    return directory / "data"


class Group:
    """In single-primary mode, with its own times."""

    def __init__(self, network, directory, names):
        self.names = names
        seeds = ",".join(f"{network.addresses[name]}:{PORT}" for name in names)
        self.nodes = {name: MySqlOnHost(network, name, f"{directory}/{name}", number, seeds)
                      for number, name in enumerate(names, 1)}
        self.url = "mysql://shop@" + ",".join(f"{one.address}:{MYSQL}"
                                              for one in self.nodes.values()) + "/seckill"

    def processes(self):
        return list(self.nodes.values())

    def start(self):
        for node in self.nodes.values():
            node.start()
        for node in self.nodes.values():
            node.wait_answers()
            node.run("CHANGE REPLICATION SOURCE TO source_user='root'"
                     " FOR CHANNEL 'group_replication_recovery'")
        first, *rest = self.nodes.values()
        first.run("SET GLOBAL group_replication_bootstrap_group=ON; START GROUP_REPLICATION;"
                  "SET GLOBAL group_replication_bootstrap_group=OFF;"
                  "CREATE DATABASE seckill CHARACTER SET utf8mb4")
        for node in rest:
            node.run("START GROUP_REPLICATION")
        wait_until(lambda: self.online(first) == len(self.names), "a group of all members")

    @staticmethod
    def online(node):
        return [state for state, _ in node.members().values()].count("ONLINE")

    @property
    def primary(self):
        """The member that most call the primary, among those that see a majority."""
        for node in self.nodes.values():
            if self.online(node) * 2 > len(self.names):
                for name, other in self.nodes.items():
                    if node.members().get(other.address) == ("ONLINE", "PRIMARY"):
                        return name
        return None

    def replicas(self):
        return [name for name in self.names if name != self.primary]

    def master_url(self):
        name = wait_until(lambda: self.primary, "a primary")
        return f"mysql://root@{self.nodes[name].address}:{MYSQL}/seckill"


# --- Faults -------------------------------------------------------------------------------------

@fault("the primary is cut off from the other members and all daemons", *GROUP, long=True)
def group_primary(case):
    with case.cut(["db1"]):
        case.hold(EXPELLED_S)


@fault("the primary is cut off from the other members alone", *GROUP, long=True)
def group_primary_from_members(case):
    with case.cut(["db1"], ["db2", "db3"]):
        case.hold(EXPELLED_S)


@fault("the primary is cut off with one daemon", *GROUP, long=True)
def group_split(case):
    """C: the wrong side's daemon must not call unknown what the right side has acknowledged."""
    with case.cut(["db1", "app2"], ["db2", "db3", "app1"]):
        case.hold(EXPELLED_S)
        look_up_at_wrong_side(case)


@fault("a secondary is cut off", *GROUP, long=True)
def group_secondary(case):
    with case.cut(["db3"]):
        case.hold(EXPELLED_S)


@fault("the primary's host is lost", *GROUP, long=True)
def group_primary_lost(case):
    rule = case.impose(case.rule_of(["db1"]))
    case.setup.ledgers.nodes["db1"].kill()
    case.hold(EXPELLED_S)
    case.lift(rule)


@fault("no member sees another one for a moment", *GROUP, long=True)
def group_none(case):
    """Shorter than the time after which members are expelled."""
    with case.cut(["db1", "db2", "db3"], ["db1", "db2", "db3"]):
        case.hold(4)
