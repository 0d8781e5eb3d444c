"""Clocks that are wrong: the daemon runs with clocks that the test sets, and orders go by the
ledger's."""

import random
import time
from datetime import datetime, timedelta, timezone

import pytest

from harness.audit import audit_after_faults
from harness.client import assert_problem
from harness.clock import Clock
from harness.daemon import STEADY
from harness.processes import wait_until
from harness.stack import PrivateStack


@pytest.fixture
def apart(stack, spawn, tmp_path):
    """Two daemons: the clock of one is two minutes behind, that of the other two hours ahead."""
    def start(name, wall_s):
        clock = Clock(tmp_path / name)
        clock.set(wall_s=wall_s)
        return spawn(stack, env=clock.environment(), **STEADY)
    return start("behind", -120), start("ahead", 7200)


def ledger_now(stack):
    ms = stack.ledger.number("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3))"
                             " DIV 1000")
    return datetime.fromtimestamp(ms / 1000, timezone.utc)


def moment(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


NEAR = timedelta(milliseconds=200)  # half of the round trip of a question to the ledger


def test_time_to_pay_goes_by_the_clock_of_the_ledger(apart, stack):
    orders = []
    for number, daemon in enumerate(apart):
        daemon.reset(f"s{number}", 10, 2, pay_within_s=2)
        before = ledger_now(stack)
        order = daemon.order(f"s{number}")
        assert order.status == 201, order
        created, expires = (moment(order.json()[name]) for name in ("created_at", "expires_at"))
        assert before - NEAR <= created <= ledger_now(stack) + NEAR
        assert expires - created == timedelta(seconds=2)
        orders.append((daemon, order.json()["order_id"], expires))
    for daemon, order_id, expires in orders:
        wait_until(lambda: daemon.get(f"/order/{order_id}").json()["status"] == "expired", "expiry")
        assert expires <= ledger_now(stack) < expires + timedelta(seconds=30)
    assert audit_after_faults(apart[0], sku="s0") == 0


def test_daemons_of_different_clocks_end_a_sale_at_the_same_time(apart, stack):
    apart[0].reset("demo", 100000, 2)
    for daemon in apart:
        assert daemon.order().status == 201
    ends = ledger_now(stack) + timedelta(seconds=2)
    apart[0].change(ends_at=ends.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z")
    refused = set()
    while len(refused) < len(apart):
        time.sleep(0.02)
        for daemon in apart:
            asked = ledger_now(stack)
            answer = daemon.order()
            if answer.status == 201:
                assert asked < ends + NEAR and moment(answer.json()["created_at"]) < ends
            else:
                assert_problem(answer, 409, "sale_ended")
                assert ledger_now(stack) >= ends - NEAR
                refused.add(daemon)


def test_clock_that_steps_in_mid_run_changes_no_order(stack, spawn, clock):
    now = datetime.now(timezone.utc)
    daemon = spawn(stack, env=clock.environment(), **STEADY)
    ends = now + timedelta(minutes=30)
    daemon.reset("demo", 10, 2, pay_within_s=600, ends_at=ends.strftime("%Y-%m-%dT%H:%M:%SZ"))
    for wall_s in (3600, -3600, 0):
        clock.set(wall_s=wall_s)
        order = daemon.order(key=f"k{wall_s}")
        assert order.status == 201, order
        created, expires = (moment(order.json()[name]) for name in ("created_at", "expires_at"))
        assert now - NEAR <= created <= datetime.now(timezone.utc) + NEAR
        assert expires - created == timedelta(seconds=600)
        shown = daemon.get(f"/order/{order.json()['order_id']}").json()
        assert shown == {**order.json(), "version": 1}
    assert audit_after_faults(daemon) == 3


@pytest.fixture
def stack_in_time(clock):
    """Its ledger sees the clock shifted."""
    with PrivateStack(maria_clock=clock) as stack:
        yield stack


def test_daemon_is_not_ready_while_the_clock_of_the_ledger_steps(stack_in_time, spawn, clock):
    stack = stack_in_time
    daemon = spawn(stack, **STEADY)
    daemon.reset("demo", 10, 2, pay_within_s=600)

    def unsteady():
        clock.set(wall_s=random.choice((0, 2)))
        ready = daemon.get("/readyz")
        return ready.status == 503 and ready.json()["ledger"] == "clock_unsteady"
    wait_until(unsteady, "a step")
    wait_until(lambda: "event=ledger_clock_stepped" in daemon.log(), "the log")
    clock.set()
    wait_until(lambda: daemon.get("/readyz").status == 200, "a steady clock")
    before, second = ledger_now(stack), timedelta(seconds=1)
    created = moment(daemon.order().json()["created_at"])
    assert before - second < created < ledger_now(stack) + second


def test_difference_of_the_clocks_is_measured(apart):
    behind, ahead = apart
    assert 119 < behind.metric("seckill_ledger_clock_ahead_seconds") < 121
    assert -7201 < ahead.metric("seckill_ledger_clock_ahead_seconds") < -7199
