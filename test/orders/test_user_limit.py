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


@pytest.mark.parametrize("total", [20_000, 100], ids=["ample", "as many units as users"])
def test_ten_identical_keys_in_flight_for_each_of_100_users_name_one_order(pair, total):
    """Ten connections per user, five at each daemon, each repeating the user's request ten times:
    10,000 requests, of which a thousand are in flight at any moment."""
    pair[0].reset("demo", total, 20, per_user_limit=1)
    batches = [[order_bytes(user_id=f"u{n // 10}", key=f"k{n // 10}")] * 10 for n in range(1000)]
    random.shuffle(batches)
    with ThreadPoolExecutor(200) as pool:
        answers = [answer for batch in pool.map(
            lambda n: send_many(pair[n % 2].address, batches[n]), range(len(batches)))
            for answer in batch]
    assert Counter(answer.answer for answer in answers) == {"201": 100, "200": 9900}
    told = {(answer.json()["user_id"], answer.json()["order_id"]) for answer in answers}
    assert len(told) == len({user for user, _ in told}) == 100
    assert pair[0].stack.ledger.number("SELECT COUNT(*) FROM orders") == 100
    assert audit(pair[1]) == 100


def test_kill_9_in_mid_load_leaves_no_unit_and_no_user_miscounted(stack, spawn, load):
    pair = spawn(stack), spawn(stack)
    steady, victim = pair
    steady.reset("demo", 1_000_000, 20, per_user_limit=3)
    loads = [load(daemon, connections=32, seconds=60, users=5000, qty=(1, 4)) for daemon in pair]
    for _ in range(3):
        before = victim.metric('seckill_orders_total{outcome="limit_reached"}')
        wait_until(lambda: victim.metric('seckill_orders_total{outcome="limit_reached"}') > before,
                   "a refusal")
        time.sleep(random.uniform(0, 0.1))
        victim.kill()
        loads[-1].stop()
        victim.start()
        loads.append(load(victim, connections=32, seconds=60, users=5000, qty=(1, 4)))
    loads[-1].wait_answered()
    accepted = [order for one in loads for order in one.stop().accepted]
    assert all(set(one.answers) <= ANSWERS for one in loads)
    steady.reconcile()
    sold = audit_after_faults(victim, accepted=accepted)
    assert 0 < sold <= 15_000
    assert steady.stack.ledger.number("SELECT MAX(units) FROM user_quota") == 3


def test_users_at_their_limit_keep_no_unit_from_the_others(pair, load):
    """Two hundred users who may have one each, thousands of times, and 1000 units."""
    pair[0].reset("demo", 1000, 20, per_user_limit=1)
    loads = [load(daemon, connections=32, seconds=60, users=200) for daemon in pair]
    wait_until(lambda: pair[0].stock()["sold"] == 200, "all of them with their unit")
    for one in loads:
        one.wait_answered()
    accepted = [order for one in loads for order in one.stop().accepted]
    assert audit(pair[0], accepted=accepted) == 200
    assert len(sell_out(pair[1])) == 800
    assert audit(pair[0]) == 1000


def test_limit_survives_redis_that_forgets_everything(stack, spawn, load):
    """In mid-sale, five times; afterwards each of a thousand users asks both daemons once more."""
    pair = spawn(stack), spawn(stack)
    pair[0].reset("demo", 10_000, 20, per_user_limit=1)
    loads = [load(daemon, connections=16, seconds=60, users=1000) for daemon in pair]
    for few in range(1, 1000, 200):
        wait_until(lambda: pair[0].stock()["sold"] >= few, f"{few} users with their unit")
        pair[0].stack.redis("FLUSHALL")
    for one in loads:
        one.wait_answered()
    accepted = [order for one in loads for order in one.stop().accepted]
    sold = audit_after_faults(pair[0], accepted=accepted)
    assert sold > 800
    orders = [order_bytes(user_id=f"u{n}") for n in range(1, 1001)]
    answers = [answer.answer for answer in send_from(pair, [orders, orders])]
    assert Counter(answers) == {"201": 1000 - sold, "409 limit_reached": 1000 + sold}
    assert audit_after_faults(pair[1], accepted=accepted) == 1000


def test_limit_set_and_changed_in_mid_load(pair, load):
    """Units bought without a limit count against a later one; a lower limit takes none away."""
    ledger = pair[0].stack.ledger
    pair[0].reset("demo", 1_000_000, 20)
    loads = [load(daemon, connections=16, seconds=60, users=500) for daemon in pair]
    wait_until(lambda: pair[0].stock()["sold"] > 1000, "some sales")
    pair[0].change(per_user_limit=2)

    def most():
        return dict(ledger.run("SELECT user_id, SUM(qty) FROM orders GROUP BY user_id"))
    before = most()
    time.sleep(0.5)
    after = most()
    assert all(int(units) <= max(2, int(before.get(user, 0))) for user, units in after.items())
    pair[1].change(per_user_limit=100)
    wait_until(lambda: pair[0].stock()["sold"] > 10_000, "more sales")
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


def test_expired_units_are_bought_again_up_to_the_limit(stack, spawn, load):
    """While both sell, orders expire all the time, and one daemon dies, perhaps in that."""
    pair = spawn(stack), spawn(stack)
    steady, victim = pair
    steady.reset("demo", 1000, 20, per_user_limit=2, pay_within_s=1)
    loads = [load(daemon, connections=16, seconds=60, users=400, qty=(1, 2), stop_after=10**9)
             for daemon in pair]
    ledger = steady.stack.ledger
    for _ in range(2):
        before = ledger.number("SELECT COUNT(*) FROM orders WHERE status = 'expired'")
        wait_until(lambda: ledger.number("SELECT COUNT(*) FROM orders WHERE status = 'expired'")
                   > before + 100, "orders that expire")
        loads[-1].wait_answered()
        victim.kill()
        loads[-1].stop()
        victim.start()
        loads.append(load(victim, connections=16, seconds=60, users=400, qty=(1, 2),
                          stop_after=10**9))
    loads[-1].wait_answered()
    accepted = [order for one in loads for order in one.stop().accepted]
    assert all(set(one.answers) <= ANSWERS | {"409 sold_out"} for one in loads)
    wait_until(lambda: ledger.number("SELECT COUNT(*) FROM orders WHERE status = 'reserved'") == 0,
               "the end of all orders")
    assert ledger.number("SELECT COALESCE(SUM(units), 0) FROM user_quota") == 0
    assert audit_after_faults(victim, accepted=accepted) == 0
