"""The feed of events: what is in it, in which order, and what its readers can rely on."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.client import assert_problem
from harness.daemon import STEADY
from harness.feed import Feed, assert_feed_is_the_ledger, published
from harness.processes import wait_until

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
        for limit in (1, 10, 1000):
            answers = {daemon.get(f"/events?after={after}&limit={limit}").body for daemon in pair}
            page, = (Feed(one, str(after)).ask(limit).json(),)
            assert len(answers) == 1
            assert page["events"] == whole[after:after + limit]
            assert page["next"] == str(min(after + limit, len(whole)))
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
    assert page == {"events": [], "next": "0"}
    page = daemon.get("/events?after=end").json()
    assert page == {"events": [], "next": "0"}


def test_end_skips_what_has_happened(daemon):
    daemon.reset("demo", 10, 2)
    daemon.order()
    published(daemon)
    feed = Feed(daemon, "end")
    assert feed.read() == []
    order = daemon.order().json()
    found = feed.until(lambda event: event["type"] == "order.accepted", "the order")
    assert found["subject"] == order["order_id"]


@pytest.mark.parametrize("query", [
    "after=", "after=-1", "after=1x", "after=99999999999999999999", "after=End", "limit=0",
    "limit=1001", "limit=x", "wait_s=31", "wait_s=-1", "wait_s=", "since=1", "after=1&after=2"])
def test_bad_query_is_refused(daemon, query):
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
    assert response.json()["oldest"] == feed.cursor
    again = Feed(daemon, response.json()["oldest"])
    event, = again.read()
    assert event["subject"] == order["order_id"]
    assert daemon.get("/events").json()["events"] == [event]
    assert_problem(daemon.get("/events?after=99999"), 410, "cursor_expired")


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


def test_daemon_that_resigns_tells_no_waiting_time(daemon):
    """Somebody holds the feed's row, so that the publisher fails."""
    ledger = daemon.stack.ledger
    wait_until(lambda: daemon.metric("seckill_publisher_elected"), "an election")
    with ledger.transaction("SELECT next FROM event_feed FOR UPDATE"):
        ledger.run("INSERT INTO event_batch(written_at,body,events)"
                   "VALUES(UTC_TIMESTAMP(3)-INTERVAL 1 MINUTE,'= demo 1 0\\na 77 1 u',1)")
        wait_until(lambda: daemon.metric("seckill_events_waiting_seconds") > 50, "the wait")
        wait_until(lambda: daemon.metric("seckill_events_waiting_seconds") == 0, "the end of it")


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
