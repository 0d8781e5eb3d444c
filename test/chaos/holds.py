"""Until when orders are held, and what clients were told of it."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Optional

from chaos.checks import check, told_of
from chaos.failures import failures_of, is_failed, last_effect, may_fail_within
from chaos.record import ACCEPTED, UNKNOWN

CLOCKS_APART = 0.1  # seconds that two readings of the machine's clock may differ by
MS = 0.0015         # seconds: times are told in milliseconds
FOREVER = float("inf")


def seconds_of(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


# Times to pay

def times_given(record, sku):
    """[(earliest start, latest end, seconds or None, whether it surely was)]: the times to pay that
    a sale was given. A repeat of a key changes nothing."""
    groups = defaultdict(list)
    for one in record.changes:
        body = one.body or {}
        given = one.what == "reset" or one.what == "patch" and "pay_within_s" in body
        if one.sku == sku and given and one.answer in UNKNOWN + ("200",):
            groups[one.key or id(one)].append(one)
    return [(min(one.start for one in changes), done_until(changes),
             (changes[0].body or {}).get("pay_within_s"),
             any(one.answer == "200" for one in changes)) for changes in groups.values()]


def done_until(changes):
    """Until when a change was made that was told so often."""
    return min((one.end for one in changes if one.answer == "200"),
               default=max(map(last_effect, changes)))


def times_within(given, start, end):
    """Those that may have been in force at a moment between start and end; None: no time."""
    begun = [one for one in given if one[0] < end]
    replaced = max((since for since, until, _, sure in begun if sure and until < start),
                   default=-FOREVER)
    values = {value for _, until, value, _ in begun if until >= replaced}
    return values if replaced > -FOREVER else values | {None}


# What was told

@dataclass(slots=True)
class Telling:
    """Somebody was told until when an order is held; at last the ledger says so, for ever."""

    start: float
    end: float
    until: float  # UTC, in seconds
    status: str
    failed: Optional[str] = None  # the payment that the answer tells to have failed


class Hold:
    """What is known of an order's time to pay. It only grows, by extensions, but for a payment that
    fails: then it is the sale's, from that moment on."""

    def __init__(self, record, row, events, failures, given):
        self.epoch, self.row, self.failures, self.given = record.epoch, row, failures, given
        self.tellings = [Telling(one.start, one.end, self.until_of(one), one.status,
                                 one.ref if is_failed(one) else None)
                         for one in events if one.answer in ACCEPTED and (
                             "qty" in one.told or "expires_at" in one.told)]
        self.last = Telling(FOREVER, FOREVER, FOREVER if row.until is None else
                            row.until - row.grace, row.status)
        self.extensions = [one for one in events if getattr(one, "until", None)
                           and one.may_have_happened]

    @staticmethod
    def until_of(one):
        text = one.told.get("expires_at")
        return seconds_of(text) if text else FOREVER

    def failed_before(self, start, failed=None):
        """The payments that have surely failed before, as the one of that name has."""
        return [one for one in self.failures if one.high <= start or one.ref == failed]

    def since(self, start, failed=None):
        """When the time to pay that was in force then began at the earliest, if the order was
        reserved then, or no payment could pay it in the place of one that failed."""
        return max((one.low for one in self.failed_before(start, failed)), default=-FOREVER)

    def after_failures(self, since, end):
        """[(earliest, latest)]: the times that a failure may have given it by then."""
        for one in self.failures:
            if one.high >= since and one.low < end:
                high = min(one.high, end)
                for value in times_within(self.given, one.low, high):
                    time = FOREVER if value is None else self.epoch + value
                    yield time + one.low - CLOCKS_APART, time + high + CLOCKS_APART

    def extended(self, since, end):
        """The times to which it may have been extended by then."""
        return [one.until for one in self.extensions
                if one.start < end and last_effect(one) >= since]

    def is_explained(self, telling, since):
        """By an extension or a failure: else it is the time that the order had at first."""
        return any(abs(telling.until - time) < MS
                   for time in self.extended(since, telling.end)) or any(
            low <= telling.until <= high
            for low, high in self.after_failures(since, telling.end))

    def in_force(self, start, end):
        """[(earliest, latest)]: the times to pay one of which was in force at a moment between
        these, when the order was reserved."""
        if not self.failures:
            yield self.last.until, self.last.until
            return
        since = self.since(start)
        if since == -FOREVER:  # that which it had at first, if somebody was told
            failed = min(one.low for one in self.failures)
            first = [(one.until, one.until) for one in self.tellings if one.end <= failed]
            yield from first or [(-FOREVER, FOREVER)]
        yield from ((time, time) for time in self.extended(since, end))
        yield from self.after_failures(since, end)


def holds_of(record, books):
    """{order_id: Hold}"""
    told, failures, given = told_of(record), failures_of(record, books), {}
    for sku in {row.sku for row in books.orders.values()}:
        given[sku] = times_given(record, sku)
    return {order_id: Hold(record, row, told.get(order_id, []), failures.get(order_id, []),
                           given[row.sku]) for order_id, row in books.orders.items()}


# Checks

def shrinks(hold, tellings):
    """Two times of which the later one is shorter, though no payment failed in between."""
    return any(one.end < other.start and other.until + MS < one.until
               and not may_fail_within(hold.failures, one.start, other.end)
               for one in tellings for other in tellings)


def unexplained(hold, tellings, only_paying):
    """(the times that nobody asked for and no failure gave, whether one of them comes after a
    failure). only_paying: no payment could take the place of one that failed."""
    times, stale = [], False
    for one in tellings:
        since = -FOREVER
        if only_paying or one.status == "reserved":
            since = hold.since(one.start, one.failed)
        if not hold.is_explained(one, since):
            stale |= since > -FOREVER
            if not any(one.until == time or abs(one.until - time) < MS for time in times):
                times.append(one.until)
    return times, stale


def too_early(record, hold, tellings, events):
    """Calls that were told of it as expired before a time that was in force."""
    for one in events:
        if one.status == "expired" and any(
                record.epoch + one.end + CLOCKS_APART < other.until + hold.row.grace
                and not may_fail_within(hold.failures, min(one.start, other.start),
                                        max(one.end, other.end)) for other in tellings):
            yield one


@check("an order is held as long as was told, and no longer than was asked for")
def holds_are_kept(record, books):
    told, payments = told_of(record), books.by_order()
    for order_id, hold in holds_of(record, books).items():
        row, events = hold.row, told.get(order_id, [])
        tellings = [*hold.tellings, hold.last]
        if shrinks(hold, tellings):
            yield f"order {order_id} was told to be held for longer: {row}", events
        times, stale = unexplained(
            hold, tellings, all(payment.pays for payment in payments[order_id].values()))
        if stale:
            yield f"order {order_id} has no new time after its payment failed: {row}", events
        elif len(times) > 1:
            yield f"order {order_id} is held longer than anybody asked for: {row}", events
        early = list(too_early(record, hold, tellings, events))
        if early and not books.is_over(row):
            yield f"order {order_id} expired before its time: {row}", early
