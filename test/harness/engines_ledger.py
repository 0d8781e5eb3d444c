"""Ledgers of several servers: a primary with semi-synchronous replicas, and a Galera cluster."""

import functools
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pymysql

from harness.ledger import Ledger
from harness.processes import HarnessError, free_port, server_folder, wait_until
from harness.servers import MariaServer, Server, is_mysql, mysqld_argv
from harness.stack import Stack

GALERA_PROVIDER = Path("/usr/lib/galera/libgalera_smm.so")
JOIN_SECONDS = 60


class Node(Server):
    """One MariaDB of several, whose data folder begins as a copy of a prepared one."""

    def __init__(self, directory, number, data):
        directory.mkdir()
        super().__init__(directory)
        self.number = number
        self.place = f"127.0.0.1:{self.port}"
        self.url = f"mysql://root@{self.place}/seckill"
        self.client = Ledger(self.url)
        self.options = []
        subprocess.run(["cp", "-r", "--reflink=auto", data, directory / "data"], check=True)

    def argv(self):
        return mysqld_argv(self.directory, self.port, "--innodb-buffer-pool-size=32M",
                           f"--server-id={self.number}", *self.options)

    def run(self, sql, **how):
        return self.client.run(sql, database="", **how)

    def status(self, name):
        """A status variable's text, or None while the server does not answer."""
        try:
            rows = self.run(f"SHOW GLOBAL STATUS LIKE '{name}'")
        except HarnessError:
            return None
        return rows[0][1] if rows else None


@functools.cache
def prepared_data():
    """A data folder with the system tables and accounts: shop, without a password, and copy, by
    which a replica reads. It stays until servers_in_memory() ends."""
    directory = Path(server_folder())
    server = MariaServer(directory)
    try:
        server.start()
        server.client.run("CREATE USER shop@'127.0.0.1';"
                          "GRANT ALL ON seckill.* TO shop@'127.0.0.1';"
                          "CREATE USER copy@'127.0.0.1' IDENTIFIED BY 'word';"
                          "GRANT REPLICATION SLAVE ON *.* TO copy@'127.0.0.1'", database="")
        server.signal(signal.SIGTERM)
        server.process.wait(JOIN_SECONDS)
    finally:
        server.close()
    (directory / "data" / "auto.cnf").unlink(missing_ok=True)  # each copy is a MySQL of its own
    return directory / "data"


class Nodes:
    """Context manager: servers under one folder. `primary` is the one that a client of the list is
    to find; `url` names all of them, in their order."""

    def __init__(self):
        self.nodes, self.primary = [], None

    def __enter__(self):
        self.directory = server_folder()
        try:
            self.up(prepared_data())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.down()
        shutil.rmtree(self.directory, ignore_errors=True)

    def up(self, data):
        raise NotImplementedError

    def down(self):
        for node in self.nodes:
            node.close()

    @property
    def url(self):
        return f"mysql://shop@{','.join(node.place for node in self.nodes)}/seckill"

    def stack(self, redis_url):
        """The primary, for audits, and a Redis. To be asked for anew when the primary changes."""
        return Stack(redis_url, self.primary.url)

    def kill(self):
        """The primary dies at once."""
        self.primary.kill()


class SemiSyncPair(Nodes):
    """A primary and a replica that answers for each commit, or several, one of which does. MySQL's
    other words for the same are in MySqlPair."""

    PRIMARY, REPLICA = "master", "slave"  # in the names of settings
    TIMEOUT_MS = 4_294_967_295  # 50 days: no commit is answered that the replica does not have
    OPTIONS = ["--gtid-strict-mode=ON", "--log-slave-updates=ON"]
    FOLLOW = ("CHANGE MASTER TO master_host='127.0.0.1', master_port={port}, master_user='copy',"
              " master_password='word', master_use_gtid=slave_pos, master_connect_retry=1")
    POSITION, HAS = "@@gtid_binlog_pos", "'{}' = @@gtid_slave_pos"
    RECEIVED = "Gtid_IO_Pos"

    def __init__(self, replicas=1):
        super().__init__()
        self.servers = 1 + replicas

    @property
    def replica(self):
        return self.replicas[0]

    def variable(self, name):
        """What the server calls a variable of semi-synchronous replication, said in MariaDB's
        words."""
        return name.replace("master", self.PRIMARY).replace("slave", self.REPLICA)

    def up(self, data):
        self.nodes = [Node(Path(self.directory, f"n{i}"), i, data)
                      for i in range(1, self.servers + 1)]
        for node in self.nodes:
            node.options = ["--log-bin=bin", "--sync-binlog=1", "--binlog-format=ROW",
                            "--read-only=1",  # until it is the primary
                            *self.OPTIONS,
                            f"--rpl-semi-sync-{self.PRIMARY}-wait-point=AFTER_SYNC",
                            f"--rpl-semi-sync-{self.PRIMARY}-timeout={self.TIMEOUT_MS}",
                            f"--rpl-semi-sync-{self.REPLICA}-enabled=1"]
            node.start(wait=False)
        for node in self.nodes:
            node.wait_answers()
        self.primary, *self.replicas = self.nodes
        self.primary.run("SET GLOBAL read_only=0")
        self.wait_for_replicas(self.primary)
        for replica in self.replicas:
            self.follow(replica, self.primary)
        self.primary.run("CREATE DATABASE seckill CHARACTER SET utf8mb4")
        for replica in self.replicas:
            wait_until(lambda one=replica: one.run("SHOW DATABASES LIKE 'seckill'"),
                       "the replica has the database")

    def wait_for_replicas(self, primary, on=True):
        """True when its commits wait for a replica. A replica has no commits of its own."""
        primary.run(f"SET GLOBAL {self.variable('rpl_semi_sync_master_enabled')}={int(on)}")

    def follow(self, replica, primary):
        """Makes a server whose last change is the primary's, or that never wrote, a replica."""
        self.wait_for_replicas(replica, on=False)
        replica.run(f"SET GLOBAL read_only=1; {self.FOLLOW.format(port=primary.port)};"
                    "START REPLICA")
        wait_until(lambda: self.status_of(replica)[f"{self.REPLICA.title()}_IO_Running"] == "Yes"
                   and self.answering(primary) > 0, "the replica answers the primary")

    def answering(self, primary):
        """How many replicas acknowledge the primary's commits."""
        return int(primary.status(self.variable("Rpl_semi_sync_master_clients")) or 0)

    def status_of(self, replica):
        """By the server's names of the columns; None when it is no replica."""
        with pymysql.connect(host="127.0.0.1", port=replica.port, user="root") as connection, \
                connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute("SHOW REPLICA STATUS")
            return cursor.fetchone()

    def promote(self):
        """What an operator does when the primary is gone: the replica applies all that it got, and
        then takes writes. It has no replica by now, so no commit waits for one."""
        new = self.replica
        new.run("STOP REPLICA IO_THREAD")
        wait_until(lambda: self.has_applied(new), "the replica has applied what it got")
        new.run("STOP REPLICA; RESET REPLICA ALL; SET GLOBAL read_only=0")
        self.primary, self.replicas = new, [self.primary]

    def switch(self):
        """A planned change: the primary refuses writes, the replica gets the rest, they change
        their parts, and the new primary takes writes. A copy is waited for at every moment."""
        old, new = self.primary, self.replica
        old.run("SET GLOBAL read_only=1")
        position = old.run(f"SELECT {self.POSITION}")[0][0]
        wait_until(lambda: self.has(new, position), "the replica has all")
        new.run("STOP REPLICA; RESET REPLICA ALL")
        self.wait_for_replicas(new)
        self.wait_for_replicas(old, on=False)
        self.follow_from(old, position)
        self.follow(old, new)
        new.run("SET GLOBAL read_only=0")
        self.primary, self.replicas = new, [old]

    def follow_from(self, replica, position):
        """Says where a former primary goes on."""
        replica.run(f"SET GLOBAL gtid_slave_pos='{position}'")

    def has(self, node, position):
        return node.run(f"SELECT {self.HAS.format(position)}") == [("1",)]

    def has_applied(self, node):
        """All that stands in the relay log; the receiver must have been stopped."""
        return self.has(node, self.status_of(node)[self.RECEIVED])


class MySqlPair(SemiSyncPair):
    """The same of two MySQL 8, which find out by themselves where a replica goes on."""

    PRIMARY, REPLICA = "source", "replica"
    OPTIONS = ["--plugin-load-add=semisync_source.so;semisync_replica.so", "--gtid-mode=ON",
               "--enforce-gtid-consistency=ON", "--log-replica-updates=ON"]
    FOLLOW = ("CHANGE REPLICATION SOURCE TO source_host='127.0.0.1', source_port={port},"
              " source_user='copy', source_password='word', source_ssl=1, source_auto_position=1,"
              " source_connect_retry=1, source_retry_count=86400")
    POSITION, HAS = "@@gtid_executed", "GTID_SUBSET('{}', @@gtid_executed)"
    RECEIVED = "Retrieved_Gtid_Set"

    def follow_from(self, replica, position):
        pass


def semi_sync_pair(replicas=1):
    return (MySqlPair if is_mysql() else SemiSyncPair)(replicas)


class GaleraTrio(Nodes):
    """Three nodes of a Galera cluster, the first of which is the primary by the list's order."""

    TIMES = ("evs.suspect_timeout=PT3S;evs.inactive_timeout=PT7S;evs.keepalive_period=PT0.5S;"
             "evs.inactive_check_period=PT0.5S;gcache.size=16M")
    # A state transfer for nodes that lack little: the data folder is there, and the cluster sends
    # what came since. The server's own scripts are in a package that starts a service.
    TRANSFER = """#!/bin/sh
case "$*" in
*joiner*) echo ready 127.0.0.1/given; echo POSITION ;;
*) cat >/dev/null; echo done POSITION ;;  # newer servers say who may log in, and want it read
esac
"""

    founded = None  # the data folder of a cluster that exists, for all of this process

    def up(self, data):
        self.ports = [free_port() for _ in range(3)]
        GaleraTrio.founded = data = self.founded or self.found(data)
        state = dict(line.split(":") for line in (data / "grastate.dat").read_text().splitlines()
                     if ":" in line)
        position = f"{state['uuid'].strip()}:{state['seqno'].strip()}"
        transfer = Path(self.directory, "wsrep_sst_given")
        transfer.write_text(self.TRANSFER.replace("POSITION", position), encoding="ascii")
        transfer.chmod(0o700)
        for number in (1, 2, 3):
            self.nodes.append(self.make(f"n{number}", number, data))
        self.primary = self.nodes[0]
        self.begin(self.primary)
        for size, node in enumerate(self.nodes[1:], 2):
            node.start()
            self.wait_joined(node, size)

    def make(self, name, number, data):
        node = Node(Path(self.directory, name), number, data)
        port = self.ports[number - 1]
        node.env = {"PATH": f"{self.directory}:{os.environ['PATH']}"}
        node.options = [
            "--loose-plugin-wsrep-provider=OFF",  # it takes the option away that isolates a node
            "--wsrep-on=ON", f"--wsrep-provider={GALERA_PROVIDER}",
            "--wsrep-cluster-address=gcomm://" + ",".join(f"127.0.0.1:{p}" for p in self.ports),
            "--wsrep-cluster-name=seckill", f"--wsrep-node-name=n{number}",
            f"--wsrep-node-address=127.0.0.1:{port}", "--wsrep-sst-method=given",
            "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2",
            "--innodb-flush-log-at-trx-commit=1",
            "--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:"
            f"{port};ist.recv_addr=127.0.0.1:{free_port()};{self.TIMES}"]
        return node

    def found(self, data):
        """Founds the cluster on one node and stops it in order: its data folder, which says how far
        the cluster has come, is what every node begins with."""
        founder = self.make("founder", 1, data)
        (founder.directory / "data" / "grastate.dat").write_text(
            "# GALERA saved state\nversion: 2.1\nuuid:    5ec11110-0000-11ee-8000-000000000001\n"
            "seqno:   0\nsafe_to_bootstrap: 1\n", encoding="ascii")
        self.begin(founder)
        founder.run("CREATE DATABASE seckill CHARACTER SET utf8mb4")
        founder.signal(signal.SIGTERM)
        founder.process.wait(JOIN_SECONDS)
        for name in ("gvwstate.dat", "galera.cache"):
            (founder.directory / "data" / name).unlink(missing_ok=True)
        return Path(shutil.move(founder.directory / "data", server_folder()))

    def begin(self, node):
        """Starts the first node of the cluster."""
        node.options.append("--wsrep-new-cluster")
        node.start()
        node.options.pop()
        self.wait_joined(node, 1)

    @staticmethod
    def wait_joined(node, size):
        wait_until(lambda: (node.status("wsrep_ready"), node.status("wsrep_local_state"),
                            node.status("wsrep_cluster_size")) == ("ON", "4", str(size)),
                   f"{node.place} in a cluster of {size}")
