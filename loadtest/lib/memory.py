"""Checks that memory stays flat under a minute of orders beside thousands of idle clients."""

import contextlib
import re
import socket
import time

from harness.processes import HarnessError
from lib.run import Run
from lib.watch import Watch


FLAT_FROM_S = 5  # pools have grown to their size by then


def resident_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as lines:
        return int(re.search(r"^VmRSS:\s+(\d+) kB", lines.read(), re.M)[1])


class IdleClients:
    """Context manager: clients that asked once and then keep their connection, silent."""

    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"

    def __init__(self, address, count):
        self.address, self.count = address, count
        self.sockets = []

    def __enter__(self):
        for _ in range(self.count):
            client = socket.create_connection(self.address, timeout=10)
            self.sockets.append(client)
            client.sendall(self.request)
            if not client.recv(4096).startswith(b"HTTP/1.1 200"):
                raise HarnessError(f"idle client {len(self.sockets)}: no 200 from /healthz")
        return self

    def __exit__(self, *_):
        for client in self.sockets:
            client.close()

    def still_open(self):
        return sum(not self._ended(client) for client in self.sockets)

    @staticmethod
    def _ended(client):
        client.setblocking(False)
        try:
            return client.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True


class Sampler(Watch):
    """Context manager: samples a process' resident memory once a second."""

    def __init__(self, pid):
        self.pid, self.samples_kib = pid, []

    def watch(self):
        next_s = time.monotonic()
        while not self.ended.wait(max(0, next_s - time.monotonic())):
            with contextlib.suppress(OSError, TypeError):  # it may have died
                self.samples_kib.append(resident_kib(self.pid))
            next_s += 1


def settled(samples_kib):
    return samples_kib[min(FLAT_FROM_S, len(samples_kib) - 1)]


class MemoryRun(Run):
    """A closed load beside idle connections. `grown` is by how much memory has grown since the
    first seconds, as a share of what it was then."""

    def loaded(self):
        daemon, count = self.fleet.door, self.settings["idle_connections"]
        empty_kib = resident_kib(daemon.process.pid)
        with IdleClients(daemon.address, count) as idle:
            idle_kib = resident_kib(daemon.process.pid)
            with Sampler(daemon.process.pid) as sampler:
                result = self.rounds(lambda: self.wrk(self.settings["seconds"]))
            still_open = idle.still_open()
        if still_open != count:
            raise HarnessError(f"of {count} idle connections {still_open} were left open")
        kib = settled(sampler.samples_kib)
        result["grown"] = max(sampler.samples_kib) / kib - 1
        result["memory_kib"] = {"empty": empty_kib, "idle": idle_kib, "settled": kib,
                                "samples": sampler.samples_kib}
        return result
