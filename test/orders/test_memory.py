"""What a daemon remembers of a sale, and how long that may deceive it when it misses messages."""

import time
from threading import Event

import pytest

from harness.audit import audit
from harness.daemon import STEADY
from harness.processes import wait_until

CHANNEL = "seckill:changed"
REMEMBER_S = 1  # service/service.c: REMEMBER_LEFT_MS


@pytest.fixture
def unsubscribed(stack, proxies, spawn):
    """(a daemon that hears no messages until the event is set, the event, a daemon that does)"""
    redis, listen = proxies(stack.redis.address[1]), Event()
    trap = redis.once(rb"\bSUBSCRIBE\b", before=lambda link: listen.wait(30))
    deaf = spawn(stack, redis_url=redis.url(stack.redis_url), **STEADY)
    trap.wait()
    yield deaf, listen, spawn(stack, **STEADY)
    listen.set()


def sell_the_unit(daemon, sku):
    """Sells the only unit; the daemon then knows that it was the last. Returns the order's id."""
    order_id = daemon.order(sku).json()["order_id"]

    def remembers():
        """On a slow machine the memory of one refusal may end before the next order."""
        assert daemon.order(sku).answer == "409 sold_out"
        fast = daemon.metric("seckill_sold_out_fast_total")
        assert daemon.order(sku).answer == "409 sold_out"
        return daemon.metric("seckill_sold_out_fast_total") == fast + 1
    wait_until(remembers, "a refusal that is remembered")
    return order_id


def test_sold_out_is_forgotten_in_time_without_a_message(unsubscribed):
    deaf, _, other = unsubscribed
    other.reset("demo", 1, 1)
    order_id = sell_the_unit(deaf, "demo")
    time.sleep(REMEMBER_S)
    assert other.cancel(order_id).status == 200
    assert deaf.order().status == 201
    assert audit(other) == 1


def test_sold_out_is_forgotten_with_the_subscription(stack, unsubscribed):
    """Changes that were told before it are told to nobody again."""
    deaf, listen, other = unsubscribed
    for sku in ("before", "after"):
        other.reset(sku, 1, 1)
    ids = {sku: sell_the_unit(deaf, sku) for sku in ("before", "after")}
    assert other.cancel(ids["before"]).status == 200
    listen.set()
    wait_until(lambda: stack.redis("PUBSUB", "NUMSUB", CHANNEL)[1] == 2, "both subscriptions")
    assert other.cancel(ids["after"]).status == 200
    wait_until(lambda: deaf.order("after").status == 201, "the message that follows")
    assert deaf.order("before").status == 201
    for sku in ("before", "after"):
        assert audit(other, sku) == 1
