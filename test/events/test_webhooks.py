"""Webhooks: what receivers get, in which order, and what becomes of those that fail."""

import re
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from email.utils import formatdate

import pytest

from harness.audit import sell_out
from harness.client import assert_problem
from harness.daemon import STEADY
from harness.engines_sentinel import Certificates
from harness.feed import published
from harness.processes import ROOT, free_port, wait_until
from harness.receiver import Receiver

QUEUE = ROOT / "service" / "events" / "webhook_queue.h"
ON = {**STEADY, "events_retention_h": 24, "webhook_networks": "127.0.0.0/8"}


@pytest.fixture
def daemon(stack, spawn):
    daemon = spawn(stack, **ON)
    daemon.reset("demo", 1000, 4, pay_within_s=600)
    settled(daemon)
    return daemon


@pytest.fixture
def receiver():
    with Receiver() as receiver:
        yield receiver


def settled(daemon, sku="demo"):
    """Waits until the sale's own events are published."""
    wait_until(lambda: daemon.stack.ledger.number(
        f"SELECT COUNT(*) FROM event_sale WHERE sku = '{sku}'"), "the sale's event")
    published(daemon)


def put(daemon, name="w", status=201, **settings):
    response = daemon.admin("PUT", f"/admin/webhooks/{name}", settings)
    assert response.status == status, response
    return response.json()


def get(daemon, name="w"):
    return daemon.admin("GET", f"/admin/webhooks/{name}").json()


def post(daemon, call, body=None, name="w"):
    return daemon.admin("POST", f"/admin/webhooks/{name}/{call}", body)


def orders(daemon, count, first=0):
    answers = [daemon.order(user_id=f"u{first + n}") for n in range(count)]
    assert {answer.status for answer in answers} == {201}
    return [answer.json()["order_id"] for answer in answers]


def caught_up(daemon, name="w"):
    wait_until(lambda: get(daemon, name)["lag"] == 0, f"{name} to have all events")


def is_state(daemon, state, reason=None):
    def look():
        now = get(daemon)
        return now["state"] == state and now.get("reason") == reason
    wait_until(look, f"the webhook to be {state}")


def test_events_are_delivered_signed_and_in_order(daemon, receiver):
    secret = put(daemon, url=receiver.url)["secret"]
    ids = orders(daemon, 5)
    assert all(daemon.pay(order).status == 200 for order in ids)
    receiver.has(10)
    receiver.assert_in_order()
    for delivery in receiver.deliveries:
        event, = delivery.events
        assert delivery.id == f"evt_0_{event['id']}"
        assert delivery.headers["content-type"] == "application/json"
        assert delivery.signed_by(secret)
        assert abs(int(delivery.headers["webhook-timestamp"]) - time.time()) < 60
    assert {event["subject"] for event in receiver.events} == set(ids)
    caught_up(daemon)
    now = get(daemon)
    assert (now["delivered"], now["last_status"], now["failures"]) == (10, 204, 0)
    assert daemon.metric('seckill_webhook_deliveries_total{result="ok"}') == 10
    assert secret not in daemon.log() and "whsec" not in str(daemon.admin("GET", "/admin/webhooks"))


def test_batch_is_an_array(daemon, receiver):
    held = threading.Event()
    receiver.answer = lambda delivery: (held.wait(60) and 200, {})
    put(daemon, url=receiver.url, batch=10, concurrency=1, timeout_s=60,
        content_type="application/cloudevents+json")
    ids = orders(daemon, 1)
    wait_until(lambda: receiver.deliveries, "the first request")
    ids += orders(daemon, 30, first=1)
    published(daemon)
    held.set()
    events = receiver.has(31)
    receiver.assert_in_order()
    assert [event["subject"] for event in events] == ids
    assert max(len(delivery.events) for delivery in receiver.deliveries) == 10
    for delivery in receiver.deliveries:
        assert delivery.id == f"evt_0_{delivery.events[0]['id']}_{len(delivery.events)}"
        assert delivery.headers["content-type"] == "application/cloudevents-batch+json"
    assert receiver.most == 1


def test_filters_choose_types_and_skus(daemon, receiver):
    daemon.reset("other", 10, 1)
    settled(daemon, "other")
    put(daemon, "paid", url=receiver.url, types=["order.paid"])
    with Receiver() as other:
        put(daemon, "other", url=other.url, skus=["other"], types=[])
        order, = orders(daemon, 1)
        assert daemon.order("other").status == 201
        assert daemon.pay(order).status == 200
        receiver.has(1)
        other.has(1)
        caught_up(daemon, "paid")  # events that it does not want count as delivered
        caught_up(daemon, "other")
        assert [event["type"] for event in receiver.events] == ["order.paid"]
        assert [event["sku"] for event in other.events] == ["other"]


def test_failed_request_is_sent_again_the_same(daemon, receiver):
    receiver.answer = lambda delivery: (500 if len(receiver.deliveries) < 3 else 200, {})
    put(daemon, url=receiver.url)
    orders(daemon, 1)
    receiver.has(1)
    first, second, third = receiver.deliveries
    assert first.id == second.id == third.id and first.body == second.body == third.body
    assert second.at - first.at >= 0.45 and third.at - second.at >= 0.9
    caught_up(daemon)
    assert get(daemon)["failures"] == 0 and "failing_since" not in get(daemon)
    assert daemon.metric('seckill_webhook_deliveries_total{result="failed"}') == 2


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("status, date", [(429, False), (503, True)])
def test_retry_after_is_heeded(daemon, receiver, status, date):
    def answer(_):
        if len(receiver.deliveries) > 1:
            return 200, {}
        return status, {"Retry-After": formatdate(time.time() + 4, usegmt=True) if date else "3"}
    receiver.answer = answer
    put(daemon, url=receiver.url)
    orders(daemon, 1)
    receiver.has(1)
    first, second = receiver.deliveries
    assert second.at - first.at >= 2


def test_wait_is_shown_and_resume_ends_it(daemon, receiver):
    """A receiver that asks one request of four to wait stops them all, and says so."""
    held = threading.Event()

    def answer(delivery):
        held.wait(30)
        if delivery is not receiver.deliveries[3]:
            return 200, {}
        wait_until(lambda: len(receiver.taken) == 3, "the answers to the others")
        return 429, {"Retry-After": "600"}
    receiver.answer = answer
    put(daemon, url=receiver.url, retry_max_s=400)
    orders(daemon, 4)
    wait_until(lambda: len(receiver.deliveries) == 4, "four requests at a time")
    asked = time.time()
    held.set()
    wait_until(lambda: "waits_for" in get(daemon), "the wait's note")
    now = get(daemon)
    assert (now["state"], now["waits_for"]) == ("active", "retry_after")
    until = datetime.fromisoformat(now["next_try_at"].replace("Z", "+00:00")).timestamp()
    assert 390 <= until - asked <= 430  # not more than retry_max_s, from the answer on
    orders(daemon, 1, first=4)
    published(daemon)
    receiver.answer = lambda delivery: (200, {})
    assert "next_try_at" not in post(daemon, "resume").json()
    receiver.has(5)


@pytest.mark.long
def test_failing_receiver_is_tried_every_15_seconds(daemon, receiver):
    receiver.answer = lambda delivery: (500, {})
    put(daemon, url=receiver.url, concurrency=3)
    daemon.stack.ledger.run("UPDATE webhook SET generation=generation+1, failures=40,"
                            " failing_since=UTC_TIMESTAMP(3) - INTERVAL 50 MINUTE")
    orders(daemon, 20)
    wait_until(lambda: get(daemon).get("waits_for") == "failing", "the wait's note")
    until = datetime.fromisoformat(get(daemon)["next_try_at"].replace("Z", "+00:00")).timestamp()
    assert until - time.time() < 15.5
    many = threading.Barrier(3)  # the receiver is well: all its concurrency comes back at once
    first = len(receiver.deliveries)
    receiver.answer = lambda delivery: (
        200 if len(receiver.deliveries) == first + 1 or many.wait(30) >= 0 else 500, {})
    wait_until(lambda: len(receiver.taken) >= 4, "the receiver's events")
    many.abort()
    receiver.answer = lambda delivery: (200, {})


def test_redirect_is_not_followed(daemon, receiver):
    with Receiver() as aim:
        receiver.answer = lambda delivery: (302, {"Location": aim.url})
        put(daemon, url=receiver.url)
        orders(daemon, 1)
        wait_until(lambda: len(receiver.deliveries) >= 2, "a second try")
        assert not aim.deliveries
    wait_until(lambda: get(daemon).get("last_status") == 302, "its note")


def test_410_disables_until_resumed(daemon, receiver):
    receiver.answer = lambda delivery: (410, {})
    put(daemon, url=receiver.url)
    orders(daemon, 1)
    is_state(daemon, "disabled", "gone")
    wait_until(lambda: "event=webhook_disabled" in daemon.log(), "its line")
    receiver.answer = lambda delivery: (200, {})
    orders(daemon, 1, first=1)
    published(daemon)
    assert len(receiver.deliveries) <= 4  # none but those that were under way together
    assert post(daemon, "resume").json()["state"] == "active"
    receiver.has(2)


def test_change_of_a_disabled_webhook_resumes_it(daemon, receiver):
    receiver.answer = lambda delivery: (410, {})
    put(daemon, url=receiver.url)
    orders(daemon, 1)
    is_state(daemon, "disabled", "gone")
    with Receiver() as other:
        now = put(daemon, status=200, url=other.url)
        assert now["state"] == "active" and "reason" not in now
        other.has(1)
    post(daemon, "pause")
    assert put(daemon, status=200, url=receiver.url)["state"] == "paused"


def test_failing_for_days_disables(daemon, receiver):
    receiver.answer = lambda delivery: (500, {})
    put(daemon, url=receiver.url)
    daemon.stack.ledger.run("UPDATE webhook SET generation=generation+1, failures=1,"
                            " failing_since=UTC_TIMESTAMP(3) - INTERVAL 73 HOUR")
    orders(daemon, 1)
    is_state(daemon, "disabled", "failing")


def test_paused_webhook_gets_nothing_and_loses_nothing(daemon, receiver):
    put(daemon, url=receiver.url)
    orders(daemon, 1)
    receiver.has(1)
    caught_up(daemon)
    assert post(daemon, "pause").json()["state"] == "paused"
    with Receiver() as other:  # sees when the sender knows of it
        put(daemon, "other", url=other.url)
        orders(daemon, 1, first=1)
        other.has(1)
        caught = len(receiver.deliveries)
        orders(daemon, 3, first=2)
        other.has(4)
    assert len(receiver.deliveries) == caught and get(daemon)["lag"] >= 3
    post(daemon, "resume")
    receiver.has(5)
    receiver.assert_in_order()


def test_replay_goes_back(daemon, receiver):
    put(daemon, url=receiver.url)
    orders(daemon, 4)
    events = receiver.has(4)
    caught_up(daemon)
    positions = sorted(int(event["id"]) for event in events)
    assert post(daemon, "replay", {"after": str(positions[1])}).status == 200
    wait_until(lambda: len(receiver.events) == 6, "two events once more")
    assert sorted(int(event["id"]) for event in receiver.events[4:]) == positions[2:]
    ids = {delivery.id for delivery in receiver.deliveries}
    assert len(ids) == 4  # so that a receiver knows them
    assert_problem(post(daemon, "replay", {"after": str(positions[3] + 1)}), 400, "invalid_request")


def test_events_that_are_gone_are_told(daemon, receiver):
    put(daemon, url=receiver.url)
    post(daemon, "pause")
    with Receiver() as other:  # sees when the sender knows of it
        put(daemon, "other", url=other.url)
        orders(daemon, 1)
        other.has(1)
    caught = len(receiver.deliveries)
    orders(daemon, 3, first=1)
    published(daemon)
    ledger = daemon.stack.ledger
    ledger.run("DELETE FROM event_batch WHERE position < (SELECT next FROM event_feed) - 1;"
               "UPDATE event_feed SET oldest = next - 1")
    oldest = ledger.number("SELECT oldest FROM event_feed")
    refused = post(daemon, "replay", {"after": "0"})
    assert_problem(refused, 410, "cursor_expired")
    assert refused.json()["oldest"] == str(oldest - 1)
    post(daemon, "resume")
    is_state(daemon, "disabled", "expired")
    assert len(receiver.deliveries) == caught
    assert post(daemon, "replay", {"after": refused.json()["oldest"]}).status == 200
    post(daemon, "resume")
    assert receiver.has(caught + 1)[caught]["id"] == str(oldest)


def test_both_secrets_sign_after_a_rotation(daemon, receiver):
    old = put(daemon, url=receiver.url)["secret"]
    assert "secret" not in put(daemon, status=200, url=receiver.url)
    new = put(daemon, status=200, url=receiver.url, rotate_secret=True)["secret"]
    assert old != new

    def signed_by(first, second):
        """Whether a new event has these signatures: the sender may not know of the change yet."""
        order, = orders(daemon, 1)
        wait_until(lambda: [event for event in receiver.events if event["subject"] == order],
                   "the order's event")
        last = receiver.deliveries[-1]
        return (last.signed_by(old), last.signed_by(new)) == (first, second)
    wait_until(lambda: signed_by(True, True), "both signatures")
    assert len(receiver.deliveries[-1].headers["webhook-signature"].split()) == 2
    daemon.stack.ledger.run("UPDATE webhook SET old_secret_until=UTC_TIMESTAMP(3)")
    wait_until(lambda: signed_by(False, True), "the new signature alone")


def failing_as_long_as_the_older_failure(daemon):
    """A request to `dead` has failed for an hour, its receiver for less; with `refused` the
    receiver has failed for two hours. The sender notes its own times with each try, so these come
    again."""
    daemon.stack.ledger.run(
        "REPLACE webhook_undelivered(webhook,id,events,body,failing_since,answer)"
        " SELECT name,'evt_0_1',1,'{}',UTC_TIMESTAMP(3)-INTERVAL 1 HOUR,'500 ' FROM webhook"
        " WHERE name IN('dead','refused');"
        "UPDATE webhook SET failing_since=UTC_TIMESTAMP(3)-INTERVAL 2 HOUR WHERE name='refused';"
        "UPDATE webhook SET failing_since=UTC_TIMESTAMP(3)-INTERVAL 1 SECOND WHERE name='dead'")
    dead, refused = (daemon.metric(f'seckill_webhook_failing_seconds{{webhook="{name}"}}')
                     for name in ("dead", "refused"))
    return 3600 <= dead < 7200 <= refused


def test_dead_and_slow_receivers_delay_nobody(daemon, receiver):
    held = threading.Event()
    with Receiver(lambda delivery: (held.wait(60) and 200, {})) as slow:
        put(daemon, "slow", url=slow.url, timeout_s=60)
        put(daemon, "dead", url=f"http://127.0.0.1:{free_port()}/")
        put(daemon, "refused", url="https://localhost.invalid/")
        put(daemon, "good", url=receiver.url)
        orders(daemon, 50)
        since = time.monotonic()
        receiver.has(50)
        assert time.monotonic() - since < 8  # less than a request may take
        wait_until(lambda: len(slow.deliveries) == 4, "its concurrency")
        assert not slow.taken
        held.set()
        slow.has(50)
        slow.assert_in_order()
    wait_until(lambda: {"failing_since", "next_try_at"} <= get(daemon, "dead").keys(),
               "the pause after a failure")  # while it tries, there is no next try
    assert get(daemon, "dead")["lag"] == 50
    failing = 'seckill_webhook_failing_seconds{webhook="dead"}'
    wait_until(lambda: daemon.metric(failing), "the failing receiver's metric")
    wait_until(lambda: failing_as_long_as_the_older_failure(daemon), "the older failure's age")
    post(daemon, "pause", name="dead")
    wait_until(lambda: daemon.metric(failing) == 0, "that of a paused one")


def test_event_that_always_fails_holds_up_only_its_order(daemon, receiver):
    poison, *others = orders(daemon, 5)
    published(daemon)  # a webhook begins behind what is published
    receiver.answer = lambda delivery: (
        500 if delivery.events[0]["subject"] == poison else 200, {})
    put(daemon, url=receiver.url)
    assert all(daemon.pay(order).status == 200 for order in [poison, *others])
    receiver.has(4)
    assert {event["subject"] for event in receiver.events} == set(others)
    receiver.answer = lambda delivery: (200, {})
    receiver.has(5)


@pytest.mark.long
def test_event_that_always_fails_outlives_the_feed(daemon, spawn, receiver):
    """What a receiver refuses leaves the webhook's position behind, and is not forgotten with the
    feed's events."""
    poison, *others = orders(daemon, 3)
    published(daemon)
    receiver.answer = lambda delivery: (
        500 if delivery.events[0]["subject"] == poison else 200, {})
    put(daemon, url=receiver.url)
    assert all(daemon.pay(order).status == 200 for order in [poison, *others])
    receiver.has(2)
    wait_until(lambda: get(daemon).get("retrying_since") and get(daemon)["lag"] == 0,
               "the webhook to pass what fails", pause=0.1)
    entry, = daemon.admin("GET", "/admin/webhooks/w/undelivered").json()["undelivered"]
    assert entry["body"]["subject"] == poison and "given_up_at" not in entry
    assert entry["last_answer"].startswith("500")
    assert daemon.metric('seckill_webhook_failing_seconds{webhook="w"}') >= 0
    ledger = daemon.stack.ledger
    daemon.stop()
    ledger.run("DELETE FROM event_batch; UPDATE event_feed SET oldest = next")
    heir = spawn(daemon.stack, **ON)
    later = orders(heir, 5, first=3)
    wait_until(lambda: {event["subject"] for event in receiver.events} >= set(later),
               "events after the restart")
    assert get(heir)["state"] == "active"
    assert heir.cancel(later[0]).status == 200
    receiver.answer = lambda delivery: (200, {})
    wait_until(lambda: poison in {event["subject"] for event in receiver.events},
               "the event that has failed")
    wait_until(lambda: not heir.admin("GET", "/admin/webhooks/w/undelivered")
               .json()["undelivered"], "its note to go")


def undelivered(daemon):
    found = daemon.admin("GET", "/admin/webhooks/w/undelivered").json()["undelivered"]
    return [entry["id"] for entry in found if "given_up_at" in entry]


def test_event_is_given_up_and_replayed(daemon, receiver):
    receiver.answer = lambda delivery: (
        422 if delivery.events[0]["type"] == "order.accepted" else 200, {})
    put(daemon, url=receiver.url, give_up_s=2)
    poison, = orders(daemon, 1)
    wait_until(lambda: undelivered(daemon), "the event to be given up", pause=0.1)
    first, = undelivered(daemon)
    caught_up(daemon)
    assert get(daemon)["undelivered"] == 1 and get(daemon)["state"] == "active"
    wait_until(lambda: daemon.metric('seckill_webhook_undelivered{webhook="w"}') == 1, "its metric")
    assert f"event=webhook_undelivered webhook=w id={first}" in daemon.log()
    assert daemon.cancel(poison).status == 200  # later events of its order go on
    receiver.has(1)
    caught_up(daemon)

    refused = daemon.admin("POST", "/admin/webhooks/w/undelivered/replay", {"id": "evt_0_0"})
    assert_problem(refused, 404, "unknown_undelivered")
    sent = len(receiver.deliveries)
    replayed = daemon.admin("POST", "/admin/webhooks/w/undelivered/replay", {"id": first})
    assert replayed.status == 200 and replayed.json()["undelivered"] == 0
    wait_until(lambda: undelivered(daemon) == [first], "it to be given up once more",
               pause=0.1)
    assert {delivery.id for delivery in receiver.deliveries[sent:]} == {first}
    receiver.answer = lambda delivery: (200, {})
    daemon.admin("POST", "/admin/webhooks/w/undelivered/replay", {"id": first})
    receiver.has(2)
    wait_until(lambda: not daemon.admin("GET", "/admin/webhooks/w/undelivered")
               .json()["undelivered"], "its note to go")
    assert_problem(daemon.admin("POST", "/admin/webhooks/w/undelivered/discard", {"id": first}),
                   404, "unknown_undelivered")
    assert_problem(daemon.admin("GET", "/admin/webhooks/x/undelivered"), 404, "unknown_webhook")
    for body in ({}, {"id": 7}, {"id": "a b"}, {"id": "a", "other": 1}):
        assert_problem(daemon.admin("POST", "/admin/webhooks/w/undelivered/replay", body), 400,
                       "invalid_request")


def test_events_of_a_minute_pass_one_that_fails(daemon, receiver, load):
    """More than the queue holds, while one event is refused."""
    count = int(re.search(r"WEBHOOK_QUEUE_MAX = (\d+)", QUEUE.read_text())[1]) + 50
    poison, = orders(daemon, 1)
    published(daemon)
    receiver.answer = lambda delivery: (
        500 if delivery.events[0]["subject"] == poison else 200, {})
    daemon.reset("rush", count, 4)
    settled(daemon, "rush")
    put(daemon, url=receiver.url, types=["order.paid", "order.accepted"], batch=1000)
    assert daemon.pay(poison).status == 200
    wait_until(lambda: receiver.deliveries, "the refused event")
    load(daemon, connections=32, skus=["rush"]).wait()
    sell_out(daemon, "rush")
    receiver.has(count)


def test_headers_and_type_are_the_operators(daemon, receiver):
    key = "k-5f1e value"
    now = put(daemon, url=receiver.url, headers={"X-Api-Key": key, "Authorization": "Basic dTpw"})
    assert now["header_names"] == ["X-Api-Key", "Authorization"]
    assert now["content_type"] == "application/json"
    assert post(daemon, "test").json()["result"] == "ok"
    delivery = receiver.deliveries[-1]
    assert delivery.headers["x-api-key"] == key
    assert delivery.headers["authorization"] == "Basic dTpw"
    put(daemon, status=200, url=receiver.url, content_type="application/cloudevents+json", batch=3)
    post(daemon, "test")
    delivery = receiver.deliveries[-1]
    assert delivery.headers["x-api-key"] == key  # as it was
    assert delivery.headers["content-type"] == "application/cloudevents-batch+json"
    shown = str([daemon.admin("GET", path).json() for path in
                 ("/admin/webhooks", "/admin/webhooks/w", "/admin/actions")])
    assert key not in daemon.log() + shown and "dTpw" not in daemon.log() + shown
    assert put(daemon, status=200, url=receiver.url, headers={})["header_names"] == []
    post(daemon, "test")
    assert "x-api-key" not in receiver.deliveries[-1].headers


def test_webhook_of_before_keeps_its_content_type(daemon, spawn, receiver):
    put(daemon, url=receiver.url)
    ledger = daemon.stack.ledger
    daemon.stop()
    ledger.run("DROP TABLE webhook_undelivered; ALTER TABLE webhook DROP timeout_s,"
               " DROP retry_max_s, DROP give_up_s, DROP cloudevents, DROP headers,"
               " DROP wait_reason; DELETE FROM schema_version WHERE name LIKE '0018%'")
    heir = spawn(daemon.stack, **ON)
    now = get(heir)
    assert now["content_type"] == "application/cloudevents+json"
    assert (now["timeout_s"], now["retry_max_s"], now["give_up_s"]) == (10, 3600, 259200)
    assert put(heir, "new", url=receiver.url)["content_type"] == "application/json"


def test_timeout_is_the_webhooks(daemon, receiver):
    held = threading.Event()
    receiver.answer = lambda delivery: (held.wait(30) and 200, {})
    put(daemon, url=receiver.url, timeout_s=1)
    orders(daemon, 1)
    since = time.monotonic()
    wait_until(lambda: get(daemon)["failures"] > 0, "its failure")
    assert time.monotonic() - since < 8  # not the usual 10 s
    held.set()
    receiver.has(1)


def test_repeated_rotation_leaves_both_signatures(daemon, receiver):
    old = put(daemon, url=receiver.url)["secret"]
    new = put(daemon, status=200, url=receiver.url, rotate_secret=True)["secret"]
    assert put(daemon, status=200, url=receiver.url, rotate_secret=True)["secret"] == new
    post(daemon, "test")
    assert receiver.deliveries[-1].signed_by(old) and receiver.deliveries[-1].signed_by(new)


def test_tests_beside_a_hanging_receiver_get_their_time(stack, spawn, receiver):
    """Each has its time for the receiver, or is told to come back: never a time-out at once."""
    daemon = spawn(stack, **{**ON, "lease_ms": 3000, "deadline_ms": 2000})
    held = threading.Event()
    receiver.answer = lambda delivery: (held.wait(30) and 200, {})
    put(daemon, url=receiver.url)
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda _: post(daemon, "test"), range(3)))
    held.set()
    for answer in answers:
        if answer.status == 200:
            assert answer.json()["result"] == "timeout" and answer.json()["latency_ms"] >= 1000
        else:
            assert_problem(answer, 503, "overloaded")
            assert answer.headers["Retry-After"]
    assert 200 in {answer.status for answer in answers}


def test_killed_daemon_loses_nothing(stack, spawn, receiver):
    daemon, heir = (spawn(stack, **{**ON, "lease_ms": 1000}) for _ in range(2))
    daemon.reset("demo", 1000, 4)
    settled(daemon)
    put(daemon, url=receiver.url, batch=3)
    orders(daemon, 40)
    receiver.has(10)
    publisher, other = (daemon, heir) if daemon.metric("seckill_publisher_elected") else \
        (heir, daemon)
    publisher.kill()
    orders(other, 40, first=40)
    receiver.has(80)
    subjects = {event["subject"] for event in receiver.events}
    assert len(subjects) == 80 and receiver.overlaps == 0
    caught_up(other)


def test_test_tells_what_came_of_it(daemon, receiver):
    secret = put(daemon, url=receiver.url, batch=5)["secret"]
    found = post(daemon, "test").json()
    assert (found["result"], found["status"]) == ("ok", 204) and found["latency_ms"] < 3000
    delivery, = receiver.deliveries
    assert delivery.events[0]["type"] == "webhook.test" and delivery.signed_by(secret)
    assert get(daemon)["delivered"] == 0 and "last_at" not in get(daemon)
    held = threading.Event()
    receiver.answer = lambda delivery: (held.wait(30) and 200, {})
    answers = []
    thread = threading.Thread(target=lambda: answers.append(post(daemon, "test")))
    thread.start()
    wait_until(lambda: len(receiver.deliveries) == 2, "the second test")
    assert get(daemon)["state"] == "active"  # other calls do not wait for it
    assert not answers
    thread.join()
    held.set()
    assert answers[0].json()["result"] == "timeout"
    put(daemon, "closed", url=f"http://127.0.0.1:{free_port()}/")
    assert post(daemon, "test", name="closed").json()["result"] == "failed"
    put(daemon, "inside", url="https://localhost:1/")
    daemon_answer = post(daemon, "test", name="inside").json()
    assert daemon_answer["status"] == 0 and daemon_answer["answer"]


def test_private_targets_are_refused(stack, spawn, receiver):
    daemon = spawn(stack, **{**ON, "webhook_networks": None})
    assert_problem(daemon.admin("PUT", "/admin/webhooks/w", {"url": receiver.url}), 400,
                   "invalid_request")
    put(daemon, url="https://localhost/")
    assert post(daemon, "test").json()["result"] == "refused"
    daemon.reset("demo", 10, 1)
    orders(daemon, 1)
    wait_until(lambda: daemon.metric('seckill_webhook_deliveries_total{result="refused"}'),
               "a refused delivery")


def test_certificate_must_be_of_an_authority(stack, spawn, tmp_path):
    certificates = Certificates(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificates.cert, certificates.key)
    strict, trusting = spawn(stack, **ON), spawn(stack, **ON, webhook_ca_file=certificates.ca)
    with Receiver(tls=tls) as receiver:
        put(strict, url=receiver.url)
        refused = post(strict, "test").json()
        assert refused["result"] == "failed" and "certificate" in refused["answer"]
        assert not receiver.deliveries
        assert post(trusting, "test").json()["result"] == "ok"


def test_bad_settings_are_refused(daemon):
    for body in (
            {}, {"url": "ftp://x/"}, {"url": "https://u:p@example.com/"},
            {"url": "https://x/" + "y" * 510}, {"url": "https://x/", "batch": 0},
            {"url": "https://x/", "batch": 1001}, {"url": "https://x/", "concurrency": 17},
            {"url": "https://x/", "types": ["order.odd"]},
            {"url": "https://x/", "types": "order.paid"}, {"url": "https://x/", "skus": ["a b"]},
            {"url": "https://x/", "skus": ["s"] * 33}, {"url": "https://x/", "other": 1},
            {"url": "https://x/", "timeout_s": 61}, {"url": "https://x/", "retry_max_s": 0},
            {"url": "https://x/", "give_up_s": 1209601},
            {"url": "https://x/", "content_type": "text/plain"},
            {"url": "https://x/", "headers": ["A: b"]}, {"url": "https://x/", "headers": {"A": 1}},
            {"url": "https://x/", "headers": {"Host": "b"}},
            {"url": "https://x/", "headers": {"A": "b\n"}},
            {"url": "https://x/", "headers": {"webhook-id": "b"}},
            {"url": "https://x/", "headers": {f"a{n}": "b" for n in range(9)}},
            {"url": "https://x/", "rotate_secret": 1}, {"url": 7}, {"url": "https://x/\u00e9"}):
        response = daemon.admin("PUT", "/admin/webhooks/w", body)
        assert_problem(response, 400, "invalid_request")
        assert daemon.admin("GET", "/admin/webhooks").json() == {"webhooks": []}


def test_names_and_numbers_have_limits(daemon):
    for n in range(64):
        put(daemon, f"w{n}", url="https://example.com/")
    assert_problem(daemon.admin("PUT", "/admin/webhooks/x", {"url": "https://example.com/"}), 409,
                   "too_many_webhooks")
    assert len(daemon.admin("GET", "/admin/webhooks").json()["webhooks"]) == 64
    assert daemon.admin("DELETE", "/admin/webhooks/w0").json()["name"] == "w0"
    assert_problem(daemon.admin("DELETE", "/admin/webhooks/w0"), 404, "unknown_webhook")
    for call in ("test", "pause", "resume"):
        assert_problem(post(daemon, call, name="w0"), 404, "unknown_webhook")
    assert_problem(post(daemon, "replay", {"after": "0"}, name="w0"), 404, "unknown_webhook")
    assert_problem(daemon.admin("GET", "/admin/webhooks/w0"), 404, "unknown_webhook")
    assert_problem(daemon.request("GET", "/admin/webhooks"), 401, "unauthorized")


def test_without_events_there_are_no_webhooks(stack, spawn):
    daemon = spawn(stack, **STEADY)
    assert_problem(daemon.admin("GET", "/admin/webhooks"), 409, "events_off")
    assert_problem(daemon.admin("PUT", "/admin/webhooks/w", {"url": "https://example.com/"}), 409,
                   "events_off")
    assert_problem(post(daemon, "test"), 409, "events_off")
