"""A request must not mean one thing to a proxy and another to the daemon."""

import re
import signal
import socket
from contextlib import ExitStack

import pytest

from harness.client import (
    assert_problem, order_bytes, parse_response, read_response, read_to_end, send_raw)
from harness.daemon import TOKEN, Daemon

AUTHORIZATION = f"Authorization: Bearer {TOKEN}\r\n".encode()


@pytest.fixture(scope="module")
def shared(shared_servers, tmp_path_factory):
    stack = shared_servers.aside("heads", 3)
    with Daemon(stack, tmp_path_factory.mktemp("heads")) as daemon:
        daemon.reset()
        yield daemon


def ask(daemon, data, rest=b""):
    """The answer to the bytes, and whether the connection stays open for another request."""
    with socket.create_connection(daemon.address, timeout=30) as sock:
        sock.sendall(data + rest)
        answer = read_response(sock)
        if answer.headers["Connection"] == "close":
            assert read_to_end(sock) == b""
            return answer, False
        return answer, True


def get(path, headers=b"Host: x\r\n", version=b"1.1"):
    return b"GET " + path + b" HTTP/" + version + b"\r\n" + headers + AUTHORIZATION + b"\r\n"


@pytest.mark.parametrize("path", [
    b"/%61dmin/sales", b"/admin/%73ales", b"/admin%2fsales", b"/admin%2Fsales", b"//admin/sales",
    b"/admin//sales", b"/./admin/sales", b"/admin/./sales", b"/x/../admin/sales",
    b"/%2e/admin/sales",
    b"/%6frder/1", b"/order%2f1", b"/metric%73", b"/%68ealthz", b"/healthz%3F", b"/healthz%",
    b"/stock/.", b"/stock/..", b"/stock/%2e%2e", b"/stock/%2e", b"/admin/stock/..",
    b"/user/u1%2forders", b"/user/u1/%6frders", b"/user/u1/order%73", b"/user/../orders",
    b"http://x/%61dmin/sales", b"http://x//admin/sales", b"http://x/./admin/sales", b"http://x",
    b"http://x?y", b"ftp://x/healthz", b"//x/healthz", b"x/healthz", b"*"])
def test_path_must_be_spelt_as_it_is(shared, path):
    answer, _ = ask(shared, get(path))
    assert_problem(answer, 404, "not_found")


@pytest.mark.parametrize("path", [b"/stock/d%65mo", b"/stock/%64emo", b"/stock/dem%6f?x=%6f",
                                  b"/stock/demo?x=%2e", b"/user/u%31/orders",
                                  b"/admin/stock/%64emo", b"/user/%75%31/orders?limit=%31",
                                  b"http://x/stock/d%65mo", b"HTTPS://[::1]:80/stock/demo",
                                  b"http://a-b.c:1/user/%75%31/orders?limit=1"])
def test_names_may_be_encoded(shared, path):
    answer, _ = ask(shared, get(path))
    assert answer.status in (200, 400 if b"?x" in path else 200), answer


def test_moves_of_orders_must_be_spelt_as_they_are(shared):
    order = shared.order().json()["order_id"].encode()
    for path in (b"/order/%b/p%%61y", b"/order/%b%%2fpay", b"/order/%b%%2Fcancel",
                 b"/%%6frder/%b/pay"):
        head = b"POST " + path % order + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
        assert_problem(ask(shared, head)[0], 404, "not_found")
    encoded = b"%%%02x%b" % (order[0], order[1:])
    head = b"POST /order/" + encoded + b"/pay HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
    assert ask(shared, head)[0].json()["status"] == "paid"


HEADS = {
    "no host": get(b"/healthz", b""),
    "two hosts": get(b"/healthz", b"Host: x\r\nHost: x\r\n"),
    "two hosts in 1.0": get(b"/healthz", b"Host: x\r\nHost: x\r\n", b"1.0"),
    "a folded line": get(b"/healthz", b"Host: x\r\nX-Y: a\r\n b\r\n"),
    "a NUL in a value": get(b"/healthz", b"Host: x\r\nX-Y: a\0b\r\n"),
    "a NUL in the first value": get(b"/healthz", b"X-Y: a\0b\r\nHost: x\r\n"),
    "a NUL and nothing": get(b"/healthz", b"Host: x\r\nX-Y: a\0\r\n"),
    "a NUL in the last value": b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Y: a\0b\r\n\r\n",
    "a NUL before line feeds": b"GET /healthz HTTP/1.1\nHost: x\nX-Y: a\0b\n\n",
    "a NUL in the path": get(b"/healthz\0/x"),
    "a NUL in the query": get(b"/healthz?a\0b"),
    "a name in brackets": get(b"/healthz", b"Host: x\r\nX-Y[]: a\r\n"),
    **{f"{letter:#04x} in a name": get(b"/healthz", b"Host: x\r\nX" + bytes([letter]) + b"Y: a\r\n")
       for letter in b'"(),/;<=>?@\\{}\x01\x7f\x80\xff'},
    **{f"{letter:#04x} in a value":
       get(b"/healthz", b"Host: x\r\nX: a" + bytes([letter]) + b"b\r\n")
       for letter in (*range(1, 9), *range(11, 13), *range(14, 32), 127)},
    "a bare CR": get(b"/healthz", b"Host: x\rX-Y: a\r\n"),
    "a bare CR behind the first line": b"GET /healthz HTTP/1.1\rHost: x\r\n\r\n",
    "a bare CR before CR LF": get(b"/healthz", b"Host: x\r\r\n"),
    "a bare CR in the empty line": b"GET /healthz HTTP/1.1\r\nHost: x\r\n\rX-Y: a\r\n\r\n",
    "a bare CR in a value": get(b"/healthz", b"Host: x\r\nX-Y: a\rb\r\n"),
    "bare line feeds": get(b"/healthz").replace(b"\r\n", b"\n"),
    "a bare line feed": get(b"/healthz", b"Host: x\nX-Y: a\r\n"),
    "a bare line feed at the end": b"GET /healthz HTTP/1.1\r\nHost: x\r\n\n",
    "a blank before the colon": get(b"/healthz", b"Host: x\r\nContent-Length : 5\r\n"),
    "no colon": get(b"/healthz", b"Host: x\r\nX-Y\r\n"),
    "no name": get(b"/healthz", b"Host: x\r\n: a\r\n"),
    "a blank before the first name": get(b"/healthz", b" Host: x\r\n"),
    "two blanks before the target": get(b" /healthz"),
    "two blanks behind the target": get(b"/healthz "),
    "a blank in the query": get(b"/healthz?a b"),
    "a control character in the query": get(b"/healthz?a\x01b"),
    "a byte beyond ASCII in the query": get(b"/healthz?a\xffb"),
    "a word before the method": b"Extra lineGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "a bare CR before the method": b"\r" + get(b"/healthz"),
    "a control character in the method": b"G\x01" + get(b"/healthz"),
    "a parenthesis in the method": b"G(T /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "a blank in the host": get(b"/healthz", b"Host: x y\r\n"),
    "a path in the host": get(b"/healthz", b"Host: x/y\r\n"),
    "a user in the host": get(b"/healthz", b"Host: u@x\r\n"),
    "no host beside an absolute target": get(b"http://x/healthz", b""),
    "an absolute target without a host": get(b"http:///healthz"),
    "a user in the target": get(b"http://u@x/healthz"),
    "an encoded host in the target": get(b"http://%78/healthz"),
    "a backslash in the target": get(b"http://x\\@y/healthz"),
}
GOOD = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize("name", HEADS)
def test_head_that_others_may_read_otherwise(shared, name):
    answer, kept = ask(shared, HEADS[name], GOOD)
    assert not kept
    assert_problem(answer, 400, "invalid_head")


@pytest.mark.parametrize("name", HEADS)
def test_bad_head_behind_a_good_request(shared, name):
    """Each is answered once, in its order, and nothing follows."""
    with socket.create_connection(shared.address, timeout=30) as sock:
        sock.sendall(GOOD + HEADS[name] + GOOD)
        whole = read_to_end(sock)
    assert re.findall(rb"HTTP/1.1 (\d+)", whole) == [b"200", b"400"]


def test_bad_head_of_a_client_that_has_closed_its_side(shared):
    for name, head in HEADS.items():
        with socket.create_connection(shared.address, timeout=30) as sock:
            sock.sendall(head)
            sock.shutdown(socket.SHUT_WR)
            answer = read_response(sock)
        assert answer.answer == "400 invalid_head", name


def test_client_that_asks_nothing_is_told_nothing(shared):
    """Whatever others ask in the same turn. Nor is one whose connection ends with its answer."""
    with ExitStack() as clients:
        shared.process.send_signal(signal.SIGSTOP)
        quiet = [clients.enter_context(socket.create_connection(shared.address, timeout=30))
                 for _ in range(6)]
        for sock in quiet:
            if sock is quiet[2]:
                sock.sendall(b"GET /\0 HTTP/1.1\r\n\r\n")
            sock.shutdown(socket.SHUT_WR)
        shared.process.send_signal(signal.SIGCONT)
        told = [read_to_end(sock) for sock in quiet]
    assert [index for index, answer in enumerate(told) if answer] == [2]
    for version, header in ((b"1.1", b"Connection: close\r\n"), (b"1.0", b""),
                            (b"1.1", b"Connection: close\r\nConnection: keep-alive\r\n"),
                            (b"1.1", b"Connection: TE, close\r\nConnection: keep-alive\r\n")):
        with socket.create_connection(shared.address, timeout=30) as sock:
            sock.sendall(get(b"/healthz", b"Host: x\r\n" + header, version))
            assert read_to_end(sock).count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("head", [
    get(b"/healthz", b"", b"1.0"), get(b"/healthz", b"Host: x\r\n", b"1.0"),
    get(b"/healthz", b"Host:\r\n"), get(b"/healthz", b"host:  \t x\r\n"),
    get(b"/healthz", b"hoSt:\tx\r\nempty:\r\n"), get(b"/healthz", b"Host: [::1]:80 \t\r\n"),
    get(b"/healthz", b"Host: a_b-c.d~e:1\r\n"), get(b"http://x/healthz", b"Host: y\r\n"),
    get(b"/healthz", b"Host: x\r\nX-Y:\r\nZ:  \r\n"),
    get(b"/healthz", b"Host: x\r\n!#$%&'*+-.^_`|~09AZaz: !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\r\n"),
    b"\r\n" + get(b"/healthz", b"Host: x\r\nCookie: a=b; c=d\r\nX: a\t\x80\xff\r\n"),
    get(b"/healthz?" + b"&".join([b"a=b"] * 40), b"Host: x\r\n" + b"A: b\r\n" * 30)])
def test_head_that_everybody_reads_alike(shared, head):
    assert ask(shared, head)[0].status == 200


SPLIT = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_head_may_come_in_any_pieces(shared):
    """Nothing is answered before the last byte of the empty line."""
    for at in range(1, len(SPLIT)):
        with socket.create_connection(shared.address, timeout=30) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.sendall(SPLIT[:at])
            assert shared.get("/healthz").status == 200  # the daemon has had a turn meanwhile
            sock.setblocking(False)
            with pytest.raises(BlockingIOError):
                sock.recv(1)
            sock.setblocking(True)
            sock.sendall(SPLIT[at:])
            assert read_response(sock).status == 200


FIRST_LINES = [
    (b"GET /healthz ", 400, "invalid_head"), (b"GET /healthz", 400, "invalid_head"),
    (b"GET", 400, "invalid_head"), (b"\x16\x03\x01\x02", 400, "invalid_head"),
    (b"GET /healthz HTTP/9.9", 505, "http_version_not_supported"),
    (b"PRI * HTTP/2.0", 505, "http_version_not_supported"),
    (b"GET /healthz HTTP/1.1x", 400, "invalid_head"),
    (b"GET /healthz http/1.1", 400, "invalid_head"),
    (b"GET /healthz HTTP/1.1 ", 400, "invalid_head"),
    (b"GET /\nHTTP/1.1", 400, "invalid_head"),
    (b"get /healthz HTTP/1.1", 405, "method_not_allowed")]


@pytest.mark.parametrize("line, status, code", FIRST_LINES)
def test_first_line_that_is_none(shared, line, status, code):
    answer, _ = ask(shared, line + b"\r\nHost: x\r\n\r\n")
    assert_problem(answer, status, code)


@pytest.mark.parametrize("line, status, code", FIRST_LINES)
def test_first_line_that_is_none_behind_an_order(shared, line, status, code):
    whole = send_raw(shared.address, order_bytes(user_id=f"u{status}", key=str(hash(line))) + line +
                     b"\r\nHost: x\r\nConnection: close\r\n\r\n")
    answers = [parse_response(part) for part in re.split(rb"(?=HTTP/1.1 \d{3} )", whole) if part]
    assert [answer.status for answer in answers] == [201, status]
    assert_problem(answers[1], status, code)


@pytest.mark.parametrize("path", [b"/healthz", b"/order"])
@pytest.mark.parametrize("framing, status, code", [
    *((framing, 400, "ambiguous_end") for framing in (
        b"Content-Length: -1234", b"Content-Length: -123456789123456789123456789",
        b"Content-Length: abc", b"Content-Length: +1", b"Content-Length: 0x1",
        b"Content-Length: 1, 1", b"Content-Length:", b"Content-Length: 5\r\nContent-Length: 5",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5", b"Transfer-Encoding: gzip",
        b"Transfer-Encoding: gzip, chunked")),
    (b"Content-Length: 99999999999999999999", 413, "payload_too_large"),
    (b"Content-Length: 4097", 413, "payload_too_large")])
def test_end_that_is_not_clear(shared, path, framing, status, code):
    answer, kept = ask(shared, get(path, b"Host: x\r\n" + framing + b"\r\n"), b"hello")
    assert_problem(answer, status, code)
    assert not kept


CHUNKED = (b"POST /order HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
           b"Transfer-Encoding: chunked\r\n\r\n")


@pytest.mark.parametrize("chunks, status, code", [
    (b"xx\r\n{}\r\n0\r\n\r\n", 400, "ambiguous_end"),
    (b"2\r\n{}0\r\n\r\n", 400, "ambiguous_end"),
    (b"ffffffffffffffffff\r\n{}", 413, "payload_too_large"),
    (b"1388\r\n" + b" " * 5000 + b"\r\n0\r\n\r\n", 413, "payload_too_large"),
    (b"2\r\n{}\r\n0\r\nno colon\r\n\r\n", 400, "ambiguous_end"),
    (b"2\r\n{}\r\n0\r\n" + b"X: a\r\n" * 120 + b"\r\n", 431, "headers_too_large")])
def test_chunks_that_are_none(shared, chunks, status, code):
    answer, _ = ask(shared, CHUNKED + chunks)
    assert_problem(answer, status, code)


# A head's cost: its bytes, 64 more for each header, parameter and cookie, and a cookie's once more.
COST_MAX = 7168
PAIRS = {
    "one header": lambda size: b"X: " + b"a" * (size - 5) + b"\r\n",
    "short headers": lambda size: b"A: b\r\n" * (size // 6),
    "middling headers": lambda size: b"A: bbbbbbbbbbbbbbbbbb\r\n" * (size // 23),
    "one cookie": lambda size: b"Cookie: a=" + b"b" * (size - 12) + b"\r\n",
    "short cookies": lambda size: b"Cookie: " + b"; ".join([b"a=b"] * (size // 5)) + b"\r\n",
    "a token": lambda size: b"Authorization: Bearer " + b"t" * (size - 24) + b"\r\n",
}
SIZES = (2000, 3400, 3900, 6700, 6900, 7800, 9000)


def cost(head):
    lines = head.split(b"\r\n")[1:-2]
    cookies = [cookie for line in lines if line.startswith(b"Cookie: ")
               for cookie in line[len(b"Cookie: "):].split(b"; ")]
    return len(head) + 64 * (len(lines) + len(cookies)) + sum(len(c) - 1 for c in cookies)


@pytest.mark.parametrize("body", [False, True], ids=["get", "order"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", PAIRS)
def test_long_head(shared, kind, size, body):
    """Answered whole, and once, whatever its parts are: by its cost alone."""
    order = b'{"sku":"demo","user_id":"%b","qty":1}' % f"{kind}-{size}".replace(" ", "").encode()
    first = (b"POST /order HTTP/1.1\r\nContent-Type: application/json\r\n"
             b"Content-Length: %d\r\n" % len(order) if body else b"GET /healthz HTTP/1.1\r\n")
    head = first + b"Host: x\r\nConnection: close\r\n" + PAIRS[kind](size) + b"\r\n"
    whole = send_raw(shared.address, head + (order if body else b""))
    assert whole.count(b"HTTP/1.1") == 1
    answer = parse_response(whole)
    assert int(answer.headers["Content-Length"]) == len(answer.body)
    if cost(head) <= COST_MAX:
        assert answer.status == (201 if body else 200)
    else:
        assert_problem(answer, 431, "headers_too_large")


def test_long_head_of_a_request_for_the_head_alone(shared):
    whole = send_raw(shared.address, b"HEAD /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 7200 +
                     b"\r\n\r\n")
    answer = parse_response(whole)
    assert (answer.status, answer.body) == (431, b"")


@pytest.mark.parametrize("connection", [b"Connection: keep-alive, TE\r\n", b"Connection: TE\r\n",
                                        b"Keep-Alive: 5\r\n"])
@pytest.mark.parametrize("bad", [b"GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", b"\x16\x03\x01\r\n\r\n",
                                 b"GET\r\n\r\n"])
def test_bad_head_on_a_kept_connection(shared, connection, bad):
    with socket.create_connection(shared.address, timeout=30) as sock:
        sock.sendall(get(b"/healthz", b"Host: x\r\n" + connection))
        assert read_response(sock).status == 200
        sock.sendall(bad)
        assert_problem(read_response(sock), 400, "invalid_head")


@pytest.mark.parametrize("pieces", [False, True], ids=["at once", "body behind"])
@pytest.mark.parametrize("headers", [20, 58, 59, 60, 61, 70, 85, 94])
def test_answer_finds_the_memory_taken_by_what_follows(shared, headers, pieces):
    """The next request fills what the head has left of a connection's memory: what was ordered is
    told all the same, once."""
    user = f"u{headers}-{pieces}"
    head, _, body = order_bytes(user_id=user).partition(b"\r\n\r\n")
    head += b"\r\n" + (b"X: a\r\n" * headers) + b"\r\n"
    rest = body + b"GET /stock/demo HTTP/1.1\r\nHost: a\r\nY: " + b"y" * 5000 + b"\r\n\r\n"
    with socket.create_connection(shared.address, timeout=30) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if pieces:
            sock.sendall(head)
            assert shared.get("/healthz").status == 200  # the daemon has had a turn
            sock.sendall(rest)
        else:
            sock.sendall(head + rest)
        answer = read_response(sock)
    orders = shared.get(f"/user/{user}/orders").json()["orders"]
    if orders:
        assert (answer.status, answer.json()["order_id"]) == (201, orders[0]["order_id"])
    else:
        assert_problem(answer, 431, "headers_too_large")


@pytest.mark.parametrize("size, status", [(4096, 404), (4097, 414), (8000, 414), (9000, 414)])
@pytest.mark.parametrize("path", [b"/stock/", b"/stock/x?a="])
def test_long_target(shared, path, size, status):
    target = path + b"a" * (size - len(path))
    answer, kept = ask(shared, b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    assert kept == (status == 404)
    if status == 414:
        assert_problem(answer, 414, "uri_too_long")
    else:
        assert answer.status in (400, 404)


def test_client_may_wait_for_the_word_to_go_on(shared):
    order = order_bytes(user_id="patient").replace(b"Host:", b"Expect: 100-continue\r\nHost:")
    head, _, body = order.partition(b"\r\n\r\n")
    with socket.create_connection(shared.address, timeout=30) as sock:
        sock.sendall(head + b"\r\n\r\n")
        with sock.makefile("rb") as stream:
            lines = [stream.readline() for _ in range(2)]
            sock.sendall(body)
            lines.append(stream.readline())
    assert [line[:12] for line in lines] == [b"HTTP/1.1 100", b"\r\n", b"HTTP/1.1 201"]


@pytest.mark.parametrize("path, header, values", [
    (b"/order", b"Idempotency-Key", (b"A1", b"B1")),
    (b"/order", b"Idempotency-Key", (b"A1", b"A1")),
    (b"/order", b"idempotency-KEY", (b"", b"A1")),
    (b"/order", b"Content-Type", (b"application/json", b"text/plain")),
    (b"/admin/reconcile", b"Authorization", (b"Bearer " + TOKEN.encode(), b"Bearer x")),
    (b"/order", b"Origin", (b"http://x", b"http://y")),
    (b"/order", b"Sec-Fetch-Site", (b"same-origin", b"cross-site"))])
@pytest.mark.parametrize("turned", [False, True], ids=["", "turned"])
def test_header_that_decides_comes_once(shared, path, header, values, turned):
    """A proxy may go by the other one."""
    shared.reset()
    head, _, body = order_bytes().partition(b"\r\n\r\n")
    head = head.replace(b"/order", path).replace(b"Content-Type: application/json\r\n", b"")
    for value in reversed(values) if turned else values:
        head += b"\r\n" + header + b": " + value
    answer, kept = ask(shared, head + b"\r\nX-Other: 1\r\nX-Other: 2\r\n\r\n", body)
    assert_problem(answer, 400, "repeated_header")
    assert not kept and shared.stock()["sold"] == 0


def test_header_that_is_a_list_may_come_twice(shared):
    order = order_bytes(user_id="lists").replace(
        b"Host:", b"Accept: a/b\r\nAccept: */*\r\nX-Forwarded-For: 192.0.2.1\r\n"
                  b"X-Forwarded-For: 192.0.2.2\r\nHost:")
    assert ask(shared, order)[0].status == 201


def test_host_of_an_absolute_target_takes_the_place_of_host(shared):
    """By which a page's own calls are known."""
    for target, origin, status in ((b"http://x:1/order/1/pay", b"http://x:1", 404),
                                   (b"http://x:1/order/1/pay", b"http://y", 403)):
        head = (b"POST " + target + b" HTTP/1.1\r\nHost: y\r\nOrigin: " + origin +
                b"\r\nContent-Length: 0\r\n\r\n")
        assert ask(shared, head)[0].status == status


@pytest.mark.parametrize("coding", [b"chunked", b"gzip, chunked"])
def test_old_version_knows_no_chunks(shared, coding):
    head = (b"POST /order HTTP/1.0\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: " + coding + b"\r\nConnection: keep-alive\r\n\r\n"
            b'25\r\n{"sku":"demo","user_id":"u1","qty":1}\r\n0\r\n\r\n')
    answer, kept = ask(shared, head)
    assert_problem(answer, 400, "ambiguous_end")
    assert not kept


def test_no_cache_keeps_an_order_or_an_error(shared):
    order = shared.order(user_id="u7")
    path = f"/order/{order.json()['order_id']}"
    assert (order.status, order.headers["Location"]) == (201, path)
    repeated = [shared.order(user_id="u8", key="k") for _ in range(2)][1]
    assert (repeated.status, repeated.headers["Location"]) == (200, None)
    answers = [order, repeated, shared.get(path), shared.pay(order.json()["order_id"]),
               shared.cancel(order.json()["order_id"]), shared.order(qty=0), shared.get("/none"),
               shared.order(sku="none"), shared.get("/user/u7/orders"), shared.get("/admin/sales"),
               shared.request("PUT", "/order"), shared.admin("GET", "/admin/orders")]
    assert {answer.status for answer in answers} == {200, 201, 400, 401, 404, 405, 409}
    for answer in [*answers, shared.get("/readyz")]:  # which is 503 once the machine stood still
        assert answer.headers["Cache-Control"] == "no-store", answer
