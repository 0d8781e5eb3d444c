"""The servers that a run wants beside or instead of the stack's: a lock's, a Redis."""

import shutil
import tempfile

from harness.engines_cluster import RedisCluster
from harness.servers import RedisServer
from harness.stack import ToolServers

MASTERS = 3


class LockServer(ToolServers):
    """Context manager: one more server by deploy/stack; `url` is its address."""

    def __init__(self, kind):
        super().__init__((kind,))
        self.kind = kind

    @property
    def url(self):
        return self.urls[self.kind]


class LoneRedis:
    """Context manager: one server with the settings of a cluster's, to compare a cluster with."""

    def __enter__(self):
        self.directory = tempfile.mkdtemp(prefix="seckill-")
        self.server = RedisServer(self.directory)
        try:
            self.server.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.server.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def url(self):
        return self.server.url

    def pids(self):
        return [self.server.process.pid]


class Cluster(RedisCluster):
    """Context manager: masters alone, as replicas would cost the machine that is measured."""

    def __init__(self):
        super().__init__(MASTERS, 0)

    def pids(self):
        return [node.process.pid for node in self.nodes]


# By the setting "redis"; "stack" is none of them.
REDIS = {"alone": LoneRedis, "cluster": Cluster}
