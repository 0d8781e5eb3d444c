"""Payments with names: in time, late, twice, refunded; extended holds and parts of orders."""

import os
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import pytest

from harness.audit import answered, audit, audit_after_faults, sell_out, sell_out_after_faults
from harness.client import assert_problem
from harness.daemon import STEADY
from harness.load import crowd
from harness.processes import wait_until
from harness.proxy import COMMIT, Link

SHORT_S = 1  # time to pay
CROWD = int(os.environ.get("CROWD", "100"))


def state_of(daemon, order_id):
    return daemon.get(f"/order/{order_id}").json()


def is_expired(daemon, order_id):
    wait_until(lambda: state_of(daemon, order_id)["status"] == "expired", "the expiry", pause=0.05)


def expired(daemon, sku="demo", **order):
    """An order that has expired."""
    placed = daemon.order(sku, **order).json()
    is_expired(daemon, placed["order_id"])
    return placed


def payments(daemon, **query):
    """All of them, page by page."""
    found, after = [], {}
    while True:
        text = "&".join(f"{name}={value}" for name, value in {**query, **after}.items())
        page = daemon.admin("GET", f"/admin/payments?{text}").json()
        found += page["payments"]
        if "next" not in page:
            return found
        after = {"after": page["next"]}


def refused(response, code, order_status, ref, state="refund_due"):
    assert_problem(response, 409, code)
    body = response.json()
    assert (body["order_status"], body["payment_ref"], body["payment_state"]) \
        == (order_status, ref, state), body


def test_payment_in_time_is_taken_once(pair):
    one, other = pair
    one.reset("demo", 10, 2)
    order = one.order(qty=2).json()
    for daemon in (one, other, one):
        response = daemon.pay(order["order_id"], "pi_1")
        assert response.status == 200
        assert response.json() == {**order, "status": "paid", "payment_ref": "pi_1"}
    for _ in range(2):
        refused(other.pay(order["order_id"], "pi_2"), "already_paid", "paid", "pi_2")
    assert one.pay(order["order_id"]).json() == {**order, "status": "paid"}
    listed = payments(one)
    assert [(row["payment_ref"], row["state"], row["outcome"]) for row in listed] == \
        [("pi_1", "taken", "in_time"), ("pi_2", "refund_due", "already_paid")]
    assert [row["payment_ref"] for row in payments(one, state="refund_due", sku="demo")] == ["pi_2"]
    assert audit(one) == 2


def test_late_payment_gets_its_units_again(pair):
    one, other = pair
    one.reset("demo", 10, 2, pay_within_s=SHORT_S, per_user_limit=2)
    order = expired(one, qty=2)
    assert one.stock()["sold"] == 0
    for daemon in (other, one):
        response = daemon.pay(order["order_id"], "late")
        assert response.status == 200, response
        assert response.json() == {**order, "status": "paid", "payment_ref": "late",
                                   "retaken": True}
    assert one.stock()["sold"] == 2
    assert_problem(one.order(), 409, "limit_reached")
    assert audit(one) == 2


def test_late_payment_that_finds_nothing_left_is_due_back(pair):
    one, other = pair
    one.reset("demo", 3, 1, pay_within_s=SHORT_S)
    order = expired(one, qty=2)
    one.change(pay_within_s=None)
    sell_out(one)
    for daemon in (one, other):
        refused(daemon.pay(order["order_id"], "late"), "payment_too_late", "expired", "late")
    assert_problem(one.pay(order["order_id"]), 409, "invalid_state")
    for daemon in (other, one):
        response = daemon.refund(order["order_id"], "late")
        assert response.status == 200
        assert response.json() == {**order, "status": "expired", "payment_ref": "late",
                                   "payment_state": "refunded"}
    refused(one.pay(order["order_id"], "late"), "payment_too_late", "expired", "late", "refunded")
    assert payments(one, state="refund_due") == []
    assert audit(one) == 3


def test_settings_decide_about_late_payments_and_no_window_does(daemon):
    cases = {"late": ({"late_payment": "refund"}, 409), "limit": ({"per_user_limit": 1}, 409),
             "pause": ({"paused": True}, 200),
             "start": ({"starts_at": "2099-01-01T00:00:00Z"}, 200),
             "end": ({"ends_at": "2020-01-01T00:00:00Z"}, 200)}
    for sku in cases:
        daemon.reset(sku, 10, 2, pay_within_s=SHORT_S)
    orders = {sku: daemon.order(sku, qty=2).json()["order_id"] for sku in cases}
    for sku, (settings, outcome) in cases.items():
        is_expired(daemon, orders[sku])
        daemon.change(sku, **settings)
        response = daemon.pay(orders[sku], "late")
        assert response.status == outcome, response
        if outcome == 409:
            refused(response, "payment_too_late", "expired", "late")
        assert audit(daemon, sku) == (2 if outcome == 200 else 0)


def test_late_payment_goes_by_the_setting_that_another_daemon_has_made(pair):
    """Both have the sale in their memory."""
    one, other = pair
    for before, after in (("refund", "retake"), ("retake", "refund")):
        one.reset("demo", 10, 2, pay_within_s=SHORT_S, late_payment=before)
        order, second = expired(one), expired(other)
        one.change(late_payment=after)
        told = [other.pay(order["order_id"], "late").answer for _ in range(2)]
        assert "200" in told if after == "retake" else told == ["409 payment_too_late"] * 2, told
        one.change(late_payment=before)
        assert other.pay(second["order_id"], "p").answer == \
            ("200" if before == "retake" else "409 payment_too_late")


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("end", ["retired", "reset"])
def test_late_payment_after_its_sale_is_decided_beside_other_payments(stack, spawn, tmp_path, end):
    """A stream of payments passes through the worker that the late one needs."""
    daemon = spawn(stack, deadline_ms=2000)
    daemon.reset("demo", 10, 2, pay_within_s=SHORT_S)
    daemon.reset("other", 10, 2)
    order, paid = expired(daemon), daemon.order("other").json()
    if end == "reset":
        daemon.reset("demo", 5, 1)
    else:
        assert daemon.admin("DELETE", "/admin/sale/demo").status == 200
    paying = tmp_path / "pay.lua"
    paying.write_text("""wrk.method, wrk.body = "POST", '{"payment_ref":"p"}'
                         wrk.headers["Content-Type"] = "application/json"
                         function delay() return 10 end
                      """)
    calls = 'seckill_call_seconds_count{call="payment"}'
    told = []

    def beside_others():
        told.append(daemon.pay(order["order_id"], f"late-{len(told)}").answer)
        return len(told) >= 9 and daemon.metric(calls) > before + len(told)

    with crowd(daemon, f"/order/{paid['order_id']}/pay", 120, 32, script=paying) as stream:
        try:
            wait_until(lambda: daemon.metric(calls) > 100, "a stream of payments")
            before = daemon.metric(calls)
            wait_until(beside_others, "payments of the stream between nine late ones")
        finally:
            stream.kill()
    assert set(told) == {"409 payment_too_late"}


def test_order_paid_without_a_ref_says_so_when_the_ref_comes(pair):
    """It may be the same money, the buyer's only one: nobody is told to pay it back unseen."""
    one, other = pair
    one.reset("demo", 10, 2)
    order, named = one.order().json(), one.order().json()
    assert one.pay(order["order_id"]).status == one.pay(named["order_id"], "a").status == 200
    for daemon in (one, other, one):
        response = daemon.pay(order["order_id"], "p")
        refused(response, "already_paid", "paid", "p")
        assert "was paid before by a call without a payment_ref" in response.json()["detail"]
        response = daemon.pay(named["order_id"], "b")
        refused(response, "already_paid", "paid", "b")
        assert "Another payment has paid the order" in response.json()["detail"]
    assert one.refund(order["order_id"], "p").json()["payment_state"] == "refunded"
    assert state_of(other, order["order_id"])["status"] == "paid"
    assert audit(one) == 2


def due_counted(daemon):
    return daemon.metric("seckill_refunds_due")


def test_refunds_made_elsewhere_are_listed_and_not_counted(daemon):
    """The alert on their age would never end."""
    daemon.reset("demo", 10, 2)
    order, other = daemon.order().json(), daemon.order().json()
    for one, ref in ((order, "p"), (other, "q")):
        assert daemon.cancel(one["order_id"]).status == 200
        refused(daemon.pay(one["order_id"], ref), "payment_too_late", "cancelled", ref)
    wait_until(lambda: due_counted(daemon) == 2, "a count of the refunds", pause=0.2)
    assert_problem(daemon.admin("DELETE", "/admin/sale/demo"), 409, "refunds_due")
    assert daemon.admin("DELETE", "/admin/sale/demo", {"refunds_elsewhere": True}).status == 200
    wait_until(lambda: due_counted(daemon) == 0, "a count without them", pause=0.2)
    assert daemon.metric("seckill_refunds_due_oldest_seconds") == 0
    assert [row["payment_ref"] for row in payments(daemon, state="refund_due")] == ["p", "q"]
    assert daemon.refund(order["order_id"], "p").json()["payment_state"] == "refunded"
    refused(daemon.pay(order["order_id"], "later"), "payment_too_late", "cancelled", "later")
    wait_until(lambda: due_counted(daemon) == 1, "a count of what came after the sale", pause=0.2)
    # They are in the way of no later sale of that name, unlike what is still counted.
    daemon.reset("demo", 10, 2)
    assert_problem(daemon.admin("DELETE", "/admin/sale/demo"), 409, "refunds_due")
    assert daemon.refund(order["order_id"], "later").json()["payment_state"] == "refunded"
    assert daemon.admin("DELETE", "/admin/sale/demo").status == 200
    assert [row["payment_ref"] for row in payments(daemon, state="refund_due")] == ["q"]


def test_payment_after_the_round_or_the_sale_is_due_back(daemon):
    daemon.reset("demo", 10, 2)
    reserved, paid = daemon.order(qty=2).json(), daemon.order().json()
    assert daemon.pay(paid["order_id"], "first").status == 200
    daemon.reset("demo", 5, 1)
    refused(daemon.pay(reserved["order_id"], "late"), "payment_too_late", "expired", "late")
    assert daemon.refund(paid["order_id"], "first", restock=True).json()["status"] == "refunded"
    assert_problem(daemon.admin("DELETE", "/admin/sale/demo"), 409, "refunds_due")
    response = daemon.admin("DELETE", "/admin/sale/demo", {"refunds_elsewhere": True})
    assert response.status == 200, response
    refused(daemon.pay(reserved["order_id"], "later"), "payment_too_late", "expired", "later")
    for ref in ("late", "later"):
        assert daemon.refund(reserved["order_id"], ref).json()["payment_state"] == "refunded"
    assert payments(daemon, state="refund_due") == []


def test_order_paid_for_is_refunded_after_its_sale(daemon):
    daemon.reset("demo", 10, 2)
    paid = daemon.order(qty=2).json()
    assert daemon.pay(paid["order_id"], "first").status == 200
    assert daemon.admin("DELETE", "/admin/sale/demo").status == 200
    for _ in range(2):
        response = daemon.refund(paid["order_id"], "first", restock=True)
        assert response.json() == {**paid, "status": "refunded", "payment_ref": "first",
                                   "payment_state": "refunded"}


def test_cancelled_order_takes_no_payment(daemon):
    daemon.reset("demo", 10, 2)
    order = daemon.order().json()
    assert daemon.cancel(order["order_id"]).status == 200
    refused(daemon.pay(order["order_id"], "p"), "payment_too_late", "cancelled", "p")
    assert_problem(daemon.pay("123456789", "p"), 404, "unknown_order")
    assert_problem(daemon.refund(order["order_id"], "q"), 404, "unknown_payment")
    assert audit(daemon) == 0


@pytest.mark.parametrize("restock", [True, False])
def test_refund_returns_units_only_to_be_restocked(pair, restock):
    one, other = pair
    one.reset("demo", 4, 2, per_user_limit=2)
    order = one.order(qty=2).json()
    assert one.pay(order["order_id"], "p").status == 200
    assert other.order(user_id="u2", qty=2).status == 201
    assert one.order(user_id="u3").answer == "409 sold_out"
    for daemon, again in ((one, restock), (other, not restock)):
        response = daemon.refund(order["order_id"], "p", restock=again)
        assert response.json() == {**order, "status": "refunded", "payment_ref": "p",
                                   "payment_state": "refunded"}
    if restock:
        wait_until(lambda: other.order(qty=2).status == 201, "a sale of the units")
    else:
        assert one.order(user_id="u3").answer == "409 sold_out"
    refused(one.pay(order["order_id"], "p"), "invalid_state", "refunded", "p", "refunded")
    refused(one.pay(order["order_id"], "q"), "payment_too_late", "refunded", "q")
    page = one.admin("GET", "/admin/audit?sku=demo").json()["sales"][0]
    assert page["states"]["refunded"] == 1
    assert page["unreturned"] == (0 if restock else 2)
    assert page["payments"] == {"taken": 0, "refund_due": 1, "refunded": 1, "failed": 0}
    assert page["unmatched"] == 0
    assert audit(one) == 4


def test_part_of_an_order_is_given_back(pair):
    one, other = pair
    one.reset("demo", 5, 2, per_user_limit=5)
    order = one.order(qty=5, key="k").json()
    for keep in (3, 3, 4):
        response = one.cancel(order["order_id"], keep=keep)
        assert response.json() == {**order, "qty": 3, "ordered_qty": 5}
    assert one.pay(order["order_id"], "p").status == 200
    for daemon in (one, other):
        response = daemon.refund(order["order_id"], "p", keep=2, restock=True)
        assert response.json() == {**order, "status": "paid", "qty": 2, "ordered_qty": 5,
                                   "payment_ref": "p", "payment_state": "taken"}
    assert one.refund(order["order_id"], "p", keep=1).json()["qty"] == 1  # not restocked
    replay = one.order(qty=5, key="k")
    assert (replay.status, replay.json()) == \
        (200, {**order, "status": "paid", "qty": 1, "ordered_qty": 5})
    assert one.stock()["sold"] == 2
    wait_until(lambda: other.order(qty=3).status == 201, "a sale of the units")
    assert_problem(one.cancel(order["order_id"], keep=1), 409, "invalid_state")
    assert audit(one) == 5


def moment(text, later_s=0):
    at = datetime.fromisoformat(text.replace("Z", "+00:00")) + timedelta(seconds=later_s)
    return at.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def test_hold_is_extended_up_to_its_limit(pair):
    one, other = pair
    one.reset("demo", 5, 1, pay_within_s=2, hold_max_s=4)
    order = one.order().json()
    wanted, latest = moment(order["created_at"], 3), moment(order["created_at"], 4)
    for daemon in (one, other):
        response = daemon.extend(order["order_id"], wanted)
        assert (response.status, response.json()) == (200, {**order, "expires_at": wanted})
    assert one.extend(order["order_id"], order["created_at"]).json()["expires_at"] == wanted
    response = one.extend(order["order_id"], moment(latest, 0.001))
    assert_problem(response, 409, "hold_limit_reached")
    assert response.json()["latest"] == latest
    assert one.extend(order["order_id"], latest).status == 200
    assert sum(daemon.metric("seckill_orders_extended_total") for daemon in pair) == 2
    is_expired(one, order["order_id"])
    assert moment(datetime.now(timezone.utc).isoformat()) > latest
    assert_problem(one.extend(order["order_id"], latest), 409, "invalid_state")
    assert audit(one) == 0


def test_without_a_setting_no_hold_is_extended(daemon):
    daemon.reset("demo", 5, 1, pay_within_s=60)
    order = daemon.order().json()
    response = daemon.extend(order["order_id"], moment(order["expires_at"], 1))
    assert_problem(response, 409, "hold_limit_reached")
    assert response.json()["latest"] == order["expires_at"]
    daemon.reset("demo", 5, 1)
    order = daemon.order().json()
    assert daemon.extend(order["order_id"], "2100-01-01T00:00:00Z").json() == order
    assert_problem(daemon.extend(order["order_id"], "tomorrow"), 400, "invalid_request")


def test_payment_within_the_grace_is_in_time(daemon):
    daemon.reset("demo", 5, 1, pay_within_s=1, grace_s=3)
    order, other = daemon.order().json(), daemon.order().json()
    over = datetime.fromisoformat(order["expires_at"].replace("Z", "+00:00"))
    wait_until(lambda: datetime.now(timezone.utc) > over, "the end of the time to pay")
    time.sleep(0.5)
    assert state_of(daemon, order["order_id"]) == {**order, "version": 1}
    assert daemon.pay(order["order_id"], "p").json() == {**order, "status": "paid",
                                                         "payment_ref": "p"}
    is_expired(daemon, other["order_id"])
    assert datetime.now(timezone.utc) >= over + timedelta(seconds=3)
    assert audit(daemon) == 1


def test_bad_bodies_change_nothing(daemon):
    daemon.reset("demo", 5, 1, pay_within_s=60)
    order = daemon.order().json()
    for path, body in (
            ("pay", {"payment_ref": ""}), ("pay", {"payment_ref": "a b"}),
            ("pay", {"payment_ref": 1}), ("pay", {"payment_ref": "x" * 129}), ("pay", {"ref": "x"}),
            ("refund", {}), ("refund", {"payment_ref": "x", "restock": 1}),
            ("refund", {"payment_ref": "x", "keep": 0}), ("cancel", {"keep": 0}),
            ("cancel", {"keep": 1001}), ("cancel", {"keep": "1"}), ("extend", {}),
            ("extend", {"expires_at": None})):
        response = daemon.request("POST", f"/order/{order['order_id']}/{path}", body)
        assert_problem(response, 400, "invalid_request")
        assert state_of(daemon, order["order_id"]) == {**order, "version": 1}
        assert payments(daemon) == []


def test_names_of_every_kind_are_kept_as_they_are(daemon):
    daemon.reset("demo", 5, 1)
    order = daemon.order().json()
    ref = "".join(chr(code) for code in range(33, 127))
    assert daemon.pay(order["order_id"], ref).json()["payment_ref"] == ref
    long = "\\" * 128
    refused(daemon.pay(order["order_id"], long), "already_paid", "paid", long)
    assert {row["payment_ref"] for row in payments(daemon)} == {ref, long}


def send_all(daemon, requests):
    """The answers of many requests at once, as (status, body)."""
    with ThreadPoolExecutor(64) as clients:
        return list(clients.map(lambda request: daemon.request(*request), requests))


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("late_payment", ["retake", "refund"])
def test_crowd_whose_time_ends_pays_late_beside_buyers(pair, late_payment):
    """CROWD orders expire at one moment while their payments arrive, and buyers take every unit
    that becomes free: whoever paid has a unit or is due his money, and the sums are right."""
    one, other = pair
    one.reset("demo", CROWD, 20, pay_within_s=3600, late_payment=late_payment)
    orders = [order_id for order_id, _ in sell_out(one)]
    assert len(orders) == CROWD
    past = "2020-01-01"
    one.stack.ledger.run(
        f"UPDATE orders SET expires_at = '{past}'; DELETE FROM order_expiry;"
        f" INSERT INTO order_expiry SELECT '{past}', MIN(order_id), MAX(order_id) FROM orders")
    pays = [("POST", f"/order/{order_id}/pay", {"payment_ref": f"pi-{order_id}"})
            for order_id in orders]
    buys = [("POST", "/order", {"sku": "demo", "user_id": f"b{n}", "qty": 1})
            for n in range(CROWD)]
    with ThreadPoolExecutor(2) as crowds:
        bought = crowds.submit(send_all, other, buys)
        paid = send_all(one, pays)
        bought = bought.result()
    told = Counter(response.answer for response in paid)
    got = Counter(response.answer for response in bought)
    print(f"{late_payment}: {dict(told)} of {CROWD} payments, {dict(got)} of {CROWD} buyers")
    assert told.keys() <= {"200", "409 payment_too_late"}, told
    assert got.keys() <= {"201", "409 sold_out"}, got
    wait_until(lambda: one.stack.ledger.number(
        "SELECT COUNT(*) FROM orders WHERE status = 'reserved' AND expires_at < '2021-01-01'") == 0,
        "an end of all orders")
    report = one.admin("GET", "/admin/audit?sku=demo").json()["sales"][0]
    assert report["states"]["paid"] == told["200"] == report["payments"]["taken"]
    assert report["payments"]["refund_due"] == told["409 payment_too_late"]
    assert report["states"]["reserved"] == got["201"]
    assert told["200"] + got["201"] <= CROWD
    for response in paid:
        assert response.status == 409 or response.json().get("retaken") is True
    left = sell_out(one) if told["200"] + got["201"] < CROWD else []
    assert told["200"] + got["201"] + len(left) == CROWD
    assert audit(one) == CROWD


def test_late_payments_keep_no_payment_in_time_waiting(private_stack, spawn):
    """Redis hangs: late payments wait for it, and payments in time, which need none, do not."""
    daemon = spawn(private_stack, lease_ms=30_000)
    daemon.reset("demo", 40, 4, pay_within_s=3600)
    orders = [daemon.order(user_id=f"u{n}").json()["order_id"] for n in range(20)]
    late, due = orders[:10], orders[10:]
    private_stack.ledger.run(
        f"UPDATE orders SET expires_at = '2020-01-01' WHERE order_id <= {late[-1]};"
        f" INSERT INTO order_expiry VALUES ('2020-01-01', {late[0]}, {late[-1]})")
    is_expired(daemon, late[-1])
    private_stack.redis_server.signal(signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(10) as clients:
            waiting = [clients.submit(daemon.pay, order_id, "late") for order_id in late]
            told_due = [daemon.pay(order_id, "p").answer for order_id in due]
            assert not any(one.done() for one in waiting)
            private_stack.redis_server.signal(signal.SIGCONT)
            told = Counter(one.result().answer for one in waiting)
    finally:
        private_stack.redis_server.signal(signal.SIGCONT)
    assert told_due == ["200"] * len(due)
    assert told.keys() <= {"200", "503 unavailable", "503 outcome_unknown"}, told
    for order_id in late:
        wait_until(lambda: daemon.pay(order_id, "late").status == 200, "a late payment")
    assert {row["state"] for row in payments(daemon)} == {"taken"}


def test_late_payment_waits_while_the_users_are_counted(daemon):
    """A limit is set in mid-sale. Until its users are counted the sale takes no orders, and no late
    payment is too late for that."""
    daemon.reset("demo", 10, 2, pay_within_s=SHORT_S)
    order = expired(daemon, qty=2)
    daemon.change(pay_within_s=None)
    assert daemon.order(user_id="u2").status == 201
    ledger = daemon.stack.ledger
    with ThreadPoolExecutor(1) as client, \
            ledger.transaction("INSERT INTO user_quota VALUES ('demo', 0, 'x', 0, 1, '')"):
        assert daemon.change(per_user_limit=2)["counting"] is True
        paying = client.submit(daemon.pay, order["order_id"], "late")
        payments_seen = daemon.metric('seckill_call_seconds_count{call="payment"}')
        assert daemon.order(user_id="u3").answer == "503 unavailable"
        assert not paying.done() and payments_seen == 0
        assert ledger.number("SELECT COUNT(*) FROM payment") == 0
    assert paying.result().json()["retaken"] is True
    assert audit(daemon, changed=True) == 3


def test_order_that_another_daemon_pays_meanwhile_takes_no_units_again(stack, spawn, proxies):
    """Both have seen it as expired, and hold its units in two segments."""
    proxy = proxies(stack.ledger.port)
    slow, other = spawn(stack, mysql_url=proxy.url(stack.mysql_url)), spawn(stack)
    slow.reset("demo", 10, 2, pay_within_s=SHORT_S)
    order = expired(slow, qty=2)
    first = []
    taken = proxy.once(rb"status='expired'AND order_id IN",
                       before=lambda link: first.append(other.pay(order["order_id"], "first")))
    second = slow.pay(order["order_id"], "second")
    taken.wait()
    assert first[0].json() == {**order, "status": "paid", "payment_ref": "first", "retaken": True}
    refused(second, "already_paid", "paid", "second")
    assert [(row["payment_ref"], row["state"], row["outcome"]) for row in payments(slow)] == \
        [("first", "taken", "retaken"), ("second", "refund_due", "already_paid")]
    assert audit_after_faults(slow) == 2


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("lost", ["after", "before"])
def test_retake_whose_commit_is_not_answered_is_told_as_it_is(stack, spawn, proxies, lost):
    """Nobody's order tells whose commit has paid it: the payment's own row does."""
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url))
    daemon.reset("demo", 4, 2, pay_within_s=SHORT_S)
    order = expired(daemon, qty=2)
    daemon.change(pay_within_s=None)
    taken = proxy.once(rb"status='expired'AND order_id IN",
                       after=lambda link: proxy.once(COMMIT, **{lost: Link.cut}))
    response = daemon.pay(order["order_id"], "late")
    taken.wait()
    assert response.status == 200, response
    assert response.json() == {**order, "status": "paid", "payment_ref": "late", "retaken": True}
    assert [row["outcome"] for row in payments(daemon)] == ["retaken"]
    assert len(sell_out_after_faults(daemon)) == 2
    assert audit_after_faults(daemon) == 4


def test_refund_in_doubt_that_a_failure_forestalls_is_not_counted_as_one(stack, spawn, proxies):
    """Its commit was lost, and meanwhile the payment is told as failed at another daemon."""
    proxy = proxies(stack.ledger.port)
    one, other = spawn(stack, mysql_url=proxy.url(stack.mysql_url), **STEADY), spawn(stack)
    other.reset("demo", 4, 1)
    order, answers = other.order().json()["order_id"], []
    assert other.pay(order, "a").status == 200
    assert one.cancel(one.order().json()["order_id"]).status == 200  # it knows the sale

    def overtake(link):
        proxy.refuse()
        link.cut()
        answers.append(answered(lambda: other.unpay(order, "a")).status)
        proxy.admit()
    trap = proxy.once(rb"UPDATE payment SET state",
                      after=lambda _: proxy.once(COMMIT, before=overtake))
    response = one.refund(order, "a")
    trap.wait()
    assert answers == [200]
    assert response.answer == "409 invalid_state", response
    for name, counts in (("failed", [0, 1]), ("refunded", [0, 0])):
        assert counts == [daemon.metric(f"seckill_payments_{name}_total")
                          for daemon in (one, other)]


def test_no_order_has_the_id_0(daemon):
    """A shop whose order is missing must not be told of everybody's payments."""
    daemon.reset("demo", 2, 1)
    daemon.pay(daemon.order().json()["order_id"], "p")
    for path in ("/payments", "/admin/payments"):
        for number in ("0", "00"):
            assert_problem(daemon.admin("GET", f"{path}?order_id={number}"), 400, "invalid_request")


def test_payment_that_was_paid_back_owes_nothing(daemon):
    daemon.reset("demo", 2, 1)
    order = daemon.order().json()["order_id"]
    daemon.pay(order, "first")
    assert "to be paid back" in daemon.pay(order, "second").json()["detail"]
    assert daemon.refund(order, "second").status == 200
    again = daemon.pay(order, "second")
    assert_problem(again, 409, "already_paid")
    assert (again.json()["payment_state"], again.json()["detail"]) == (
        "refunded", "The payment was paid back: nothing is owed any more.")
