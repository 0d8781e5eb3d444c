"""Two ledgers that share the sales, and one Redis."""

import shutil
import tempfile
from pathlib import Path

from harness.servers import MariaServer, RedisServer
from harness.stack import Stack


class TwoLedgers:
    """Context manager: shard i is `stacks[i]`, each with the one Redis, and `url` lists both. A
    test may kill `ledgers[i]` and start it again."""

    def __enter__(self):
        self.directory = tempfile.mkdtemp(prefix="seckill-")
        self.servers = []
        try:
            for kind, name in ((RedisServer, "redis"), (MariaServer, "m0"), (MariaServer, "m1")):
                path = Path(self.directory, name)
                path.mkdir()
                self.servers.append(kind(path))
                self.servers[-1].start(wait=False)
            for server in self.servers:
                server.wait_answers()
            self.redis, *self.ledgers = self.servers
            self.stacks = [Stack(self.redis.url, ledger.url, self.redis, ledger)
                           for ledger in self.ledgers]
            self.url = " ".join(ledger.url for ledger in self.ledgers)
            return self.clean()
        except BaseException:
            self.__exit__()
            raise

    def clean(self):
        """Begins from nothing, with all servers up."""
        for server in self.servers:
            if server.process.poll() is not None:
                server.start()
        for stack in self.stacks:
            stack.clean()
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.close()
        shutil.rmtree(self.directory, ignore_errors=True)
