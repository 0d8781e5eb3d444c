"""Too much of everything: the daemon answers, does not grow and does not hang."""

import os
import re
import resource
import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.audit import answered, audit, audit_after_faults, sell_out_after_faults
from harness.client import (
    assert_problem, order_bytes, parse_response, read_response, read_to_end, send_raw)
from harness.daemon import STEADY, Daemon
from harness.processes import wait_until
from harness.proxy import WRITE


def order_all_at_once(daemon, count, **order):
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda n: daemon.order(user_id=f"u{n}", **order), range(count)))


def place(daemon, user_id):
    """One order, which on a slow machine is not placed within its deadline at once."""
    assert answered(lambda: daemon.order(user_id=user_id, key=user_id)).status in (200, 201)


def test_full_queue_is_503_overloaded_at_once(stack, proxies, spawn):
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url), queue_max=4, max_batch=2,
                   **STEADY)
    daemon.reset()
    proxy.delay = 0.1
    answers = order_all_at_once(daemon, 48)
    proxy.delay = 0
    counts = Counter(response.answer for response in answers)
    assert set(counts) == {"201", "503 overloaded"}
    for response in answers:
        if response.status == 503:
            assert_problem(response, 503, "overloaded")
    assert counts["201"] >= 4
    assert audit(daemon) == counts["201"]
    assert daemon.metric('seckill_orders_total{outcome="overloaded"}') == counts["503 overloaded"]


def test_orders_that_wait_too_long_are_503_within_their_deadline(stack, proxies, spawn):
    """Nothing hangs, and no order is accepted after its client was told otherwise."""
    proxy = proxies(stack.ledger.port)
    spawn(stack, **STEADY).reset()  # it has more time for that
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url), max_batch=1, deadline_ms=1000)
    place(daemon, "warm-up")
    proxy.delay = 0.12
    started = time.monotonic()
    answers = order_all_at_once(daemon, 48)
    assert time.monotonic() - started < 20
    proxy.delay = 0
    counts = Counter(response.answer for response in answers)
    assert set(counts) <= {"201", "503 unavailable", "503 overloaded", "503 outcome_unknown"}
    assert counts["201"] < 48
    accepted = [(response.json()["order_id"], 1) for response in answers if response.status == 201]
    wait_until(lambda: daemon.metric("seckill_queue_depth") == 0, "an empty queue")
    place(daemon, "after")
    unclear = counts["503 outcome_unknown"]
    sold = audit_after_faults(daemon, accepted=accepted)
    assert len(accepted) + 2 <= sold <= len(accepted) + 2 + unclear


def test_every_request_is_answered_while_the_ledger_hangs(stack, proxies, spawn):
    proxy = proxies(stack.ledger.port)
    spawn(stack, **STEADY).reset("demo", 50, 5)  # it has more time for that
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url), deadline_ms=500)
    place(daemon, "warm-up")
    proxy.hold()
    answers = order_all_at_once(daemon, 64)
    for response in answers:
        assert_problem(response, 503, response.code)
        assert response.code in ("unavailable", "outcome_unknown", "overloaded")
    assert daemon.get("/healthz").status == 200
    assert daemon.get("/metrics").status == 200
    proxy.resume()
    wait_until(lambda: daemon.order().answer in ("201", "409 sold_out"), "an order")
    sell_out_after_faults(daemon)
    assert audit_after_faults(daemon) == 50


HEADS = {
    "a cookie": [b"Cookie: a=" + b"c" * size + b"\r\n" for size in range(2000, 4000, 16)],
    "cookies": [b"Cookie: " + b"a=b; " * count + b"\r\n" for count in range(40, 120)],
    "a header": [b"X-Large: " + b"x" * size + b"\r\n" for size in range(6000, 8000, 16)],
    "headers": [b"X-Y: z\r\n" * count for count in range(60, 130)],
}


@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS.keys())
def test_order_is_accepted_only_when_its_answer_has_room(daemon, heads):
    """Headers take memory that the answer then lacks: neither is dropped in silence."""
    daemon.reset()
    request = order_bytes()
    answers = Counter()
    for head in heads:
        answer = send_raw(daemon.address, request.replace(
            b"Host: x\r\n", b"Host: x\r\nConnection: close\r\n" + head))
        answers[parse_response(answer).answer] += 1
    assert set(answers) == {"201", "431 headers_too_large"}
    assert daemon.stock()["sold"] == answers["201"]


def test_trailers_leave_room_for_the_answer(daemon):
    daemon.reset()
    request = (b"POST /order HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
               b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
               b'25\r\n{"sku":"demo","user_id":"u1","qty":1}\r\n0\r\nX-Trailer: ')
    answers = [
        parse_response(send_raw(daemon.address, request + b"x" * size + b"\r\n\r\n")).answer
        for size in range(6000, 8000, 16)]
    assert answers[0] == "201" and set(answers) == {"201", "431 headers_too_large"}
    assert daemon.stock()["sold"] == answers.count("201")


@pytest.fixture
def many_files():
    """Descriptors for thousands of sockets in this process; the daemon raises its own limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 12_000:
        pytest.skip(f"only {hard} open files are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (12_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_5000_idle_connections_while_orders_flow(many_files, stack, spawn, load):
    daemon = spawn(stack, **STEADY)
    daemon.reset("demo", 1000, 20)
    with ExitStack() as idle:
        socks = [idle.enter_context(socket.create_connection(daemon.address, timeout=30))
                 for _ in range(5000)]
        running = load(daemon, connections=128).wait()
        assert set(running.answers) == {"201", "409 sold_out"}
        assert audit(daemon, accepted=running.accepted) == 1000
        for sock in socks[::500]:
            sock.sendall(b"GET /stock/demo HTTP/1.1\r\nHost: x\r\n\r\n")
            assert read_response(sock).json()["sold"] == 1000
    assert daemon.get("/healthz").status == 200


def test_more_connections_than_allowed_do_not_stop_the_others(stack, spawn):
    daemon = spawn(stack, connections_max=50)
    daemon.reset("demo", 100, 4)
    with ExitStack() as idle:
        for _ in range(49):
            idle.enter_context(socket.create_connection(daemon.address))
        time.sleep(0.1)
        for _ in range(30):
            idle.enter_context(socket.create_connection(daemon.address))
    wait_until(lambda: daemon.order().status == 201, "an order after the crowd has left")


def unix_connection(path):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(30)
    sock.connect(path)
    return sock


class FewFiles(Daemon):
    """A daemon that may have 200 open files."""

    def argv(self):
        return ["prlimit", "--nofile=200:200", *super().argv()]


def test_crowd_leaves_the_daemon_files_for_redis_and_the_ledger(stack, tmp_path):
    with FewFiles(stack, tmp_path) as daemon, ExitStack() as crowd:
        daemon.reset()
        socks = [crowd.enter_context(socket.create_connection(daemon.address, timeout=30))
                 for _ in range(300)]
        time.sleep(0.5)
        socks[-1].sendall(order_bytes())  # the first order: its worker is not connected yet
        assert read_response(socks[-1]).status == 201
        assert "event=few_files" in daemon.log()


def test_crowds_at_both_listeners_leave_files_for_redis_and_the_ledger(stack, tmp_path):
    admin = str(tmp_path / "admin.sock")
    with FewFiles(stack, tmp_path, admin_listen=admin) as daemon, ExitStack() as crowd:
        daemon.reset()
        socks = [crowd.enter_context(socket.create_connection(daemon.address, timeout=30))
                 for _ in range(300)]
        for _ in range(100):  # operators' programs that keep their connections
            crowd.enter_context(unix_connection(admin))
        time.sleep(0.5)
        socks[-1].sendall(order_bytes())  # the first order: its worker is not connected yet
        assert read_response(socks[-1]).status == 201


REQUESTS = {
    "look-up": b"GET /stock/demo HTTP/1.1\r\nHost: x\r\n\r\n",
    "order": b"POST /order HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
             b'Content-Length: 37\r\n\r\n{"sku":"demo","user_id":"u1","qty":1}',
    "half a request": b"GET /stock/de",
}


@pytest.mark.parametrize("request_bytes", REQUESTS.values(), ids=REQUESTS.keys())
def test_clients_that_close_their_side_are_answered_and_let_go(daemon, request_bytes):
    daemon.reset()
    with ExitStack() as clients:
        socks = [clients.enter_context(socket.create_connection(daemon.address, timeout=10))
                 for _ in range(50)]
        for sock in socks:
            sock.sendall(request_bytes)
            sock.shutdown(socket.SHUT_WR)
        for sock in socks:
            answer = read_to_end(sock)
            assert answer.startswith(b"HTTP/1.1 20") or request_bytes == REQUESTS["half a request"]


@pytest.mark.parametrize("request_bytes", REQUESTS.values(), ids=REQUESTS.keys())
def test_clients_that_left_keep_no_descriptor(daemon, request_bytes):
    def descriptors():
        return len(os.listdir(f"/proc/{daemon.process.pid}/fd"))
    daemon.reset()
    assert daemon.order().status == 201
    assert daemon.stock()["sold"] == 1
    before = descriptors()
    for _ in range(200):
        with socket.create_connection(daemon.address) as sock:
            sock.sendall(request_bytes)
    # An order worker opens its two connections when it first has something to do, and the live
    # thread its own.
    wait_until(lambda: descriptors() <= before + 6, "their descriptors closed", timeout=20)


@pytest.mark.long
def test_memory_stays_flat_under_load(daemon, load):
    def resident_kib():
        status = Path(f"/proc/{daemon.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1])
    daemon.reset("demo", 10, 1)
    sizes = []
    for _ in range(3):
        load(daemon, connections=128, stop_after=10_000).wait()
        sizes.append(resident_kib())
    assert sizes[-1] < sizes[0] * 1.5 + 4096, sizes


def test_admin_and_look_ups_are_answered_while_orders_queue(stack, proxies, spawn):
    """Slow calls of one kind do not keep the HTTP threads from answering others."""
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url))
    daemon.reset()
    looked = threading.Event()
    trap = proxy.once(WRITE, before=lambda link: looked.wait(20))
    waiting = threading.Thread(target=daemon.order)
    waiting.start()
    trap.wait()
    for path in ("/healthz", "/metrics", "/openapi.json"):
        assert daemon.get(path).status == 200
    daemon.wait_ready()  # at once, if the machine has not just stood still
    assert daemon.stock()["sold"] == 0
    looked.set()
    waiting.join()
    assert audit_after_faults(daemon) == 1
