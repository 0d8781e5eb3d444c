"""Cancels, expiry, payments, new orders and resets race for the same few units through two daemons,
which are killed by turns: each order has one end, nobody passes the limit, and afterwards the sale
sells to its last unit.

`RACES=10000` sets for how many orders there is a race (100); `RACES_SEED=7` seeds the random
numbers. Times still depend on the machine, so a seed does not repeat a race exactly."""

import os
import random
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.audit import audit_after_faults, sell_out_after_faults, statuses
from harness.clock import TEST_SECONDS_MAX
from harness.processes import HarnessError, wait_until
from test_races import CLIENTS, SEED, Order, Race, check, reset

RACES = int(os.environ.get("RACES", "100"))
TOTAL, SEGMENTS = 30, 3
USERS, LIMIT = 8, 6  # together they may have more than there is
LATER_ORDERS = 15     # for units that come back
KILL_EVERY, RESET_EVERY = 3, 4
PAST = "2020-01-01"
SETTINGS = {"total": TOTAL, "segments": SEGMENTS, "pay_within_s": 3600, "per_user_limit": LIMIT}


def run_patiently(ledger, sql):
    """Again after a deadlock with the service, which has the right to be spared."""
    def done():
        try:
            ledger.run(sql)
        except HarnessError as error:
            assert "1213" in str(error), error
            return False
        return True
    wait_until(done, "statements without a deadlock")


def make_due(ledger, orders):
    """Ends the time to pay of these orders."""
    for order in orders:
        run_patiently(ledger, f"UPDATE orders SET expires_at = '{PAST}'"
                              f" WHERE order_id = {order.order_id};"
                              " INSERT IGNORE INTO order_expiry"
                              f" VALUES ('{PAST}', {order.order_id}, {order.order_id})")


def no_order_is_open(ledger):
    """Ends the time to pay of all orders, late ones of a killed daemon as well."""
    run_patiently(ledger, f"UPDATE orders SET expires_at = '{PAST}' WHERE status = 'reserved'")
    run_patiently(ledger, f"UPDATE IGNORE order_expiry SET expires_at = '{PAST}'")
    return ledger.number("SELECT (SELECT COUNT(*) FROM orders WHERE status = 'reserved')"
                         " + (SELECT COUNT(*) FROM order_expiry)") == 0


def buy(one, number):
    """Repeats the order, by its key, until its outcome is known; None when it is refused."""
    generator = random.Random(f"{one.name} {number}")
    body = {"sku": "demo", "user_id": f"user-{generator.randrange(USERS)}",
            "qty": generator.choice((1, 1, 2, 4))}
    for attempt in range(200):
        response = one.send(one.pair[(number + attempt) % 2], "POST", "/order", body=body,
                            headers={"Idempotency-Key": f"{one.name}-{number}"})
        if response and response.status in (200, 201):
            order = Order(response.json()["order_id"], body["qty"], time.monotonic())
            with one.lock:
                one.orders.append(order)
            return order
        if response and response.status == 409:
            assert response.code in ("sold_out", "limit_reached"), response
            return None
        assert response is None or response.status == 503, response
        time.sleep(0.02)
    raise AssertionError("an order's outcome stays unknown")


def buy_and_change(one, number, call, daemon):
    order = buy(one, number)
    if order and call:
        one.ask(order, call, daemon)


def tasks_of(one, amid):
    """The calls to make at once, in a random order: [(function, arguments…)]."""
    ledger, pick = one.pair[0].stack.ledger, one.random.choice
    tasks = [(one.ask, order, pick(("pay", "cancel", "cancel")), pick(one.pair))
             for order in one.orders for _ in range(one.random.randint(1, 3))]
    tasks += [(buy_and_change, one, 1000 + n, pick(("pay", "cancel", None)), pick(one.pair))
              for n in range(LATER_ORDERS)]
    due = one.random.sample(one.orders, len(one.orders) // 2)
    tasks += [(make_due, ledger, due[part::4]) for part in range(4)]
    one.random.shuffle(tasks)
    tasks.insert(len(tasks) // 2, (amid.set,))
    return tasks


def disturb(one, number):
    """Kills a daemon in some rounds, and resets the sale in some."""
    victim = one.pair[number // KILL_EVERY % 2]
    if number % KILL_EVERY == 0:
        victim.kill()
    if number % RESET_EVERY == RESET_EVERY - 1:
        reset(one.pair[1 - one.pair.index(victim)], **SETTINGS)
    if number % KILL_EVERY == 0:
        victim.start()


def race(pair, number, seed):
    """Returns how the orders that clients know have ended."""
    ledger = pair[0].stack.ledger
    one = Race(pair, random.Random(seed), f"units-{number}", SETTINGS)
    reset(pair[0], **SETTINGS)
    first_round = ledger.number("SELECT round FROM sale")
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda n: buy(one, n), range(2 * TOTAL)))
        sold = sum(order.qty for order in one.orders)
        amid = threading.Event()
        running = [pool.submit(*task) for task in tasks_of(one, amid)]
        amid.wait()
        disturb(one, number)
        for task in running:
            task.result()
    assert sold <= TOTAL
    wait_until(lambda: no_order_is_open(ledger), "an end of all orders")
    return conclude(one, number, first_round)


def sell_rest(daemon, units):
    """Sells exactly so many units. Nobody may have told the daemon of the last that came back: then
    its memory that the sale is sold out ends by itself."""
    first = []
    if units > 0:
        order = wait_until(lambda: [r for r in [daemon.order(user_id="first")] if r.status == 201],
                           "a sale of what came back")[0]
        first = [(order.json()["order_id"], 1)]
    rest = sell_out_after_faults(daemon)
    assert len(first + rest) == units
    return first + rest


def conclude(one, number, first_round):
    """Compares what clients were told with the ledger, and sells what is left."""
    ledger, daemon = one.pair[0].stack.ledger, one.pair[number % 2]
    rows = ledger.run("SELECT order_id, status, round, user_id, qty FROM orders"
                      f" WHERE round >= {first_round}")
    ends = {order_id: end for order_id, end, *_ in rows}
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda order: one.ask(order, "get", daemon), one.orders))
    for order in one.orders:
        check(order, ends[order.order_id])
        assert order.events[-1].status == ends[order.order_id], order
    by_round, by_user = Counter(), Counter()
    for _, end, round_no, user_id, qty in rows:
        if end == "paid":
            by_round[round_no] += int(qty)
            by_user[round_no, user_id] += int(qty)
    assert not by_round or max(by_round.values()) <= TOTAL, by_round
    assert not by_user or max(by_user.values()) <= LIMIT, by_user
    paid = statuses(ledger).get("paid", (0, 0))[1]
    accepted = [(order.order_id, order.qty) for order in one.orders]
    last = sell_rest(daemon, TOTAL - paid)
    assert audit_after_faults(daemon, accepted=accepted + last) == TOTAL
    return Counter(ends[order.order_id] for order in one.orders)


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("number, least", [(0, 1), (1, max(1, RACES - 2 * TOTAL))],
                         ids=["one race", "others"])
def test_units_that_many_race_for_are_sold_once_and_to_the_last(stack, spawn, number, least):
    """`number` is the first race's; together they have at least so many orders."""
    signal.alarm(TEST_SECONDS_MAX + RACES // 10)
    pair = spawn(stack), spawn(stack)
    generator, ends = random.Random(f"{SEED} {number}"), Counter()
    while ends.total() < least:
        ends += race(pair, number, generator.random())
        number += 1
    print(f"to race {number}: {dict(ends)}")
    every = {"paid", "cancelled", "expired"}
    assert set(ends) == every if least > 1 else set(ends) <= every
