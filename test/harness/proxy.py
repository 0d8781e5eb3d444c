"""A TCP proxy that fails on purpose: the only honest way to get an unknown outcome.

It sits between a daemon and Redis or MariaDB. Switches (`delay`, `hold`, `deaf`, `cut`, `refuse`)
act on all connections at once; a trap, set with `once`, waits for one request by its bytes and
acts before the proxy passes that request on, or after the server has answered it.
"""

import re
import socket
import threading
import time
from urllib.parse import urlsplit, urlunsplit

from harness.processes import free_port

# A daemon's statements for a batch of orders: first its changes, then the commit.
WRITE, COMMIT = rb"UPDATE stock_segment SET sold", rb"\bCOMMIT\b"
SEGMENT_LOCK = rb"\{\w+:\d+\}:lock"  # in Redis: expiry workers have a lock there, too
LEASE = b"node_lease"  # in what a daemon sends by itself every few seconds, with its own COMMIT


class Link:
    """One client's connection with its own connection to the server."""

    def __init__(self, client, server):
        self.client, self.server = client, server
        self.trap = None
        self.lost = False  # its client gets no more answers
        self.answered = threading.Event()

    def cut_client(self):
        _shut(self.client)

    def cut(self):
        _shut(self.client)
        _shut(self.server)


class Trap:
    def __init__(self, pattern, before, after):
        self.pattern, self.before, self.after = re.compile(pattern, re.IGNORECASE), before, after
        self.sprung = threading.Event()

    def wait(self, timeout=30):
        assert self.sprung.wait(timeout), f"no request held {self.pattern.pattern!r}"


class FaultProxy:
    def __init__(self, target_port):
        self.target_port, self.port = target_port, free_port()
        self.delay = 0.0  # seconds, for every piece of data in each direction
        self.deaf = False  # requests pass, the proxy throws their answers away
        self._flowing = threading.Event()
        self._flowing.set()
        self._lock = threading.Lock()
        self._links, self._traps = set(), []
        self._listener = None

    def __enter__(self):
        self.admit()
        return self

    def __exit__(self, *_):
        self.refuse()
        self.resume()

    def url(self, url):
        """The URL that leads through this proxy."""
        parts = urlsplit(url)
        login = parts.netloc.rpartition("@")[0]
        netloc = f"{login}@127.0.0.1:{self.port}" if login else f"127.0.0.1:{self.port}"
        return urlunsplit(parts._replace(netloc=netloc, query=""))

    def hold(self):
        """Lets nothing pass and tells nobody, while connections stay open: a black hole."""
        self._flowing.clear()

    def resume(self):
        """Lets the data that it held flow again."""
        self._flowing.set()

    def cut(self):
        """Closes every connection, accepts new ones, returns how many it has closed. Nobody gets an
        answer by a connection that is still open meanwhile, where a browser would repeat what it
        had sent by another."""
        with self._lock:
            links = [link for link in self._links if not link.lost]
            for link in links:
                link.lost = True
        for link in links:
            link.cut()
        return len(links)

    def refuse(self):
        """Closes every connection and refuses new ones until admit()."""
        if self._listener:
            _shut(self._listener)
            self._acceptor.join()
            self._listener = None
        self.cut()

    def admit(self):
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
        self._acceptor = threading.Thread(target=self._accept, args=(self._listener,), daemon=True)
        self._acceptor.start()

    def fail(self, how):
        """Fails in one of the ways in which networks do: "hold", "deaf" or "refuse"."""
        if how == "deaf":
            self.deaf = True
        else:
            getattr(self, how)()

    def heal(self):
        self.deaf = False
        self.resume()
        if not self._listener:
            self.admit()

    def once(self, pattern, before=None, after=None):
        """Sets a trap for the next request that matches: before(link) runs while only the proxy has
        it, and after(link) while only the proxy has its answer. Link.cut loses the one or the
        other."""
        trap = Trap(pattern, before, after)
        with self._lock:
            self._traps.append(trap)
        return trap

    def forget(self, trap):
        """Takes a trap away again that nothing has sprung."""
        with self._lock:
            if trap in self._traps:
                self._traps.remove(trap)

    def _accept(self, listener):
        with listener:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                try:
                    server = socket.create_connection(("127.0.0.1", self.target_port), timeout=5)
                    server.settimeout(None)
                except OSError:
                    client.close()
                    continue
                self._start(Link(client, server))

    def _start(self, link):
        with self._lock:
            self._links.add(link)
        for sock in (link.client, link.server):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threads = [threading.Thread(target=pump, args=(link,), daemon=True)
                   for pump in (self._requests, self._answers)]
        for thread in threads:
            thread.start()
        threading.Thread(target=self._bury, args=(link, threads), daemon=True).start()

    def _bury(self, link, threads):
        for thread in threads:
            thread.join()
        link.client.close()
        link.server.close()
        with self._lock:
            self._links.discard(link)

    def _requests(self, link):
        before = b""
        for data in self._pieces(link.client):
            ends_lease = LEASE in before and LEASE not in data
            trap = None if ends_lease else self._take_trap(data)
            before = data
            if trap:
                if trap.before:
                    trap.before(link)
                link.trap = trap
            if not _send(link.server, data):
                break
            if trap:
                link.answered.wait(20)
        _shut(link.server)

    def _answers(self, link):
        for data in self.answers_of(link):
            trap, link.trap = link.trap, None
            if trap:
                if trap.after:
                    trap.after(link)
                link.answered.set()
            if not self.deaf and not link.lost:
                _send(link.client, data)
        link.answered.set()
        _shut(link.client)

    def answers_of(self, link):
        """What the server sends to one client, piece by piece; another kind of proxy may keep it or
        change it."""
        return self._pieces(link.server)

    def _pieces(self, sock):
        while True:
            try:
                data = sock.recv(1 << 16)
            except OSError:
                return
            if not data:
                return
            if self.delay:
                time.sleep(self.delay)
            self._flowing.wait()
            yield data

    def _take_trap(self, data):
        with self._lock:
            for trap in self._traps:
                if trap.pattern.search(data):
                    self._traps.remove(trap)
                    trap.sprung.set()
                    return trap
        return None


def _send(sock, data):
    try:
        sock.sendall(data)
        return True
    except OSError:
        return False


def _shut(sock):
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


# The steps of an order's transaction at which a daemon may die, and the units sold afterwards.
STEPS = {"before the transaction": (WRITE, "before", "lost", 0),
         "in the transaction": (WRITE, "after", "sent", 0),
         "before the commit": (COMMIT, "before", "lost", 0),
         "commit on its way": (COMMIT, "before", "sent", 1),
         "after the commit": (COMMIT, "after", "sent", 1)}


def kill_at(daemon, proxy, pattern, when, how):
    """Kills the daemon at its next request with the pattern, "before" the server has it or "after"
    the server has answered it. how: "lost" drops what the proxy holds. Returns the trap."""
    def die(link):
        daemon.kill()
        if how == "lost":
            link.cut()
    return proxy.once(pattern, **{when: die})
