"""Clocks that step: the daemon runs with a wall clock that the test sets."""

import os
import struct
from datetime import datetime, timedelta, timezone

import pytest

from audit import audit_after_faults
from daemon import STEADY
from harness.client import assert_problem
from harness.processes import ROOT

PRELOAD = ROOT / os.environ.get("BUILD", "build") / "test" / "shifted_clock.so"


class Clock:
    """The shifts of a daemon's clocks, see shifted_clock.c."""

    def __init__(self, path):
        self.path = path
        self.set()

    def set(self, wall_s=0, boot_s=0):
        # In one write to the same file: the daemon has it mapped.
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT)
        os.write(fd, struct.pack("=qq", wall_s * 1000, boot_s * 1000))
        os.close(fd)

    def environment(self):
        asan = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        return {"LD_PRELOAD": str(PRELOAD), "SHIFTED_CLOCK": str(self.path), "ASAN_OPTIONS": asan}


@pytest.fixture
def clock(tmp_path):
    return Clock(tmp_path / "clock")


def moment(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def test_clock_that_was_ahead_dates_orders_rightly_once_it_is_back(stack, spawn, clock):
    """The ids stay an hour ahead; window, created_at and expires_at do not."""
    now = datetime.now(timezone.utc)
    daemon = spawn(stack, env=clock.environment(), **STEADY)
    ends = now + timedelta(minutes=30)
    daemon.reset("demo", 10, 2, pay_within_s=600, ends_at=ends.strftime("%Y-%m-%dT%H:%M:%SZ"))
    clock.set(wall_s=3600)
    assert_problem(daemon.order(key="ahead"), 409, "sale_ended")
    clock.set()
    order = daemon.order(key="back")
    assert order.status == 201, order
    created, expires = (moment(order.json()[name]) for name in ("created_at", "expires_at"))
    assert now - timedelta(milliseconds=1) <= created <= datetime.now(timezone.utc)
    assert expires - created == timedelta(seconds=600)
    shown = daemon.get(f"/order/{order.json()['order_id']}").json()
    assert shown == order.json()
    assert audit_after_faults(daemon) == 1
