"""GET /admin/orders.csv: all orders as a stream, with flat memory, whatever its reader does."""

import csv
import io
import os
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from daemon import TOKEN
from harness.client import assert_problem, read_response, send_raw
from harness.processes import wait_until

PATH = "/admin/orders.csv"
HEAD = ["order_id", "sku", "user_id", "qty", "segment", "status", "created_at", "expires_at",
        "round"]
STREAMS_MAX = 8
REQUEST = (f"GET {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
           "Connection: close\r\n\r\n").encode()


def fill(daemon, count):
    """So many orders that no buffer on the way holds them all, inserted without the daemon."""
    daemon.reset("bulk", 10, 1)
    daemon.stack.ledger.run(
        "INSERT INTO orders(order_id, sku, round, user_id, qty, segment, created_at)"
        " WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)"
        " SELECT (a.i - 1) * 1000 + b.i, IF(a.i % 100 = 7, 'rare', 'bulk'), 1,"
        " CONCAT('u', b.i), 1, 0, '2026-11-20 21:30:00.123' FROM n a, n b"
        f" WHERE (a.i - 1) * 1000 + b.i <= {count}")


def lines(response):
    assert response.status == 200, response
    assert response.headers["Content-Type"].startswith("text/csv")
    assert response.body.endswith(b"\r\n")
    rows = list(csv.reader(io.StringIO(response.body.decode(), newline=""), strict=True))
    assert rows[0] == HEAD
    return rows[1:]


def open_stream(daemon, stack, receive_buffer=4096):
    """A client that has sent its request and reads nothing yet."""
    sock = stack.enter_context(socket.socket())
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    sock.settimeout(60)
    sock.connect(daemon.address)
    sock.sendall(REQUEST)
    assert sock.recv(12) == b"HTTP/1.1 200"
    return sock


def is_full(daemon):
    return daemon.admin("GET", PATH).status == 503


def test_every_order_is_a_line(daemon):
    assert lines(daemon.admin("GET", PATH)) == []
    bought = []
    for sku in ("a", "b"):
        daemon.reset(sku, 100, 4)
        bought += [daemon.order(sku, f"u{n}", qty=n + 1).json() for n in range(5)]
    expected = [[str(order.get(name, "")) for name in HEAD] for order in bought]
    assert lines(daemon.admin("GET", PATH)) == expected
    assert lines(daemon.admin("GET", PATH + "?sku=b")) == expected[5:]
    daemon.stack.ledger.run("UPDATE orders SET status = 'expired',"
                            " expires_at = '2026-12-24 18:00:00' WHERE qty = 3")
    expired = lines(daemon.admin("GET", PATH + "?status=expired&sku=a"))
    assert expired == [expected[2][:5] + ["expired", expected[2][6], "2026-12-24T18:00:00.000Z",
                                          expected[2][8]]]
    assert daemon.admin("HEAD", PATH).body == b""


def test_many_pages_with_and_without_a_filter(daemon):
    fill(daemon, 250_000)
    rows = lines(daemon.admin("GET", PATH))
    assert [int(row[0]) for row in rows] == list(range(1, 250_001))
    assert len(lines(daemon.admin("GET", PATH + "?sku=rare"))) == 3000
    assert lines(daemon.admin("GET", PATH + "?sku=none")) == []


def test_memory_stays_flat_while_streams_are_read(daemon):
    def resident_kib():
        status = Path(f"/proc/{daemon.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1])
    fill(daemon, 1_000_000)
    daemon.admin("GET", PATH + "?sku=rare")
    before = resident_kib()
    highest = received = 0
    with ExitStack() as stack:
        sock = open_stream(daemon, stack, 1 << 20)
        while piece := sock.recv(1 << 20):
            received += len(piece)
            highest = max(highest, resident_kib())
    assert received > 50_000_000
    assert highest < before + 16_384, (before, highest)


def test_streams_are_bounded_and_slow_readers_keep_nobody_waiting(daemon):
    fill(daemon, 100_000)
    with ExitStack() as stack:
        socks = [open_stream(daemon, stack) for _ in range(STREAMS_MAX)]
        wait_until(lambda: is_full(daemon), "a refusal")
        assert_problem(daemon.admin("GET", PATH), 503, "overloaded")
        daemon.reset("demo", 10, 1)
        assert daemon.order().status == 201
        assert daemon.admin("GET", "/admin/orders?limit=1").status == 200
        rest = b""
        while piece := socks[0].recv(1 << 20):  # one of them reads on to the end
            rest += piece
        assert rest.endswith(b"0\r\n\r\n")
    wait_until(lambda: not is_full(daemon), "room again")
    with ThreadPoolExecutor(STREAMS_MAX) as clients:
        answers = list(clients.map(lambda _: daemon.admin("GET", PATH), range(STREAMS_MAX)))
    assert {len(lines(answer)) for answer in answers if answer.status == 200} == {100_001}


def test_clients_that_hang_up_free_everything(daemon):
    def descriptors():
        return len(os.listdir(f"/proc/{daemon.process.pid}/fd"))
    fill(daemon, 100_000)
    late = 8  # connections of workers that first asked Redis or the ledger after the count
    before = descriptors()
    for _ in range(late + 2):
        with ExitStack() as stack:
            for _ in range(STREAMS_MAX):
                sock = stack.enter_context(socket.create_connection(daemon.address, timeout=30))
                sock.sendall(REQUEST)
            time.sleep(0.02)
    wait_until(lambda: descriptors() <= before + late, "their descriptors closed")
    wait_until(lambda: not is_full(daemon), "their streams closed")
    assert len(lines(daemon.admin("GET", PATH))) == 100_000


def test_stream_that_cannot_go_on_does_not_look_complete(private_stack, spawn):
    daemon = spawn(private_stack)
    fill(daemon, 200_000)
    with ExitStack() as stack:
        sock = open_stream(daemon, stack)
        private_stack.maria_server.kill()
        rest = b""
        while piece := sock.recv(1 << 20):
            rest += piece
        assert not rest.endswith(b"0\r\n\r\n")
    wait_until(lambda: "event=listings_failed" in daemon.log(), "a line in the log")
    line = re.search(r"event=listings_failed .*", daemon.log())[0]
    assert "server=ledger" in line and "calls=1 " in line and "incomplete" in line
    assert_problem(daemon.admin("GET", PATH), 503, "unavailable")
    private_stack.maria_server.start()
    wait_until(lambda: daemon.admin("GET", PATH).status == 200, "a whole stream")


def test_stream_that_waits_for_a_hanging_ledger_ends(stack, proxies, spawn):
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url), mysql_timeout_ms=60_000,
                   deadline_ms=500, lease_ms=100)
    fill(daemon, 200_000)
    with ExitStack() as open_:
        sock = open_stream(daemon, open_)
        proxy.hold()
        rest = b""
        while piece := sock.recv(1 << 20):  # until its page's deadline
            rest += piece
        assert not rest.endswith(b"0\r\n\r\n")
        proxy.resume()
    wait_until(lambda: daemon.admin("GET", PATH + "?sku=rare").status == 200, "a whole stream")


def test_daemon_stops_though_nobody_reads_its_streams(stack, spawn):
    daemon = spawn(stack, drain_ms=500)
    fill(daemon, 100_000)
    with ExitStack() as open_:
        for _ in range(3):
            open_stream(daemon, open_)
        daemon.stop()


@pytest.mark.parametrize("query", ["?limit=5", "?after=1", "?sku=", "?sku=a&sku=a", "?status=x",
                                   "?page=1", "?sku=a%27"])
def test_bad_parameter_is_400_and_takes_no_stream(daemon, query):
    for _ in range(2 * STREAMS_MAX):
        assert_problem(daemon.admin("GET", PATH + query), 400, "invalid_request")
    assert daemon.admin("GET", PATH).status == 200


def test_stream_wants_the_token_and_get(daemon):
    assert_problem(daemon.get(PATH), 401, "unauthorized")
    assert_problem(daemon.admin("POST", PATH, {}), 405, "method_not_allowed")


def test_head_of_a_stream_is_a_head_alone(daemon):
    for count in (0, 1000):
        fill(daemon, count)
        for _ in range(STREAMS_MAX + 1):  # none of them is left open
            answer = send_raw(daemon.address, REQUEST.replace(b"GET", b"HEAD"))
            assert answer.startswith(b"HTTP/1.1 200")
            assert answer.index(b"\r\n\r\n") == len(answer) - 4


def test_connection_goes_on_after_a_stream(daemon):
    with socket.create_connection(daemon.address, timeout=30) as sock:
        for _ in range(3):
            sock.sendall(REQUEST.replace(b"Connection: close\r\n", b""))
            assert lines(read_response(sock)) == []
