"""Clients that close their sending side once they have asked, which HTTP allows, and clients that
vanish: the former are answered, and none keeps an HTTP thread busy."""

import os
import signal
import socket
import time
from contextlib import ExitStack, contextmanager

import pytest

from harness.client import order_bytes, read_response, read_to_end, reset_at_close
from harness.daemon import TOKEN
from harness.load import crowd
from harness.processes import threads_of, wait_until
from harness.standstill import Elapsed

ORDERS = 1600
BUSY_MAX = 0.1  # of a core; a thread that spun took 0.35 and more
END_S_MAX = 0.5  # from the answer to the close; a thread that nobody wakes sleeps for a second
TICKS = os.sysconf("SC_CLK_TCK")


def get(path):
    head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    return head.encode()


def http_seconds(daemon):
    """Processor time of the HTTP threads so far."""
    return sum(int(ticks) for name, fields in threads_of(daemon.process).values()
               if name.startswith("http-") for ticks in fields[11:13]) / TICKS  # user, system


def busy(daemon):
    """The share of a core that the HTTP threads use in the next second."""
    before, began = http_seconds(daemon), time.monotonic()
    time.sleep(1)
    return (http_seconds(daemon) - before) / (time.monotonic() - began)


def ask(daemon, data, half_close=True):
    sock = socket.create_connection(daemon.address, timeout=60)
    sock.sendall(data)
    if half_close:
        sock.shutdown(socket.SHUT_WR)
    return sock


@contextmanager
def standing_still(server):
    server.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.signal(signal.SIGCONT)


# --- the HTTP threads' time -----------------------------------------------------------------------

@pytest.mark.long(keep=1)
@pytest.mark.parametrize("leave", ["half-closed", "closed", "reset"])
def test_buyer_who_leaves_while_the_ledger_stands_still_costs_no_core(private_stack, spawn, leave):
    daemon = spawn(private_stack, admin_listen="127.0.0.1:0")
    daemon.reset()
    with standing_still(private_stack.maria_server):
        buyer = ask(daemon, order_bytes(), half_close=leave == "half-closed")
        wait_until(lambda: daemon.metric("seckill_queue_depth") == 1, "the order under way")
        if leave == "reset":
            reset_at_close(buyer)
        if leave != "half-closed":
            buyer.close()
        assert busy(daemon) < BUSY_MAX
    with buyer:
        assert leave != "half-closed" or read_response(buyer).status == 201
    wait_until(lambda: daemon.stock()["sold"] == 1, "the order")


# --- answers --------------------------------------------------------------------------------------

def test_orders_of_half_closed_clients_are_answered(private_stack, spawn, many_files):
    """However many wait at one HTTP thread while the ledger stands still."""
    daemon = spawn(private_stack, http_threads=1, admin_listen="127.0.0.1:0", deadline_ms=60_000)
    daemon.reset(total=2 * ORDERS)
    with ExitStack() as clients:
        with standing_still(private_stack.maria_server):
            socks = [clients.enter_context(ask(daemon, order_bytes(user_id=f"u{n}")))
                     for n in range(ORDERS)]
            wait_until(lambda: daemon.metric("seckill_queue_depth") == ORDERS, "all orders")
        answers = [read_to_end(sock)[:12] for sock in socks]
    assert {answer: answers.count(answer) for answer in answers} == {b"HTTP/1.1 201": ORDERS}
    assert daemon.stock()["sold"] == ORDERS


def test_end_of_a_client_that_sent_more_than_a_buffer_is_seen(daemon):
    """Its end is told of long before libmicrohttpd has read up to it."""
    with ask(daemon, get("/healthz"), half_close=False) as client:
        assert read_response(client).status == 200
        time.sleep(0.1)  # by now libmicrohttpd waits for this client
        daemon.pause()
        client.sendall(get("/healthz") * 400)
        client.shutdown(socket.SHUT_WR)
        daemon.cont()
        assert read_to_end(client).count(b"HTTP/1.1 200 ") == 400


def test_half_closed_client_hears_the_end_soon(daemon):
    """However soon it follows another one: nothing else wakes the HTTP thread for it."""
    took = []
    for _ in range(30):
        with ask(daemon, get("/healthz")) as client, Elapsed() as passed:
            assert read_to_end(client).startswith(b"HTTP/1.1 200 ")
        took.append(passed.running)
    assert sorted(took)[-4] < END_S_MAX, took  # a busy machine may delay a few


def test_calls_held_for_the_sake_of_orders_are_answered_to_half_closed_clients(stack, spawn, load):
    daemon = spawn(stack, http_threads=1, admin_listen="127.0.0.1:0")
    daemon.reset(total=10_000_000)
    with load(daemon, connections=128, seconds=120), ExitStack() as clients:
        lookers = crowd(daemon, "/stock/demo", 120)
        clients.callback(lookers.communicate)
        clients.callback(lookers.kill)
        wait_until(lambda: daemon.metric("seckill_calls_held_total") > 0, "calls are held")
        socks = [clients.enter_context(ask(daemon, get("/stock/demo"))) for _ in range(500)]
        answers = [read_to_end(sock)[:12] for sock in socks]
    assert {answer: answers.count(answer) for answer in answers} == {b"HTTP/1.1 200": len(socks)}
