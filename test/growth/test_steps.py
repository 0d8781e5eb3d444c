"""What the daemon's threads examine does not grow with the tables: at rest, and for each thing that
they carry on."""

import time

import pytest

from conftest import MANY
from harness.processes import wait_until
from harness.receiver import Receiver
from ledger import FIRST_ID

pytestmark = pytest.mark.xdist_group("growth")

SECOND = 400  # rows at rest, a second
COUNTED = 2_500  # once in some seconds: what is due, up to a thousand


@pytest.fixture(autouse=True)
def quiet(great):
    """What the calls before have left to be done is done."""
    great.wait_rounds_ended()


def expires(shop, count):
    """Orders that have not been paid in time, all at once."""
    ids = shop.orders(count, "brief")
    marks = ",".join(ids)
    # The sale's time to pay is a long one, so that they expire only now.
    shop.stack.ledger.run(
        f"UPDATE orders SET expires_at=UTC_TIMESTAMP(3) WHERE order_id IN({marks})")
    return marks


def test_at_rest(shop):
    """Waits for no event: it is the quiet that is looked at."""
    before, start = shop.examined.total(), time.monotonic()
    time.sleep(12)
    seconds = int(time.monotonic() - start) + 1
    rows = shop.examined.total() - before
    shop.examined.note("At rest, 12 s", rows, SECOND * seconds + 4 * COUNTED)


@pytest.mark.parametrize("count", (1, MANY))
def test_expiry(shop, count):
    shop.daemon.reset("brief", total=100_000, segments=20, pay_within_s=3600)

    def expire(marks):
        shop.stack.ledger.run(
            "INSERT INTO order_expiry(expires_at,first_id,last_id)"
            f"SELECT expires_at,order_id,order_id FROM orders WHERE order_id IN({marks})"
            " ON DUPLICATE KEY UPDATE last_id=order_expiry.last_id")
        wait_until(lambda: shop.stack.ledger.number(
            f"SELECT COUNT(*) FROM orders WHERE order_id IN({marks}) AND status='reserved'") == 0,
            "the expiry", pause=0.3)
    shop.check("Orders expire", 1000 if count == 1 else 400, expire,
               lambda: expires(shop, count), count)


@pytest.mark.parametrize("count", (1, MANY))
def test_delivery_of_events(shop, count):
    with Receiver() as receiver:
        response = shop.daemon.admin("PUT", "/admin/webhooks/d", {"url": receiver.url, "batch": 10})
        assert response.status == 201, response

        def deliver(_):
            have = len(receiver.events)
            shop.orders(count)
            wait_until(lambda: len(receiver.events) >= have + count, "the events")
        shop.check("Events are published and delivered", 1000 if count == 1 else 100, deliver,
                   count=count)
        shop.daemon.admin("DELETE", "/admin/webhooks/d")


def test_end_of_a_round(shop):
    """Reserved orders of a round that a reset has ended expire; users are counted for a limit."""
    def reserved():
        sku = shop.new("ends")
        shop.daemon.reset(sku, total=1000, segments=20)
        shop.orders(MANY, sku)
        return sku

    def reset(sku):
        shop.daemon.reset(sku, total=1000, segments=20)
        shop.stack.wait_rounds_ended()

    def limit(sku):
        shop.daemon.change(sku, per_user_limit=5)
        wait_until(lambda: shop.daemon.order(sku, shop.new("late")).status == 201, "the count")
    shop.check("A reset ends 64 reserved orders", 10_000, reset, reserved)
    shop.check("A limit set in mid-sale counts 64 orders", 10_000, limit, reserved)


def test_purge_of_events(shop):
    """Deletes 2,000 old batches of the million."""
    ledger = shop.stack.ledger

    def old():
        oldest = ledger.number("SELECT oldest FROM event_feed")
        ledger.run("UPDATE event_batch SET written_at=UTC_TIMESTAMP(3)-INTERVAL 20 DAY WHERE "
                   f"position>={oldest} AND position<{oldest + 2000}")
        return oldest + 2000
    shop.check("2,000 old events are deleted", 20_000,
               lambda end: wait_until(
                   lambda: ledger.number("SELECT oldest FROM event_feed") >= end,
                   "the old events' end", timeout=120, pause=0.5), old)


def test_purge_of_a_round(shop):
    """Of an ended round of `past`, whose orders are among 2,000 of the million, and whose restocks
    are among 100,000 of later rounds."""
    ledger = shop.stack.ledger

    def due():
        number = next(shop.numbers) + 1_000_000
        ledger.run("INSERT INTO sale_round(sku,round,segments,retired,ended_at,last_id,step,"
                   f"purged_to)VALUES('past',{number},0,1,UTC_TIMESTAMP(3)-INTERVAL 90 DAY,"
                   f"{FIRST_ID + 2000},'keys',{FIRST_ID})")
        return number
    shop.check("The leftovers of a round are deleted", 30_000,
               lambda number: wait_until(
                   lambda: ledger.number("SELECT COUNT(*)FROM sale_round WHERE sku='past' AND "
                                         f"round={number} AND step<>'done'") == 0,
                   "the round's end", pause=0.5), due)
