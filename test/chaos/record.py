"""The clients' record: every order, call and change with its answer."""

import itertools
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass
from typing import Optional

RECENT = 3000  # orders and keys that clients choose from when they call again

# Answers that tell what became of an order, and answers that leave it open.
ACCEPTED = ("201", "200")
UNKNOWN = (None, "503 outcome_unknown")  # None: no answer came
NOT_NOW = ("503 unavailable", "503 overloaded", "503 no_order_id")


@dataclass(slots=True)
class Try:
    """One POST /order. Without a key the user has no other order."""

    key: Optional[str]
    user: str
    sku: str
    qty: int
    daemon: int
    start: float
    end: float = 0.0
    answer: Optional[str] = None
    order_id: Optional[str] = None  # also of outcome_unknown
    round: Optional[int] = None
    told_qty: Optional[int] = None
    status: Optional[str] = None


@dataclass(slots=True)
class Call:
    """A look-up, a payment or a cancel of an order. `status`: of the order, where it was told."""

    what: str
    order_id: str
    daemon: int
    start: float
    end: float = 0.0
    answer: Optional[str] = None
    status: Optional[str] = None


@dataclass(slots=True)
class Change:
    """A reset, restock, PATCH or DELETE of a sale."""

    what: str
    sku: str
    body: dict
    key: Optional[str]
    daemon: int
    start: float
    end: float = 0.0
    answer: Optional[str] = None
    round: Optional[int] = None


@dataclass(slots=True)
class Page:
    """A stock page."""

    start: float
    page: dict

    def adds_up(self):
        """The segments of one round make up the sale."""
        segments = self.page["segments"]
        return (self.page["sold"] + self.page["available"] == self.page["total"]
                and sum(one["capacity"] for one in segments) == self.page["total"]
                and sum(one["sold"] for one in segments) == self.page["sold"]
                and all(0 <= one["sold"] <= one["capacity"] for one in segments))


class Record:
    """Shared by all clients; each method takes the lock for a moment."""

    def __init__(self):
        self.began = time.monotonic()
        self.tries, self.calls, self.changes = [], [], []
        self.pages = []  # that do not add up
        self.answers = Counter()
        self.hangs = []  # (daemon, start, end, what): patient requests without an answer
        self.lates = []  # (daemon, start, end, what): answers after the bound of their class
        self.recent_orders, self.recent_tries = deque(maxlen=RECENT), deque(maxlen=RECENT)
        self._numbers, self._lock = itertools.count(1), threading.Lock()

    def now(self):
        return time.monotonic() - self.began

    def number(self):
        return next(self._numbers)

    def add_try(self, one):
        with self._lock:
            self.tries.append(one)
            self.answers["order " + (one.answer or "no answer")] += 1
            if one.key:
                self.recent_tries.append(one)
            if one.order_id:
                self.recent_orders.append(one)

    def add_call(self, one):
        with self._lock:
            self.calls.append(one)
            self.answers[f"{one.what} " + (one.answer or "no answer")] += 1

    def add_change(self, one):
        with self._lock:
            self.changes.append(one)
            self.answers[f"{one.what} " + (one.answer or "no answer")] += 1

    def add_page(self, one):
        """Keeps it only when it is wrong: there are many."""
        if not one.adds_up():
            with self._lock:
                self.pages.append(one)

    def add_other(self, what, answer):
        with self._lock:
            self.answers[f"{what} " + (answer or "no answer")] += 1

    def add_hang(self, *what):
        with self._lock:
            self.hangs.append(what)

    def add_late(self, *what):
        with self._lock:
            self.lates.append(what)

    def some(self, random, recent, count=1):
        """Some of the recent ones, the same may come twice."""
        with self._lock:
            return [random.choice(recent) for _ in range(count)] if recent else []
