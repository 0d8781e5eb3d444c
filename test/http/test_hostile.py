"""Requests that once killed the daemon: their very bytes, and a look at the daemon 12 s later.

A connection that libmicrohttpd gave up on in silence was remembered until its request timed out,
10 s after the bytes. `make fuzz-http` runs this file under AddressSanitizer."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from harness.client import (Response, assert_problem, read_response, read_to_end, reset_at_close,
                            send_raw)
from harness.daemon import Daemon

LATE_SECONDS = 12  # longer than the daemon waits for a request to be complete
DEADLINE_MS = 10_000
PARAMETER_FLOOD = b"GET /stock/x?" + b"&a=b" * 700 + b" HTTP/1.1\r\nHost: a\r\n\r\n"

# Name: the bytes, and the statuses that answer them. Each was silence, and a dangling pointer.
FINDINGS = {
    "parameters fill the memory": (PARAMETER_FLOOD, {414}),
    "parameters fill the memory, later headers": (
        PARAMETER_FLOOD.replace(b"Host: a", b"Host: a\r\nX-Long: " + b"x" * 3000), {414, 431}),
    "parameters without values": (PARAMETER_FLOOD.replace(b"&a=b", b"&a"), {414}),
    "a long path and few parameters": (
        b"GET /stock/" + b"x" * 6500 + b"?" + b"&a=b" * 30 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        {414, 431}),
    "parameters behind a NUL": (
        b"GET /stock/x\0?" + b"&a=b" * 700 + b" HTTP/1.1\r\nHost: a\r\n\r\n", {400, 431}),
}


# The last header's folded line ends where libmicrohttpd's memory for the head does.
FOLDED = [b"GET /" + b"p" * size + b"?sku=%64emo HTTP/1.1\r\nHost: x\r\n"
          b"Content-Type: application/json\r\nAuthorization: Bearer test-token-0123456789\r\n"
          b"X:\r\n\tmore\r\n\r\n" for size in range(5990, 6060)]


@pytest.fixture
def daemon(shared_servers, tmp_path):
    stack = shared_servers.aside("hostile", 2)
    with Daemon(stack, tmp_path, deadline_ms=DEADLINE_MS) as daemon:
        daemon.reset("demo", 100_000, 20)
        yield daemon


def send_and_close(address, data):
    with suppress(ConnectionError), socket.create_connection(address, timeout=30) as sock:
        sock.sendall(data)


def send_and_reset(address, data):
    with suppress(ConnectionError), socket.create_connection(address, timeout=30) as sock:
        reset_at_close(sock)
        sock.sendall(data)


def test_findings_leave_nothing_behind(daemon):
    for data, _ in FINDINGS.values():
        send_and_close(daemon.address, data)
        send_and_reset(daemon.address, data)
        send_raw(daemon.address, data + b"GET /healthz HTTP/1.0\r\n\r\n")
    time.sleep(LATE_SECONDS)
    assert daemon.running()
    assert daemon.get("/healthz").status == 200


def test_findings_are_answered(daemon):
    for name, (data, statuses) in FINDINGS.items():
        with socket.create_connection(daemon.address, timeout=30) as sock:
            sock.sendall(data)
            response = read_response(sock)
        assert response.status in statuses, name
        assert_problem(response, response.status, {400: "invalid_head", 414: "uri_too_long",
                                                   431: "headers_too_large"}[response.status])


def test_folded_lines_at_the_end_of_the_memory(daemon):
    for data in FOLDED:
        with socket.create_connection(daemon.address, timeout=30) as sock:
            sock.sendall(data)
            assert read_response(sock).status in (400, 431)
    time.sleep(LATE_SECONDS)
    assert daemon.get("/healthz").status == 200


def test_too_many_parameters_do_not_end_the_connection(daemon):
    with socket.create_connection(daemon.address, timeout=30) as sock:
        for _ in range(3):
            sock.sendall(PARAMETER_FLOOD)
            assert_problem(read_response(sock), 414, "uri_too_long")
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert read_response(sock).status == 200


def test_2000_floods_from_50_clients_while_others_are_served(daemon):
    """With and without waiting for the answer."""
    served, over = [], threading.Event()

    def flood(client):
        answered = waited = number = 0
        while number < 40 or len(served) <= 10 and not over.is_set():
            number += 1
            if (client + number) % 2 == 0:
                send_and_close(daemon.address, PARAMETER_FLOOD)
                continue
            waited += 1
            with socket.create_connection(daemon.address, timeout=30) as sock:
                sock.sendall(PARAMETER_FLOOD)
                sock.shutdown(socket.SHUT_WR)
                answered += read_to_end(sock).startswith(b"HTTP/1.1 414")
        return waited - answered

    def order():
        while not over.is_set():
            served.append(daemon.order(user_id=f"u{len(served)}"))

    with ThreadPoolExecutor(51) as threads:
        other = threads.submit(order)
        other.add_done_callback(lambda _: over.set())
        unanswered = sum(threads.map(flood, range(50)))
        over.set()
        other.result()
    assert unanswered == 0
    assert len(served) > 10 and all(isinstance(r, Response) and r.status == 201 for r in served)
    time.sleep(LATE_SECONDS)
    assert daemon.order(user_id="last").status == 201
