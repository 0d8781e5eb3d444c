"""Payments that end: the one of two that is refunded, the one that fails after it has paid; and
expired orders that are cancelled for good."""

import os
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import pytest

from harness.audit import audit, audit_after_faults, sell_out
from harness.client import assert_problem
from harness.daemon import STEADY
from harness.feed import Feed, assert_feed_is_the_ledger, published
from harness.processes import wait_until
from test_payments import expired, payments, refused, state_of

CROWD = int(os.environ.get("CROWD", "60"))
PAY_WITHIN_S = 600


@pytest.fixture
def pair(stack, spawn):
    return tuple(spawn(stack, **STEADY, events_retention_h=24) for _ in range(2))


@pytest.fixture
def daemon(stack, spawn):
    return spawn(stack, **STEADY, events_retention_h=24)


def states(daemon, order):
    return {row["payment_ref"]: row["state"]
            for row in payments(daemon, order_id=order["order_id"])}


def story(daemon, order):
    """[(type, version, payment_ref)] of the order, as the feed tells it."""
    published(daemon)
    feed = Feed(daemon)
    feed.read_all()
    assert_feed_is_the_ledger(feed, daemon.stack.ledger)
    return [(event["type"].partition(".")[2], event.get("version"),
             event["data"].get("payment_ref"))
            for event in feed.events if event["subject"] == order["order_id"]]


def ended(response, ref, state, **order):
    """The answer of a refund, or of a payment that failed."""
    assert response.status == 200, response
    assert response.json() == {**order, "payment_ref": ref, "payment_state": state}


# The second of two payments

def test_order_stays_paid_by_the_second_payment(pair):
    one, other = pair
    one.reset("demo", 3, 1, per_user_limit=2)
    order = one.order(qty=2).json()
    assert one.pay(order["order_id"], "a").status == 200
    for ref in ("b", "c"):
        refused(one.pay(order["order_id"], ref), "already_paid", "paid", ref)
    for daemon in (one, other, one):
        ended(daemon.refund(order["order_id"], "a", restock=True), "a", "refunded",
              **{**order, "status": "paid"})
    assert states(one, order) == {"a": "refunded", "b": "taken", "c": "refund_due"}
    assert [row["payment_ref"] for row in payments(one, state="refund_due")] == ["c"]
    assert one.stock()["sold"] == 2
    assert_problem(one.order(qty=1), 409, "limit_reached")
    paid = other.pay(order["order_id"], "b")
    assert (paid.status, paid.json()["payment_ref"]) == (200, "b")
    assert one.refund(order["order_id"], "c").json()["status"] == "paid"
    assert audit(one) == 2
    for daemon in (other, one):
        ended(daemon.refund(order["order_id"], "b", restock=True), "b", "refunded",
              **{**order, "status": "refunded"})
    assert story(one, order) == [
        ("accepted", 1, None), ("paid", 2, "a"), ("refund_due", None, "b"),
        ("refund_due", None, "c"), ("changed", 3, "b"), ("refunded", 4, None)]
    assert audit(one) == 0
    assert len(sell_out(one)) == 3


def test_each_of_many_orders_is_paid_while_one_of_its_payments_is_left(pair):
    """Both payments of CROWD orders are refunded at once, and told again: an order is refunded by
    the second refund, whichever that is."""
    one, other = pair
    one.reset("demo", CROWD, 20)
    orders = [order_id for order_id, _ in sell_out(one)]
    for order in orders:
        assert one.pay(order, "a").status == 200
        assert one.pay(order, "b").status == 409
    ends = [(daemon, order, ref) for order in orders for ref in "ab" for daemon in pair]
    with ThreadPoolExecutor(32) as clients:
        answers = list(clients.map(lambda end: end[0].refund(end[1], end[2], restock=True), ends))
    assert {response.status for response in answers} == {200}
    assert {response.json()["payment_state"] for response in answers} == {"refunded"}
    assert {row["state"] for row in payments(one)} == {"refunded"}
    assert {state_of(one, order)["status"] for order in orders[:20]} == {"refunded"}
    assert audit(other) == 0
    assert len(sell_out(one)) == CROWD


# A payment that fails

def moment(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def test_failed_payment_leaves_the_order_to_be_paid_again(pair):
    one, other = pair
    one.reset("demo", 2, 1, per_user_limit=2, pay_within_s=PAY_WITHIN_S)
    order = one.order(qty=2).json()
    assert one.pay(order["order_id"], "a").status == 200
    before = datetime.now(timezone.utc)
    answers = [daemon.unpay(order["order_id"], "a") for daemon in (one, other, one)]
    held = state_of(one, order["order_id"])
    assert held.pop("version") == 3
    assert held == {**order, "status": "reserved", "expires_at": held["expires_at"]}
    for response in answers:
        ended(response, "a", "failed", **held)
    # By the ledger's clock, which is this machine's.
    assert moment(order["expires_at"]) < moment(held["expires_at"]) <= \
        datetime.now(timezone.utc) + timedelta(seconds=PAY_WITHIN_S)
    assert moment(held["expires_at"]) >= before + timedelta(seconds=PAY_WITHIN_S - 1)
    assert one.stock()["sold"] == 2
    assert [row["payment_ref"] for row in payments(one, state="failed")] == ["a"]
    response = other.pay(order["order_id"], "a")
    refused(response, "payment_failed", "reserved", "a", "failed")
    assert_problem(one.refund(order["order_id"], "a"), 409, "invalid_state")
    assert audit(one) == 2
    assert other.pay(order["order_id"], "b").json() == {**held, "status": "paid",
                                                        "payment_ref": "b"}
    ended(one.unpay(order["order_id"], "a"), "a", "failed", **{**held, "status": "paid"})
    refused(one.pay(order["order_id"], "a"), "payment_failed", "paid", "a", "failed")
    assert states(one, order) == {"a": "failed", "b": "taken"}
    page = one.admin("GET", "/admin/audit?sku=demo").json()["sales"][0]
    assert page["payments"] == {"taken": 1, "refund_due": 0, "refunded": 0, "failed": 1}
    assert page["unmatched"] == 0
    assert sum(daemon.metric("seckill_payments_failed_total") for daemon in pair) == 1
    assert story(one, order) == [("accepted", 1, None), ("paid", 2, "a"), ("unpaid", 3, "a"),
                                 ("paid", 4, "b")]
    assert audit(one) == 2


def test_order_whose_payment_failed_expires_again(daemon):
    daemon.reset("demo", 2, 1, pay_within_s=PAY_WITHIN_S, grace_s=1)
    order = daemon.order(qty=2).json()
    assert daemon.pay(order["order_id"], "a").status == 200
    daemon.change(pay_within_s=1)
    held = daemon.unpay(order["order_id"], "a").json()
    assert held["expires_at"] < order["expires_at"]
    feed = Feed(daemon)
    feed.until(lambda event: event["type"] == "order.expired", "the expiry")
    assert state_of(daemon, order["order_id"])["status"] == "expired"
    assert datetime.now(timezone.utc) >= moment(held["expires_at"]) + timedelta(seconds=1)
    refused(daemon.pay(order["order_id"], "a"), "payment_failed", "expired", "a", "failed")
    daemon.change(pay_within_s=PAY_WITHIN_S)
    assert len(sell_out(daemon)) == 2
    assert audit(daemon) == 2


def test_without_a_time_to_pay_it_is_reserved_without_an_end(daemon):
    daemon.reset("demo", 2, 1)
    order = daemon.order().json()
    daemon.pay(order["order_id"], "a")
    ended(daemon.unpay(order["order_id"], "a"), "a", "failed", **order)
    assert daemon.cancel(order["order_id"]).json() == {**order, "status": "cancelled"}
    assert audit(daemon) == 0


def test_second_payment_takes_the_place_of_a_failed_one(pair):
    one, other = pair
    one.reset("demo", 2, 1, pay_within_s=PAY_WITHIN_S)
    order = one.order().json()
    one.pay(order["order_id"], "a")
    one.pay(order["order_id"], "b")
    assert_problem(one.unpay(order["order_id"], "b"), 409, "invalid_state")  # it is refund_due
    for daemon in (one, other):
        ended(daemon.unpay(order["order_id"], "a"), "a", "failed", **{**order, "status": "paid"})
    assert states(one, order) == {"a": "failed", "b": "taken"}
    assert payments(one, state="refund_due") == []
    assert story(one, order) == [("accepted", 1, None), ("paid", 2, "a"),
                                 ("refund_due", None, "b"), ("changed", 3, "b")]
    assert audit(one) == 1


def test_payment_that_pays_nothing_cannot_fail(daemon):
    daemon.reset("demo", 9, 1, pay_within_s=PAY_WITHIN_S)
    nameless, back, gone = (daemon.order().json()["order_id"] for _ in range(3))
    daemon.pay(nameless)
    daemon.pay(back, "a")
    daemon.refund(back, "a")
    daemon.cancel(gone)
    daemon.pay(gone, "a")
    assert_problem(daemon.unpay(nameless, "a"), 404, "unknown_payment")
    assert_problem(daemon.unpay("123456789", "a"), 404, "unknown_order")
    assert_problem(daemon.unpay(back, "b"), 404, "unknown_payment")
    assert_problem(daemon.unpay(back, "a"), 409, "invalid_state")
    assert_problem(daemon.unpay(gone, "a"), 409, "invalid_state")
    for body in ({}, {"payment_ref": ""}, {"payment_ref": "a", "keep": 1}):
        response = daemon.request("POST", f"/order/{back}/unpay", body)
        assert_problem(response, 400, "invalid_request")
    assert state_of(daemon, back)["status"] == "refunded"
    assert state_of(daemon, gone)["status"] == "cancelled"


def test_payment_of_a_round_that_is_over_cannot_fail(pair):
    """The other daemon may not have heard of the reset yet."""
    one, other = pair
    one.reset("demo", 9, 1, pay_within_s=PAY_WITHIN_S)
    order = other.order().json()
    assert other.pay(order["order_id"], "a").status == 200
    one.reset("demo", 9, 1)
    response = other.unpay(order["order_id"], "a")
    assert_problem(response, 409, "invalid_state")
    assert response.json()["order_status"] == "paid"
    assert one.admin("DELETE", "/admin/sale/demo").status == 200
    assert_problem(one.unpay(order["order_id"], "a"), 409, "invalid_state")
    assert one.refund(order["order_id"], "a").json()["status"] == "refunded"


def test_payment_fails_without_redis(private_stack, spawn):
    daemon = spawn(private_stack, **STEADY)
    daemon.reset("demo", 4, 1, pay_within_s=PAY_WITHIN_S)
    order = daemon.order().json()
    assert daemon.pay(order["order_id"], "a").status == 200
    private_stack.redis_server.kill()
    assert daemon.unpay(order["order_id"], "a").json()["status"] == "reserved"
    private_stack.redis_server.start()


# Expired orders that are cancelled

def test_cancelled_order_does_not_come_back_from_its_expiry(pair):
    one, other = pair
    one.reset("demo", 3, 1, pay_within_s=1, per_user_limit=2)
    order = expired(one, qty=2)
    assert_problem(one.cancel(order["order_id"], keep=1), 409, "invalid_state")
    for daemon in (one, other, one):
        assert daemon.cancel(order["order_id"]).json() == {**order, "status": "cancelled"}
    assert one.stock()["sold"] == 0
    refused(other.pay(order["order_id"], "late"), "payment_too_late", "cancelled", "late")
    assert story(one, order) == [("accepted", 1, None), ("expired", 2, None),
                                 ("cancelled", 3, None), ("refund_due", None, "late")]
    one.change(pay_within_s=None, per_user_limit=None)
    assert len(sell_out(one)) == 3
    assert audit(one) == 3


def test_expired_order_is_cancelled_after_its_round_and_its_sale(daemon):
    daemon.reset("demo", 3, 1, pay_within_s=1)
    one, other = expired(daemon), expired(daemon)
    daemon.reset("demo", 3, 1)
    assert daemon.cancel(one["order_id"]).json()["status"] == "cancelled"
    assert daemon.admin("DELETE", "/admin/sale/demo").status == 200
    for _ in range(2):
        assert daemon.cancel(other["order_id"]).json() == {**other, "status": "cancelled"}


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("strategy", ["segment_lock", "database"])
def test_late_payment_or_cancel_has_each_order(stack, spawn, strategy):
    """CROWD expired orders are cancelled and paid at the same time: each is either."""
    pair = tuple(spawn(stack, **STEADY, strategy=strategy) for _ in range(2))
    one, other = pair
    one.reset("demo", CROWD, 20, pay_within_s=3600)
    orders = [order_id for order_id, _ in sell_out(one)]
    ledger = stack.ledger
    ledger.run("UPDATE orders SET expires_at = '2020-01-01'; DELETE FROM order_expiry;"
               " INSERT INTO order_expiry SELECT '2020-01-01', MIN(order_id), MAX(order_id)"
               " FROM orders")
    wait_until(lambda: ledger.number(
        "SELECT COUNT(*) FROM orders WHERE status = 'reserved'") == 0, "the expiry of all")
    calls = [call for order in orders for call in (
        lambda order=order: one.pay(order, "late"), lambda order=order: other.cancel(order))]
    with ThreadPoolExecutor(32) as clients:
        answers = list(clients.map(lambda call: call(), calls))
    paid = [response.status == 200 for response in answers[::2]]
    gone = [response.status == 200 for response in answers[1::2]]
    print(f"{strategy}: {sum(paid)} paid, {sum(gone)} cancelled")
    assert {response.answer for response in answers} <= {
        "200", "409 payment_too_late", "409 invalid_state"}
    assert [one != other for one, other in zip(paid, gone)] == [True] * len(orders)
    assert ledger.number("SELECT COUNT(*) FROM orders WHERE status = 'paid'") == sum(paid)
    assert ledger.number("SELECT COUNT(*) FROM refund_due") == sum(gone)
    assert (audit if strategy == "segment_lock" else audit_after_faults)(one) == sum(paid)


# A part of an order

@pytest.mark.parametrize("paid", [True, False])
def test_order_cannot_keep_more_than_it_ever_had(daemon, paid):
    daemon.reset("demo", 5, 1)
    order = daemon.order(qty=3).json()["order_id"]

    def cut(keep):
        return daemon.refund(order, "a", keep=keep) if paid else daemon.cancel(order, keep=keep)
    if paid:
        daemon.pay(order, "a")
    assert_problem(cut(4), 422, "keep_too_large")
    assert cut(3).json()["qty"] == 3
    assert cut(2).json()["qty"] == 2
    assert cut(3).json()["qty"] == 2  # a repeat that comes late
    assert_problem(cut(4), 422, "keep_too_large")
