"""Crowds of clients that wear the daemon out: its memory stays bounded, others are served, and
nothing is left of the crowd. `make overload` does the same with 20,000 connections, for minutes."""

import os
import re
import resource
import socket
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from harness.audit import audit
from harness.client import order_bytes, read_response, read_to_end, reset_at_close, send_many
from harness.daemon import STEADY
from harness.load import crowd
from harness.processes import PROGRAM, wait_until

ANSWERS_MB_MAX = 32  # of long answers that wait for their clients (service/request/answer.h)
CONNECTION_KB = 18   # libmicrohttpd's memory, the request and its body
sanitized = pytest.mark.skipif("san/" in PROGRAM, reason="a sanitizer keeps what was freed")


def resident_mb(daemon):
    text = Path(f"/proc/{daemon.process.pid}/status").read_text(encoding="ascii")
    return int(re.search(r"^VmRSS:\s+(\d+) kB", text, re.M)[1]) / 1024


def descriptors(daemon):
    return len(os.listdir(f"/proc/{daemon.process.pid}/fd"))


def connect(daemon, source="127.0.0.1"):
    return socket.create_connection(daemon.address, timeout=30, source_address=(source, 0))


def deaf_client(daemon):
    """One that reads nothing, with the least room for what it is sent."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(30)
    sock.connect(daemon.address)
    return sock


def get(path):
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


def wait_gone(daemon, before):
    """Until the crowd's connections have ended; the daemon's own workers may have come to some."""
    wait_until(lambda: descriptors(daemon) < before + 20, "the end of the crowd's connections")


# long answers

@sanitized
@pytest.mark.long
def test_long_answers_that_nobody_reads_do_not_fill_the_memory(stack, spawn):
    daemon = spawn(stack, deadline_ms=60_000, **STEADY)
    daemon.reset(total=10_000)
    answers = send_many(daemon.address, [order_bytes(user_id="regular")] * 500)
    assert all(answer.status == 201 for answer in answers)
    listing = get("/user/regular/orders?limit=500")
    page = len(daemon.get("/user/regular/orders?limit=500").body)
    clients = 3 * ANSWERS_MB_MAX * 2**20 // page // 2
    before, files = resident_mb(daemon), descriptors(daemon)
    with ExitStack() as crowd_of:
        socks = [crowd_of.enter_context(deaf_client(daemon)) for _ in range(clients)]
        for sock in socks:
            sock.sendall(listing * 3)  # the kernel takes one or two of these answers
        wait_until(lambda: daemon.request("GET", "/user/regular/orders", timeout=100).code
                   == "overloaded", "a listing is refused")
        operators = daemon.admin("GET", "/admin/orders?limit=10")
        assert operators.status == 200, operators
        grown = resident_mb(daemon) - before
        assert grown < 1.5 * ANSWERS_MB_MAX + clients * CONNECTION_KB / 1024, grown
        assert daemon.order().status == 201
    wait_gone(daemon, files)
    assert daemon.get("/user/regular/orders").status == 200
    audit(daemon)


def test_user_listings_of_many_users_at_once_do_not_mix(stack, spawn):
    """Some are repeated, go on from a page, or are of nobody."""
    daemon = spawn(stack, **STEADY)
    daemon.reset(total=10_000)
    orders = {}
    for number in range(60):
        answers = send_many(daemon.address, [order_bytes(user_id=f"u{number}")] * (number % 4))
        orders[f"u{number}"] = [answer.json()["order_id"] for answer in answers]
    with ExitStack() as clients:
        asked = []
        for user in [*orders, *orders]:
            for after in (0, *orders[user][:1]):
                sock = clients.enter_context(connect(daemon))
                sock.sendall(get(f"/user/{user}/orders?after={after}"))
                asked.append((sock, user, after))
        for sock, user, after in asked:
            answer = read_response(sock)
            assert answer.status == 200
            found = [order["order_id"] for order in answer.json()["orders"]]
            assert sorted(found) == sorted(orders[user][1 if after else 0:]), (user, after)
            assert {order["user_id"] for order in answer.json()["orders"]} <= {user}


# operators' calls

def test_crowd_that_asks_for_metrics_shares_pages(daemon):
    started = time.monotonic()
    answers = send_many(daemon.address, [get("/metrics")] * 500)
    turns = (time.monotonic() - started) / 0.1 + 2
    assert {answer.status for answer in answers} == {200}
    pages = len({answer.body for answer in answers})  # each counts the answers before it
    assert 1 < pages <= 16 * turns, pages
    time.sleep(0.11)
    before = daemon.metric("seckill_http_responses_total{status=\"404\"}")
    daemon.get("/nothing")
    assert daemon.metric("seckill_http_responses_total{status=\"404\"}") == before + 1


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("path", ["/metrics", "/healthz"])
def test_crowd_of_operators_waits_for_orders_and_is_answered(stack, spawn, load, path):
    daemon = spawn(stack, **STEADY)
    daemon.reset(total=10_000_000)
    with load(daemon, connections=128, seconds=250) as orders:
        askers = crowd(daemon, path, 60)
        try:
            wait_until(lambda: daemon.metric("seckill_calls_held_total") > 100, "calls are held")
            assert daemon.admin("PATCH", "/admin/sale/demo", {"paused": False}).status == 200
            daemon.wait_ready()
        finally:
            askers.kill()
            askers.communicate()
        accepted = orders.stop().accepted
    assert len(accepted) > 0


# descriptors

def test_clients_who_come_without_descriptors_take_the_places_of_idle_ones(stack, spawn):
    daemon = spawn(stack, order_workers=1, **STEADY)
    daemon.reset()
    assert daemon.order(user_id="first").status == 201  # the worker is connected from now on
    pid = daemon.process.pid
    limit = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    with ExitStack() as clients:
        kept = clients.enter_context(connect(daemon))
        kept.sendall(get("/stock/demo"))
        assert read_response(kept).status == 200
        before = descriptors(daemon)
        for _ in range(100):
            clients.enter_context(connect(daemon))
        wait_until(lambda: descriptors(daemon) >= before + 100, "the crowd")
        used = max(int(fd) for fd in os.listdir(f"/proc/{pid}/fd")) + 1
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used, limit[1]))
        for number in range(24):  # more than are let in at a time
            assert daemon.order(user_id=f"new{number}").status == 201
        kept.sendall(order_bytes(user_id="kept"))
        assert read_response(kept).status == 201
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limit)
    wait_gone(daemon, before)
    assert daemon.stock()["sold"] == 26
    audit(daemon)


def test_operators_get_descriptors_that_idle_buyers_have(stack, spawn):
    """Also at a listener of their own, where no other client could be displaced."""
    daemon = spawn(stack, admin_listen="127.0.0.1:0", **STEADY)
    daemon.reset()
    # Its worker is connected from now on: a limit that is lowered later leaves it nothing for that.
    assert daemon.admin("GET", "/admin/sales").status == 200
    pid = daemon.process.pid
    limit = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    with ExitStack() as clients:
        before = descriptors(daemon)
        for _ in range(100):
            clients.enter_context(connect(daemon))
        wait_until(lambda: descriptors(daemon) >= before + 100, "the crowd")
        used = max(int(fd) for fd in os.listdir(f"/proc/{pid}/fd")) + 1
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used, limit[1]))
        for _ in range(5):
            assert daemon.admin("GET", "/admin/sales").status == 200
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limit)
    wait_gone(daemon, before)


# connections that end early

def hang_up(sock, how):
    if how == "resets":
        reset_at_close(sock)
    elif how == "half-closed":
        sock.shutdown(socket.SHUT_WR)
        assert read_to_end(sock).startswith(b"HTTP/1.1 201")
    sock.close()


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("how", ["resets", "closes", "half-closed"])
def test_clients_that_hang_up_leave_nothing_behind(stack, spawn, how):
    daemon = spawn(stack, **STEADY)
    daemon.reset(total=10_000)
    before = descriptors(daemon)
    for turn in range(5):
        with ExitStack() as clients:
            socks = [clients.enter_context(connect(daemon, "127.0.0.2")) for _ in range(60)]
            for number, sock in enumerate(socks):
                with suppress(ConnectionError):
                    sock.sendall(order_bytes(user_id=f"u{turn}-{number}") * (1 + number % 3))
            assert daemon.order(user_id=f"good{turn}").status == 201
            for sock in socks:
                hang_up(sock, how)
    wait_gone(daemon, before)
    wait_until(lambda: daemon.metric("seckill_queue_depth") == 0, "the last order")
    assert daemon.order(user_id="last").status == 201
    audit(daemon)
