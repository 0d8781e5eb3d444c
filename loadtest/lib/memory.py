"""Checks that memory stays flat under a minute of orders beside thousands of idle clients."""

import contextlib
import re
import socket
import threading
import time

from harness.processes import HarnessError


FLAT_FROM_S = 5  # pools have grown to their size by then
FLAT_GROWTH_MAX = 0.02
FLAT_GROWTH_MAX_KIB = 1024
SKU = "memory"


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


class Sampler:
    """Context manager: samples a process' resident memory once a second."""

    def __init__(self, pid):
        self.pid, self.samples_kib = pid, []
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._sample)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def _sample(self):
        next_s = time.monotonic()
        while not self.ended.wait(max(0, next_s - time.monotonic())):
            with contextlib.suppress(OSError, TypeError):  # it may have died
                self.samples_kib.append(resident_kib(self.pid))
            next_s += 1


def settled(samples_kib):
    return samples_kib[min(FLAT_FROM_S, len(samples_kib) - 1)]


def is_flat(samples_kib):
    """Whether memory grew no more after the first seconds than a pool or two may."""
    kib = settled(samples_kib)
    return max(samples_kib) - kib <= max(FLAT_GROWTH_MAX_KIB, kib * FLAT_GROWTH_MAX)


def run(bench):
    """Loads, samples, audits and prints. Returns the exit status of the bench."""
    args, options = bench.args, bench.service_options()
    connections = max(args.connections)
    with bench.daemon(**options) as daemon:
        bench.reset_ample(daemon, SKU, 20)
        empty_kib = resident_kib(daemon.process.pid)
        with IdleClients(daemon.address, args.idle) as idle:
            idle_kib = resident_kib(daemon.process.pid)
            bench.progress.say(f"{args.seconds} s of orders beside {args.idle} idle connections")
            with Sampler(daemon.process.pid) as sampler:
                load = bench.load(daemon, connections, args.seconds, SKU)
            still_open = idle.still_open()
        audit = bench.audit(SKU, load["accepted_seen"])
    samples, flat = sampler.samples_kib, is_flat(sampler.samples_kib)
    bench.progress.clear()
    print(f"{load['accepted_seen']} orders in {load['duration_s']:.0f} s over {connections} "
          f"connections, p99 {load['p99_ms']:.2f} ms, longest {load['max_ms']:.0f} ms\n"
          f"idle connections: {args.idle} opened, {still_open} still open in the end\n"
          f"resident memory, KiB: {empty_kib} at the start, {idle_kib} with the idle connections\n"
          f"  under load: first {samples[0]}, after {FLAT_FROM_S} s {settled(samples)}, last "
          f"{samples[-1]}, max {max(samples)}: "
          f"{'flat' if flat else 'NOT FLAT'}\n"
          f"audit: {'ok' if audit['consistent'] else 'FAILED'}")
    for difference in audit["differences"]:
        print(f"  {difference}")
    kept = still_open == args.idle
    return 0 if audit["consistent"] and (not args.strict or (flat and kept)) else 1
