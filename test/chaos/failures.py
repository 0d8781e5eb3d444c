"""When payments failed after they had paid their orders, as far as the record tells, and what else
it tells of each payment."""

from collections import defaultdict
from dataclasses import dataclass

from chaos.record import LATE, UNKNOWN


def by_payment(record):
    """{(order_id, ref): its calls, by their ends}"""
    groups = defaultdict(list)
    for one in record.calls:
        if one.ref and one.what in ("pay", "refund", "unpay"):
            groups[one.order_id, one.ref].append(one)
    for calls in groups.values():
        calls.sort(key=lambda one: one.end)
    return groups


def told_state(one):
    """The state that an answer tells of; None: of none."""
    state = one.told.get("payment_state")
    return "taken" if one.ref and one.what == "pay" and one.answer == "200" else state


def is_refunded(one):
    return told_state(one) == "refunded"


def is_failed(one):
    return told_state(one) == "failed"


def first_told(calls, tells):
    """When one of the calls was answered first that tells so; infinity: none was."""
    return min((one.end for one in calls if tells(one)), default=float("inf"))


def last_effect(one):
    """Until when a change may have been carried out: an unanswered one some time after."""
    return one.end + (LATE if one.answer in UNKNOWN else 0)


@dataclass(slots=True)
class Failure:
    """A payment failed at one moment between `low` and `high`. Its order was paid until then, and
    became reserved, if no other payment paid it."""

    ref: str
    low: float
    high: float

    def may_be_within(self, start, end):
        return self.low < end and self.high > start


def failures_of(record, books):
    """{order_id: [Failure]}, of the payments that have failed in the ledger."""
    groups = defaultdict(list)
    for (order_id, ref), calls in by_payment(record).items():
        payment = books.payments.get((order_id, ref))
        unpays = [one for one in calls if one.what == "unpay" and one.may_have_happened]
        if payment and payment.state == "failed" and unpays:
            high = min(first_told(calls, is_failed), max(map(last_effect, unpays)))
            groups[order_id].append(Failure(ref, min(one.start for one in unpays), high))
    return groups


def may_fail_within(failures, start, end):
    return any(one.may_be_within(start, end) for one in failures)
