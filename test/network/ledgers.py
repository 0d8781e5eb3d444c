"""The ledger on hosts, and what an operator does with it."""

import shutil
import signal
import subprocess
from pathlib import Path

from harness.engines_ledger import GALERA_PROVIDER, GaleraTrio
from harness.processes import ROOT, HarnessError, server_folder, wait_until
from network.servers import END_SECONDS, MYSQL, PATH, MariaOnHost

FAILOVER_TOOL = ROOT / "ctl" / "seckill-failover"


class Ledgers:
    """A MariaDB primary with semi-synchronous replicas, a host each."""

    def __init__(self, network, directory, names):
        self.network, self.directory, self.names = network, directory, names
        self.nodes = {name: MariaOnHost(network, name, f"{directory}/{name}", number)
                      for number, name in enumerate(self.names, 1)}
        self.primary = self.names[0]
        self.url = "mysql://shop@" + ",".join(f"{one.address}:{MYSQL}"
                                              for one in self.nodes.values()) + "/seckill"

    def processes(self):
        return list(self.nodes.values())

    @property
    def node(self):
        return self.nodes[self.primary]

    def replicas(self):
        return [name for name in self.names if name != self.primary]

    def master_url(self):
        return f"mysql://root@{self.node.address}:{MYSQL}/seckill"

    def start(self):
        for node in self.nodes.values():
            node.start()
        for node in self.nodes.values():
            node.wait_answers()
        for name in self.replicas():
            self.nodes[name].follow(self.node)
        self.node.run(f"SET GLOBAL rpl_semi_sync_master_enabled={int(len(self.names) > 1)},"
                      "GLOBAL read_only=0;"
                      "CREATE DATABASE seckill CHARACTER SET utf8mb4")
        wait_until(self.whole, "replicas that answer the primary")

    def whole(self):
        try:
            if self.node.status("Rpl_semi_sync_master_clients") != str(len(self.names) - 1):
                return False
            states = [self.nodes[name].replica_status() for name in self.replicas()]
        except (HarnessError, OSError):
            return False
        position = self.node.run("SELECT @@gtid_binlog_pos")[0][0]
        return all(one.get("Slave_IO_Running") == "Yes" and one["Slave_SQL_Running"] == "Yes"
                   and one["Gtid_IO_Pos"] == position for one in states)

    # what an operator does

    def fail_over(self, end_old=True):
        """Gives the primary up; returns when another takes writes. Without end_old the old one
        lives on, which no operator must let happen."""
        old, replicas = self.node, self.replicas()
        if end_old:
            old.kill()
        if end_old and FAILOVER_TOOL.exists():
            self.fail_over_by_tool(old, replicas)
            return
        for name in replicas:
            self.nodes[name].run("STOP SLAVE IO_THREAD")
        received = {name: self.nodes[name].replica_status()["Gtid_IO_Pos"] for name in replicas}
        best = max(replicas, key=lambda name: sequence(received[name]))
        new = self.nodes[best]
        wait_until(lambda: sequence(new.run("SELECT @@gtid_slave_pos")[0][0])
                   >= sequence(received[best]), "an applied relay log")
        others = [name for name in replicas if name != best]
        new.run("STOP SLAVE; RESET SLAVE ALL;"
                f"SET GLOBAL rpl_semi_sync_master_enabled={int(bool(others))}")
        for name in others:
            self.nodes[name].run("STOP SLAVE")
            self.nodes[name].follow(new)
        new.run("SET GLOBAL read_only=0")
        self.primary = best

    def fail_over_by_tool(self, old, replicas):
        account = Path(self.directory, "root.cnf")
        account.write_text("[client]\nuser=root\n", encoding="ascii")
        done = subprocess.run([FAILOVER_TOOL, "--defaults-file", account, "--dead", old.address,
                               *(self.nodes[name].address for name in replicas)],
                              check=False, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise HarnessError(f"seckill-failover: {done.stdout}{done.stderr}")
        self.primary = next(name for name in replicas
                            if self.nodes[name].run("SELECT @@read_only") == [("0",)])


def sequence(position):
    """The greatest number in a position of GTIDs, which are of one domain here."""
    return max((int(one.rsplit("-", 1)[1]) for one in position.split(",") if one), default=0)


class Galera:
    """A Galera cluster with its own times; the daemons write to the first node that takes writes.
    `primary` is the node that is asked for audits."""

    SETTINGS = ["--wsrep-on=ON", f"--wsrep-provider={GALERA_PROVIDER}",
                "--wsrep-cluster-name=seckill", "--wsrep-sst-method=given", "--binlog-format=ROW",
                "--innodb-autoinc-lock-mode=2", "--innodb-flush-log-at-trx-commit=1"]
    founded = None  # the data folder of a cluster that exists, for all of this process

    def __init__(self, network, directory, names):
        self.network, self.directory, self.names = network, directory, names
        addresses = [network.addresses[name] for name in self.names]
        self.settings = [*self.SETTINGS, "--wsrep-cluster-address=gcomm://" + ",".join(addresses)]
        data = Galera.founded = self.founded or self.found()
        self.write_transfer(data)
        self.nodes = {name: self.make(name, name, number, data)
                      for number, name in enumerate(self.names, 1)}
        self.url = "mysql://shop@" + ",".join(f"{one}:{MYSQL}" for one in addresses) + "/seckill"

    def make(self, folder, name, number, data=None):
        node = MariaOnHost(self.network, name, f"{self.directory}/{folder}", number, [
            *self.settings, f"--wsrep-node-name={name}",
            f"--wsrep-node-address={self.network.addresses[name]}",
            "--wsrep-provider-options=gcache.size=16M"], data)
        node.env["PATH"] = f"{self.directory}:{PATH}"
        return node

    def write_transfer(self, data):
        """A state transfer for nodes that lack little: see GaleraTrio."""
        state = dict(line.split(":") for line in (data / "grastate.dat").read_text().splitlines()
                     if ":" in line)
        transfer = Path(self.directory, "wsrep_sst_given")
        transfer.write_text(GaleraTrio.TRANSFER.replace(
            "POSITION", f"{state['uuid'].strip()}:{state['seqno'].strip()}"), encoding="ascii")
        transfer.chmod(0o700)

    def found(self):
        """Founds the cluster on one node, and stops that in order: the data of every node."""
        founder = self.make("founder", self.names[0], 1)
        data = founder.directory / "data"
        (data / "grastate.dat").write_text(
            "# GALERA saved state\nversion: 2.1\nuuid:    5ec11110-0000-11ee-8000-000000000001\n"
            "seqno:   0\nsafe_to_bootstrap: 1\n", encoding="ascii")
        self.write_transfer(data)
        self.begin(founder)
        founder.run("CREATE DATABASE seckill CHARACTER SET utf8mb4")
        founder.signal(signal.SIGTERM)
        founder.process.wait(END_SECONDS)
        for name in ("gvwstate.dat", "galera.cache"):
            (data / name).unlink(missing_ok=True)
        return Path(shutil.move(data, server_folder()))

    def begin(self, node):
        """Starts the first node of the cluster."""
        node.settings.append("--wsrep-new-cluster")
        node.start()
        node.settings.pop()
        wait_until(lambda: self.is_joined(node, 1), "a cluster of one")

    @staticmethod
    def is_joined(node, size):
        try:
            return (node.status("wsrep_ready"), node.status("wsrep_local_state"),
                    node.status("wsrep_cluster_size")) == ("ON", "4", str(size))
        except (HarnessError, IndexError):
            return False

    def start(self):
        first, *rest = self.nodes.values()
        self.begin(first)
        for size, node in enumerate(rest, 2):
            node.start()
            wait_until(lambda n=node, s=size: self.is_joined(n, s), f"a cluster of {size}")

    def processes(self):
        return list(self.nodes.values())

    @property
    def primary(self):
        return self.names[0]

    def replicas(self):
        return self.names[1:]

    def whole(self):
        return all(self.is_joined(node, len(self.names)) for node in self.nodes.values())

    def master_url(self):
        """The first node once all are there again: it then has what the others have."""
        wait_until(self.whole, "a cluster that is whole again")
        return f"mysql://root@{self.nodes[self.primary].address}:{MYSQL}/seckill"
