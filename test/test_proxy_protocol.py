"""The PROXY protocol: who the client is, and what becomes of those who send no good header."""

import signal
import socket
import struct
from contextlib import ExitStack, contextmanager, suppress

import pytest

from audit import audit
from daemon import STEADY
from harness.client import order_bytes, read_response, read_to_end
from harness.processes import wait_until

GET = b"GET /stock/demo HTTP/1.1\r\nHost: x\r\n\r\n"
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
LOCAL = SIGNATURE + b"\x20\0\0\0"
UNIX = SIGNATURE + b"\x21\x31\0\xd8" + bytes(216)
CLOSED = "seckill_connections_closed_total"


def v1(client, kind="TCP4", proxy="198.51.100.1"):
    return f"PROXY {kind} {client} {proxy} 40000 80\r\n".encode()


def v2(client, extensions=b"", family=socket.AF_INET):
    one, other = (socket.inet_pton(family, text) for text in (
        client, "198.51.100.1" if family == socket.AF_INET else "2001:db8::1"))
    rest = one + other + struct.pack("!HH", 40000, 80) + extensions
    kind = 0x11 if family == socket.AF_INET else 0x21
    return SIGNATURE + struct.pack("!BBH", 0x21, kind, len(rest)) + rest


@pytest.fixture
def proxied(stack, spawn):
    """Makes daemons that take the PROXY protocol from 127.0.0.1 only, with a sale."""
    def make(**options):
        daemon = spawn(stack, **{"proxy_protocol": "on", "trusted_proxies": "127.0.0.1",
                                 "admin_listen": "127.0.0.1:0", "access_log": 1, **STEADY,
                                 **options})
        daemon.reset("demo", 100_000, 20)
        return daemon
    return make


@contextmanager
def connection(daemon, source="127.0.0.1"):
    with socket.create_connection(daemon.address, 30, source_address=(source, 0)) as sock:
        yield sock


def ask(daemon, *parts):
    """The status of the answer to what is sent in these parts; None: closed without a word."""
    with connection(daemon) as sock:
        for part in parts:
            with suppress(OSError):  # closed meanwhile
                sock.sendall(part)
        answer = b""
        with suppress(ConnectionError):
            answer = sock.recv(12)
    return int(answer[9:12]) if answer else None


def closed(daemon, reason):
    return daemon.metric(f'{CLOSED}{{reason="{reason}"}}')


def addresses(daemon):
    """Of the clients that were answered, as the access log names them."""
    return [line.partition("address=")[2].split()[0] for line in daemon.log().splitlines()
            if "event=request " in line
            and ("path=/stock/*" in line or "path=/order" in line)]


@pytest.mark.parametrize("header, address", [
    (v1("192.0.2.7"), "192.0.2.7"),
    (v1("2001:db8:1:2::7", "TCP6", "2001:db8::1"), "2001:db8:1:2::"),
    (v2("192.0.2.8"), "192.0.2.8"),
    (v2("192.0.2.9", b"\x05\0\x04abcd\x04\0\0"), "192.0.2.9"),
    (v2("2001:db8:3:4::7", family=socket.AF_INET6), "2001:db8:3:4::"),
    (LOCAL, "127.0.0.1"),
    (UNIX, "unix"),
    (b"PROXY UNKNOWN\r\n", "unix"),
], ids=["v1", "v1-ipv6", "v2", "v2-extensions", "v2-ipv6", "v2-local", "v2-unix", "v1-unknown"])
def test_header_names_the_client(proxied, header, address):
    daemon = proxied()
    assert ask(daemon, header + GET) == 200
    # In pieces, the last of which goes on with the request.
    assert ask(daemon, *(header[i:i + 1] for i in range(len(header) - 1)),
               header[-1:] + GET) == 200
    wait_until(lambda: len(addresses(daemon)) == 2, "two lines of the access log")
    assert addresses(daemon) == [address] * 2
    assert closed(daemon, "proxy_header") == 0


@pytest.mark.parametrize("bytes_", [
    GET,
    order_bytes(),
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    v1("192.0.2.256"),
    v1("192.0.2.7")[:-2] + b"\n",
    v1("192.0.2.7", "UDP4"),
    b"PROXY TCP4 " + b"1" * 200,
    SIGNATURE + b"\x31\x11\0\x0c" + bytes(12),
    SIGNATURE + b"\x2f\x11\0\x0c" + bytes(12),
    SIGNATURE + b"\x21\x11\0\x04" + bytes(4),
    SIGNATURE + b"\x21\x11\xff\xff" + bytes(2000),
    v2("192.0.2.7", b"\x04\xff\xffabc"),
    v2("192.0.2.7", b"\x04"),
], ids=["none", "order", "tls", "address", "line-end", "udp", "long", "version", "command", "short",
        "oversize", "extension", "half-extension"])
def test_connection_without_a_good_header_is_closed(proxied, bytes_):
    daemon = proxied()
    with connection(daemon) as sock:
        sock.sendall(bytes_)
        assert read_to_end(sock) == b""
    assert closed(daemon, "proxy_header") == 1
    assert "event=proxy_header_refused address=127.0.0.1" in daemon.log()
    assert ask(daemon, v1("192.0.2.7") + GET) == 200


def test_who_is_no_trusted_proxy_is_closed_whatever_he_sends(proxied):
    daemon = proxied()
    for bytes_ in (v1("192.0.2.7") + GET, GET):
        with connection(daemon, "127.0.0.2") as sock:
            with suppress(OSError):  # closed already
                sock.sendall(bytes_)
            assert read_to_end(sock) == b""
    assert (closed(daemon, "no_proxy"), closed(daemon, "proxy_header")) == (2, 0)
    assert "event=proxy_header_refused address=127.0.0.2" in daemon.log()


def test_slow_headers_end_in_time_and_keep_nobody_waiting(proxied):
    daemon = proxied()
    with ExitStack() as slow:
        socks = [slow.enter_context(connection(daemon)) for _ in range(40)]
        for number, sock in enumerate(socks):
            sock.sendall((v1("192.0.2.7") if number % 2 else v2("192.0.2.7"))[:number % 15])
        assert all(ask(daemon, v1("192.0.2.7") + GET) == 200 for _ in range(20))
        for sock in socks:
            assert read_to_end(sock) == b""
    assert closed(daemon, "proxy_header") == len(socks)


def test_more_slow_headers_than_there_may_be(proxied):
    daemon = proxied()
    with ExitStack() as slow:
        for _ in range(300):
            slow.enter_context(connection(daemon)).sendall(b"PROXY")
        assert ask(daemon, v1("192.0.2.7") + GET) == 200
        wait_until(lambda: closed(daemon, "proxy_header") >= 44, "the first to be closed")
        assert ask(daemon, v1("192.0.2.7") + GET) == 200


def test_peer_that_only_connects_is_no_fault(proxied):
    daemon = proxied()
    for _ in range(5):
        with connection(daemon):
            pass
    assert ask(daemon, LOCAL + GET) == 200
    assert closed(daemon, "proxy_header") == 0


def test_limits_of_addresses_are_those_of_clients(proxied):
    daemon = proxied(rate_address_per_min=1, rate_address_burst=1, connections_per_address=2)
    order = order_bytes()
    assert [ask(daemon, v1(client) + order) for client in
            ("192.0.2.1", "192.0.2.1", "192.0.2.2")] == [201, 429, 201]
    with ExitStack() as open_:
        socks = [open_.enter_context(connection(daemon)) for _ in range(3)]
        for sock in socks[:2]:
            sock.sendall(v2("192.0.2.3") + GET)
            assert read_response(sock).status == 200
        socks[2].sendall(v2("192.0.2.3") + GET)
        assert read_to_end(socks[2]) == b""
        assert ask(daemon, v2("192.0.2.4") + GET) == 200
    assert closed(daemon, "address") == 1


def test_client_cannot_name_another_behind_the_header(proxied):
    daemon = proxied(rate_address_per_min=1, rate_address_burst=1)
    forwarded = order_bytes().replace(b"Host:", b"X-Forwarded-For: 203.0.113.9\r\nHost:", 1)
    for header in (v1("192.0.2.1"), UNIX):
        assert ask(daemon, header + forwarded) == 201
    wait_until(lambda: len(addresses(daemon)) == 2, "two lines of the access log")
    assert addresses(daemon) == ["192.0.2.1", "unix"]


def test_operators_listener_wants_no_header(proxied):
    daemon = proxied()
    assert daemon.ready()
    assert daemon.metric("seckill_ready") == 1


def test_full_house_displaces_idle_clients(proxied):
    daemon = proxied(connections_max=20, http_threads=2)
    with ExitStack() as idle:
        for _ in range(100):
            with suppress(OSError):
                idle.enter_context(connection(daemon)).sendall(v1("192.0.2.7"))
        wait_until(lambda: ask(daemon, v1("192.0.2.8") + GET) == 200, "an answer")
    assert closed(daemon, "room") > 0


@pytest.mark.parametrize("threads", [1, 2])
def test_stop_waits_for_a_header_under_way(proxied, threads):
    daemon = proxied(http_threads=threads)
    with ExitStack() as clients:
        slow = [clients.enter_context(connection(daemon)) for _ in range(8)]
        for sock in slow:
            sock.sendall(v1("192.0.2.9")[:10])
        assert ask(daemon, LOCAL + GET) == 200
        daemon.signal(signal.SIGTERM)
        for sock in slow:
            sock.sendall(v1("192.0.2.9")[10:] + order_bytes())
            assert read_response(sock).status == 201
        assert daemon.wait() == 0
    daemon.start()
    assert audit(daemon) == len(slow)
