"""Clients that take connections and do nothing with them: others are served all the same."""

import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress

import pytest

from harness.client import order_bytes, parse_response, read_response, read_to_end
from harness.processes import PROGRAM, wait_until

GET = b"GET /stock/demo HTTP/1.1\r\nHost: x\r\n\r\n"
MAX = 80
PAUSE_S = 0.2  # between the bytes of one that wastes a connection
CLOSED = "seckill_connections_closed_total"
TRIES = 10
WASTERS = {  # what each of the clients that waste connections sends at first, and then every now
    "blank lines": (b"\r\n", b"\r\n"),
    "a slow first line": (b"GET /st", b"o"),
    "slow headers": (b"GET /stock/demo HTTP/1.1\r\nHost: x\r\nX-Slow: ", b"o"),
    "a slow body": (order_bytes()[:-20], b""),
    "no reading": (b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 400, b""),
    "nothing": (b"", b""),
}


def patiently(call):
    """A client that takes its time between connecting and asking is one of those who make room for
    others: it tries again."""
    for _ in range(TRIES):
        with suppress(ConnectionError):
            return call()
    raise AssertionError(f"no answer in {TRIES} tries")


def closed(daemon, reason):
    return patiently(lambda: daemon.metric(f'{CLOSED}{{reason="{reason}"}}'))


def ask(sock):
    sock.sendall(GET)
    return read_response(sock).status


def connect(daemon, source="127.0.0.1"):
    return socket.create_connection(daemon.address, timeout=30, source_address=(source, 0))


@contextmanager
def wasters(daemon, count, first, then):
    """Clients that go on sending; one whose connection is closed connects again."""
    over = threading.Event()

    def waste():
        while not over.is_set():
            with suppress(OSError), connect(daemon) as sock:
                sock.setblocking(False)
                with suppress(BlockingIOError):
                    sock.send(first)
                while not over.wait(PAUSE_S):
                    with suppress(BlockingIOError):
                        sock.send(then)
                    if then == b"" and peer_closed(sock):
                        break

    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(waste) for _ in range(count)]
        try:
            yield
        finally:
            over.set()
        for future in futures:
            future.result()


def peer_closed(sock):
    try:
        return sock.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("first, then", WASTERS.values(), ids=WASTERS.keys())
def test_clients_that_waste_connections_shut_nobody_out(stack, spawn, first, then):
    daemon = spawn(stack, connections_max=MAX)
    daemon.reset()

    def refused():  # blank lines, by libmicrohttpd from 1.0 on
        return patiently(lambda: daemon.metric(REFUSED))
    with wasters(daemon, 2 * MAX, first, then):
        wait_until(lambda: closed(daemon, "room") + refused() > MAX,
                   "connections closed to make room")
        for number in range(20):
            order = patiently(lambda n=number: daemon.order(user_id=f"u{n}", key=f"k{n}"))
            assert order.status in (200, 201)
    assert daemon.stock()["sold"] == 20
    assert "event=connections_full" in daemon.log() or refused() > MAX


def test_connection_that_is_used_outlives_a_crowd(stack, spawn):
    daemon = spawn(stack, connections_max=MAX)
    daemon.reset()
    with wasters(daemon, 2 * MAX, *WASTERS["slow headers"]), connect(daemon) as sock:
        wait_until(lambda: ask(sock) == 200 and closed(daemon, "room") > 5 * MAX, "a crowd",
                   pause=0.001)


def test_connection_that_was_served_outlives_answers_that_nobody_reads(stack, spawn):
    daemon = spawn(stack, connections_max=MAX)
    daemon.reset()
    unread = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 50  # some of them fill the socket
    with ExitStack() as clients:
        served = clients.enter_context(connect(daemon))
        assert ask(served) == 200
        for _ in range(2 * MAX):
            sock = clients.enter_context(socket.socket())
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.settimeout(30)
            sock.connect(daemon.address)
            sock.sendall(unread)
            sock.recv(1, socket.MSG_PEEK)
        assert closed(daemon, "room") >= MAX
        assert ask(served) == 200


REFUSED = 'seckill_http_responses_total{status="400"}'
# A request that has begun has until its deadline.
UNBEGUN = {name: waster for name, waster in WASTERS.items()
           if not (waster[0].startswith(b"POST")
                   or waster[0].endswith(b": ") and waster[1] == b"o")}


@pytest.mark.parametrize("first, then", UNBEGUN.values(), ids=UNBEGUN.keys())
def test_clock_of_a_connection_starts_with_it(stack, spawn, first, then):
    daemon = spawn(stack, idle_ms=500)
    patiently(daemon.reset)
    with connect(daemon) as sock:
        started = time.monotonic()
        with suppress(ConnectionError):
            sock.sendall(first[:len(GET) * 4000])
            while closed(daemon, "idle") == 0 and time.monotonic() - started < 30:
                sock.sendall(then)
                time.sleep(0.05)
    # On a slow machine also of those who asked for the metrics.
    assert closed(daemon, "idle") + patiently(lambda: daemon.metric(REFUSED)) >= 1


def test_clock_of_a_connection_starts_anew_with_each_answer(stack, spawn):
    daemon = spawn(stack, idle_ms=5000)
    daemon.reset()
    with connect(daemon) as sock:
        started = time.monotonic()
        while time.monotonic() - started < 6:
            assert ask(sock) == 200
            time.sleep(0.25)
        assert closed(daemon, "idle") == 0
        assert read_to_end(sock) == b""
    assert closed(daemon, "idle") == 1


def begin_orders(clients, daemon, count):
    """Clients whose orders are with the daemon, one after the other, while its ledger hangs."""
    buyers = []
    for number in range(count):
        buyers.append(clients.enter_context(connect(daemon)))
        buyers[-1].sendall(order_bytes(user_id=f"u{number}"))
        wait_until(lambda: daemon.metric("seckill_queue_depth") == len(buyers), "an order")
    return buyers


def test_complete_request_is_never_given_up_for_another_client(stack, proxies, spawn):
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url), connections_max=8,
                   admin_listen="127.0.0.1:0")
    daemon.reset()
    proxy.hold()
    with ExitStack() as clients:
        buyers = begin_orders(clients, daemon, 8)
        for _ in range(20):
            clients.enter_context(connect(daemon))
        time.sleep(0.5)  # in which the daemon wants a place for each of them
        proxy.resume()
        assert [read_response(sock).status for sock in buyers] == [201] * 8


def test_buyer_gets_an_idle_place_while_the_orders_of_others_are_under_way(stack, proxies, spawn):
    """However many there are whose first order it is."""
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url), connections_max=20,
                   admin_listen="127.0.0.1:0")
    daemon.reset()
    with ExitStack() as clients:
        idle = [clients.enter_context(connect(daemon)) for _ in range(9)]
        assert [ask(sock) for sock in idle] == [200] * 9
        proxy.hold()
        buyers = begin_orders(clients, daemon, 20)
        assert closed(daemon, "room") >= 9
        proxy.resume()
        assert [read_response(sock).status for sock in buyers] == [201] * 20


def again(daemon):
    with suppress(ConnectionError), connect(daemon) as sock:
        sock.sendall(GET)
        return read_to_end(sock, 1) != b""
    return False


def test_threads_share_the_places(stack, spawn):
    """The kernel spreads clients over threads as it likes: no thread is full before all are."""
    daemon = spawn(stack, http_threads=4, connections_max=40, admin_listen="127.0.0.1:0")
    daemon.reset()
    with ExitStack() as clients:
        socks = [clients.enter_context(connect(daemon)) for _ in range(40)]
        for _ in range(2):
            assert [ask(sock) for sock in socks] == [200] * 40
        assert closed(daemon, "room") == 0
        for _ in range(40):  # each displaces one, wherever that is
            assert ask(clients.enter_context(connect(daemon))) == 200
        wait_until(lambda: closed(daemon, "room") == 40, "places of all threads taken again")


NO_WATCHES = """
#include <errno.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As the kernel does when the user has too many descriptors in epoll sets. */
int epoll_ctl(int set, int how, int fd, struct epoll_event *event)
{
    static __thread unsigned watched;
    if (how == EPOLL_CTL_ADD && event->events & EPOLLRDHUP && ++watched % 2 == 0) {
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_epoll_ctl, set, how, fd, event);
}
"""


@pytest.mark.skipif("san/" in PROGRAM, reason="a sanitizer's library must be the first")
def test_kernel_that_watches_no_more_descriptors_ends_one_connection(stack, spawn, tmp_path):
    source, library = tmp_path / "no_watches.c", tmp_path / "no_watches.so"
    source.write_text(NO_WATCHES, encoding="ascii")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    daemon = spawn(stack, env={"LD_PRELOAD": str(library)}, ready=False)
    answers = set()
    for _ in range(20):
        with suppress(ConnectionError), connect(daemon) as sock:
            sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answer = read_to_end(sock)
            answers.add(parse_response(answer).status if answer else None)
    assert answers in ({200, None}, {200})
    assert "event=connection_refused error=\"No space left on device\"" in daemon.log()
