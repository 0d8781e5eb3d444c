"""Set-ups: which servers and daemons run on which hosts."""

import shutil
from pathlib import Path

from harness.daemon import TOKEN
from harness.processes import server_folder
from harness.servers import is_mysql
from network.case import Case
from network.group import PROGRAM, Group
from network.ledgers import GALERA_PROVIDER, Galera, Ledgers
from network.load import CLIENTS
from network.locks import LockSetup
from network.pods import ADMIN, PORT, PROXY, Proxy
from network.redises import OneRedis, RedisCluster, Sentinels
from network.servers import DaemonOnHost


class Place:
    """A proxy, or a daemon past it, as chaos' clients find a daemon."""

    stopped_until = 0

    def __init__(self, address, token=""):
        self.address, self.token, self.options = address, token, {}


class Setup:
    """Context manager: two daemons on hosts of their own, with a Redis and a ledger."""

    DAEMONS = ("app1", "app2")

    def __init__(self, redis, databases, make_ledgers=Ledgers):
        self.redis_class, self.make_ledgers = redis, make_ledgers
        self.databases = [f"db{number}" for number in range(1, databases + 1)]
        self.daemons, self.parts = [], []

    def hosts(self):
        return [*self.redis_class.NAMES, *self.databases, *self.DAEMONS]

    def prepare(self, program, make_network):
        """program: the daemon; make_network makes the hosts of these names."""
        self.program, self.network = program, make_network([*self.hosts(), CLIENTS])
        return self

    def __enter__(self):
        self.directory = server_folder()
        self.network.__enter__()
        try:
            self.up()
        except BaseException:
            self.end()
            raise
        return self

    def up(self):
        self.redis = self.start(self.redis_class(self.network, self.directory))
        self.ledgers = self.start(self.make_ledgers(self.network, self.directory, self.databases))
        self.start_daemons(self.DAEMONS, self.redis, self.ledgers)

    def start(self, part):
        self.parts.append(part)
        part.start()
        return part

    def start_daemons(self, hosts, redis, ledgers, **options):
        for host in hosts:
            folder = Path(self.directory, host)
            folder.mkdir()
            self.daemons.append(DaemonOnHost(self.program, self.network, host, folder, redis.url,
                                             ledgers.url, **options))
            self.daemons[-1].start()

    def __exit__(self, error, *_):
        """Daemons must end well, unless something broke before."""
        try:
            for daemon in self.daemons if error is None else ():
                daemon.__exit__()
        finally:
            self.end()

    def end(self):
        for daemon in self.daemons:
            daemon.reap()
        for part in self.parts:
            for process in part.processes():
                process.kill()
        self.network.__exit__()
        shutil.rmtree(self.directory, ignore_errors=True)

    # what a round wants

    def case(self, fault, seed):
        return Case(self, fault, seed)

    def fronts(self):
        """Where clients order."""
        return self.daemons

    def operated(self):
        """Where operators change what clients order at the same places of fronts()."""
        return self.daemons

    def skus(self):
        return ["network"] * len(self.daemons)

    def daemons_of(self, _):
        """Those that sell the sku."""
        return self.daemons

    def urls(self, _):
        """Of the ledger and of Redis that have the sku, for audits."""
        return self.ledgers.master_url(), self.redis.master_url()


class Pods(Setup):
    """Two pods behind the HAProxy that we ship: each has a Redis, a ledger and two daemons."""

    SKUS = ("zero", "one")  # of pods 0 and 1
    REDISES, DATABASES = ("redis1", "redis2"), ("db1", "db2")
    DAEMONS = ("app1", "app2", "app3", "app4")  # the first two are of pod 0

    def __init__(self):
        super().__init__(OneRedis, 2)

    def hosts(self):
        return [*self.REDISES, *self.DATABASES, *self.DAEMONS, PROXY]

    def up(self):
        self.pods = []
        for pod, servers in enumerate(zip(self.REDISES, self.DATABASES)):
            self.start_pod(pod, *servers)
        self.start(Proxy(self.network, self.directory, self.daemons, self.SKUS))

    def start_pod(self, pod, redis, database):
        redis = self.start(OneRedis(self.network, self.directory, redis))
        ledgers = self.start(Ledgers(self.network, self.directory, [database]))
        self.pods.append((redis, ledgers))
        for host in self.DAEMONS[2 * pod:2 * pod + 2]:
            self.start_daemons([host], redis, ledgers, pod=pod, lame_duck_ms=2500,
                               trusted_proxies=self.network.addresses[PROXY],
                               admin_listen=f"{self.network.addresses[host]}:{ADMIN}")

    def fronts(self):
        return [Place((self.network.addresses[PROXY], PORT))] * 2

    def operated(self):
        return [Place(self.daemons[number].admin_address(), TOKEN) for number in (0, 2)]

    def skus(self):
        return list(self.SKUS)

    def daemons_of(self, sku):
        pod = self.SKUS.index(sku)
        return self.daemons[2 * pod:2 * pod + 2]

    def urls(self, sku):
        redis, ledgers = self.pods[self.SKUS.index(sku)]
        return ledgers.master_url(), redis.master_url()


def why_not(name):
    """Why the set-up of that name cannot run here; None when it can."""
    if name not in ("group", "etcd", "zookeeper") and is_mysql():
        return "MYSQLD is no MariaDB"
    if name == "group" and not PROGRAM:
        return "MYSQLD_GROUP names no MySQL"
    if name == "galera" and not GALERA_PROVIDER.exists():
        return "galera-4 is not installed"
    return None


SETUPS = {
    "sentinel+ledger3": lambda: Setup(Sentinels, 3),
    "ledger2": lambda: Setup(OneRedis, 2),
    "cluster": lambda: Setup(RedisCluster, 1),
    "galera": lambda: Setup(OneRedis, 3, Galera),
    "etcd": lambda: LockSetup("etcd"),
    "zookeeper": lambda: LockSetup("zookeeper"),
    "pods": Pods,
    "group": lambda: Setup(OneRedis, 3, Group),
}
