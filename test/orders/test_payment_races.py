"""Payments of the same and of second names, expiry, extensions, cancels, parts, refunds, added
units and resets race for the same orders through two daemons. Daemons and MariaDB are killed,
answers are lost, and calls repeated: each payment told is in one state that all answers about it
agree with, nobody passes the limit, and afterwards the sale sells to its last unit.

`RACES=10000` sets for how many orders there is a race (80); `RACES_SEED=7` seeds the random
numbers. Times still depend on the machine, so a seed does not repeat a race exactly."""

import http.client
import os
import random
import signal
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.audit import audit_after_faults, sell_out_after_faults
from harness.client import send
from harness.clock import TEST_SECONDS_MAX
from harness.processes import wait_until
from test_races import reset
from test_races_units import LIMIT, SEGMENTS, TOTAL, buy, make_due, no_order_is_open

RACES = int(os.environ.get("RACES", "80"))
SEED = int(os.environ.get("RACES_SEED", "12"))
CLIENTS, ORDERS = 16, 40
ADDED = 5  # units, in some races
KILLS = ("one", "other", "ledger", None)
SETTINGS = {"total": TOTAL, "segments": SEGMENTS, "pay_within_s": 3600, "hold_max_s": 7200,
            "per_user_limit": LIMIT}
REFS = ("a", "b", "c")
BEYOND = "2099-01-01T00:00:00Z"  # any hold


class Race:
    """One race: its orders, and what clients were told of each payment."""

    def __init__(self, pair, number, seed):
        self.pair, self.name = pair, f"race-{number}"
        self.random = random.Random(seed)
        self.orders = []
        self.told = defaultdict(list)  # of a payment: (start, end, call, answer, body)
        self.answers = Counter()
        self.lock = threading.Lock()

    def send(self, daemon, method, path, body=None, headers=()):
        """None when the connection broke, or the client did not wait for the answer."""
        patience = 0.005 if self.random.random() < 0.05 else 30
        try:
            return send(daemon.address, method, path, body, headers, patience)
        except (OSError, http.client.HTTPException):
            return None

    def call(self, order_id, call, body, until_known=False):
        """Calls once, or until an answer decides, and notes what was told of a payment."""
        ref = (body or {}).get("payment_ref")
        while True:
            start = time.monotonic()
            response = self.send(self.random.choice(self.pair), "POST",
                                 f"/order/{order_id}/{call}", body)
            known = response is not None and response.status != 503
            with self.lock:
                self.answers[call, response and response.answer] += 1
                if ref:
                    self.told[order_id, ref].append(
                        (start, time.monotonic(), call, response and response.answer,
                         response.json() if known else None))
            if known or not until_known:
                return response
            time.sleep(0.02)

    def one_call(self, order_id):
        """A random call and its body."""
        pick, ref = self.random.choice, self.random.choice(REFS)
        return pick((("pay", {"payment_ref": ref}), ("pay", {"payment_ref": ref}),
                     ("pay", {"payment_ref": REFS[0]}), ("pay", None), ("cancel", None),
                     ("cancel", {"keep": 1}), ("extend", {"expires_at": BEYOND}),
                     ("extend", {"expires_at": self.soon()}),
                     ("refund", {"payment_ref": ref, "restock": pick((True, False))}),
                     ("refund", {"payment_ref": REFS[0], "restock": True}),
                     ("refund", {"payment_ref": REFS[0], "restock": True, "keep": 1})))

    def soon(self):
        later = time.gmtime(time.time() + 5000 + self.random.randrange(1000))
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", later)

    def tasks(self, ledger, amid):
        """The calls to make at once, in a random order: [(function, arguments…)]."""
        ids = [order.order_id for order in self.orders]
        tasks = [(self.call, order_id, *self.one_call(order_id), self.random.random() < 0.5)
                 for order_id in ids for _ in range(self.random.randint(2, 6))]
        tasks += [(end_time_of, ledger, self.random.sample(self.orders, len(ids) // 8))
                  for _ in range(6)]
        tasks += [(buy, self, 1000 + n) for n in range(ORDERS // 2)]
        self.random.shuffle(tasks)
        tasks.insert(len(tasks) // 2, (amid.set,))
        return tasks


def end_time_of(ledger, orders):
    """The ledger may be dead for a moment."""
    def done():
        try:
            make_due(ledger, orders)
        except AssertionError:
            return False
        return True
    wait_until(done, "orders whose time is over")


def disturb(one, stack, number):
    """Kills a daemon or the ledger, adds units, or begins another round."""
    kill = KILLS[number % len(KILLS)]
    if kill == "ledger":
        stack.maria_server.kill()
        stack.maria_server.start()
    elif kill:
        victim = one.pair[0 if kill == "one" else 1]
        victim.kill()
        victim.start()
    if number % 3 == 1:
        wait_until(lambda: one.pair[0].add(ADDED, key=one.name).status == 200, "added units")
    if number % 5 == 4:
        reset(one.pair[0], **SETTINGS)
    if number % 4 == 2:
        wait_until(lambda: one.pair[1].admin("PATCH", "/admin/sale/demo",
                                             {"late_payment": "refund"}).status == 200, "a change")


def check_payment(key, told, row):
    """What was told of one payment, and its row: (state, outcome, the order's status)."""
    decided = [event for event in told if event[4] is not None]
    paid = [event for event in decided if event[2] == "pay" and event[3] == "200"]
    late = [event for event in decided if event[2] == "pay"
            and event[3] in ("409 payment_too_late", "409 already_paid")]
    gone = [event for event in decided if event[3] == "409 invalid_state"
            and event[4].get("payment_state") == "refunded" and event[2] == "pay"]
    refunded = [event for event in decided if event[2] == "refund" and event[3] == "200"
                and event[4]["payment_state"] == "refunded"]
    if not row:
        assert not paid and not late and not refunded and not gone, (key, told)
        return
    state, outcome, status = row
    assert any(event[2] == "pay" for event in told), (key, row)
    # One that was due may pay the order in the place of another, and never is due again.
    assert not any(event[0] > paid_one[1] for event in late for paid_one in paid
                   if event[4]["payment_state"] == "refund_due"), (key, told)
    assert not paid or outcome in ("in_time", "retaken") or late or state != "refund_due", (
        key, told, row)
    assert len({event[4].get("retaken", False) for event in paid}) <= 1, (key, told)
    assert {event[3][4:] for event in late} <= {{"too_late": "payment_too_late"}.get(
        outcome, outcome)}, (key, told, row)
    assert not refunded or state == "refunded", (key, told, row)
    assert state != "taken" or status == "paid", (key, row)
    first = min((event[1] for event in refunded + gone), default=None)
    assert first is None or not any(start > first for start, *_ in paid), (key, told)
    for start, _, _, _, body in late:
        assert body["payment_state"] == "refunded" or not any(
            event[1] < start for event in refunded), (key, told)


def conclude(one, stack, number, first_round):
    """Compares what clients were told with the ledger, and sells what is left."""
    daemon = one.pair[number % 2]
    for (order_id, ref) in list(one.told):
        if one.random.random() < 0.3:  # an answer now must agree as well
            one.call(order_id, "pay", {"payment_ref": ref}, until_known=True)
    wait_until(lambda: no_order_is_open(stack.ledger), "an end of all orders")
    rows = stack.ledger.run(
        "SELECT order_id, payment_ref, state, outcome, status FROM payment JOIN orders"
        f" USING (order_id) WHERE round >= {first_round}")
    payments = {(row[0], row[1]): tuple(row[2:]) for row in rows}
    assert payments.keys() <= one.told.keys(), payments.keys() - one.told.keys()
    for key, told in one.told.items():
        check_payment(key, told, payments.get(key))
    held, total = stack.ledger.run(
        "SELECT (SELECT SUM(sold) FROM stock_segment), (SELECT total FROM sale)")[0]
    sold = [(order.order_id, order.qty) for order in one.orders]
    daemon.change(per_user_limit=None, late_payment="retake")
    left = int(total) - int(held)
    last = sell_out_after_faults(daemon) if left > 0 else []
    assert len(last) == left
    assert audit_after_faults(daemon, accepted=sold + last) == int(total)
    return Counter(f"{outcome} {state}" for state, outcome, _ in payments.values())


def race(stack, pair, number, seed):
    one = Race(pair, number, seed)
    reset(pair[0], **SETTINGS, late_payment="retake")
    first_round = stack.ledger.number("SELECT round FROM sale")
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda n: buy(one, n), range(ORDERS)))
        amid = threading.Event()
        running = [pool.submit(*task) for task in one.tasks(stack.ledger, amid)]
        amid.wait()
        disturb(one, stack, number)
        for task in running:
            task.result()
    return conclude(one, stack, number, first_round), one.answers


@pytest.mark.long
def test_every_payment_told_is_in_one_state(private_stack, spawn):
    signal.alarm(TEST_SECONDS_MAX + RACES // 5)
    pair = spawn(private_stack), spawn(private_stack)
    generator, ends, answers, number = random.Random(SEED), Counter(), Counter(), 0
    while number * ORDERS < RACES:
        ended, told = race(private_stack, pair, number, generator.random())
        ends, answers, number = ends + ended, answers + told, number + 1
    print(f"{number} races: {dict(ends)}\n{dict(answers)}")
    assert {"in_time taken", "already_paid refund_due"} <= ends.keys() | {"in_time refunded"}
