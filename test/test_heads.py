"""A request must not mean one thing to a proxy and another to the daemon."""

import socket

import pytest

from daemon import TOKEN, Daemon
from harness.client import assert_problem, read_response, read_to_end

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
    b"http://x/admin/sales"])
def test_path_must_be_spelt_as_it_is(shared, path):
    answer, _ = ask(shared, get(path))
    assert_problem(answer, 404, "not_found")


@pytest.mark.parametrize("path", [b"/stock/d%65mo", b"/stock/%64emo", b"/stock/dem%6f?x=%6f",
                                  b"/stock/demo?x=%2e", b"/user/u%31/orders",
                                  b"/admin/stock/%64emo", b"/user/%75%31/orders?limit=%31"])
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
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS.keys())
def test_head_that_others_may_read_otherwise(shared, head):
    answer, kept = ask(shared, head, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert_problem(answer, 400, "invalid_head")
    assert not kept


@pytest.mark.parametrize("head", [
    get(b"/healthz", b"", b"1.0"), get(b"/healthz", b"Host: x\r\n", b"1.0"),
    get(b"/healthz", b"Host:\r\n"), get(b"/healthz", b"host:  \t x\r\n"),
    get(b"/healthz").replace(b"\r\n", b"\n"), get(b"/healthz", b"Host: x\r\nX-Y:\r\nZ:  \r\n"),
    b"\r\n\r\n" + get(b"/healthz", b"Host: x\r\nCookie: a=b; c=d\r\nX: \x01\xff\r\n"),
    get(b"/healthz?" + b"&".join([b"a=b"] * 40), b"Host: x\r\n" + b"A: b\r\n" * 30)])
def test_head_that_everybody_reads_alike(shared, head):
    assert ask(shared, head)[0].status == 200


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
               shared.request("PUT", "/order"), shared.admin("GET", "/admin/orders.csv"),
               shared.get("/readyz")]
    assert {answer.status for answer in answers} == {200, 201, 400, 401, 404, 405, 409}
    for answer in answers:
        assert answer.headers["Cache-Control"] == "no-store", answer
