"""A Redis Cluster of real servers, which a test may kill and whose slots it may move."""

import shutil
from pathlib import Path

from harness.engines_sentinel import Certificates
from harness.processes import free_port, server_folder, wait_until
from harness.redis import Redis
from harness.servers import RedisServer

SLOTS = 16384


class ClusterNode(RedisServer):
    """One server of the cluster, master or replica."""

    TIMEOUT_MS = 2500  # without an answer, after which the others call a node failed

    def __init__(self, directory, certificates=None, options=()):
        directory.mkdir()
        super().__init__(directory)
        self.options = options
        self.certificates = certificates
        self.tls_port = free_port() if certificates else None
        self.bus_port = free_port()
        # A cluster has one database, and Redis' client here selects it for each command.
        self.client = Redis(f"redis://127.0.0.1:{self.port}/0")

    def argv(self):
        return [*super().argv(), *self._tls(), *self.options, "--cluster-enabled", "yes",
                "--cluster-port", self.bus_port,
                "--cluster-node-timeout", self.TIMEOUT_MS, "--cluster-require-full-coverage", "no",
                "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"]

    def _tls(self):
        """A port of TLS beside the plain one, and TLS between the nodes."""
        if not self.certificates:
            return []
        files = self.certificates
        return ["--tls-port", self.tls_port, "--tls-cluster", "yes", "--tls-replication", "yes",
                "--tls-cert-file", files.cert, "--tls-key-file", files.key,
                "--tls-ca-cert-file", files.ca, "--tls-auth-clients", "no"]

    def __call__(self, *words):
        return self.client(*words)

    def id(self):
        return self("CLUSTER", "MYID").decode()

    def info(self):
        lines = self("CLUSTER", "INFO").decode().split()
        return dict(line.split(":") for line in lines)

    def is_master(self):
        return self("ROLE")[0] == b"master"


class RedisCluster:
    """Context manager: masters with the slots in equal parts, and one replica of each at most. The
    options are further words of redis-server."""

    def __init__(self, masters=3, replicas=3, tls=False, options=()):
        self.master_count, self.replica_count, self.options = masters, replicas, options
        self.tls, self.certificates, self.nodes = tls, None, []

    def __enter__(self):
        self.up()
        return self

    def __exit__(self, *_):
        self.down()

    @property
    def url(self):
        places = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"redis+cluster://{places}"

    def tls_url(self, host="127.0.0.1"):
        places = ",".join(f"{host}:{node.tls_port}" for node in self.nodes)
        return f"rediss+cluster://{places}?ca={self.certificates.ca}"

    def up(self):
        self.directory = server_folder()
        try:
            count = self.master_count + self.replica_count
            self.certificates = Certificates(self.directory) if self.tls else None
            self.nodes = [ClusterNode(Path(self.directory, str(i)), self.certificates, self.options)
                          for i in range(count)]
            for node in self.nodes:
                node.start(wait=False)
            for node in self.nodes:
                node.wait_answers()
            self._join()
        except BaseException:
            self.down()
            raise
        return self

    def down(self):
        for node in self.nodes:
            node.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _join(self):
        masters = self.nodes[:self.master_count]
        first = masters[0]
        for i, node in enumerate(masters):
            low, high = (SLOTS * n // len(masters) for n in (i, i + 1))
            node("CLUSTER", "ADDSLOTSRANGE", low, high - 1)
        for i, node in enumerate(self.nodes):
            node("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
            if node is not first:
                # With tls-cluster a node is known to the others by its port of TLS.
                node("CLUSTER", "MEET", "127.0.0.1", first.tls_port or first.port, first.bus_port)
        self.wait("the nodes know each other", lambda: all(
            int(node.info()["cluster_known_nodes"]) == len(self.nodes) for node in self.nodes))
        for i, node in enumerate(self.nodes[self.master_count:]):
            node("CLUSTER", "REPLICATE", masters[i].id())
        self.wait("the cluster serves all slots", self.is_whole)

    @staticmethod
    def wait(what, condition):
        def attempt():
            try:
                return condition()
            except (OSError, RuntimeError):
                return False
        wait_until(attempt, what)

    def alive(self):
        return [node for node in self.nodes if node.process.poll() is None]

    def is_whole(self):
        """Every living node knows that all slots are served, and every replica follows."""
        def sound(node):
            info = node.info()
            served = info["cluster_state"] == "ok" and int(info["cluster_slots_ok"]) == SLOTS
            role = node("ROLE")
            return served and (role[0] == b"master" or role[3] == b"connected")
        return all(sound(node) for node in self.alive())

    def calm(self):
        """No node is called failed any more: for tests that break none, on a machine that may stand
        still."""
        for node in self.nodes:
            node("CONFIG", "SET", "cluster-node-timeout", 60_000)

    def wait_whole(self):
        self.wait("the cluster serves all slots", self.is_whole)

    def masters(self):
        return [node for node in self.alive() if node.is_master()]

    def owner(self, key):
        """The living master that has the key's slot."""
        return self.owner_of_slot(self.slot(key))

    def slot(self, key):
        return self.alive()[0]("CLUSTER", "KEYSLOT", key)

    def owner_of_slot(self, slot):
        for low, high, master, *_ in self.alive()[0]("CLUSTER", "SLOTS"):
            if low <= slot <= high:
                return next(node for node in self.nodes if node.port == master[1])
        raise KeyError(slot)

    def replica_of(self, master):
        return next(node for node in self.alive() if not node.is_master()
                    and node("ROLE")[2] in (master.port, master.tls_port))

    def fail_over(self, replica):
        """Makes the replica the owner of its living master's slots. The others vote for it once
        they know that it is a replica."""
        def known(node):
            ports = [member[1] for _, _, *members in node("CLUSTER", "SLOTS")
                     for member in members[1:]]
            return replica.port in ports
        self.wait("all know the replica", lambda: all(known(node) for node in self.alive()))
        replica("CLUSTER", "FAILOVER")
        self.wait("the replica takes over", replica.is_master)

    def __call__(self, *words):
        """A command with a key, at the node that has it."""
        return self.owner(words[1])(*words)

    def hash(self, key):
        return self.owner(key).client.hash(key)

    # --- Moving a slot ---------------------------------------------------------------------------

    @staticmethod
    def begin_move(slot, source, target):
        """From here on the source answers ASK for keys that it has no more."""
        target("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id())
        source("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id())

    @staticmethod
    def move_keys(slot, source, target):
        while keys := source("CLUSTER", "GETKEYSINSLOT", slot, 100):
            source("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)

    def end_move(self, slot, target):
        """From here on every node answers MOVED but the target."""
        owner = target.id()
        for node in [target, *(n for n in self.masters() if n is not target)]:
            node("CLUSTER", "SETSLOT", slot, "NODE", owner)

    def move(self, slot, target):
        source = self.owner_of_slot(slot)
        if source is target:
            return
        self.begin_move(slot, source, target)
        self.move_keys(slot, source, target)
        self.end_move(slot, target)

    # --- Moving slots with all of their keys at once, which Valkey 9 can --------------------------

    def moves_at_once(self):
        """None of its servers answers ASK meanwhile."""
        try:
            return isinstance(self.alive()[0]("CLUSTER", "GETSLOTMIGRATIONS"), list)
        except RuntimeError:
            return False

    def move_at_once(self, slots, source, target):
        owner = target.id()
        ranges = [word for slot in slots for word in ("SLOTSRANGE", slot, slot, "NODE", owner)]
        source("CLUSTER", "MIGRATESLOTS", *ranges)
        owned = set(slots)
        self.wait("all nodes know the slots' new owner", lambda: all(
            self.owns(node, target) >= owned for node in self.masters()))

    @staticmethod
    def owns(node, owner):
        """The slots that the owner has, as the node knows."""
        return {slot for low, high, master, *_ in node("CLUSTER", "SLOTS")
                if master[1] == owner.port for slot in range(low, high + 1)}
