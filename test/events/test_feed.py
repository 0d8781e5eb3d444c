"""The feed of events: what is in it, in which order, and what its readers can rely on."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import pytest

from harness.client import assert_problem
from harness.daemon import STEADY
from harness.feed import Feed, assert_feed_is_the_ledger, position_of, published
from harness.processes import wait_until
from harness.stack import PrivateStack

ON = {**STEADY, "events_retention_h": 24}


@pytest.fixture
def daemon(stack, spawn):
    return spawn(stack, **ON)


@pytest.fixture
def pair(stack, spawn):
    return spawn(stack, **ON), spawn(stack, **ON)


def types(events, sku="demo"):
    return [event["type"] for event in events if event["sku"] == sku]


def test_each_change_of_an_order_is_one_event(daemon):
    daemon.reset("demo", 10, 2, pay_within_s=600)
    paid, cut, gone = (daemon.order(user_id=f"u{qty}", qty=qty).json() for qty in (1, 2, 3))
    assert daemon.pay(paid["order_id"], "pi_1").status == 200
    assert daemon.pay(paid["order_id"], "pi_2").code == "already_paid"
    assert daemon.cancel(cut["order_id"], keep=1).status == 200
    assert daemon.cancel(gone["order_id"]).status == 200
    assert daemon.cancel(gone["order_id"]).status == 200  # changes nothing
    assert daemon.refund(paid["order_id"], "pi_1").json()["status"] == "paid"  # by pi_2
    assert daemon.refund(paid["order_id"], "pi_2", restock=True).json()["status"] == "refunded"
    published(daemon)
    feed = Feed(daemon)
    feed.read_all()
    assert feed.of(paid["order_id"]) == [("accepted", 1), ("paid", 2), ("refund_due", None),
                                         ("changed", 3), ("refunded", 4)]
    assert feed.of(cut["order_id"]) == [("accepted", 1), ("changed", 2)]
    assert feed.of(gone["order_id"]) == [("accepted", 1), ("cancelled", 2)]
    accepted = next(event for event in feed.events if event["subject"] == cut["order_id"])
    assert accepted == {
        "specversion": "1.0", "id": accepted["id"], "source": "/seckill/0",
        "type": "order.accepted", "time": accepted["time"], "subject": cut["order_id"],
        "sku": "demo", "version": 1,
        "data": {"user_id": "u2", "qty": 2, "round": 1, "expires_at": cut["expires_at"]}}
    refs = [event["data"].get("payment_ref") for event in feed.events
            if event["subject"] == paid["order_id"]]
    assert refs == [None, "pi_1", "pi_2", "pi_2", None]
    assert_feed_is_the_ledger(feed, daemon.stack.ledger)
    counted = {"orders_paid": 1, "orders_cut": 1, "orders_cancelled": 1, "orders_refunded": 1,
               "payments_refunded": 2}
    assert counted == {name: daemon.metric(f"seckill_{name}_total") for name in counted}
    last = daemon.stack.ledger.number("SELECT next - 1 FROM event_feed")
    wait_until(lambda: daemon.metric("seckill_events_published_total") >= last, "a count of events")


def test_expiry_and_late_money_are_events(daemon):
    daemon.reset("demo", 10, 2, pay_within_s=1)
    order = daemon.order().json()
    feed = Feed(daemon)
    expired = feed.until(lambda event: event["type"] == "order.expired", "the expiry")
    assert expired["subject"] == order["order_id"]
    assert daemon.pay(order["order_id"], "late").status == 200
    feed.until(lambda event: event["type"] == "order.retaken", "the retake")
    assert feed.of(order["order_id"]) == [("accepted", 1), ("expired", 2), ("retaken", 3)]


def test_sales_have_events_of_their_own(daemon):
    daemon.reset("demo", 3, 1)
    feed = Feed(daemon)
    first = feed.until(lambda event: event["type"] == "sale.changed", "the sale")
    assert first["data"] == {"round": 1, "total": 3, "available": 3, "settings_version": 1,
                             "paused": False}
    orders = [daemon.order().json()["order_id"] for _ in range(3)]
    feed.until(lambda event: event["type"] == "sale.sold_out", "the end of the stock")
    daemon.cancel(orders[0])
    back = feed.until(lambda event: event["type"] == "sale.available", "units")
    assert back["data"]["available"] == 1
    daemon.change("demo", paused=True)
    paused = feed.until(lambda event: event["type"] == "sale.changed", "the pause")
    assert paused["data"]["paused"] is True
    for order in orders[1:]:
        daemon.cancel(order)
    assert daemon.admin("DELETE", "/admin/sale/demo").status == 200
    gone = feed.until(lambda event: event["type"] == "sale.changed", "the end of the sale")
    assert gone["data"] == {"retired": True}
    assert "version" not in gone


def test_every_daemon_gives_the_same_bytes_from_any_cursor(pair):
    one, other = pair
    one.reset("demo", 100, 4, pay_within_s=600)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda user: pair[user % 2].order(user_id=f"u{user}"), range(40)))
    published(one)

    def events():
        return one.get("/events?after=0").json()["events"]
    wait_until(lambda: Counter(event["type"] for event in events()) >= Counter(
        {"order.accepted": 40, "sale.changed": 1}), "events of the sale and of all orders")
    whole = events()
    assert len(whole) >= 40
    for after in range(0, len(whole), 7):
        cursor = one.get(f"/events?after=0&limit={after}").json()["next"] if after else "0"
        for limit in (1, 10, 1000):
            answers = {daemon.get(f"/events?after={cursor}&limit={limit}").body for daemon in pair}
            page, = (Feed(one, cursor).ask(limit).json(),)
            assert len(answers) == 1
            assert page["events"] == whole[after:after + limit]
            assert position_of(page["next"]) == min(after + limit, len(whole))
    assert one.get("/events").json()["events"] == whole


def test_reader_that_waits_is_answered_by_the_next_event(daemon):
    daemon.reset("demo", 10, 2)
    published(daemon)
    feed = Feed(daemon)
    feed.until(lambda event: event["type"] == "sale.changed", "the sale")
    feed.cursor = feed.ask().json()["next"]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(feed.read, 1000, 30)
        wait_until(lambda: daemon.metric('seckill_call_queue_depth{call="events"}') == 1,
                   "the wait")
        order = daemon.order().json()
        event, = waiting.result()
    assert event["subject"] == order["order_id"]


def test_wait_ends_without_an_event(daemon):
    page = daemon.get("/events?after=0&wait_s=1").json()
    assert page == {"events": [], "next": "0.0"}
    page = daemon.get("/events?after=end").json()
    assert page == {"events": [], "next": "0.0"}


def test_end_skips_what_has_happened(daemon):
    daemon.reset("demo", 10, 2)
    daemon.order()
    published(daemon)
    feed = Feed(daemon, "end")
    assert feed.read() == []
    order = daemon.order().json()
    found = feed.until(lambda event: event["type"] == "order.accepted", "the order")
    assert found["subject"] == order["order_id"]


def test_bad_query_is_refused(daemon):
    for query in ("after=", "after=-1", "after=1x", "after=99999999999999999999", "after=End",
                  "after=1.", "after=.1", "after=1.1.1", "after=1.99999999999999999999",
                  "after=1%00", "limit=0", "limit=1001", "limit=x", "wait_s=31", "wait_s=-1",
                  "wait_s=", "since=1", "after=1&after=2"):
        assert_problem(daemon.get(f"/events?{query}"), 400, "invalid_request")


def test_cursor_that_is_too_old_is_told_the_oldest(daemon):
    ledger = daemon.stack.ledger
    daemon.reset("demo", 10, 2)
    daemon.order()
    feed = Feed(daemon)
    wait_until(lambda: feed.read(wait_s=1) and len(feed.events) == 2, "the order and its sale")
    ledger.run("UPDATE event_batch SET written_at = written_at - INTERVAL 25 HOUR")
    wait_until(lambda: ledger.number("SELECT COUNT(*) FROM event_batch") == 0, "the purge")
    order = daemon.order().json()
    published(daemon)

    def expired():
        response = daemon.get("/events?after=0")
        return response if response.status != 200 else None
    response = wait_until(expired, "the end of the old cursor")
    assert_problem(response, 410, "cursor_expired")
    assert position_of(response.json()["oldest"]) == position_of(feed.cursor)
    again = Feed(daemon, response.json()["oldest"])
    event, = again.read()
    assert event["subject"] == order["order_id"]
    assert daemon.get("/events").json()["events"] == [event]
    assert_problem(daemon.get("/events?after=99999"), 410, "cursor_expired")
    # All behind it is kept, but the event that was there has another time by now.
    assert_problem(daemon.get(f"/events?after={feed.cursor}"), 410, "cursor_expired")


def test_cursor_of_before_a_restore_is_expired(daemon):
    """The ledger goes back to a dump, and then on beyond the reader: the reader must hear of it."""
    ledger = daemon.stack.ledger
    daemon.reset("demo", 100, 2)
    feed = Feed(daemon)
    feed.until(lambda event: event["type"] == "sale.changed", "the sale")
    kept = feed.cursor
    for user in ("lost1", "lost2", "lost3"):
        daemon.order(user_id=user)
        feed.until(lambda event, user=user: event["data"].get("user_id") == user, user)
    end = position_of(kept) + 1
    ledger.run(f"DELETE FROM event_batch WHERE position >= {end};"
               f"UPDATE event_feed SET next = {end}")
    wait_until(lambda: feed.ask().status == 410, "the answer to a cursor beyond the end")
    again = Feed(daemon, kept)
    for user in ("new1", "new2", "new3", "new4"):
        daemon.order(user_id=user)
        again.until(lambda event, user=user: event["data"].get("user_id") == user, user)
    assert position_of(again.cursor) > position_of(feed.cursor)
    for cursor in (feed.cursor, str(position_of(feed.cursor))):
        response = daemon.get(f"/events?after={cursor}")
        assert_problem(response, 410, "cursor_expired")
        assert len(Feed(daemon, response.json()["oldest"]).read()) == len(
            daemon.get("/events?after=0").json()["events"])


def test_cursor_of_another_pod_is_expired(daemon, spawn, private_stack):
    other = spawn(private_stack, pod=3, **ON)
    cursors = []
    for one in (daemon, other):
        one.reset("demo", 10, 2)
        one.order()
        published(one)
        feed = Feed(one)
        wait_until(lambda: feed.read(wait_s=1) and len(feed.events) == 2, "the order and its sale")
        cursors.append(feed.cursor)
    assert cursors[0] != cursors[1]
    for one, own, foreign in ((daemon, *cursors), (other, *reversed(cursors))):
        assert one.get(f"/events?after={own}").status == 200
        assert_problem(one.get(f"/events?after={foreign}"), 410, "cursor_expired")
        assert len(one.get("/events?after=0").json()["events"]) == 2


def test_lists_and_look_ups_have_the_versions_of_the_events(daemon):
    """So a reader who took the lists after 410 passes over the events that they include."""
    daemon.reset("demo", 10, 2, pay_within_s=600)
    first, second = (daemon.order(user_id="u", qty=2).json()["order_id"] for _ in range(2))
    assert daemon.cancel(first, keep=1).status == 200
    assert daemon.pay(first, "pi_1").status == 200
    published(daemon)
    feed = Feed(daemon)
    feed.read_all()
    for orders in (daemon.admin("GET", "/admin/orders").json()["orders"],
                   daemon.get("/user/u/orders").json()["orders"],
                   [daemon.get(f"/order/{order_id}").json() for order_id in (first, second)]):
        assert {order["order_id"]: order["version"] for order in orders} == feed.versions
    assert feed.versions == {first: 3, second: 1}


def test_end_of_a_sale_is_no_change_of_it(daemon):
    """A keyed order after the end makes a new version of the settings, in which nothing is new. So
    does a change to what the sale has already."""
    daemon.reset("demo", 1000, 2)
    daemon.reset("other", 10, 2)
    ends_at = (datetime.now(timezone.utc) + timedelta(seconds=1)).isoformat()
    daemon.change("demo", ends_at=ends_at)
    versions = "SELECT settings_version FROM sale WHERE sku = 'demo'"
    first = daemon.stack.ledger.number(versions)
    feed = Feed(daemon)
    feed.until(lambda event: event["data"].get("settings_version") == first, "the window")
    wait_until(lambda: daemon.order().code == "sale_ended", "the end")
    assert daemon.order(key="late").code == "sale_ended"
    assert daemon.stack.ledger.number(versions) == first + 1
    daemon.change("demo", paused=False)
    assert daemon.stack.ledger.number(versions) == first + 2
    daemon.change("other", paused=True)
    feed.until(lambda event: event["sku"] == "other" and event["data"]["paused"], "the pause")
    daemon.change("demo", paused=True)
    feed.until(lambda event: event["sku"] == "demo" and event["data"].get("paused"), "a change")
    told = [event["data"]["settings_version"] for event in feed.events
            if event["sku"] == "demo" and event["type"] == "sale.changed"]
    assert first in told and first + 3 in told
    assert not {first + 1, first + 2} & set(told)


def test_without_retention_there_are_no_events(stack, spawn):
    daemon = spawn(stack, **STEADY)
    daemon.reset("demo", 10, 2)
    daemon.order()
    assert_problem(daemon.get("/events"), 409, "events_off")
    assert stack.ledger.number("SELECT COUNT(*) FROM event_batch") == 0


def test_feed_is_the_shops(stack, spawn):
    daemon = spawn(stack, shop_token="shop", **ON)
    assert_problem(daemon.get("/events"), 401, "unauthorized")
    assert daemon.request("GET", "/events", headers={"Authorization": "Bearer shop"}).status == 200


def test_transaction_that_commits_late_is_not_passed_over(daemon):
    ledger = daemon.stack.ledger
    daemon.reset("demo", 10, 2)
    feed = Feed(daemon)
    with ledger.transaction("INSERT INTO event_batch(written_at,body,events)"
                            "VALUES(UTC_TIMESTAMP(3),'= demo 1 0\\na 77 1 late',1)") as late:
        order = daemon.order().json()
        feed.until(lambda event: event["subject"] == order["order_id"], "the later order")
        late.commit()
    assert feed.until(lambda event: event["subject"] == "77", "the late order")


def test_waiting_time_is_told_while_nobody_publishes(daemon):
    """Somebody holds the feed's row, so that the publisher fails, and resigns."""
    ledger = daemon.stack.ledger
    wait_until(lambda: daemon.metric("seckill_publisher_elected"), "an election")
    with ledger.transaction("SELECT next FROM event_feed FOR UPDATE"):
        ledger.run("INSERT INTO event_batch(written_at,body,events)"
                   "VALUES(UTC_TIMESTAMP(3)-INTERVAL 1 MINUTE,'= demo 1 0\\na 77 1 u',1)")
        wait_until(lambda: daemon.metric("seckill_events_waiting_seconds") > 50, "the wait")
        wait_until(lambda: daemon.log().count("publisher_failed") >= 2, "failures")
        assert daemon.metric("seckill_events_waiting_seconds") > 50
    wait_until(lambda: daemon.metric("seckill_events_waiting_seconds") == 0, "the end of it")


def test_waiting_time_is_told_while_nobody_is_elected(private_stack, spawn):
    daemon = spawn(private_stack, **{**ON, "lease_ms": 500})
    wait_until(lambda: daemon.metric("seckill_publisher_elected"), "an election")
    private_stack.redis_server.kill()
    wait_until(lambda: daemon.metric("seckill_publisher_elected") == 0, "the end of the lease")
    private_stack.ledger.run(
        "INSERT INTO event_batch(written_at,body,events)"
        "VALUES(UTC_TIMESTAMP(3)-INTERVAL 1 MINUTE,'= demo 1 0\\na 77 1 u',1)")
    wait_until(lambda: daemon.metric("seckill_events_waiting_seconds") > 50, "the wait")
    private_stack.redis_server.start()
    wait_until(lambda: daemon.metric("seckill_events_waiting_seconds") == 0, "the end of it")


@pytest.fixture
def stack_in_time(clock):
    """Its Redis sees the clock shifted."""
    with PrivateStack(redis_clock=clock) as stack:
        yield stack


def test_feed_goes_on_after_a_redis_came_back_empty_and_in_the_past(stack_in_time, spawn, clock):
    """All its fences are smaller than those before, for an hour."""
    stack = stack_in_time
    pair = one, other = [spawn(stack, **{**ON, "lease_ms": 500}) for _ in range(2)]
    one.reset("demo", 100, 4)
    feed = Feed(other)
    one.order(user_id="before")
    feed.until(lambda event: event["type"] == "order.accepted", "the order before")
    stack.redis_server.kill()
    stack.redis_server.forget()
    clock.set(wall_s=-3600)
    stack.redis_server.start()
    assert int(stack.redis("TIME")[0]) < time.time() - 3000
    wait_until(lambda: sum(daemon.log().count("publisher_elected") for daemon in pair) > 1,
               "the next election")
    wait_until(lambda: one.order(user_id="after").status == 201, "an order")
    feed.until(lambda event: event["data"].get("user_id") == "after", "the order after")
    published(one)
    feed.read_all()
    assert_feed_is_the_ledger(feed, stack.ledger)
    assert all(daemon.log().count("publisher_refused") <= 1 for daemon in pair)


def test_publisher_that_dies_is_followed(stack, spawn):
    pair = one, other = [spawn(stack, **{**ON, "lease_ms": 2000}) for _ in range(2)]
    one.reset("demo", 1000, 10)
    feed = Feed(other)

    def publisher():
        found = [daemon for daemon in pair if daemon.metric("seckill_publisher_elected")]
        return found[0] if len(found) == 1 else None
    first = wait_until(publisher, "an election")
    second = other if first is one else one
    feed.daemon = second
    for user in range(20):
        assert first.order(user_id=f"u{user}").status == 201
    first.kill()
    for user in range(20, 40):
        assert second.order(user_id=f"u{user}").status == 201
    published(second)
    feed.read_all()
    assert_feed_is_the_ledger(feed, second.stack.ledger)
    assert types(feed.events).count("order.accepted") == 40


def test_drain_answers_the_readers_that_wait(daemon):
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(daemon.request, "GET", "/events?after=0&wait_s=30", timeout=90)
                   for _ in range(4)]
        wait_until(lambda: daemon.metric('seckill_call_queue_depth{call="events"}') == 4,
                   "the waits")
        daemon.stop()
        assert [future.result().status for future in waiting] == [200] * 4


def test_readers_beyond_the_waiting_places_are_held(daemon):
    """Answered at once, they would come back at once, thousands of times a second."""
    def read(_):
        began = time.monotonic()
        page = daemon.get("/events?after=0&wait_s=30").json()
        return (page["events"], time.monotonic() - began)
    with ThreadPoolExecutor(200) as pool:
        readers = [pool.submit(read, number) for number in range(400)]
        wait_until(lambda: sum(reader.done() for reader in readers) >= 270, "answers to a crowd")
        daemon.reset("demo", 10, 2)
        waits = [reader.result() for reader in readers]
    empty = [wait for events, wait in waits if not events]
    assert len(empty) >= 270
    assert min(empty) >= 0.1


def test_crowd_of_readers_leaves_no_one_out(daemon):
    """A reader that has gone away keeps its place for a while; those who come later get one."""
    with ThreadPoolExecutor(200) as pool:
        waiting = [pool.submit(daemon.get, "/events?after=0&wait_s=30") for _ in range(400)]
        daemon.reset("demo", 10, 2)
        answers = [future.result() for future in waiting]
    assert {response.status for response in answers} == {200}


def test_feed_goes_on_after_the_ledger_was_away(private_stack, spawn):
    daemon = spawn(private_stack, **ON)
    daemon.reset("demo", 10, 2)
    daemon.order()
    feed = Feed(daemon)
    feed.until(lambda event: event["type"] == "order.accepted", "the order")
    private_stack.maria_server.kill()
    wait_until(lambda: feed.ask().status == 503, "the refusal")
    private_stack.maria_server.start()
    wait_until(lambda: daemon.order(user_id="u2").status == 201, "an order")
    wait_until(lambda: feed.ask().status == 200, "the feed")
    feed.until(lambda event: event["type"] == "order.accepted", "the next order")
    feed.read_all()
    assert_feed_is_the_ledger(feed, private_stack.ledger)
