"""What cannot be done in time is answered in time, and counted once."""

from threading import Event, Thread

import pytest

from audit import audit_after_faults
from harness.client import assert_problem
from harness.processes import wait_until
from proxy import WRITE
from standstill import timed

DEADLINE_MS = 1500  # more than an order takes on a busy machine whose servers answer
ANSWER_S_MAX = 5  # the deadline and what a busy machine adds; far less than ten deadlines


def assert_at_deadline(passed):
    assert DEADLINE_MS / 1000 <= passed.seconds and passed.running < ANSWER_S_MAX


def outcomes(daemon):
    """The orders counted, by outcome."""
    return {name: value for name, value in daemon.metrics().items()
            if name.startswith("seckill_orders_total") and value > 0}


@pytest.fixture
def slow(stack, proxies, spawn):
    """A daemon with a short deadline and one order worker, and the proxy before its ledger."""
    ledger = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=ledger.url(stack.mysql_url), deadline_ms=DEADLINE_MS,
                   order_workers=1)
    daemon.reset()
    return daemon, ledger


def test_order_past_its_deadline_is_timed_and_counted_once(slow):
    """One hangs in its commit, the other waits for the worker."""
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
    path = f"/order/{response.json()['order_id']}"
    wait_until(lambda: daemon.get(path).status == 200, "the late commit")
    assert daemon.order().status == 201  # the worker has answered the late one by now
    assert outcomes(daemon) == {f'seckill_orders_total{{outcome="{outcome}"}}': 1
                                for outcome in ("outcome_unknown", "unavailable", "accepted")}
    metrics = daemon.metrics()
    assert metrics["seckill_order_seconds_count"] == 3
    assert metrics["seckill_order_seconds_sum"] >= 2 * DEADLINE_MS / 1000
    assert audit_after_faults(daemon) == 2


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


def test_orders_refused_at_once_are_timed(daemon):
    daemon.reset("demo", 1, 1)
    sent = 0
    while daemon.metric("seckill_sold_out_fast_total") < 3:
        daemon.order()
        sent += 1
    assert daemon.request("POST", "/order", {"sku": "demo"}).status == 400
    assert daemon.metric("seckill_order_seconds_count") == sent + 1
