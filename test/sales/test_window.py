"""A sale is open exactly between two moments, and an operator pauses and changes it at will."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import pytest

from harness.audit import audit, audit_after_faults, sell_out
from harness.client import assert_problem
from harness.daemon import HASTY, TOKEN
from harness.processes import wait_until
from harness.proxy import WRITE

CALM = {"connections": 32, "seconds": 120, "delay_ms": 100}  # some hundred orders a second
LATE = {"late_payment": "retake"}  # always shown
ANSWERS = {"201", "409 sale_not_started", "409 sale_ended", "409 sale_paused", "503 unavailable",
           "503 outcome_unknown", "503 overloaded"}


def from_now(seconds):
    """A time as the interface writes it."""
    moment = datetime.now(timezone.utc) + timedelta(seconds=seconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def orders_in_ledger(daemon):
    return daemon.stack.ledger.number("SELECT COUNT(*) FROM orders")


def test_settings_are_shown_where_the_sale_is(pair):
    one, other = pair
    settings = {"starts_at": from_now(-60), "ends_at": from_now(3600), "per_user_limit": 2,
                "pay_within_s": 900}
    numbers = {"sku": "demo", "round": 1, "total": 10, "segments": 2, "sold": 0, "available": 10}
    assert one.reset("demo", 10, 2, **settings) == {**numbers, **settings, "paused": False, **LATE}
    assert other.admin("GET", "/admin/sales").json()["sales"] == [
        {**numbers, **settings, "paused": False, **LATE}]
    changed = other.change(starts_at=None, paused=True)
    del settings["starts_at"]
    assert changed == {**numbers, **settings, "paused": True, **LATE}
    stock = one.stock()
    assert {name: stock[name] for name in (*settings, "paused")} == {**settings, "paused": True}
    assert one.reset("demo", 10, 2) == {**numbers, "round": 2, "paused": False, **LATE}


def test_times_are_kept_to_the_millisecond_and_without_a_fraction(daemon):
    daemon.reset("demo", 10, 2, starts_at="2026-11-20T21:30:00Z", ends_at="2036-11-20T21:30:00.5Z")
    stock = daemon.stock()
    assert stock["starts_at"] == "2026-11-20T21:30:00.000Z"
    assert stock["ends_at"] == "2036-11-20T21:30:00.500Z"


def test_times_of_any_offset_are_shown_in_utc(daemon):
    for given, shown in (("2036-11-21T05:30:00+08:00", "2036-11-20T21:30:00.000Z"),
                         ("2036-11-20T16:30:00.25-05:00", "2036-11-20T21:30:00.250Z"),
                         ("2036-11-20t21:30:00.123456789z", "2036-11-20T21:30:00.123Z"),
                         ("2036-12-31T18:59:60.9-05:00", "2037-01-01T00:00:00.000Z"),
                         ("1999-12-31T23:00:00-01:00", "2000-01-01T00:00:00.000Z")):
        assert daemon.reset("demo", 10, 2, starts_at=given)["starts_at"] == shown
        assert daemon.change(starts_at=None, ends_at=given)["ends_at"] == shown
        assert daemon.stock()["ends_at"] == shown


def test_sale_opens_at_the_moment_whatever_its_offset(daemon):
    """One that is over by a clock that reads +08:00 as UTC, and open by one that does not."""
    china = timezone(timedelta(hours=8))
    now = datetime.now(china)
    daemon.reset("demo", 10, 2, starts_at=(now - timedelta(hours=1)).isoformat())
    assert daemon.order().status == 201
    daemon.change(starts_at=(now + timedelta(hours=1)).isoformat())
    assert_problem(daemon.order(), 409, "sale_not_started")


def test_repeated_reset_may_spell_its_time_otherwise(daemon):
    body = {"sku": "demo", "total": 10, "segments": 2}
    headers = {"Authorization": f"Bearer {TOKEN}", "Idempotency-Key": "k"}
    for time_text in ("2036-11-20T21:30:00Z", "2036-11-21T05:30:00.000+08:00"):
        answer = daemon.request("POST", "/admin/stock/reset", {**body, "ends_at": time_text},
                                headers)
        assert (answer.status, answer.json()["round"]) == (200, 1)


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("key", [None, "k"])
def test_closed_sale_refuses_and_says_until_when(pair, key):
    later, past = from_now(90), from_now(-90)
    pair[0].reset("demo", 10, 2, starts_at=later)
    for daemon in pair * 3:
        response = daemon.order(key=key)
        assert_problem(response, 409, "sale_not_started")
        assert response.json()["starts_at"] == later
        assert 1 <= int(response.headers["Retry-After"]) <= 90
    pair[0].change(starts_at=None, ends_at=past)
    for daemon in pair:
        response = wait_until(lambda: [r for r in [daemon.order(key=key)]
                                       if r.code != "sale_not_started"], "the news")[0]
        assert_problem(response, 409, "sale_ended")
        assert response.json()["ends_at"] == past
        assert response.headers["Retry-After"] is None
    pair[0].change(ends_at=None, paused=True)
    for daemon in pair:
        response = wait_until(lambda: [r for r in [daemon.order(key=key)]
                                       if r.code != "sale_ended"], "the news")[0]
        assert_problem(response, 409, "sale_paused")
        assert int(response.headers["Retry-After"]) >= 1
    pair[0].change(paused=False)
    for daemon in pair:
        wait_until(lambda: daemon.order().status == 201, "an order after the pause")
    audit(pair[1])


def test_far_away_start_asks_nobody_to_wait_longer_than_an_hour(daemon):
    daemon.reset("demo", 10, 2, starts_at="9999-12-31T23:59:59.999Z")
    assert daemon.order().headers["Retry-After"] == "3600"


def test_repeat_of_an_accepted_order_is_answered_whatever_the_terms(pair):
    pair[0].reset("demo", 10, 2)
    first = pair[0].order(key="k").json()
    for settings in ({"starts_at": from_now(90)}, {"starts_at": None, "ends_at": from_now(-90)},
                     {"ends_at": None, "paused": True}, {"paused": False, "per_user_limit": 1}):
        pair[0].change(**settings)
        for daemon in pair:
            repeat = daemon.order(key="k")
            assert (repeat.status, repeat.json()) == (200, first)
            assert_problem(daemon.order(qty=2, key="k"), 422, "idempotency_key_reused")
    assert audit(pair[0]) == 1


def test_first_try_is_not_accepted_after_its_repeat_was_told_of_the_end(stack, proxies, spawn):
    """It was let in before the end, and is on its way to the ledger."""
    proxy = proxies(stack.ledger.port)
    one = spawn(stack, mysql_url=proxy.url(stack.mysql_url), mysql_timeout_ms=30_000,
                deadline_ms=60_000, lease_ms=60_000)
    other = spawn(stack)
    told = []
    for seconds in (1, 4, 16):  # a slow machine takes some of it to bring the order so far
        one.reset("demo", 10, 2, ends_at=from_now(seconds))
        end = time.time() + seconds
        wait_until(lambda: other.stock()["round"] == one.stock()["round"], "the round")

        def repeat(_, end=end):
            wait_until(lambda: time.time() > end + 0.1, "the end")
            told.append(other.order(key="k").answer)
        trap = proxy.once(WRITE, before=repeat)
        first = one.order(key="k", timeout=60)
        if told:
            break
        proxy.forget(trap)
    assert told == ["409 sale_ended"]
    assert first.answer == "409 sale_ended"
    assert orders_in_ledger(one) == 0
    audit_after_faults(other)


def test_refused_key_is_free_when_the_sale_opens(daemon):
    daemon.reset("demo", 10, 2, starts_at=from_now(90))
    assert daemon.order(key="k").answer == "409 sale_not_started"
    daemon.change(starts_at=None)
    assert daemon.order(key="k").status == 201


def test_daemon_that_hears_no_news_accepts_nothing_under_old_terms(stack, proxies, spawn):
    """The daemon refuses by the old settings for a moment only."""
    redis = proxies(stack.redis.address[1])
    deaf = spawn(stack, redis_url=redis.url(stack.redis_url), **HASTY)
    other = spawn(stack)
    deaf.reset("demo", 10, 2)
    assert deaf.order().status == 201
    redis.deaf = True  # from here on its subscription hears nothing
    other.change(paused=True)
    redis.deaf = False
    before = orders_in_ledger(other)
    wait_until(lambda: deaf.order().answer == "409 sale_paused", "the pause")
    assert orders_in_ledger(other) == before
    other.change(paused=False)
    wait_until(lambda: deaf.order().status == 201, "the end of the pause")
    audit_after_faults(other)


@pytest.mark.long
def test_sale_that_opens_and_closes_in_mid_load(stack, spawn, load):
    """With a daemon that dies while it is open: every order lies in the window."""
    pair = spawn(stack), spawn(stack)
    steady, victim = pair
    steady.reset("demo", 1_000_000, 20, starts_at=from_now(600))
    loads = [load(daemon, **CALM) for daemon in pair]

    def wait_for(outcome, daemon):
        wait_until(lambda: daemon.metric(f'seckill_orders_total{{outcome="{outcome}"}}') > 0,
                   outcome)
    for daemon in pair:
        wait_for("not_started", daemon)
    starts = from_now(1)
    steady.change(starts_at=starts)
    wait_for("accepted", victim)
    victim.kill()
    loads[1].stop()
    victim.start()
    loads.append(load(victim, **CALM))
    wait_for("accepted", victim)
    for seconds in (1, 4, 16):  # a slow machine makes the change only when such an end is over
        ends = from_now(seconds)
        steady.change(ends_at=ends)
        if from_now(0) < ends:
            break
    wait_until(lambda: from_now(0) > ends, "the end")
    for daemon in pair:
        wait_for("ended", daemon)
    answers = [one.stop().answers for one in loads]
    assert all(set(one) <= ANSWERS for one in answers)
    assert answers[0]["409 sale_not_started"] and answers[0]["201"] and answers[0]["409 sale_ended"]
    outside = steady.stack.ledger.number(
        f"SELECT COUNT(*) FROM orders WHERE created_at < '{starts[:-1]}'"
        f" OR created_at >= '{ends[:-1]}'")
    assert outside == 0
    steady.reconcile()
    audit_after_faults(victim, accepted=[order for one in loads for order in one.accepted])


def wait_for_sales(daemon):
    before = orders_in_ledger(daemon)
    wait_until(lambda: orders_in_ledger(daemon) > before + 10, "orders")


@pytest.mark.long
def test_changes_in_mid_load_are_exact(stack, spawn, load):
    """Pause, resume and an end set to now, while both sell and one of them dies in between: after
    the answer to each no order comes that it forbids."""
    pair = spawn(stack), spawn(stack)
    steady, victim = pair
    steady.reset("demo", 2_000_000, 20)
    loads = [load(daemon, **CALM) for daemon in pair]
    for stop, go in (({"paused": True}, {"paused": False}),
                     ({"ends_at": from_now(0)}, {"ends_at": None}),
                     ({"starts_at": from_now(600)}, {"starts_at": None})):
        wait_for_sales(steady)
        steady.change(**stop)
        before = orders_in_ledger(steady)
        time.sleep(0.3)
        assert orders_in_ledger(steady) == before, stop
        steady.change(**go)
        wait_for_sales(victim)
        loads[-1].wait_answered()
        victim.kill()
        loads[-1].stop()
        victim.start()
        loads.append(load(victim, **CALM))
    loads[-1].wait_answered()
    accepted = [order for one in loads for order in one.stop().accepted]
    assert all(set(one.answers) <= ANSWERS for one in loads)
    assert steady.stock()["available"] > 0, "the sale was over too soon for this test"
    steady.reconcile()
    audit_after_faults(victim, accepted=accepted)


def test_change_does_not_undo_another_that_came_in_between(stack, proxies, spawn):
    proxy = proxies(stack.ledger.port)
    one, other = spawn(stack, mysql_url=proxy.url(stack.mysql_url)), spawn(stack)
    one.reset("demo", 10, 2)
    later = from_now(3600)

    def others(_):  # two: their version is no longer the one that the first change makes
        other.change(pay_within_s=600)
        other.change(per_user_limit=3)
    trap = proxy.once(rb"UPDATE sale SET starts_at", before=others)
    one.change(ends_at=later)
    trap.wait()
    sale = other.stock()
    assert (sale["pay_within_s"], sale["per_user_limit"], sale["ends_at"]) == (600, 3, later)


def test_many_changes_at_once_all_happen(pair):
    """Each of them counts the version on by one, as does the opening after the limit has been set,
    and none overwrites another's field."""
    pair[0].reset("demo", 10, 2)
    fields = [{"per_user_limit": 7}, {"pay_within_s": 60}, {"ends_at": from_now(900)},
              {"starts_at": from_now(-900)}]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: pair[n % 2].change(**fields[n % 4]), range(16)))
    sale = pair[0].stock()
    assert all(sale[name] == value for change in fields for name, value in change.items())
    assert pair[0].stack.ledger.number("SELECT settings_version FROM sale") == 18
    assert len(sell_out(pair[1])) == 10
