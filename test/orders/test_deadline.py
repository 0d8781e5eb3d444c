"""A call that cannot be done in time is answered in time, and counted once."""

import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Event, Thread

import pytest

from harness.audit import answered, audit_after_faults
from harness.client import (assert_problem, order_bytes, read_response, read_to_end,
                            reset_at_close)
from harness.processes import wait_until
from harness.proxy import COMMIT, WRITE
from harness.standstill import Elapsed, timed

DEADLINE_MS = 2000  # more than an order takes on a busy machine whose servers answer
LEASE_MS = 2000
# For calls that may wait for locks: see service/request/request.h.
LOCKS_MS = LEASE_MS + DEADLINE_MS / 2
DEPTH = "seckill_queue_depth"
EARLY_S = 0.01  # a server counts from when its thread woke up, in milliseconds
BUSY_S = 1.9  # what a busy machine adds; a second deadline would be more


def assert_at_deadline(passed, deadline_ms=DEADLINE_MS):
    assert deadline_ms / 1000 - EARLY_S <= passed.seconds
    assert passed.running < deadline_ms / 1000 + BUSY_S


def outcomes(daemon):
    """The orders counted, by outcome."""
    return {name: value for name, value in daemon.metrics().items()
            if name.startswith("seckill_orders_total") and value > 0}


@pytest.fixture
def slow(stack, proxies, spawn):
    """A daemon with a short deadline and one order worker, and the proxy before its ledger."""
    ledger = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=ledger.url(stack.mysql_url), deadline_ms=DEADLINE_MS,
                   order_workers=1, mysql_timeout_ms=60_000)
    wanted = {"sku": "demo", "total": 1000, "segments": 20, "end_round": True}
    answered(lambda: daemon.admin("POST", "/admin/stock/reset", wanted))
    return daemon, ledger


def test_order_past_its_deadline_is_timed_and_counted_once(slow):
    """One hangs before its commit, which is then not made; the other waits for the worker."""
    daemon, ledger = slow
    go_on, waiting = Event(), []
    trap = ledger.once(WRITE, before=lambda link: go_on.wait(30))
    other = Thread(target=lambda: (trap.wait(), waiting.append(timed(daemon.order))))
    other.start()
    response, passed = timed(daemon.order)
    other.join()
    go_on.set()
    assert_problem(response, 503, "outcome_unknown")
    assert_problem(waiting[0][0], 503, "unavailable")
    for each in (passed, waiting[0][1]):
        assert_at_deadline(each)
    assert daemon.order().status == 201  # the one worker is done with the late order by now
    assert daemon.get(f"/order/{response.json()['order_id']}").status == 404
    assert outcomes(daemon) == {f'seckill_orders_total{{outcome="{outcome}"}}': 1
                                for outcome in ("outcome_unknown", "unavailable", "accepted")}
    metrics = daemon.metrics()
    assert metrics["seckill_order_seconds_count"] == 3
    # Both are timed, each from the end of its request, which a deadline does not wait for.
    assert metrics["seckill_order_seconds_sum"] > 1.5 * DEADLINE_MS / 1000
    assert audit_after_faults(daemon) == 1


def test_order_accepted_after_its_deadline_has_the_id_that_was_told(slow):
    daemon, ledger = slow
    assert daemon.order(user_id="early").status == 201
    go_on = Event()
    ledger.once(COMMIT, before=lambda link: go_on.wait(30))
    response = daemon.order(user_id="late")
    go_on.set()
    assert_problem(response, 503, "outcome_unknown")
    path = f"/order/{response.json()['order_id']}"
    wait_until(lambda: daemon.get(path).status == 200, "the order that was in doubt")
    assert daemon.get(path).json()["user_id"] == "late"
    assert audit_after_faults(daemon) == 2


def reset_while_they_wait(daemon, count):
    """Sends orders over so many connections, and resets them when all are in the queue."""
    before = daemon.metric(DEPTH)
    with ExitStack() as clients:
        for _ in range(count):
            sock = clients.enter_context(socket.create_connection(daemon.address, timeout=30))
            sock.sendall(order_bytes())
            reset_at_close(sock)
        wait_until(lambda: daemon.metric(DEPTH) == before + count, "the orders in the queue")


def test_orders_whose_clients_have_gone_end_with_their_deadline(slow):
    """libmicrohttpd sees some of the resets at once: nobody will answer these, and only the worker
    can take them out of the queue."""
    daemon, ledger = slow
    go_on = Event()
    trap = ledger.once(WRITE, before=lambda link: go_on.wait(60))
    with ThreadPoolExecutor(1) as client:
        first = client.submit(daemon.order)
        trap.wait()
        reset_while_they_wait(daemon, 100)
        assert_problem(daemon.order(), 503, "unavailable")  # it came after them
        go_on.set()
        assert_problem(first.result(), 503, "outcome_unknown")
    wait_until(lambda: daemon.metric(DEPTH) == 0, "the end of all orders")
    assert audit_after_faults(daemon) == 0


def test_calls_are_answered_within_the_deadline(slow):
    daemon, ledger = slow
    order_id = daemon.order().json()["order_id"]
    ledger.hold()
    for call, code in ((lambda: daemon.pay(order_id), "outcome_unknown"),
                       (lambda: daemon.get(f"/order/{order_id}"), "unavailable"),
                       (lambda: daemon.get("/user/u1/orders"), "unavailable")):
        response, passed = timed(call)
        assert_problem(response, 503, code)
        assert_at_deadline(passed)
    ledger.resume()


SLOW = {  # what a client sends that then sends no more
    "first line": b"POST /order HTTP/1.1\r\n",
    "head": order_bytes().split(b"\r\n\r\n")[0],
    "body": order_bytes()[:-1],
    "operator's": b"POST /admin/reconcile HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{",
}


@pytest.mark.parametrize("sent", SLOW.values(), ids=SLOW.keys())
def test_request_that_is_not_complete_in_time_hears_so(slow, sent):
    daemon, _ = slow
    with socket.create_connection(daemon.address, timeout=30) as sock:
        with Elapsed() as passed:
            sock.sendall(sent)
            response = read_response(sock)
        assert_problem(response, 408, "request_timeout")
        assert_at_deadline(passed)
        assert read_to_end(sock) == b""


def test_time_of_an_order_counts_from_its_first_line(stack, proxies, spawn):
    """One that is complete just before its deadline has no second one."""
    ledger = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=ledger.url(stack.mysql_url), deadline_ms=5000)
    daemon.reset()
    ledger.hold()
    data = order_bytes()
    with socket.create_connection(daemon.address, timeout=30) as sock, Elapsed() as passed:
        sock.sendall(data[:-1])
        time.sleep(2)
        sock.sendall(data[-1:])
        response = read_response(sock)
    ledger.resume()
    assert response.status == 503
    assert_at_deadline(passed, 5000)


def calls_of_all_classes(daemon, orders):
    """{name: (its bound in ms, the call)}"""
    def admin(method, path, body=None):
        return LOCKS_MS, lambda: daemon.admin(method, path, body)

    def usual(call, *arguments):
        return DEADLINE_MS, lambda: call(*arguments)
    return {
        "order": usual(daemon.order),
        "look-up": usual(daemon.get, f"/order/{orders[0]}"),
        "stock": usual(daemon.get, "/stock/demo"),
        "payment": usual(daemon.pay, orders[1]),
        "user": usual(daemon.get, "/user/u1/orders"),
        "cancel": (LOCKS_MS, lambda: daemon.cancel(orders[2])),
        "pause": admin("PATCH", "/admin/sale/demo", {"paused": False}),
        "add": admin("POST", "/admin/stock/add", {"sku": "demo", "units": 1}),
        "reset": admin("POST", "/admin/stock/reset", {"sku": "other", "total": 9, "segments": 3}),
        "reconcile": admin("POST", "/admin/reconcile", {"sku": "demo"}),
        "sales": admin("GET", "/admin/sales"),
        "orders": admin("GET", "/admin/orders"),
        "audit": admin("GET", "/admin/audit"),
        "ready": usual(daemon.get, "/readyz"),
        "alive": usual(daemon.get, "/healthz"),
        "metrics": usual(daemon.get, "/metrics"),
    }


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("which", ["redis_server", "maria_server"])
def test_every_class_has_its_bound_while_a_server_stands_still(private_stack, spawn, which):
    """However long that is, and although their workers wait for it for longer."""
    daemon = spawn(private_stack, deadline_ms=DEADLINE_MS, lease_ms=LEASE_MS)
    daemon.reset()
    calls = calls_of_all_classes(daemon, [daemon.order().json()["order_id"] for _ in range(3)])
    server = getattr(private_stack, which)
    server.signal(signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(len(calls)) as pool:
            started = {name: pool.submit(timed, call) for name, (_, call) in calls.items()}
            answers = {name: future.result() for name, future in started.items()}
    finally:
        server.signal(signal.SIGCONT)
    took = {name: passed.running for name, (_, passed) in answers.items()}
    late = {name: took[name] for name, (bound_ms, _) in calls.items()
            if took[name] >= bound_ms / 1000 + BUSY_S}
    assert not late, took
    assert {answer.status for answer, _ in answers.values()} <= {200, 201, 503}
    assert answers["order"][0].status == 503


def test_orders_refused_at_once_are_timed(daemon):
    daemon.reset("demo", 1, 1)
    sent = 0
    while daemon.metric("seckill_sold_out_fast_total") < 3:
        daemon.order()
        sent += 1
    assert daemon.request("POST", "/order", {"sku": "demo"}).status == 400
    assert daemon.metric("seckill_order_seconds_count") == sent + 1
