"""A retry with the same key gives the same order, whatever happened in between."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from harness.audit import answered, audit, audit_after_faults, sell_out
from harness.client import assert_problem
from harness.daemon import STEADY
from harness.processes import wait_until
from harness.proxy import COMMIT, WRITE

LOOK_UP = rb"FROM order_key"  # of keys, by the daemon that has the repeat


def expect_repeats(daemon):
    """From now on the daemon looks keys up before it tries their orders, for a while."""
    daemon.reset("repeated")
    for _ in range(2):
        repeat = answered(lambda: daemon.order("repeated", key="repeated"))
    assert repeat.status == 200


def orders_in_ledger(daemon):
    return daemon.stack.ledger.number("SELECT COUNT(*) FROM orders")


def test_repeat_is_200_with_the_first_answer(pair):
    one, other = pair
    one.reset()
    first = one.order(qty=2, key="k")
    assert first.status == 201
    for daemon in (one, other, one):
        repeat = daemon.order(qty=2, key="k")
        assert repeat.status == 200
        assert repeat.json() == first.json()
    assert orders_in_ledger(one) == 1
    assert audit(one) == 2


def test_repeat_shows_the_orders_present_status(pair):
    """At once, at whichever daemon, also when the keys are looked up before."""
    one, other = pair
    one.reset("demo", 40, 4)
    one.reset("short", 10, 1, pay_within_s=1)

    def repeats(sku, key, first, status):
        for daemon in (one, other):
            repeat = daemon.order(sku, key=key)
            assert (repeat.status, repeat.json()) == (200, {**first, "status": status})

    firsts = {key: one.order(key=key).json() for key in ("paid", "cancelled", "reserved")}
    firsts["expired"] = one.order("short", key="expired").json()
    assert one.pay(firsts["paid"]["order_id"]).status == 200
    repeats("demo", "paid", firsts["paid"], "paid")
    assert other.cancel(firsts["cancelled"]["order_id"]).status == 200
    repeats("demo", "cancelled", firsts["cancelled"], "cancelled")
    repeats("demo", "reserved", firsts["reserved"], "reserved")
    wait_until(lambda: one.get(f"/order/{firsts['expired']['order_id']}").json()["status"] ==
               "expired", "expiry")
    repeats("short", "expired", firsts["expired"], "expired")


@pytest.mark.parametrize("change", [{"qty": 2}, {"sku": "other"}])
def test_same_key_with_another_body_is_422(daemon, change):
    daemon.reset("demo")
    daemon.reset("other")
    assert daemon.order(key="k").status == 201
    assert_problem(daemon.order(**change, key="k"), 422, "idempotency_key_reused")
    assert orders_in_ledger(daemon) == 1
    assert audit(daemon) == 1
    assert audit(daemon, "other") == 0


def test_key_of_another_user_never_gives_that_users_order(daemon):
    daemon.reset()
    first = daemon.order(user_id="alice", key="k").json()
    response = daemon.order(user_id="bob", key="k")
    assert response.answer in ("201", "422 idempotency_key_reused")
    assert first["order_id"].encode() not in response.body


def test_same_json_written_otherwise_is_the_same_body(daemon):
    daemon.reset()
    first = daemon.order(key="k")
    again = daemon.request("POST", "/order", b'{ "qty":1, "user_id":"u1", "sku":"demo" }',
                           {"Idempotency-Key": "k"})
    assert (again.status, again.json()) == (200, first.json())


@pytest.mark.parametrize("first, second", [("A1", '"A1"'), ('"A1"', "A1")])
def test_quoted_key_is_the_string_inside(daemon, first, second):
    """As the IETF's draft on the header writes a key."""
    daemon.reset()
    answers = [daemon.order(key=key) for key in (first, second)]
    assert [answer.status for answer in answers] == [201, 200]
    assert answers[0].json() == answers[1].json()
    stocks = [daemon.add(5, key=key).json()["total"] for key in (first, second)]
    assert stocks[0] == stocks[1]


def test_simultaneous_repeats_over_two_daemons_make_one_order(pair):
    pair[0].reset()
    for attempt in range(5):
        with ThreadPoolExecutor(32) as pool:
            answers = list(pool.map(lambda n: pair[n % 2].order(qty=2, key=f"k{attempt}"),
                                    range(32)))
        counts = Counter(response.answer for response in answers)
        assert counts == {"201": 1, "200": 31}
        assert len({response.json()["order_id"] for response in answers}) == 1
    assert orders_in_ledger(pair[0]) == 5
    assert audit(pair[0]) == 10


def test_simultaneous_reuses_with_other_bodies_make_one_order(pair):
    pair[0].reset()
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda n: pair[n % 2].order(qty=n + 1, key="k"), range(16)))
    assert Counter(response.answer for response in answers) == {
        "201": 1, "422 idempotency_key_reused": 15}
    assert orders_in_ledger(pair[0]) == 1
    audit(pair[0])


def test_repeat_after_the_sale_sold_out_gives_the_order(pair):
    one, other = pair
    one.reset("demo", 4, 2)
    first = one.order(key="k")
    sell_out(one)
    for daemon in pair:
        assert daemon.order().answer == "409 sold_out"
        repeat = daemon.order(key="k")
        assert (repeat.status, repeat.json()) == (200, first.json())
        assert_problem(daemon.order(qty=2, key="k"), 422, "idempotency_key_reused")
        assert_problem(daemon.order(key="never-seen"), 409, "sold_out")


def test_repeat_after_a_reset_gives_the_old_order(daemon):
    daemon.reset()
    first = daemon.order(key="k")
    daemon.reset()
    daemon.stack.wait_rounds_ended()
    repeat = daemon.order(key="k")
    assert (repeat.status, repeat.json()) == (200, {**first.json(), "status": "expired"})
    assert audit(daemon) == 0


def test_a_refusal_is_not_remembered(daemon):
    daemon.reset("demo", 1, 1)
    assert daemon.order(key="k1").status == 201
    assert daemon.order(key="k2").answer == "409 sold_out"
    daemon.reset("demo", 1, 1)
    assert daemon.order(key="k2").status == 201


def test_repeat_after_kill_9_of_the_daemon_that_answered(stack, spawn):
    first_daemon = spawn(stack)
    first_daemon.reset()
    first = first_daemon.order(key="k")
    first_daemon.kill()
    repeat = spawn(stack).order(key="k")
    assert (repeat.status, repeat.json()) == (200, first.json())


def test_repeat_of_an_order_that_several_segments_filled(daemon):
    daemon.reset("demo", 20, 10)
    first = daemon.order(qty=7, key="k")
    repeat = daemon.order(qty=7, key="k")
    assert (repeat.status, repeat.json()) == (200, first.json())
    assert audit(daemon) == 7


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("pattern", [LOOK_UP, WRITE], ids=["looked up", "about to be written"])
@pytest.mark.parametrize("settings", [{}, {"per_user_limit": 1}], ids=["no limit", "limit 1"])
def test_first_try_is_accepted_elsewhere_while_the_repeat_is_under_way(
        stack, proxies, spawn, pattern, settings):
    """Even when the order had the last unit, or the user's last one."""
    proxy = proxies(stack.ledger.port)
    # One worker: each learns for itself that repeats come.
    one, other = spawn(stack), spawn(stack, mysql_url=proxy.url(stack.mysql_url), order_workers=1)
    for sku, units in (("last", 1), ("ample", 100)):
        one.reset(sku, units, 1, **settings)
        if pattern == LOOK_UP:
            expect_repeats(other)
        assert other.order(sku, "somebody", 1000).answer in ("409 sold_out", "409 limit_reached")
        answers = []

        def first_try(_, sku=sku, answers=answers):
            answers.append(one.order(sku, key=sku))
        trap = proxy.once(pattern, **{"after" if pattern == LOOK_UP else "before": first_try})
        repeat = other.order(sku, key=sku)
        trap.wait()
        answers.append(repeat)
        statuses = sorted(answer.status for answer in answers)
        if pattern == WRITE:  # the repeat holds the segment, so the first try may wait for it
            assert statuses in ([200, 201], [201, 503])
        else:
            assert statuses == [200, 201], answers
        assert len({answer.json()["order_id"] for answer in answers if answer.status < 300}) == 1
        assert audit_after_faults(one, sku) == 1


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("pattern, sale, other_user, refusal", [
    (LOOK_UP, (1, 1, None), "somebody", "409 sold_out"),
    (LOOK_UP, (50, 4, 1), "u1", "409 limit_reached"),
    (WRITE, (50, 4, 1), "u1", "409 limit_reached")],
    ids=["sold out", "limit, before it takes", "limit, before it commits"])
def test_first_try_that_hangs_is_not_accepted_after_its_repeat_was_refused(
        stack, proxies, spawn, pattern, sale, other_user, refusal):
    """It hangs beyond its deadline; its repeat is refused elsewhere; then a unit comes back."""
    proxy, go_on = proxies(stack.ledger.port), Event()
    one = spawn(stack, mysql_url=proxy.url(stack.mysql_url), order_workers=1, deadline_ms=2000)
    other = spawn(stack)
    units, segments, limit = sale
    one.reset("demo", units, segments, per_user_limit=limit)
    expect_repeats(one)
    trap = proxy.once(pattern, before=lambda link: go_on.wait(30))
    first = wait_until(lambda: [answer for answer in [one.order(key="k")]
                                if answer.code != "unavailable"], "a try that is begun")[0]
    assert first.answer == "503 outcome_unknown"
    trap.wait()
    bought = wait_until(lambda: [answer for answer in [other.order(user_id=other_user)]
                                 if answer.status == 201], "an order that takes the unit")[0]
    assert other.order(key="k").answer == refusal
    assert other.cancel(bought.json()["order_id"]).status == 200
    go_on.set()
    wait_until(lambda: one.order("repeated", key="repeated").status == 200, "the one worker")
    assert stack.ledger.number("SELECT COUNT(*) FROM orders WHERE idempotency_key = 'k'") == 0
    assert audit_after_faults(other) == 0


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("settings", [{}, {"per_user_limit": 1}], ids=["no limit", "limit 1"])
def test_new_orders_are_accepted_beside_a_flood_of_repeats(pair, settings):
    pair[0].reset("demo", 4000, 4, **settings)
    firsts = {n: pair[0].order(user_id=f"u{n}", key="k").json() for n in range(20)}

    def work(number):
        if number % 2:
            return pair[number % 4 // 2].order(user_id=f"new{number}", key="k").status
        repeat = pair[number % 4 // 2].order(user_id=f"u{number % 20}", key="k")
        assert repeat.json() == firsts[number % 20]
        return repeat.status

    with ThreadPoolExecutor(16) as pool:
        statuses = Counter(pool.map(work, range(300)))
    assert statuses == {201: 150, 200: 150}
    assert audit(pair[0]) == 170


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("settings", [{}, {"per_user_limit": 1}], ids=["no limit", "limit 1"])
def test_repeat_while_the_first_try_commits_waits_for_it(stack, proxies, spawn, settings):
    """The first try's commit is held back; the repeat, at another daemon, is answered after it."""
    proxy = proxies(stack.ledger.port)
    one = spawn(stack, mysql_url=proxy.url(stack.mysql_url), **STEADY)
    other = spawn(stack, **STEADY)
    one.reset("demo", 100, 4, **settings)
    repeats = []
    with ThreadPoolExecutor(1) as pool:
        trap = proxy.once(COMMIT, before=lambda link: repeats.append(
            pool.submit(other.order, key="k")))
        first = one.order(key="k")
        trap.wait()
        repeat = repeats[0].result()
    assert sorted((first.status, repeat.status)) == [200, 201]
    assert first.json() == repeat.json()
    assert audit(one) == 1


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("settings", [{}, {"per_user_limit": 1}], ids=["no limit", "limit 1"])
def test_repeat_after_kill_9_between_commit_and_answer(stack, proxies, spawn, settings):
    proxy = proxies(stack.ledger.port)
    victim, other = spawn(stack, mysql_url=proxy.url(stack.mysql_url)), spawn(stack)
    victim.reset("demo", 100, 4, **settings)
    trap = proxy.once(COMMIT, after=lambda link: victim.kill())
    with pytest.raises(ConnectionError):
        victim.order(key="k")
    trap.wait()
    for daemon in (other, victim.start()):
        assert daemon.order(key="k").status == 200
        assert_problem(daemon.order(key="k", qty=2), 422, "idempotency_key_reused")
    assert audit_after_faults(other) == 1
