"""A user gets at most so many units of a round, whoever races for them and whatever dies."""

import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.audit import audit, audit_after_faults, sell_out
from harness.client import assert_problem, order_bytes, send_many
from harness.processes import wait_until

ANSWERS = {"201", "409 limit_reached", "503 unavailable", "503 outcome_unknown", "503 overloaded"}


def send_from(pair, batches):
    """Sends each batch over a connection of its own, to the daemons in turn, all at once."""
    with ThreadPoolExecutor(len(batches)) as pool:
        answers = pool.map(lambda n: send_many(pair[n % 2].address, batches[n]),
                           range(len(batches)))
        return [answer for batch in answers for answer in batch]


def test_refusal_names_the_limit_and_the_orders(pair):
    one, other = pair
    one.reset("demo", 100, 4, per_user_limit=3)
    orders = [one.order(qty=2).json()["order_id"], other.order().json()["order_id"]]
    for daemon in pair:
        response = daemon.order()
        assert_problem(response, 409, "limit_reached")
        assert response.json()["limit"] == 3
        assert response.json()["orders"] == orders[::-1]
    response = one.order(user_id="u2", qty=4)
    assert_problem(response, 409, "limit_reached")
    assert response.json()["orders"] == []
    assert one.order(user_id="u2", qty=3).status == 201
    assert audit(other) == 6


def test_refusal_names_no_orders_of_another_round_or_sale(daemon):
    daemon.reset("demo", 100, 4, per_user_limit=1)
    daemon.reset("other", 100, 4, per_user_limit=1)
    daemon.order()
    daemon.order("other")
    daemon.reset("demo", 100, 4, per_user_limit=1)
    order_id = daemon.order().json()["order_id"]
    assert daemon.order().json()["orders"] == [order_id]


@pytest.mark.long
def test_10000_requests_of_100_users_make_100_orders(pair):
    pair[0].reset("demo", 20_000, 20, per_user_limit=1)
    users = [n % 100 for n in range(10_000)]
    random.shuffle(users)
    batches = [[order_bytes(user_id=f"u{user}") for user in users[n::100]] for n in range(100)]
    answers = send_from(pair, batches)
    assert Counter(answer.answer for answer in answers) == {"201": 100, "409 limit_reached": 9900}
    orders = {answer.json()["user_id"]: answer.json()["order_id"] for answer in answers
              if answer.status == 201}
    named = [answer.json()["orders"] for answer in answers if answer.status == 409]
    assert len(orders) == 100
    assert {tuple(ids) for ids in named} <= {(order_id,) for order_id in orders.values()}
    assert audit(pair[1]) == 100


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("total", [20_000, 40], ids=["ample", "as many units as users"])
def test_ten_identical_keys_in_flight_for_each_user_name_one_order(pair, total):
    """Ten connections per user, five at each daemon, each repeating the user's request ten times:
    4,000 requests, of which a thousand are in flight at any moment."""
    pair[0].reset("demo", total, 20, per_user_limit=1)
    batches = [[order_bytes(user_id=f"u{n // 10}", key=f"k{n // 10}")] * 10 for n in range(400)]
    random.shuffle(batches)
    with ThreadPoolExecutor(100) as pool:
        answers = [answer for batch in pool.map(
            lambda n: send_many(pair[n % 2].address, batches[n]), range(len(batches)))
            for answer in batch]
    assert Counter(answer.answer for answer in answers) == {"201": 40, "200": 3960}
    told = {(answer.json()["user_id"], answer.json()["order_id"]) for answer in answers}
    assert len(told) == len({user for user, _ in told}) == 40
    assert pair[0].stack.ledger.number("SELECT COUNT(*) FROM orders") == 40
    assert audit(pair[1]) == 40


@pytest.mark.long
def test_kill_9_in_mid_load_leaves_no_unit_and_no_user_miscounted(stack, spawn, load):
    pair = spawn(stack), spawn(stack)
    steady, victim = pair
    steady.reset("demo", 1_000_000, 20, per_user_limit=3)
    how = {"connections": 32, "seconds": 60, "users": 1000, "qty": (1, 4), "delay_ms": 50}
    loads = [load(daemon, **how) for daemon in pair]
    for _ in range(2):
        before = victim.metric('seckill_orders_total{outcome="limit_reached"}')
        wait_until(lambda: victim.metric('seckill_orders_total{outcome="limit_reached"}') > before,
                   "a refusal")
        time.sleep(random.uniform(0, 0.1))
        victim.kill()
        loads[-1].stop()
        victim.start()
        loads.append(load(victim, **how))
    loads[-1].wait_answered()
    accepted = [order for one in loads for order in one.stop().accepted]
    assert all(set(one.answers) <= ANSWERS for one in loads)
    steady.reconcile()
    sold = audit_after_faults(victim, accepted=accepted)
    assert 0 < sold <= 3000
    assert steady.stack.ledger.number("SELECT MAX(units) FROM user_quota") == 3


def test_users_at_their_limit_keep_no_unit_from_the_others(pair, load):
    """A hundred users who may have one each, time and again, and 150 units."""
    pair[0].reset("demo", 150, 20, per_user_limit=1)
    loads = [load(daemon, connections=32, seconds=250, users=100) for daemon in pair]
    wait_until(lambda: pair[0].stock()["sold"] == 100, "all of them with their unit")
    for one in loads:
        one.wait_answered()
    accepted = [order for one in loads for order in one.stop().accepted]
    assert audit(pair[0], accepted=accepted) == 100
    assert len(sell_out(pair[1])) == 50
    assert audit(pair[0]) == 150


@pytest.mark.long
def test_limit_survives_redis_that_forgets_everything(stack, spawn, load):
    """In mid-sale, five times; afterwards each of 300 users asks both daemons once more."""
    pair = spawn(stack), spawn(stack)
    pair[0].reset("demo", 10_000, 20, per_user_limit=1)
    loads = [load(daemon, connections=16, seconds=250, users=300, delay_ms=10) for daemon in pair]
    for few in range(1, 300, 60):
        wait_until(lambda: pair[0].stock()["sold"] >= few, f"{few} users with their unit")
        pair[0].stack.redis("FLUSHALL")
    for one in loads:
        one.wait_answered()
    accepted = [order for one in loads for order in one.stop().accepted]
    sold = audit_after_faults(pair[0], accepted=accepted)
    assert sold > 240
    orders = [order_bytes(user_id=f"u{n}") for n in range(1, 301)]
    answers = [answer.answer for answer in send_from(pair, [orders, orders])]
    assert Counter(answers) == Counter({"201": 300 - sold, "409 limit_reached": 300 + sold})
    assert audit_after_faults(pair[1], accepted=accepted) == 300


@pytest.mark.long
def test_limit_set_and_changed_in_mid_load(pair, load):
    """Units bought without a limit count against a later one; a lower limit takes none away."""
    ledger = pair[0].stack.ledger
    pair[0].reset("demo", 1_000_000, 20)
    loads = [load(daemon, connections=16, seconds=250, users=100, delay_ms=30) for daemon in pair]
    wait_until(lambda: pair[0].stock()["sold"] > 300, "some sales")
    pair[0].change(per_user_limit=2)

    def most():
        return dict(ledger.run("SELECT user_id, SUM(qty) FROM orders GROUP BY user_id"))
    before = most()
    time.sleep(0.5)
    after = most()
    assert all(int(units) <= max(2, int(before.get(user, 0))) for user, units in after.items())
    pair[1].change(per_user_limit=100)
    some = pair[0].stock()["sold"] + 300
    wait_until(lambda: pair[0].stock()["sold"] > some, "more sales")
    pair[0].change(per_user_limit=1)
    before = most()
    time.sleep(0.3)
    # Chance may have left a user without a unit: that user may still buy one.
    assert all(int(units) <= max(1, int(before.get(user, 0))) for user, units in most().items())
    accepted = [order for one in loads for order in one.stop().accepted]
    pair[0].reconcile()
    audit(pair[1], accepted=accepted, changed=True)


def test_units_of_a_cancelled_order_may_be_bought_again(pair):
    one, other = pair
    one.reset("demo", 10, 2, per_user_limit=2)
    first, second = (daemon.order().json()["order_id"] for daemon in pair)
    assert other.order().json()["orders"] == [second, first]
    assert one.request("POST", f"/order/{second}/cancel").status == 200
    assert other.order(qty=2).json()["orders"] == [first]
    third = other.order()
    assert third.status == 201
    assert one.order().json()["orders"] == [third.json()["order_id"], first]
    audit(one)


@pytest.mark.long
def test_expired_units_are_bought_again_up_to_the_limit(stack, spawn, load):
    """While both sell, orders expire all the time, and one daemon dies, perhaps in that."""
    pair = spawn(stack), spawn(stack)
    steady, victim = pair
    steady.reset("demo", 1000, 20, per_user_limit=2, pay_within_s=1)
    how = {"connections": 16, "seconds": 60, "users": 400, "qty": (1, 2), "stop_after": 10**9,
           "delay_ms": 50}
    loads = [load(daemon, **how) for daemon in pair]
    ledger = steady.stack.ledger
    for _ in range(2):
        before = ledger.number("SELECT COUNT(*) FROM orders WHERE status = 'expired'")
        wait_until(lambda: ledger.number("SELECT COUNT(*) FROM orders WHERE status = 'expired'")
                   > before + 100, "orders that expire", pause=0.1)
        loads[-1].wait_answered()
        victim.kill()
        loads[-1].stop()
        victim.start()
        loads.append(load(victim, **how))
    loads[-1].wait_answered()
    accepted = [order for one in loads for order in one.stop().accepted]
    assert all(set(one.answers) <= ANSWERS | {"409 sold_out"} for one in loads)
    wait_until(lambda: ledger.number("SELECT COUNT(*) FROM orders WHERE status = 'reserved'") == 0,
               "the end of all orders", pause=0.1)
    assert ledger.number("SELECT COALESCE(SUM(units), 0) FROM user_quota") == 0
    assert audit_after_faults(victim, accepted=accepted) == 0
