"""The smallest Redis client."""

import re
import socket
from urllib.parse import urlsplit


def by_name(flat):
    """A reply of names and values by turns, as a dict of strings."""
    texts = [item.decode() for item in flat]
    return dict(zip(texts[::2], texts[1::2]))


class Redis:
    """`redis("GET", "key")`. Every call opens a connection of its own, so that the client does not
    care what became of the server in between."""

    def __init__(self, url):
        parts = urlsplit(url)
        self.address = (parts.hostname, parts.port)
        self.login = [word for word in (parts.username, parts.password) if word]
        self.db = parts.path.strip("/") or "0"

    def __call__(self, *words):
        return self.ask(*words, db=self.db)

    def ask(self, *words, db=None):
        """One command, without the choice of a database unless there is one."""
        with socket.create_connection(self.address, timeout=10) as sock:
            with sock.makefile("rb") as replies:
                if self.login:
                    self._exchange(sock, replies, "AUTH", *self.login)
                if db is not None:
                    self._exchange(sock, replies, "SELECT", db)
                return self._exchange(sock, replies, *words)

    def _exchange(self, sock, replies, *words):
        raw = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        sock.sendall(b"*%d\r\n" % len(raw) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in raw))
        return self._reply(replies)

    def _reply(self, replies):
        line = replies.readline()
        if not line:
            raise ConnectionError("Redis closed the connection")
        kind, text = line[:1], line[1:-2]
        if kind == b"-":
            raise RuntimeError(text.decode())
        if kind == b":":
            return int(text)
        if kind == b"$":
            return None if text == b"-1" else replies.read(int(text) + 2)[:-2]
        if kind == b"*":
            return [self._reply(replies) for _ in range(int(text))]
        return text.decode()

    def hash(self, key):
        """HGETALL as a dict of strings."""
        return by_name(self("HGETALL", key))

    def calls(self, command):
        """How often the server has carried the command out."""
        stats = self("INFO", "commandstats").decode()
        found = re.search(rf"^cmdstat_{command}:calls=(\d+)", stats, re.M)
        return int(found[1]) if found else 0

    def role(self):
        """b"master" or b"slave"; None while it closes connections, as it does when it changes."""
        try:
            return self("ROLE")[0]
        except (OSError, RuntimeError):
            return None

    def answers(self):
        try:
            return self("PING") == "PONG"
        except (OSError, RuntimeError):
            return False
