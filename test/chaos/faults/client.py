"""Faults of clients: crowds that close their half of the connection, or vanish, and still order."""

import json
import signal
import socket
import struct
import time

from chaos.cluster import DAEMONS
from chaos.clients import PATIENCE, USERS
from chaos.kinds import kind, one_of, seconds, times
from chaos.record import Try

SKU = "steady"
VANISH = struct.pack("ii", 1, 0)  # SO_LINGER: close() sends RST


def send_order(daemon, one):
    """A connection on which the order was sent."""
    body = json.dumps({"sku": one.sku, "user_id": one.user, "qty": one.qty})
    connection = socket.create_connection(daemon.address, PATIENCE)
    connection.sendall(f"POST /order HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                       f"Idempotency-Key: {one.key}\r\nContent-Length: {len(body)}\r\n\r\n"
                       f"{body}".encode())
    return connection


def read_answer(connection, until):
    """(status and code in one text, JSON): (None, {}) when the daemon closed without an answer."""
    data, more = b"", b"-"
    while more:
        connection.settimeout(max(0.001, until - time.monotonic()))
        more = connection.recv(65536)
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 "):
        return None, {}
    status, content = head[9:12].decode(), json.loads(body)
    return f"{status} {content['code']}" if status >= "300" else status, content


class Crowd:
    """Orders of many clients, each on a connection of its own, all sent before any is answered."""

    def __init__(self, cluster, number, count):
        self.record = cluster.operator.record
        self.number, self.daemon = number, cluster.daemons[number]
        self.pid = self.daemon.process.pid
        self.sent = []
        for _ in range(count):
            self._send()

    def _send(self):
        number = self.record.number()
        one = Try(f"k{number}", f"u{number % USERS}", SKU, 1, self.number, self.record.now())
        try:
            self.sent.append((one, send_order(self.daemon, one)))
        except OSError:  # a daemon that is being started again
            return

    def half_close(self):
        for _, connection in self.sent:
            try:
                connection.shutdown(socket.SHUT_WR)
            except OSError:
                continue

    def vanish(self):
        for one, connection in self.sent:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, VANISH)
            connection.close()
            self._end(one, None, {})

    def read(self):
        """Reads every answer. A daemon that lives owes one to each client."""
        until = time.monotonic() + PATIENCE
        for one, connection in self.sent:
            answer, content = None, {}
            with connection:
                try:
                    answer, content = read_answer(connection, until)
                except OSError:
                    pass
            self._end(one, answer, content)
            if answer is None and self.daemon.process.pid == self.pid:
                self.record.add_hang(self.number, one.start, one.end,
                                     "an order of a client that closed its half")

    def _end(self, one, answer, content):
        one.end, one.answer = self.record.now(), answer
        one.order_id, one.round = content.get("order_id"), content.get("round")
        one.told_qty = content.get("qty")
        one.status = content.get("status") if answer in ("200", "201") else None
        self.record.add_try(one)


def asleep(cluster, lasts, act):
    """Acts while MariaDB sleeps, so that everybody waits."""
    cluster.maria_server.signal(signal.SIGSTOP)
    try:
        act()
        time.sleep(lasts)
    finally:
        cluster.maria_server.signal(signal.SIGCONT)


@kind("maria", daemon=one_of(*range(DAEMONS)), count=times(20, 1600), lasts=seconds(0, 1.5))
def half_closed_crowd(cluster, daemon, count, lasts):
    """Each client shuts its side down behind its order, as HTTP allows, and waits."""
    def come():
        crowds.append(Crowd(cluster, daemon, count))
        crowds[0].half_close()

    crowds = []
    asleep(cluster, lasts, come)
    crowds[0].read()


@kind("maria", daemon=one_of(*range(DAEMONS)), count=times(20, 1600), lasts=seconds(0, 1.5))
def crowd_vanishes(cluster, daemon, count, lasts):
    asleep(cluster, lasts, lambda: Crowd(cluster, daemon, count).vanish())
