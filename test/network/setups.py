"""Set-ups: which servers and daemons run on which hosts."""

import shutil
from pathlib import Path

from harness.processes import server_folder
from network.ledgers import Galera, Ledgers, db_names
from network.load import CLIENTS
from network.redises import OneRedis, RedisCluster, Sentinels
from network.servers import DaemonOnHost


class Setup:
    """Context manager: two daemons on hosts of their own, with a Redis and a ledger."""

    DAEMONS = ("app1", "app2")

    def __init__(self, redis, databases, make_ledgers=Ledgers):
        self.redis_class, self.databases, self.make_ledgers = redis, databases, make_ledgers
        self.daemons, self.redis, self.ledgers = [], None, None

    def prepare(self, program, make_network):
        """program: the daemon; make_network makes the hosts of these names."""
        self.program = program
        self.network = make_network([*self.redis_class.NAMES, *db_names(self.databases),
                                     *self.DAEMONS, CLIENTS])
        return self

    def __enter__(self):
        self.directory = server_folder()
        self.network.__enter__()
        try:
            self.redis = self.redis_class(self.network, self.directory)
            self.ledgers = self.make_ledgers(self.network, self.directory, self.databases)
            self.redis.start()
            self.ledgers.start()
            self.start_daemons()
        except BaseException:
            self.end()
            raise
        return self

    def start_daemons(self):
        for host in self.DAEMONS:
            folder = Path(self.directory, host)
            folder.mkdir()
            daemon = DaemonOnHost(self.program, self.network, host, folder, self.redis.url,
                                  self.ledgers.url)
            self.daemons.append(daemon)
            daemon.start()

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
        for part in (self.redis, self.ledgers):
            for process in part.processes() if part else ():
                process.kill()
        self.network.__exit__()
        shutil.rmtree(self.directory, ignore_errors=True)

    def urls(self):
        """Of the ledger and of Redis, for audits."""
        return self.ledgers.master_url(), self.redis.master_url()


SETUPS = {
    "sentinel+ledger3": lambda: Setup(Sentinels, 3),
    "ledger2": lambda: Setup(OneRedis, 2),
    "cluster": lambda: Setup(RedisCluster, 1),
    "galera": lambda: Setup(OneRedis, 3, Galera),
}
