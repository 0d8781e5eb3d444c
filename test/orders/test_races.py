"""Payments, cancels, expiry and resets race for the same orders through two daemons, of which one
is killed in the middle: each order ends in one state that every answer agrees with.

`RACES_S=600` makes the races go on for ten minutes; `RACES_SEED=7` seeds the random numbers. Times
still depend on the machine, so a seed does not repeat a race exactly."""

import http.client
import os
import random
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from harness.audit import audit_after_faults, sold_by_orders
from harness.clock import TEST_SECONDS_MAX
from harness.processes import wait_until

SECONDS = float(os.environ.get("RACES_S", "0"))  # 0: one race of each kind
SEED = int(os.environ.get("RACES_SEED", "12"))
CLIENTS = 16
ORDERS, SEGMENTS, PER_SEGMENT = 120, 10, 40  # room for all orders, and single ones need several
NEW_ORDERS = 20  # after a reset
PAY_WITHIN_S = (2, 4, 8, 16)  # the first of which buying ORDERS takes less than half


@dataclass
class Event:
    """A client's call and its answer. `answer` None: the connection broke."""

    call: str
    start: float
    end: float
    answer: str
    status: str  # of the order, where the answer tells it


@dataclass
class Order:
    order_id: str
    qty: int
    bought: float
    events: list = field(default_factory=list)

    def told(self):
        """Each moment's certain knowledge: (start, end, status)."""
        return [(event.start, event.end, event.status) for event in self.events if event.status]

    def may_be(self, call):
        """True when a call has done it or may have done it; the others denied it."""
        return any(event.call == call and event.answer in ("200", "503 outcome_unknown", None)
                   for event in self.events)


@dataclass
class Race:
    """One race: its orders, and the two daemons that clients ask in turn."""

    pair: tuple
    random: random.Random
    name: str
    settings: dict
    start: float = field(default_factory=time.monotonic)
    orders: list = field(default_factory=list)
    answers: Counter = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def send(self, daemon, method, path, **how):
        """None when the connection broke, or there was none."""
        try:
            return daemon.request(method, path, **how)
        except (OSError, http.client.HTTPException):
            return None

    def ask(self, order, call, daemon):
        """Asks once, and notes what the client knows from then on."""
        method, tail = ("GET", "") if call == "get" else ("POST", f"/{call}")
        start = time.monotonic()
        response = self.send(daemon, method, f"/order/{order.order_id}{tail}")
        answer = response and response.answer
        status = None
        if answer == "200":
            status = response.json()["status"]
        elif answer == "409 invalid_state":
            status = response.json()["order_status"]
        event = Event(call, start, time.monotonic(), answer, status)
        with self.lock:
            order.events.append(event)
            self.answers[call, answer] += 1

    def buy(self, number):
        """Repeats the order, by its key, until its outcome is known."""
        generator = random.Random(f"{self.name} {number}")
        qty = 1 if number % 20 else generator.randint(PER_SEGMENT - 5, PER_SEGMENT + 5)
        body = {"sku": "demo", "user_id": f"{self.name}-{number % 50}", "qty": qty}
        for attempt in range(100):
            response = self.send(self.pair[(number + attempt) % 2], "POST", "/order", body=body,
                                 headers={"Idempotency-Key": f"{self.name}-{number}"})
            if response and response.status in (200, 201):
                return Order(response.json()["order_id"], qty, time.monotonic())
            assert response is None or response.status == 503, response
            time.sleep(0.02)
        raise AssertionError("an order's outcome stays unknown")

    def plan(self, order):
        """[(moment, order, call, daemon)]: payments, cancels and looks, most of them about when the
        order expires, some pairs of them at once at both daemons."""
        calls = []
        for _ in range(self.random.randint(0, 3)):
            late = self.random.random() < 0.7
            due = order.bought + self.random.random()
            if late:
                due = order.bought + self.settings["pay_within_s"] + self.random.gauss(0, 0.15)
            call, daemon = self.random.choice(("pay", "cancel")), self.random.randrange(2)
            calls.append((due, call, daemon))
            if self.random.random() < 0.5:
                rival = self.random.choice(("pay", "cancel"))
                calls.append((due, rival, 1 - daemon))
            if self.random.random() < 0.5:
                calls.append((due + self.random.uniform(0, 0.05), "get", self.random.randrange(2)))
        return [(due, order, call, daemon) for due, call, daemon in calls]

    def perform(self, tasks):
        """Performs the tasks that are left, each at its moment."""
        while True:
            with self.lock:
                task = next(tasks, None)
            if task is None:
                return
            due, order, call, daemon = task
            time.sleep(max(0, due - time.monotonic()))
            self.ask(order, call, self.pair[daemon])


def reset(daemon, **settings):
    """A new round, whatever the orders of the present one hold; other changes may be under way."""
    body = {"sku": "demo", "total": SEGMENTS * PER_SEGMENT, "segments": SEGMENTS, **settings}

    def done():
        response = daemon.admin("POST", "/admin/stock/reset", body)
        if response.answer == "409 round_in_use":
            body["end_round"] = True
        assert response.status in (200, 503) or response.answer == "409 round_in_use", response
        return response.status == 200
    wait_until(done, "a reset")


def check(order, end):
    """The answers about an order fit its end, and at most one change."""
    told, steps = order.told(), ["reserved", end]
    if end == "cancelled":
        steps.insert(1, "expired")  # which it may have been
    assert {status for _, _, status in told} <= set(steps), (order, end)
    for step, reached in enumerate(steps):
        known = min((finish for _, finish, status in told if status == reached), default=None)
        assert known is None or not any(status in steps[:step] and start > known
                                        for start, _, status in told), (order, end)
    assert end in ("paid", "cancelled", "expired"), (order, end)
    assert end != "paid" or order.may_be("pay"), order
    assert end != "cancelled" or order.may_be("cancel"), order


def disturb(one, with_reset):
    """Kills one daemon amid the orders that expire, and resets the sale about then."""
    pay_within_s = one.settings["pay_within_s"]
    victim, steady = one.random.sample(one.pair, 2)
    moments = [(pay_within_s + one.random.uniform(0, 0.4), "kill")]
    if with_reset:
        moments.append((pay_within_s + one.random.uniform(-0.2, 0.4), "reset"))
    for due, what in sorted(moments):
        time.sleep(max(0, one.start + due - time.monotonic()))
        if what == "kill":
            victim.kill()
            victim.start()
            continue
        reset(steady, **one.settings)
        for number in range(ORDERS, ORDERS + NEW_ORDERS):
            one.orders.append(one.buy(number))
            if number % 2:
                one.ask(one.orders[-1], one.random.choice(("pay", "cancel")), steady)


def begin(pair, seed, name):
    """A race whose orders are all bought before the first of them is soon to expire."""
    for pay_within_s in PAY_WITHIN_S:
        settings = {"pay_within_s": pay_within_s, "per_user_limit": SEGMENTS * PER_SEGMENT}
        reset(pair[0], **settings)
        one = Race(pair, random.Random(seed), f"{name}.{pay_within_s}", settings)
        with ThreadPoolExecutor(CLIENTS) as pool:
            one.orders = list(pool.map(one.buy, range(ORDERS)))
        if time.monotonic() - one.start < pay_within_s / 2:
            return one
    raise AssertionError("the machine is too slow for a race")


def race(pair, seed, name, with_reset):
    """Races for ORDERS orders, and checks each of them."""
    ledger = pair[0].stack.ledger
    one = begin(pair, seed, name)
    round_no = ledger.number("SELECT round FROM sale")
    tasks = [task for order in one.orders for task in one.plan(order)]
    tasks = iter(sorted(tasks, key=lambda task: task[0]))
    with ThreadPoolExecutor(CLIENTS) as pool:
        running = [pool.submit(one.perform, tasks) for _ in range(CLIENTS)]
        disturb(one, with_reset)
        for client in running:
            client.result()
    wait_until(lambda: ledger.number("SELECT COUNT(*) FROM orders WHERE status = 'reserved'") == 0,
               "an end of all orders")
    assert sold_by_orders(ledger, "demo", round_no) <= SEGMENTS * PER_SEGMENT
    conclude(one)


def conclude(one):
    """Asks again at both daemons, which cancels what has expired and changes nothing else, and
    compares all answers."""
    ledger = one.pair[0].stack.ledger
    first = dict(ledger.run("SELECT order_id, status FROM orders"))
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda order: [one.ask(order, call, daemon) for daemon in one.pair
                                     for call in ("get", "pay", "cancel", "get")], one.orders))
    mine = {order.order_id for order in one.orders}  # others are of rounds that were too slow
    last = {order_id: "cancelled" if status == "expired" and order_id in mine else status
            for order_id, status in first.items()}
    assert dict(ledger.run("SELECT order_id, status FROM orders")) == last
    for order in one.orders:
        check(order, last[order.order_id])
        for number, event in enumerate(order.events[-8:]):
            end = (first if number < 2 else last)[order.order_id]  # before the first cancel
            done = event.call == "get" or (event.call, end) in (("pay", "paid"),
                                                                ("cancel", "cancelled"))
            assert event.answer == ("200" if done else "409 invalid_state"), (event, order, end)
            assert event.status == end, (event, order, end)
    counts = Counter(first[order.order_id] for order in one.orders)
    print(f"{one.name}: {dict(counts)}; {dict(one.answers)}")
    assert len(counts) == 3, "a race that somebody wins always"
    for daemon in one.pair:
        audit_after_faults(daemon, accepted=[(order.order_id, order.qty) for order in one.orders])


@pytest.mark.long
@pytest.mark.parametrize("with_reset", [True, False], ids=["with a reset", "without a reset"])
def test_each_order_ends_in_one_state_that_every_answer_agrees_with(stack, spawn, with_reset):
    signal.alarm(TEST_SECONDS_MAX + int(SECONDS))
    pair = spawn(stack), spawn(stack)
    generator = random.Random(f"{SEED} {with_reset}")
    end, number = time.monotonic() + SECONDS / 2, 0
    while number == 0 or time.monotonic() < end:
        race(pair, generator.random(), f"race{number}", with_reset)
        number += 1
