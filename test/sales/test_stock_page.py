"""GET /stock/{sku} is at most 100 ms old and read once for all; GET /admin/stock/{sku} is exact."""

import re
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime

import pytest

from harness.audit import audit, audit_after_faults, sell_out_after_faults
from harness.client import assert_problem, read_response
from harness.daemon import STEADY
from harness.processes import wait_until
from harness.proxy import COMMIT

AGE_S = 0.1
READ_AGAIN_S = 0.07  # a sku is read from the ledger at most this often
READS = "seckill_stock_reads_total"


def request_bytes(sku):
    return f"GET /stock/{sku} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


def moment(stock):
    """as_of as time.time() counts."""
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", stock["as_of"]), stock
    return datetime.fromisoformat(stock["as_of"].replace("Z", "+00:00")).timestamp()


def look(daemon, sku="demo"):
    """The page, which is checked in itself; a slow machine makes no answer look too old."""
    asked = time.time()
    response = daemon.get(f"/stock/{sku}")
    if response.status != 200:
        return response.answer
    stock = response.json()
    assert moment(stock) >= asked - AGE_S, (asked, stock)
    assert sum(segment["sold"] for segment in stock["segments"]) == stock["sold"]
    assert sum(segment["capacity"] for segment in stock["segments"]) == stock["total"]
    assert stock["available"] == stock["total"] - stock["sold"]
    return stock


def test_page_says_when_it_was_read_and_who_may_keep_it(daemon):
    daemon.reset("demo", 100, 4, per_user_limit=9)
    assert daemon.order(qty=3).status == 201
    before = time.time()
    response = daemon.get("/stock/demo")
    page = response.json()
    assert before - AGE_S <= moment(page) <= time.time() + AGE_S  # the ledger's clock, as measured
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["Cache-Control"] == "public, max-age=0, s-maxage=1"
    exact = daemon.stock()
    assert {**page, "as_of": ""} == {**exact, "as_of": ""}
    assert (page["sold"], page["available"], page["per_user_limit"]) == (3, 97, 9)
    assert [segment["segment"] for segment in page["segments"]] == [0, 1, 2, 3]


def test_caches_keep_no_refusal(daemon):
    """A 404 that a cache kept would hide the sale that begins then."""
    for path in ("/stock/none", "/stock/not%20a%20sku", "/nothing"):
        response = daemon.get(path)
        assert (response.status, response.headers["Cache-Control"]) == (404, "no-store")
    assert_problem(daemon.get("/stock/none"), 404, "unknown_sku")


def test_sale_that_another_daemon_began_is_found(pair):
    """No daemon goes on denying a sku that it was asked for before."""
    assert look(pair[0]) == "404 unknown_sku"
    pair[1].reset("demo", 10, 1)
    wait_until(lambda: look(pair[0]) != "404 unknown_sku", "the sale")


def test_head_has_the_length_and_no_body(daemon):
    daemon.reset()
    for _ in range(2):  # read from the ledger; from memory
        head = daemon.request("HEAD", "/stock/demo")
        assert (head.status, head.body) == (200, b"")
        assert int(head.headers["Content-Length"]) == len(daemon.get("/stock/demo").body)


def test_page_is_never_too_old_and_never_goes_back(stack, spawn, load):
    """Many readers while units are sold: the ledger is asked as often as time allows, no more, for
    all HTTP threads together."""
    daemon = spawn(stack, http_threads=3, **STEADY)
    daemon.reset("demo", 1_000_000, 20)
    running = load(daemon, connections=32, delay_ms=50, stop_after=10**9)
    wait_until(lambda: running.accepted, "orders")
    begun, reads = time.time(), daemon.metric(READS)

    def read():
        last = look(daemon)
        while time.time() < begun + 1:
            time.sleep(0.01)
            stock = look(daemon)
            assert moment(stock) >= moment(last) and stock["sold"] >= last["sold"], (last, stock)
            last = stock

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read) for _ in range(4)]
    for reader in readers:
        reader.result()
    assert daemon.metric(READS) - reads <= (time.time() - begun) / READ_AGAIN_S + 2
    running.stop()
    wait_until(lambda: look(daemon)["sold"] == daemon.stock()["sold"], "the last orders")
    assert audit(daemon, accepted=running.accepted) == look(daemon)["sold"]


def test_clients_that_wait_share_one_reading(stack, proxies, spawn):
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url))
    daemon.reset("demo", 100, 4)
    reads = daemon.metric(READS)
    with ExitStack() as clients:
        socks = [clients.enter_context(socket.create_connection(daemon.address, timeout=30))
                 for _ in range(200)]
        proxy.hold()
        for sock in socks:
            sock.sendall(request_bytes("demo"))
        time.sleep(0.3)
        proxy.resume()
        pages = [read_response(sock).json() for sock in socks]
    # A question asked before the hold is too old by its end for later clients.
    assert len({page["as_of"] for page in pages}) <= 3
    assert 1 <= daemon.metric(READS) - reads <= 3


def test_many_skus_that_wait_get_each_its_own(stack, proxies, spawn):
    """More skus than one statement asks for, some of them unknown, several times each."""
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url))
    daemon.reset("s0", 10, 1)
    for number in range(1, 150):
        stack.ledger.run(
            "INSERT INTO sale (sku, round, total, segments, settings_version)"
            f" VALUES ('s{number}', 1, {number}, 1, 1);"
            " INSERT INTO stock_segment (sku, segment, round, capacity, fence, settings_version)"
            f" VALUES ('s{number}', 0, 1, {number}, 1, 1)")
    wanted = [number % 170 for number in range(1, 400)]
    with ExitStack() as clients:
        socks = [clients.enter_context(socket.create_connection(daemon.address, timeout=30))
                 for _ in wanted]
        proxy.hold()
        for number, sock in zip(wanted, socks):
            sock.sendall(request_bytes(f"s{number}"))
        time.sleep(0.3)
        proxy.resume()
        for number, sock in zip(wanted, socks):
            response = read_response(sock)
            if number >= 150:
                assert_problem(response, 404, "unknown_sku")
                continue
            page = response.json()
            assert (page["sku"], page["total"]) == (f"s{number}", number or 10)


def test_change_at_this_daemon_is_seen_at_the_next_look(daemon):
    daemon.reset("demo", 10, 2)
    for number in range(20):
        total = look(daemon)["total"]
        daemon.change(paused=number % 2 == 0)
        assert look(daemon)["paused"] is (number % 2 == 0)
        assert daemon.add(5).status == 200
        assert look(daemon)["total"] == total + 5
    for number in range(10):
        daemon.reset("demo", 20 + number, 2)
        assert look(daemon)["total"] == 20 + number


def test_page_never_mixes_rounds(pair):
    """Every picture is that of one round, while another daemon begins one after another."""
    shape = {1: (3, 3)}
    pair[0].reset("demo", 3, 3)

    def reset():
        for number in range(15):
            total, segments = 10 + 7 * number, 1 + number % 9
            shape[number + 2] = (total, segments)
            assert pair[0].reset("demo", total, segments)["round"] == number + 2
    seen = set()
    with ThreadPoolExecutor(1) as pool:
        changing = pool.submit(reset)
        while not changing.done():
            for stock in (look(pair[1]), pair[1].stock()):
                assert shape[stock["round"]] == (stock["total"], len(stock["segments"])), stock
                seen.add(stock["round"])
    changing.result()
    assert len(seen) > 2


def test_without_the_ledger_nobody_is_told_an_old_figure(stack, proxies, spawn):
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url), deadline_ms=2000,
                   mysql_timeout_ms=3000)
    daemon.reset("demo", 10, 2)
    for how in ("refuse", "hold"):
        assert look(daemon)["sold"] == daemon.stock()["sold"]
        proxy.fail(how)
        wait_until(lambda: look(daemon) == "503 unavailable", "the outage to show")
        time.sleep(AGE_S)  # only the one who asked the ledger was refused until now
        assert_problem(daemon.admin("GET", "/admin/stock/demo"), 503, "unavailable")
        assert look(daemon) == "503 unavailable"
        proxy.heal()
        wait_until(lambda: not isinstance(look(daemon), str), "the page again")
    wait_until(lambda: daemon.order().status == 201, "an order")
    sell_out_after_faults(daemon)
    assert audit_after_faults(daemon) == 10


# the exact one

def test_exact_stock_has_every_order_at_every_daemon(pair):
    pair[0].reset("demo", 100, 4)
    for number in range(1, 31):
        assert pair[number % 2].order(user_id=f"u{number}").status == 201
        assert pair[0].stock()["sold"] == number
        assert pair[1].stock()["sold"] == number
    response = pair[0].admin("GET", "/admin/stock/demo")
    assert response.headers["Cache-Control"] == "no-store"
    assert time.time() - 5 < moment(response.json()) <= time.time() + AGE_S


def test_exact_stock_is_the_admins(daemon):
    daemon.reset()
    assert_problem(daemon.get("/admin/stock/demo"), 401, "unauthorized")
    assert_problem(daemon.admin("GET", "/admin/stock/none"), 404, "unknown_sku")
    assert_problem(daemon.admin("POST", "/admin/stock/demo", {}), 405, "method_not_allowed")


@pytest.mark.parametrize("sku", ["reset", "add"])
def test_sku_may_have_the_name_of_a_call(daemon, sku):
    daemon.reset(sku, 10, 2)
    assert daemon.stock(sku)["sku"] == sku
    assert look(daemon, sku)["sku"] == sku
    refused = daemon.admin("PUT", f"/admin/stock/{sku}", {})
    assert_problem(refused, 405, "method_not_allowed")
    assert {"GET", "HEAD", "POST"} == set(refused.headers["Allow"].split(", "))


# the end

def test_answer_from_memory_closes_the_connection_of_a_daemon_that_stops(stack, proxies, spawn):
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url))
    daemon.reset()
    trap = proxy.once(COMMIT, before=lambda link: time.sleep(2))
    ordering = threading.Thread(target=daemon.order)
    ordering.start()
    trap.wait()
    with socket.create_connection(daemon.address, timeout=30) as sock:
        daemon.signal(signal.SIGTERM)
        closes = False
        while not closes:  # it takes a moment until the HTTP thread knows of the end
            sock.sendall(request_bytes("demo"))
            response = read_response(sock)
            assert response.status == 200
            closes = response.headers["Connection"] == "close"
        assert sock.recv(1) == b""
    ordering.join()
    assert daemon.wait() == 0
