"""deploy/proxy: both proxies let in what the service wants, and daemons restart behind them."""

import contextlib
import signal
import socket
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from harness.audit import audit
from harness.buyers import Buyers
from harness.client import assert_problem, order_bytes, read_response, send, send_many
from harness.daemon import STEADY
from harness.processes import free_port, wait_until
from balancer import DIRECTORY, HAPROXY, NGINX, HaProxy, Nginx, check

KINDS = [
    pytest.param(HaProxy, marks=pytest.mark.skipif(not HAPROXY, reason="no HAProxy is installed")),
    pytest.param(Nginx, marks=pytest.mark.skipif(not NGINX, reason="no nginx is installed")),
]
DAEMONS = 4


@pytest.fixture(params=KINDS, ids=["haproxy", "nginx"])
def kind(request):
    return request.param


@pytest.fixture
def behind(kind, stack, spawn, tmp_path):
    """Starts daemons and the proxy before them: (proxy, daemons)."""
    with ExitStack() as running:
        def make(count=1, settings=(), **options):
            daemons = [spawn(stack, listen=f"127.0.0.1:{free_port()}",
                             admin_listen=f"127.0.0.1:{free_port()}",
                             **{**kind.OPTIONS, **STEADY, **options}) for _ in range(count)]
            daemons[0].reset("demo", 1_000_000, 20)
            proxy = running.enter_context(kind(daemons, tmp_path, **dict(settings)))
            for number in range(count):
                proxy.wait_up(daemons, number)
            return proxy, daemons
        yield make


def test_configuration_passes_the_own_check_of_its_program(kind, tmp_path):
    if kind is HaProxy:
        status, text = check(HAPROXY, ["-c", "-f", DIRECTORY / "haproxy.cfg"])
    else:
        (tmp_path / "logs").mkdir()
        status, text = check(NGINX, ["-t", "-p", tmp_path, "-c", DIRECTORY / "nginx.conf"])
    assert status == 0, text
    assert "warn" not in text.lower(), text


OTHERS = (
    "/admin/stock/demo", "/admin/webhooks",
    "/%61dmin/stock/demo", "/admin%2Fstock%2Fdemo", "/%61dmin/stock/%zz",
    "/metrics", "/%6detrics", "/readyz", "/servingz", "/dashboard", "/dashboard/live", "/",
    "/stock/",
    "/stock/../admin/sales", "/stock/x/../../metrics", "/order/abc", "/order/1/return",
    "/stock/..", "/stock/.", "/stock/%2e%2e", "/stock/%2e./", "/user/%2e%2e/orders",
    "/stock/..%2fadmin%2fsales", "/user/..%2f..%2fadmin/orders",
)


def test_no_other_call_comes_through(behind):
    proxy, daemons = behind()
    headers = {"Authorization": f"Bearer {daemons[0].token}"}
    seen = daemons[0].metric('seckill_http_responses_total{status="404"}')
    for path in OTHERS:
        assert send(proxy.front, "GET", path, headers=headers).status in (400, 404), path
    assert daemons[0].metric('seckill_http_responses_total{status="404"}') == seen


def test_calls_of_buyers_and_shop_come_through(behind):
    proxy, daemons = behind(1)
    body = {"sku": "demo", "user_id": "u1", "qty": 1}
    placed = send(proxy.front, "POST", "/order", body, {"Idempotency-Key": "k"})
    order = placed.json()["order_id"]
    assert placed.status == 201
    assert send(proxy.front, "POST", "/order", body, {"Idempotency-Key": "k"}).status == 200
    assert send(proxy.front, "POST", "/order", body).status == 201
    payment, later = {"payment_ref": "pi_1"}, {"expires_at": "2999-01-01T00:00:00Z"}
    for method, path, body in (
            ("GET", f"/order/{order}", None), ("POST", f"/order/{order}/extend", later),
            ("POST", f"/order/{order}/pay", payment), ("GET", "/payments?state=taken", None),
            ("GET", "/stock/demo", None), ("GET", "/user/%751/orders?limit=5", None),
            ("GET", "/openapi.json", None)):
        assert send(proxy.front, method, path, body).status == 200, path
    assert_problem(send(proxy.front, "GET", "/stock/other"), 404, "unknown_sku")
    for method, path in (("GET", "/order"), ("DELETE", "/stock/demo"), ("PUT", f"/order/{order}"),
                         ("GET", f"/order/{order}/pay"), ("POST", "/payments"),
                         ("POST", "/events")):
        assert send(proxy.front, method, path).status == 405, (method, path)
    wait_until(lambda: daemons[0].stock()["sold"] == 2, "both orders")
    assert send(proxy.front, "POST", f"/order/{order}/refund",
                {**payment, "restock": True}).json()["status"] == "refunded"


@pytest.mark.long
def test_reader_of_the_feed_waits_behind_the_proxy(behind):
    """As long as the service lets it, and no longer than to the next event."""
    proxy, daemons = behind(events_retention_h=1)
    wait_until(lambda: send(proxy.front, "GET", "/events").json()["events"], "the sale's event")
    last = send(proxy.front, "GET", "/events?limit=1000").json()["next"]
    path = f"/events?after={last}&wait_s=30"
    assert send(proxy.front, "GET", path, timeout=60).json() == {"events": [], "next": last}
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(send, proxy.front, "GET", path, timeout=60)
        wait_until(lambda: daemons[0].metric('seckill_call_queue_depth{call="events"}') == 1,
                   "the wait")
        order = send(proxy.front, "POST", "/order", {"sku": "demo", "user_id": "u", "qty": 1})
        event, = waiting.result().json()["events"]
    assert event["subject"] == order.json()["order_id"]


def test_names_that_look_like_other_calls_come_through(behind):
    """A rule holds for whole parts of a path."""
    proxy, _ = behind()
    for name in ("admin", "admin-chair", "metrics2", "healthz", "readyz.1", "servingz", "dashboard",
                 "a..b", "..a", "a...", "%61dmin"):
        assert_problem(send(proxy.front, "GET", f"/stock/{name}"), 404, "unknown_sku")
        for user in (name, f"{name}istrator@x"):
            assert send(proxy.front, "GET", f"/user/{user}/orders").status == 200, user


def test_page_behind_the_proxy_may_call_it(behind):
    """Host reaches the daemon as the browser sent it, with its port."""
    proxy, _ = behind()
    body = {"sku": "demo", "user_id": "u1", "qty": 1}
    for origin, status in (("http://%s:%d" % proxy.front, 201), ("http://127.0.0.1", 403)):
        answer = send(proxy.front, "POST", "/order", body, {"Origin": origin})
        assert answer.status == status, (origin, answer)


def test_bodies_and_heads_are_bounded(behind):
    proxy, daemons = behind()
    large = send(proxy.front, "POST", "/order", b'{"sku":"' + b"x" * 5000 + b'"}')
    assert large.status == 413
    head = send(proxy.front, "GET", "/stock/demo", headers={f"X-{n}": "y" * 900 for n in range(9)})
    assert head.status in (400, 431)
    assert send(proxy.front, "GET", "/stock/demo").status == 200
    assert daemons[0].metric('seckill_http_responses_total{status="413"}') == 0


def test_client_is_known_by_its_own_address_whatever_it_says(behind):
    proxy, _ = behind(rate_address_per_min=1, rate_address_burst=1, trusted_proxies="127.0.0.1")
    answers = []
    for source in ("127.0.0.2", "127.0.0.2", "127.0.0.3"):
        with socket.create_connection(proxy.front, 30, source_address=(source, 0)) as sock:
            sock.sendall(order_bytes().replace(
                b"Host:", b"X-Forwarded-For: 192.0.2.%d\r\nHost:" % len(answers), 1))
            answers.append(read_response(sock).status)
    assert answers == [201, 429, 201]


SHOP, STRANGER = "127.0.0.1", "127.0.0.2"


def crowd(front, source, each, connections=8):
    """The answers to requests from an address: `each` on each connection."""
    request = b"GET /stock/demo HTTP/1.1\r\nHost: x\r\n\r\n"
    with ThreadPoolExecutor(connections) as pool:
        running = [pool.submit(send_many, front, [request] * each, source=source)
                   for _ in range(connections)]
    return [answer for future in running for answer in future.result()]


def test_shop_has_any_number_of_requests(behind):
    """The shop's few servers send the orders of all buyers."""
    proxy, _ = behind()
    answers = crowd(proxy.front, SHOP, 300)  # see test_stranger_has_so_many_requests_only
    assert Counter(answer.answer for answer in answers) == {"200": 2_400}


def test_stranger_has_so_many_requests_only(behind):
    """Beside the shop, which goes on."""
    proxy, daemons = behind()
    answers = crowd(proxy.front, STRANGER, 500)
    assert {answer.answer for answer in answers} == {"200", "429 rate_limited"}
    refused = next(answer for answer in answers if answer.status == 429)
    assert_problem(refused, 429, "rate_limited")
    assert refused.headers["Retry-After"]
    assert send(proxy.front, "GET", "/stock/demo").status == 200
    daemons[0].wait_ready()


@pytest.mark.skipif(not HAPROXY, reason="no HAProxy is installed")
@pytest.mark.parametrize("kind", [HaProxy], indirect=True)
def test_stranger_has_so_many_connections_only(behind):
    proxy, _ = behind()
    with ExitStack() as running:
        def served(source):
            with contextlib.suppress(ConnectionError):  # how HAProxy refuses one
                sock = running.enter_context(
                    socket.create_connection(proxy.front, 30, source_address=(source, 0)))
                sock.sendall(b"GET /stock/demo HTTP/1.1\r\nHost: x\r\n\r\n")
                return sock.recv(12) == b"HTTP/1.1 200"
            return False
        assert sum(served(SHOP) for _ in range(250)) == 250
        assert sum(served(STRANGER) for _ in range(250)) == 200
        assert served(SHOP)


def test_without_a_daemon_the_answer_is_the_services_own(behind, kind):
    proxy, daemons = behind(lame_duck_ms=0)
    daemons[0].stop()
    answer = send(proxy.front, "POST", "/order", {"sku": "demo", "user_id": "u", "qty": 1})
    if kind is HaProxy:
        assert_problem(answer, 503, "overloaded")
        assert answer.headers["Retry-After"] == "1"
    else:  # it does not tell what was not sent
        assert_problem(answer, 503, "outcome_unknown")
        assert answer.headers["Retry-After"] == "3"


def test_ledger_that_hangs_takes_no_daemon_away(behind, proxies, stack):
    """It makes all of them unready; an order gets the daemon's own words."""
    ledger = proxies(stack.ledger.port)
    proxy, daemons = behind(mysql_url=ledger.url(stack.mysql_url), deadline_ms=1000)
    ledger.hold()
    wait_until(lambda: not daemons[0].ready(), "an unready daemon")
    proxy.wait_unready(daemons)
    assert send(proxy.front, "GET", "/openapi.json").status == 200
    answer = send(proxy.front, "POST", "/order", {"sku": "demo", "user_id": "u", "qty": 1})
    assert answer.answer in ("503 unavailable", "503 outcome_unknown")
    ledger.resume()
    proxy.wait_up(daemons, 0)
    assert send(proxy.front, "GET", "/stock/demo").status == 200


@pytest.mark.skipif(not HAPROXY, reason="no HAProxy is installed")
@pytest.mark.parametrize("kind", [HaProxy], indirect=True)
def test_request_in_haproxys_queue_is_refused_in_time(behind):
    """One place, which a look-up holds while the daemon stands still."""
    proxy, daemons = behind(settings={"server_maxconn": 1})
    with ExitStack() as open_:
        daemons[0].pause()
        try:
            for _ in range(2):
                sock = open_.enter_context(socket.create_connection(proxy.front, 30))
                sock.sendall(order_bytes(key=f"k{id(sock)}"))
            answers = [send(proxy.front, "POST", "/order",
                            {"sku": "demo", "user_id": "u", "qty": 1}) for _ in range(2)]
        finally:
            daemons[0].cont()
    for answer in answers:
        assert_problem(answer, 503, "overloaded")


@pytest.mark.skipif(not NGINX, reason="no nginx is installed")
@pytest.mark.parametrize("kind", [Nginx], indirect=True)
def test_nginx_takes_the_header_of_a_balancer_before_it(behind):
    proxy, _ = behind(rate_address_per_min=1, rate_address_burst=1)
    answers = []
    for client in ("192.0.2.1", "192.0.2.1", "192.0.2.2"):
        with socket.create_connection(proxy.beside, 30) as sock:
            sock.sendall(f"PROXY TCP4 {client} 198.51.100.1 40000 80\r\n".encode() + order_bytes())
            answers.append(read_response(sock).status)
    assert answers == [201, 429, 201]


@pytest.mark.long
def test_rolling_restart_of_four_daemons_loses_no_request(behind, capsys):
    proxy, daemons = behind(DAEMONS, order_workers=1)
    began = time.monotonic()
    with (Buyers(proxy.front, count=8, pause=0.3) as kept,
          Buyers(proxy.front, count=4, pause=0.3, kept=False) as brief):
        wait_until(lambda: sum(brief.answers.values()) > 12, "orders")
        for number, daemon in enumerate(daemons):
            daemon.signal(signal.SIGTERM)
            before = sum(kept.answers.values())
            assert daemon.wait() == 0
            daemon.start()
            proxy.wait_up(daemons, number)
            assert sum(kept.answers.values()) > before, "no load meanwhile"
        served = sum(brief.answers.values())
        wait_until(lambda: sum(brief.answers.values()) > served + 12, "orders")
    took = time.monotonic() - began
    for buyers in (kept, brief):
        assert (buyers.lost, set(buyers.answers)) == ([], {"201"})
    accepted = kept.accepted + brief.accepted
    assert audit(daemons[0], accepted=accepted) == len(accepted)
    with capsys.disabled():
        print(f" {type(proxy).__name__}: {DAEMONS} daemons in {took:.1f} s, {len(accepted)} orders,"
              f" the slowest {1000 * max(kept.slowest, brief.slowest):.0f} ms", end="")
