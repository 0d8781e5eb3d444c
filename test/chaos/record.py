"""The clients' record: every order, call and change with its answer."""

import itertools
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Optional

RECENT = 3000  # orders and keys that clients choose from when they call again
LATE = 60.0    # seconds after which a change without an answer is not carried out any more

# Answers that tell what became of an order, and answers that leave it open.
ACCEPTED = ("201", "200")
UNKNOWN = (None, "503 outcome_unknown")  # None: no answer came
# Nothing was done. A daemon that was paused for longer than a request may take to come says 408.
NOT_NOW = ("408 request_timeout", "503 unavailable", "503 overloaded")
# Answers of which the shop learns that it owes the money back.
PAID_BACK = ("409 payment_too_late", "409 already_paid")
FAILED = "409 payment_failed"  # of the payment, which was told before
# The members of an answer that tell of an order's units, time and payment.
TOLD = ("qty", "ordered_qty", "expires_at", "payment_ref", "payment_state", "retaken", "latest")


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
    told: dict = field(default_factory=dict)  # as of a Call

    ref = None


@dataclass(slots=True)
class Call:
    """A look-up, or a change of an order: get, pay, cancel, refund, unpay, extend. `status`: of the
    order, where it was told; `told`: those of TOLD that the answer had."""

    what: str
    order_id: str
    daemon: int
    start: float
    end: float = 0.0
    answer: Optional[str] = None
    status: Optional[str] = None
    ref: Optional[str] = None       # of a payment
    keep: Optional[int] = None      # units, of a cancel or a refund
    restock: bool = False
    until: Optional[float] = None   # to which it was to be extended; UTC, in seconds
    told: dict = field(default_factory=dict)

    @property
    def may_have_happened(self):
        return self.answer == "200" or self.answer in UNKNOWN

    @property
    def decided(self):
        """A named payment got the answer that it has for good."""
        return (self.what == "pay" and self.ref is not None and
                (self.answer in PAID_BACK or self.answer == "200"
                 or self.told.get("payment_state") is not None))


@dataclass(slots=True)
class Listing:
    """All pages of a list of the refunds due, read one after the other. `rows`: the payments."""

    start: float
    end: float
    sku: Optional[str]  # None: of all sales
    rows: list


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
        self.epoch = time.time()  # at the beginning of the run
        self.tries, self.calls, self.changes = [], [], []
        self.pages = []  # that do not add up
        self.listings = []
        self.answers = Counter()
        self.hangs = []  # (daemon, start, end, what): patient requests without an answer
        self.lates = []  # (daemon, start, end, what): answers after the bound of their class
        self.recent_orders, self.recent_tries = deque(maxlen=RECENT), deque(maxlen=RECENT)
        self.recent_payments = deque(maxlen=RECENT)  # those with names
        self.recent_unpays = deque(maxlen=RECENT)
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
            if one.what == "pay" and one.ref:
                self.recent_payments.append(one)
            if one.what == "unpay":
                self.recent_unpays.append(one)

    def add_listing(self, one):
        with self._lock:
            self.listings.append(one)

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

    def just_before(self, recent, moment, count):
        """The newest of the recent ones that began before then."""
        with self._lock:
            return list(itertools.islice((one for one in reversed(recent) if one.start < moment),
                                         count))

    def some(self, random, recent, count=1, newest=RECENT):
        """Some of the newest of the recent ones, the same may come twice."""
        with self._lock:
            newest = min(newest, len(recent))
            return [recent[-random.randint(1, newest)] for _ in range(count)] if recent else []
