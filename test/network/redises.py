"""Redis on hosts: behind sentinels, alone, or as a cluster."""

from harness.processes import wait_until
from harness.redis import by_name
from network.servers import REDIS, SENTINEL, RedisOnHost

DOWN_AFTER_MS = 1000  # of Sentinel; the documents say 1000 to 5000
NODE_TIMEOUT_MS = 1500  # of a cluster; the documents say 1500 to 15000
SLOTS = 16384
MEMORY = ["save ''", "appendonly no", "maxmemory-policy noeviction", "lazyfree-lazy-expire yes"]


class Sentinels:
    """Three hosts with a Redis and a sentinel each."""

    NAMES = ("redis1", "redis2", "redis3")
    NAME, QUORUM = "shop", 2
    SERVER = [*MEMORY, "min-replicas-to-write 1", "min-replicas-max-lag 10",
              "repl-diskless-sync-delay 0"]

    def __init__(self, network, directory):
        first = network.addresses[self.NAMES[0]]
        watch = [f"sentinel monitor {self.NAME} {first} {REDIS} {self.QUORUM}",
                 f"sentinel down-after-milliseconds {self.NAME} {DOWN_AFTER_MS}",
                 f"sentinel failover-timeout {self.NAME} 4000"]
        self.servers, self.sentinels = {}, {}
        for number, host in enumerate(self.NAMES, 1):
            # The first host is the one that is promoted when all are well.
            own = [*self.SERVER, f"replica-priority {number}"]
            own += [f"replicaof {first} {REDIS}"] if number > 1 else []
            self.servers[host] = RedisOnHost(network, host, f"{directory}/{host}", REDIS, own)
            self.sentinels[host] = RedisOnHost(network, host, f"{directory}/{host}-sentinel",
                                               SENTINEL, watch)
        self.url = "redis+sentinel://" + ",".join(
            f"{one.address}:{SENTINEL}" for one in self.sentinels.values()) + f"/{self.NAME}/0"

    def processes(self):
        return [*self.servers.values(), *self.sentinels.values()]

    def start(self):
        for one in self.servers.values():
            one.start()
        wait_until(lambda: self.servers[self.NAMES[0]].answers() and self.in_step(), "replicas")
        for one in self.sentinels.values():
            one.start()
        wait_until(self.whole, "sentinels that know each other")

    def master(self):
        """The host that most sentinels name; None while they do not agree."""
        votes = []
        for sentinel in self.sentinels.values():
            try:
                address = sentinel.ask("SENTINEL", "get-master-addr-by-name", self.NAME)[0].decode()
            except (OSError, RuntimeError):
                continue
            votes += [host for host, one in self.servers.items() if one.address == address]
        best = max(set(votes), key=votes.count, default=None)
        return best if votes.count(best) >= self.QUORUM else None

    def master_url(self):
        name = wait_until(self.master, "sentinels that agree")
        return f"redis://{self.servers[name].address}:{REDIS}/0"

    def in_step(self):
        """Both replicas follow the master that says that it is one."""
        try:
            masters = [one for one in self.servers.values() if one.info()["role"] == "master"]
            return len(masters) == 1 and sum(
                "state=online" in value for value in masters[0].info().values()) == 2
        except (OSError, RuntimeError, KeyError):
            return False

    def whole(self):
        """Every sentinel knows both replicas and both other sentinels, and all are well."""
        for sentinel in self.sentinels.values():
            try:
                known = by_name(sentinel.ask("SENTINEL", "MASTER", self.NAME))
                replicas = sentinel.ask("SENTINEL", "REPLICAS", self.NAME)
            except (OSError, RuntimeError):
                return False
            if (known["num-slaves"], known["num-other-sentinels"], known["flags"]) != (
                    "2", "2", "master"):
                return False
            if any(by_name(one)["flags"] != "slave" for one in replicas):
                return False
        return self.in_step()


class OneRedis:
    """A Redis without replicas."""

    NAMES = ("redis1",)

    def __init__(self, network, directory, host=NAMES[0]):
        self.server = RedisOnHost(network, host, f"{directory}/{host}", REDIS, MEMORY)
        self.url = f"redis://{self.server.address}:{REDIS}/0"

    def processes(self):
        return [self.server]

    def start(self):
        self.server.start()
        self.server.wait_answers()

    def master_url(self):
        return self.url


class RedisCluster:
    """Three masters with a replica each, on six hosts: redis4 is that of redis1, and so on."""

    NAMES = tuple(f"redis{number}" for number in range(1, 7))
    SERVER = [*MEMORY, "repl-diskless-sync-delay 0", "cluster-enabled yes",
              "cluster-require-full-coverage no", f"cluster-node-timeout {NODE_TIMEOUT_MS}"]

    def __init__(self, network, directory):
        self.servers = {host: RedisOnHost(network, host, f"{directory}/{host}", REDIS, self.SERVER)
                        for host in self.NAMES}
        self.url = "redis+cluster://" + ",".join(f"{one.address}:{REDIS}"
                                                 for one in self.servers.values())

    def processes(self):
        return list(self.servers.values())

    def master_url(self):
        """Nodes that were cut off say for a moment that the cluster is down."""
        wait_until(lambda: all(self.state(one)["cluster_state"] == "ok"
                               for one in self.processes()), "nodes that serve")
        return self.url

    def start(self):
        every = self.processes()
        for one in every:
            one.start()
        for one in every:
            one.wait_answers()
        for number, one in enumerate(every):
            if number < 3:
                low, high = (SLOTS * n // 3 for n in (number, number + 1))
                one.ask("CLUSTER", "ADDSLOTSRANGE", low, high - 1)
            one.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            if number > 0:
                one.ask("CLUSTER", "MEET", every[0].address, REDIS)
        wait_until(lambda: all(self.state(one).get("cluster_known_nodes") == "6" for one in every),
                   "nodes that know each other")
        for master, replica in zip(every[:3], every[3:]):
            replica.ask("CLUSTER", "REPLICATE", master.ask("CLUSTER", "MYID").decode())
        wait_until(self.whole, "a cluster that serves all slots")

    @staticmethod
    def state(one):
        text = one.ask("CLUSTER", "INFO").decode()
        return dict(line.split(":", 1) for line in text.split())

    def whole(self):
        """Every node knows that all slots are served, and that each master has a replica."""
        for one in self.processes():
            state = self.state(one)
            nodes = one.ask("CLUSTER", "NODES").decode()
            if (state["cluster_state"], state["cluster_slots_ok"]) != ("ok", str(SLOTS)) or (
                    nodes.count("slave") != 3 or "fail" in nodes):
                return False
        return all("state=online" in value for one in self.processes()[:3]
                   for name, value in one.info().items() if name == "slave0") and all(
                       "slave0" in one.info() for one in self.processes()[:3])
