"""Input that nobody should send gets a clear answer, changes nothing and disturbs nobody."""

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.audit import audit, sell_out
from harness.client import assert_problem, read_response, read_to_end, reset_at_close, send_raw
from harness.daemon import STEADY, TOKEN, Daemon
from harness.processes import wait_until

# One daemon serves the whole file, so one worker runs all of it.
pytestmark = pytest.mark.xdist_group("bad input")

GOOD = b'{"sku":"demo","user_id":"u1","qty":1}'
CLOSE_SECONDS_MAX = 30  # for a server to give up on a client that dawdles


@pytest.fixture(scope="module")
def daemon(shared_servers, tmp_path_factory):
    """One daemon for the whole file, in a database of its own: no test may leave a trace."""
    stack = shared_servers.aside("bad_input", 1)
    with Daemon(stack, tmp_path_factory.mktemp("bad_input"), deadline_ms=10_000,
                **STEADY) as daemon:
        daemon.reset("demo", 1000, 20)
        yield daemon


@pytest.fixture(autouse=True)
def nothing_changes(daemon):
    def picture():
        return daemon.stack.ledger.run(
            "SELECT (SELECT COUNT(*) FROM orders), (SELECT SUM(sold) FROM stock_segment),"
            " (SELECT GROUP_CONCAT(sku, round, total) FROM sale)")
    before = picture()
    yield
    assert daemon.running()
    assert picture() == before


def fields(**changes):
    """The body of a good order with some fields changed."""
    return json.dumps({"sku": "demo", "user_id": "u1", "qty": 1, **changes}).encode()


def raw(field, text):
    """A good order with one field's value written as given."""
    values = {"sku": '"demo"', "user_id": '"u1"', "qty": "1", field: text}
    return ("{%s}" % ",".join(f'"{name}":{value}' for name, value in values.items())).encode()


BAD_BODIES = {
    "nothing": b"",
    "not JSON": b"sku=demo&user_id=u1&qty=1",
    "truncated JSON": GOOD[:-1],
    "truncated in a string": GOOD[:10],
    "something after the JSON": GOOD + b"x",
    "two documents": GOOD + GOOD,
    "a NUL after the JSON": GOOD + b"\0",
    "byte order mark": b"\xef\xbb\xbf" + GOOD,
    "UTF-16": GOOD.decode().encode("utf-16"),
    "comment": GOOD[:-1] + b"/**/}",
    "trailing comma": GOOD[:-1] + b",}",
    "single quotes": GOOD.replace(b'"', b"'"),
    "array": b"[" + GOOD + b"]",
    "string": b'"demo"', "number": b"1", "null": b"null", "true": b"true",
    "empty object": b"{}",
    "4000 open brackets": b"[" * 4000,
    "deep nesting": raw("qty", "[" * 1500 + "]" * 1500),
    "deep objects": b'{"a":' * 500 + b"1" + b"}" * 500,
    "no sku": b'{"user_id":"u1","qty":1}',
    "no user_id": b'{"sku":"demo","qty":1}',
    "no qty": b'{"sku":"demo","user_id":"u1"}',
    "unknown field": fields(price=1),
    "field in capitals": b'{"SKU":"demo","user_id":"u1","qty":1}',
    "sku twice": b'{"sku":"demo","sku":"demo","user_id":"u1","qty":1}',
    "qty twice": b'{"sku":"demo","user_id":"u1","qty":1,"qty":2}',
    "qty twice, once escaped": rb'{"sku":"demo","user_id":"u1","qty":1,"qt\u0079":1}',
    "field name with a NUL": rb'{"sku":"demo","user_id":"u1","qty":1,"qty\u0000":1}',
    **{f"qty {text}": raw("qty", text) for text in (
        "0", "-1", "-0", "1.5", "1.0", "1e0", "1001", "10000000000000000000", "2147483649",
        "4294967297", "18446744073709551617", "9223372036854775808", "1e400", "01", "+1", "0x1",
        '"1"', "true", "null", "[1]", "{}", "NaN", "Infinity", "-9223372036854775809")},
    **{f"sku {name}": raw("sku", text) for name, text in {
        "with a quote": '"a\'b"', "with a double quote": r'"a\"b"', "with a slash": '"a/b"',
        "with a brace": '"{a}"', "with a percent sign": '"%41"',
        "of 65 characters": f'"{"x" * 65}"',
    }.items()},
    **{f"{field} {name}": raw(field, text) for field in ("sku", "user_id") for name, text in {
        "empty": '""',
        "with a NUL": r'"demo\u0000"', "with a raw NUL": '"demo\0"',
        "of 129 characters": f'"{"x" * 129}"',
        "with a blank": '"a b"', "with a line feed": r'"a\nb"', "with a raw line feed": '"a\nb"',
        "not ASCII": '"é"',
        "with a lone surrogate": r'"\ud800"', "a number": "7", "null": "null", "a list": '["demo"]',
        "with SQL": '"\'; DROP TABLE orders--"',
    }.items()},
    "sku invalid UTF-8": raw("sku", "X").replace(b"X", b'"\xff\xfe"'),
    "sku overlong UTF-8": raw("sku", "X").replace(b"X", b'"\xc1\xa1"'),
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES.keys())
def test_bad_order_is_400(daemon, body):
    assert_problem(daemon.request("POST", "/order", body), 400, "invalid_request")


@pytest.mark.parametrize("key", ["", "k" * 65, "a b", "a'b", 'a"b', '"', '""', '"a', '"a"b"', "a,b",
                                 "ké".encode("latin-1")],
                         ids=["empty", "65 characters", "blank", "quote", "double quote",
                              "one quote", "quoted nothing", "half quoted", "quote in quotes",
                              "comma", "not ASCII"])
def test_bad_key_is_400(daemon, key):
    response = daemon.request("POST", "/order", {"sku": "demo", "user_id": "u1", "qty": 1},
                              {"Idempotency-Key": key})
    assert_problem(response, 400, "invalid_request")
    assert_problem(daemon.add(1, key=key), 400, "invalid_request")


@pytest.mark.parametrize("order_id", ["1", "18446744073709551615", "18446744073709551616", "9" * 40,
                                      "0", "-1", "abc", "1x", "%31", ""])
def test_get_of_no_order(daemon, order_id):
    response = daemon.get(f"/order/{order_id}")
    assert response.answer in ("404 unknown_order", "400 invalid_request")
    assert_problem(response, response.status, response.code)


@pytest.mark.parametrize("body", [
    {}, [], {"sku": "demo"}, {"sku": "demo", "total": 10}, {"total": 10, "segments": 2},
    {"sku": "demo", "total": 0, "segments": 1}, {"sku": "demo", "total": -5, "segments": 1},
    {"sku": "demo", "total": 10_000_001, "segments": 1},
    {"sku": "demo", "total": 10, "segments": 0},
    {"sku": "demo", "total": 2000, "segments": 1025}, {"sku": "demo", "total": 9, "segments": 10},
    {"sku": "demo", "total": "10", "segments": 1}, {"sku": "demo", "total": 1.5, "segments": 1},
    {"sku": "a'b", "total": 10, "segments": 1}, {"sku": "x" * 65, "total": 10, "segments": 1},
    {"sku": "", "total": 10, "segments": 1}, {"sku": 7, "total": 10, "segments": 1},
    {"sku": "demo", "total": 10, "segments": 1, "extra": 1}, b'{"sku":"demo","total":10', b"",
    b'{"sku":"demo","sku":"other","total":10,"segments":1}',
    {"sku": "demo", "total": 10**19, "segments": 1},
], ids=lambda body: str(body)[:50])
def test_bad_reset_is_400(daemon, body):
    assert_problem(daemon.admin("POST", "/admin/stock/reset", body), 400, "invalid_request")


TIME, LATER = "2036-11-20T21:30:00Z", "2036-11-20T21:30:00.001Z"

BAD_SETTINGS = [
    *({name: value} for name in ("starts_at", "ends_at") for value in (
        "", "now", 0, 1795210200, True, [], {}, [TIME], "2036-11-20", "2036-11-20T21:30:00",
        "2036-11-20T21:30Z", "2036-11-20 21:30:00Z", "2036-11-20T21:30:00+0000",
        "2036-11-20T21:30:00+24:00", "2036-11-20T21:30:00.Z", "2036-11-20T21:30:00 08:00",
        "2000-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01",
        "2036-11-20T21:30:60Z", "2036-11-20T24:00:00Z", "2036-11-31T00:00:00Z",
        "2037-02-29T00:00:00Z", "2036-13-01T00:00:00Z", "2036-00-01T00:00:00Z",
        "1999-12-31T23:59:59Z", "12036-11-20T21:30:00Z", f" {TIME}", f"{TIME} ", f"{TIME}\0",
        "2036-11-20T21:30:00\0Z", "'; DROP TABLE sale--", "x" * 300)),
    *({name: value} for name in ("per_user_limit", "pay_within_s") for value in (
        0, -1, 1.0, 1.5, "1", "", True, False, [], {}, 2**31, 2**32 + 1, 10**19)),
    {"per_user_limit": 10_000_001}, {"pay_within_s": 2_592_001},
    {"starts_at": TIME, "ends_at": TIME}, {"starts_at": LATER, "ends_at": TIME},
    {"price": 1}, {"Starts_at": TIME}, {"starts_at ": TIME},
]


@pytest.mark.parametrize("settings", BAD_SETTINGS, ids=lambda settings: str(settings)[:60])
def test_bad_settings_are_400_in_a_reset_and_in_a_change(daemon, settings):
    body = {"sku": "demo", "total": 10, "segments": 1, **settings}
    assert_problem(daemon.admin("POST", "/admin/stock/reset", body), 400, "invalid_request")
    assert_problem(daemon.admin("PATCH", "/admin/sale/demo", settings), 400, "invalid_request")
    body = {"paused": False, **settings}
    response = daemon.admin("PATCH", "/admin/sale/demo", body)
    assert_problem(response, 400, "invalid_request")
    assert any(word in response.json()["detail"] for word in (*settings, "field", "JSON"))


@pytest.mark.parametrize("body", [
    {}, [], b"", b"null", b"true", b'"paused"', b'{"paused":true', b'{"paused":true}x',
    {"paused": None}, {"paused": 1}, {"paused": 0}, {"paused": "true"}, {"paused": []},
    {"sku": "demo", "paused": True}, {"total": 10}, {"segments": 2}, {"round": 1},
    {"paused": True, "extra": 1}, b'{"paused":true,"paused":false}',
    b'{"per_user_limit":1,"per_user_limit":2}', b'{"paused":TRUE}', b"[" * 4000,
], ids=lambda body: str(body)[:40])
def test_bad_change_is_400(daemon, body):
    assert_problem(daemon.admin("PATCH", "/admin/sale/demo", body), 400, "invalid_request")
    assert daemon.stock()["paused"] is False


@pytest.mark.parametrize("sku", ["none", "x" * 65, "a%00b", "%27", "a%20b", "%C3%A9", "demo%00",
                                 "'%20OR%201=1"])
def test_change_of_no_sale_is_404(daemon, sku):
    response = daemon.admin("PATCH", f"/admin/sale/{sku}", {"paused": True})
    assert_problem(response, 404, "unknown_sku")


def test_change_that_would_end_before_the_start_there_is_400(daemon):
    daemon.change(starts_at="2001-01-01T00:00:00Z")
    for ends in ("2000-01-01T00:00:00Z", "2001-01-01T00:00:00Z"):
        response = daemon.admin("PATCH", "/admin/sale/demo", {"ends_at": ends})
        assert_problem(response, 400, "invalid_request")
    daemon.change(starts_at=None)
    assert "ends_at" not in daemon.stock()


@pytest.mark.parametrize("method", ["GET", "PUT", "POST"])
def test_wrong_method_of_a_sale_is_405(daemon, method):
    response = daemon.admin(method, "/admin/sale/demo", {"paused": True})
    assert_problem(response, 405, "method_not_allowed")
    assert response.headers["Allow"] == "DELETE, PATCH"


@pytest.mark.parametrize("body", [
    {}, [], b"", b"7", {"sku": "demo"}, {"units": 1}, {"sku": "demo", "units": 0},
    {"sku": "demo", "units": -1}, {"sku": "demo", "units": 1.5}, {"sku": "demo", "units": "1"},
    {"sku": "demo", "units": None}, {"sku": "demo", "units": True}, {"sku": "demo", "units": [1]},
    {"sku": "demo", "units": 10_000_001}, {"sku": "demo", "units": 9_999_001},
    {"sku": "demo", "units": 2**32 + 1}, {"sku": "demo", "units": 10**19},
    {"sku": "a'b", "units": 1}, {"sku": "x" * 65, "units": 1}, {"sku": "", "units": 1},
    {"sku": 7, "units": 1}, {"sku": "demo", "units": 1, "segments": 2},
    b'{"sku":"demo","units":1,"units":2}', b'{"sku":"demo","units":1', b'{"sku":"demo","units":01}',
], ids=lambda body: str(body)[:50])
def test_bad_restock_is_400(daemon, body):
    assert_problem(daemon.admin("POST", "/admin/stock/add", body), 400, "invalid_request")


def test_restock_of_no_sale_is_404(daemon):
    assert_problem(daemon.add(1, sku="none"), 404, "unknown_sku")


MOVES = ("pay", "cancel")


@pytest.mark.parametrize("order_id", ["1", "18446744073709551615", "18446744073709551616", "9" * 40,
                                      "0", "-1", "abc", "1x", "01", "%31", "%2e%2e.", ""])
@pytest.mark.parametrize("move", MOVES)
def test_move_of_no_order_is_404(daemon, order_id, move):
    assert_problem(daemon.request("POST", f"/order/{order_id}/{move}"), 404, "unknown_order")


@pytest.mark.parametrize("body", [b"x", b"[]", b"1", b'{"amount":1}', b"{}{}", b"{", b"null"])
@pytest.mark.parametrize("move", MOVES)
def test_move_takes_no_body(daemon, body, move):
    assert_problem(daemon.request("POST", f"/order/1/{move}", body), 400, "invalid_request")


@pytest.mark.parametrize("body", [None, b"", b"{}", b" { } "])
@pytest.mark.parametrize("move", MOVES)
def test_move_bears_an_empty_body(daemon, body, move):
    for kind in (None, "application/json", "text/plain"):
        response = daemon.request("POST", f"/order/1/{move}", body, {"Content-Type": kind})
        assert_problem(response, 404, "unknown_order")


CALLS = [("PATCH", "/admin/sale/demo", {"paused": True}),
         ("POST", "/admin/stock/reset", {"sku": "demo", "total": 10, "segments": 2}),
         ("POST", "/admin/stock/add", {"sku": "demo", "units": 1}),
         ("GET", "/admin/sales", None),
         ("POST", "/admin/reconcile", {"sku": "demo"})]


@pytest.mark.parametrize("authorization", [
    None, "", "Bearer", "Bearer ", "Bearer wrong", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x",
    f"Bearer {TOKEN.upper()}", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN} {TOKEN}"])
def test_admin_calls_want_the_token(daemon, authorization):
    for method, path, body in CALLS:
        response = daemon.request(method, path, body, {"Authorization": authorization})
        assert_problem(response, 401, "unauthorized")


def test_every_wrong_token_gets_the_same_answer(daemon):
    answers = [daemon.request("GET", "/admin/sales", None, {"Authorization": value})
               for value in (None, "Bearer x", f"Bearer {TOKEN[:-1]}x", f"Basic {TOKEN}")]
    assert len({answer.body for answer in answers}) == 1
    assert len({tuple(h for h in a.headers.items() if h[0] not in ("Date", "X-Request-Id"))
                for a in answers}) == 1


def test_wrong_token_is_refused_before_the_body_is_judged(daemon):
    response = daemon.request("POST", "/admin/stock/reset", b"not json",
                              {"Authorization": "Bearer"})
    assert_problem(response, 401, "unauthorized")


@pytest.mark.parametrize("size", [4097, 5000, 100_000])
def test_body_over_4_kib_is_413(daemon, size):
    assert_problem(daemon.request("POST", "/order", GOOD.ljust(size)), 413, "payload_too_large")
    body = json.dumps({"sku": "demo", "total": 10, "segments": 1}).encode().ljust(size)
    assert_problem(daemon.admin("POST", "/admin/stock/reset", body), 413, "payload_too_large")


def test_enormous_body_is_refused_unread(daemon):
    try:
        assert daemon.request("POST", "/order", GOOD.ljust(50_000_000)).status == 413
    except ConnectionError:
        pass  # the daemon closed while we still sent: the answer may be lost then


def test_chunked_body_over_4_kib_is_413(daemon):
    head = (b"POST /order HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n")
    with socket.create_connection(daemon.address, timeout=30) as sock:
        sock.sendall(head + b"400\r\n" + b" " * 1024 + b"\r\n")
        try:
            for _ in range(20):
                sock.sendall(b"400\r\n" + b" " * 1024 + b"\r\n")
            sock.sendall(b"0\r\n\r\n")
        except OSError:
            pass  # the daemon need not read all
        assert_problem(read_response(sock), 413, "payload_too_large")


@pytest.mark.parametrize("kind", [
    None, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
    "application/jsonx", "application/json-patch+json", "application/", "json", "text/json"])
def test_wrong_content_type_is_415(daemon, kind):
    headers = "" if kind is None else f"Content-Type: {kind}\r\n"
    request = (f"POST /order HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}"
               f"Content-Length: {len(GOOD)}\r\n\r\n").encode() + GOOD
    with socket.create_connection(daemon.address, timeout=30) as sock:
        sock.sendall(request)
        assert_problem(read_response(sock), 415, "unsupported_media_type")


@pytest.mark.parametrize("method, path, allowed", [
    *((method, "/order", "POST") for method in ("GET", "PUT", "DELETE", "PATCH", "BREW")),
    *((method, f"/order/1/{move}", "POST") for method in ("GET", "PUT", "DELETE", "PATCH")
      for move in ("pay", "cancel")), ("PUT", "/admin/stock/add", "POST"),
    ("POST", "/order/1", "GET"), ("DELETE", "/order/1", "GET"), ("PUT", "/stock/demo", "GET"),
    ("POST", "/stock/demo", "GET"), ("POST", "/healthz", "GET"), ("DELETE", "/readyz", "GET"),
    ("POST", "/metrics", "GET"), ("PUT", "/openapi.json", "GET"),
    ("POST", "/admin/stock/demo", "GET"), ("PUT", "/admin/stock/reset", "POST"),
    ("POST", "/admin/sales", "GET"), ("GET", "/admin/reconcile", "POST")])
def test_wrong_method_is_405_and_says_what_is_allowed(daemon, method, path, allowed):
    body = GOOD if method in ("POST", "PUT", "PATCH") else None
    response = daemon.admin(method, path, body)
    assert_problem(response, 405, "method_not_allowed")
    assert allowed in response.headers["Allow"].replace(",", " ").split()


@pytest.mark.parametrize("path", [
    "/", "/orders", "/ORDER", "//order", "/order/1/2", "/order/1/pay/", "/order/1/PAY",
    "/order/1/2/pay", "/order/1/cancel/now", "/pay", "/admin/stock/add/", "/stock", "/stock/a/b",
    "/admin", "/admin/", "/admin/stock", "/admin/none", "/../etc/passwd", "/%2e%2e/etc/passwd",
    "/order%00", "/metrics/", "/healthz.html", "/" + "a" * 2000, "/%zz", "/favicon.ico"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_unknown_path_is_404(daemon, method, path):
    response = daemon.admin(method, path, GOOD if method == "POST" else None)
    assert_problem(response, 404, "not_found")


@pytest.mark.parametrize("sku", ["x" * 65, "a%00b", "demo%00", "%27", "a%20b", "a%2Fb", "%C3%A9",
                                 "'%20OR%201=1"])
def test_bad_sku_in_the_path(daemon, sku):
    response = daemon.get(f"/stock/{sku}")
    assert response.answer in ("400 invalid_request", "404 unknown_sku", "404 not_found")
    assert_problem(response, response.status, response.code)


@pytest.mark.parametrize("request_bytes", [
    b"\r\n\r\n\r\n", b"\0" * 64 + b"\r\n\r\n", b"GET\r\n\r\n", b"nonsense\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n", b"GET / FTP/1.1\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"*1\r\n$8\r\nFLUSHALL\r\n",
    b"POST /order HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST /order HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n",
    b"POST /order HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    b"POST /order HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
    b"Content-Type: application/json\r\n\r\nzz\r\n",
    b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"GET / HTTP/1.1\r\n: no name\r\n\r\n",
], ids=repr)
def test_what_is_not_http_ends_in_an_error_or_a_close(daemon, request_bytes):
    with socket.create_connection(daemon.address, timeout=CLOSE_SECONDS_MAX) as sock:
        sock.sendall(request_bytes)
        sock.shutdown(socket.SHUT_WR)
        answer = read_to_end(sock)
    assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4", b"HTTP/1.1 5")), answer
    assert daemon.get("/healthz").status == 200


@pytest.mark.parametrize("name", [b"X-Large", b"Authorization", b"Cookie"])
@pytest.mark.parametrize("size", [20_000, 200_000])
def test_huge_header_is_refused(daemon, name, size):
    answer = send_raw(daemon.address, b"GET /healthz HTTP/1.1\r\nHost: x\r\n%b: %b\r\n\r\n"
                      % (name, b"x" * size))
    assert answer == b"" or answer.split()[1] in (b"400", b"413", b"431"), answer[:200]
    assert daemon.get("/healthz").status == 200


def test_20000_headers_are_refused(daemon):
    head = b"".join(b"X-%d: y\r\n" % number for number in range(20_000))
    answer = send_raw(daemon.address, b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n")
    assert answer == b"" or answer.split()[1] in (b"400", b"413", b"431"), answer[:200]


@pytest.mark.parametrize("size", [20_000, 200_000])
def test_huge_path_is_refused(daemon, size):
    answer = send_raw(daemon.address, b"GET /" + b"a" * size + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer == b"" or answer.split()[1] in (b"400", b"404", b"414", b"431"), answer[:200]


SLOW = {
    "a head without an end": (b"POST /order HTTP/1.1\r\nHost: x\r\n", None),
    "half a body": (b"POST /order HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                    b"Content-Length: 37\r\n\r\n" + GOOD[:20], None),
    "half a chunk": (b"POST /order HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                     b"Transfer-Encoding: chunked\r\n\r\n25\r\n{", None),
    "a byte at a time": (b"POST /order HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                         b"Content-Length: 4000\r\n\r\n", b" "),
}


def dawdle(address, first, trickle):
    """Sends slowly until the server gives up; returns the bytes that it sent."""
    with socket.create_connection(address) as sock:
        sock.sendall(first)
        sock.settimeout(0.2)
        end = time.monotonic() + CLOSE_SECONDS_MAX
        received = b""
        while time.monotonic() < end:
            try:
                piece = sock.recv(65536)
                received += piece
                if not piece:
                    return received
            except socket.timeout:
                pass
            except ConnectionResetError:
                return received
            try:
                sock.sendall(trickle or b"")
            except OSError:
                pass  # closed; its answer may still be there to read
    raise AssertionError("a client that never finishes is kept for ever")


def test_clients_that_never_finish_get_408_or_a_close_and_disturb_nobody(daemon):
    with ThreadPoolExecutor(40) as pool:
        answers = {pool.submit(dawdle, daemon.address, *SLOW[how]): how for how in list(SLOW) * 10}
        for _ in range(20):
            assert daemon.order(sku="none").answer == "404 unknown_sku"
        for answer, how in answers.items():
            text = answer.result()
            assert text == b"" or text.startswith(b"HTTP/1.1 408"), how
            assert text == b"" or b'"request_timeout"' in text, how


def test_pipelined_requests_are_answered_in_their_order(daemon):
    paths = ["/healthz", "/stock/none", "/stock/demo", "/nowhere", "/healthz"]
    requests = [f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n" for path in paths]
    requests[-1] = requests[-1].replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")
    answer = send_raw(daemon.address, "".join(requests).encode())
    statuses = [line.split()[1] for line in answer.splitlines() if line.startswith(b"HTTP/1.1 ")]
    assert statuses == [b"200", b"404", b"200", b"404", b"200"]


def test_head_answers_without_a_body(daemon):
    with socket.create_connection(daemon.address, timeout=30) as sock:
        sock.sendall(b"HEAD /stock/demo HTTP/1.1\r\nHost: x\r\n\r\n")
        head = read_response(sock, "HEAD")
        assert head.status in (200, 405)
        assert head.body == b""
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert read_response(sock).status == 200


def test_options_says_what_is_allowed(daemon):
    response = daemon.request("OPTIONS", "/order")
    assert response.status in (200, 204, 405)
    assert "POST" in response.headers["Allow"]


def test_expect_100_continue(daemon):
    with socket.create_connection(daemon.address, timeout=30) as sock:
        sock.sendall(b"POST /order HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                     b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert sock.recv(65536).startswith(b"HTTP/1.1 100")
        sock.sendall(b"{}")
        assert_problem(read_response(sock), 400, "invalid_request")


def test_http_1_0(daemon):
    answer = send_raw(daemon.address, b"GET /healthz HTTP/1.0\r\n\r\n")
    assert answer.split()[1] == b"200"


FRAMINGS = {
    "two lengths": b"Content-Length: 2\r\nContent-Length: %d",
    "two lengths, the greater first": b"Content-Length: %d\r\nContent-Length: 2",
    "a length twice": b"Content-Length: 2\r\nContent-Length: 2",
    "two lengths in one": b"Content-Length: 2, %d",
    "a length and chunks": b"Content-Length: %d\r\nTransfer-Encoding: chunked",
    "chunks and a length": b"Transfer-Encoding: chunked\r\nContent-Length: %d",
    "chunks twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "another coding": b"Transfer-Encoding: xchunked",
    "chunks in a coding": b"Transfer-Encoding: gzip, chunked",
    "no coding": b"Transfer-Encoding: identity\r\nContent-Length: %d",
    "a blank before the colon": b"Content-Length : %d",
    "a tab before the colon": b"Transfer-Encoding\t: chunked",
}


@pytest.mark.parametrize("method", [b"POST", b"GET", b"PATCH"])
@pytest.mark.parametrize("framing", FRAMINGS.values(), ids=FRAMINGS.keys())
def test_request_whose_end_is_in_doubt_is_400_and_not_two_requests(daemon, framing, method):
    """A proxy that sees another end than we do would hand one client's text to us as another's."""
    smuggled = b"GET /admin/sales HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + TOKEN.encode()
    body = (b"2\r\n{}\r\n0\r\n\r\n" if b"hunked" in framing else b"{}") + smuggled + b"\r\n\r\n"
    framing = framing % len(body) if b"%d" in framing else framing
    answer = send_raw(daemon.address, method + b" /order HTTP/1.1\r\nHost: x\r\n"
                      b"Content-Type: application/json\r\n" + framing + b"\r\n\r\n" + body)
    assert b'"sales"' not in answer
    assert answer == b"" or answer.split()[1] == b"400"  # lost when the daemon closes while we send


def test_end_in_doubt_is_a_problem_and_closes(daemon):
    with socket.create_connection(daemon.address, timeout=CLOSE_SECONDS_MAX) as sock:
        sock.sendall(b"POST /order HTTP/1.1\r\nHost: x\r\nContent-Length: +2\r\n\r\n")
        answer = read_response(sock)
        assert_problem(answer, 400, "ambiguous_end")
        assert answer.headers["Connection"] == "close"
        assert sock.recv(1) == b""


def test_answers_forbid_guessing_their_type(daemon):
    kinds = {path: daemon.get(path).headers["Content-Type"].split(";")[0]
             for path in ("/healthz", "/readyz", "/metrics", "/openapi.json", "/stock/demo")}
    assert kinds == {"/healthz": "application/json", "/readyz": "application/json",
                     "/metrics": "text/plain", "/openapi.json": "application/json",
                     "/stock/demo": "application/json"}


class TestClientsThatVanish:
    """These may change the ledger: an order whose client is gone is an order all the same."""

    @pytest.fixture(autouse=True)
    def nothing_changes(self):
        yield

    @pytest.mark.parametrize("how", ["close", "reset"])
    def test_before_the_answer(self, daemon, how):
        daemon.reset("gone", 100, 4)
        request = (b"POST /order HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                   b"Content-Length: 37\r\n\r\n" + GOOD.replace(b"demo", b"gone"))
        for _ in range(150):
            with socket.create_connection(daemon.address) as sock:
                if how == "reset":
                    reset_at_close(sock)
                sock.sendall(request)
        wait_until(lambda: daemon.metric("seckill_queue_depth") == 0, "an empty queue")
        sell_out(daemon, "gone")
        assert audit(daemon, "gone") == 100
