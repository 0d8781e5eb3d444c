"""Compares what clients were told of payments with the ledger."""

from collections import Counter, defaultdict

from chaos.checks import check
from chaos.failures import (
    by_payment, failures_of, first_told, is_failed, is_refunded, last_effect, told_state)
from chaos.holds import CLOCKS_APART, holds_of
from chaos.record import FAILED, NOT_NOW, UNKNOWN

STORY = 6           # calls
DUE = ("too_late", "already_paid")
# What a payment's outcome must be, by its answer.
OUTCOMES = {"409 payment_too_late": ("too_late",), "409 already_paid": ("already_paid",),
            "409 invalid_state": ("in_time", "retaken")}


def up_to(one, calls):
    """The call with some before it, for a story that ends with it."""
    return calls[:calls.index(one) + 1][-STORY:]


# Payments

def contradiction(one, payment):
    """What an answer to `pay` and a payment in the ledger disagree in; None: nothing."""
    if payment is None:
        return "it is not in the ledger"
    if one.answer == "200":
        # Without a retake it was in time, or has taken the place of another since it was due.
        retaken = one.told.get("retaken") is not None
        fits = ((payment.outcome == "retaken") == retaken and one.status == "paid"
                and one.told.get("payment_ref") == one.ref and payment.state != "refund_due")
    elif one.answer == "409 invalid_state":
        fits = is_refunded(one) and payment.pays
    elif one.answer == FAILED:
        fits = is_failed(one) and payment.state == "failed"
    else:
        fits = payment.outcome in OUTCOMES[one.answer] and (
            one.told.get("payment_state") in ("refund_due", "refunded"))
    if is_refunded(one) and payment.state != "refunded":
        fits = False
    return None if fits else f"the ledger has {payment}"


@check("a payment that was answered is in the ledger, as it was answered")
def answered_are_there(record, books):
    for (order_id, ref), calls in by_payment(record).items():
        payment = books.payments.get((order_id, ref))
        for one in calls:
            if one.what != "pay" or one.answer not in ("200", FAILED, *OUTCOMES):
                continue
            wrong = contradiction(one, payment)
            if wrong:
                yield (f"payment {ref} of {order_id} was answered {one.answer}; {wrong}",
                       up_to(one, calls))
                break


def may_be_failed(failures, one):
    """The payment that the call is of may have failed before its answer."""
    return any(other.ref == one.ref and other.low < one.end for other in failures)


def is_known(one):
    """The answer shows that the payment is there."""
    return told_state(one) is not None


@check("a refund that was answered is in the ledger, as it was answered")
def refunds_are_there(record, books):
    failures = failures_of(record, books)
    for (order_id, ref), calls in by_payment(record).items():
        payment = books.payments.get((order_id, ref))
        known = first_told(calls, is_known)
        for one in calls:
            if one.what != "refund" or not one.answer or one.answer[0] == "5":
                continue
            if one.answer == "404 unknown_payment":
                fits = one.start < known
            elif one.answer == "409 invalid_state":
                fits = one.keep is not None or may_be_failed(failures[order_id], one)
            elif one.answer == "422 keep_too_large":
                fits = one.keep is not None
            elif one.answer == "200" and one.keep:
                fits = payment and payment.state != "refund_due" and told_state(one) == "taken"
            else:
                fits = payment and payment.state == "refunded" and is_refunded(one)
            if one.answer not in ("404 unknown_order", "408 request_timeout") and not fits:
                yield (f"refund of {ref} of {order_id} was answered {one.answer}, {one.told};"
                       f" the ledger has {payment}"), up_to(one, calls)
                break


def may_be_after_round(record, books, row, one):
    """The order's round may have been over when the call was answered."""
    if not books.is_over(row):
        return False
    for change in record.changes:
        begun = books.resets.get((change.sku, change.key), (change.round, 0))[0]
        if change.what in ("reset", "retire") and change.sku == row.sku and (
                change.start < one.end and change.answer in UNKNOWN + ("200",)
                and (begun is None or begun > row.round)):
            return True
    return False


def may_not_fail(record, books, one, calls):
    """A reason why an unpay may have been refused: the payment did not pay its order then, or the
    order's round was over."""
    payment, row = books.payments[one.order_id, one.ref], books.orders.get(one.order_id)
    if first_told(calls, is_failed) < one.start:
        return False
    paid = first_told(calls, lambda other: told_state(other) == "taken")
    refunded = any(other.what == "refund" and not other.keep and other.may_have_happened
                   and other.start < one.end for other in calls)
    return (payment.outcome in DUE and paid > one.start or payment.state == "refunded" and refunded
            or row is not None and may_be_after_round(record, books, row, one))


@check("a failure that was answered is in the ledger, as it was answered")
def failures_are_there(record, books):
    for (order_id, ref), calls in by_payment(record).items():
        payment = books.payments.get((order_id, ref))
        known = first_told(calls, is_known)
        for one in calls:
            if one.what != "unpay":
                continue
            fits = True
            if one.answer == "200":
                fits = (payment and payment.state == "failed" and is_failed(one)
                        and one.told.get("payment_ref") == ref)
            elif one.answer == "404 unknown_payment":
                fits = one.start < known
            elif one.answer == "409 invalid_state":
                fits = payment and may_not_fail(record, books, one, calls)
            if not fits:
                yield (f"unpay of {ref} of {order_id} was answered {one.answer}, {one.told}; the"
                       f" ledger has {payment}"), up_to(one, calls)
                break


AFTER_FAILURE = {"pay": FAILED, "refund": "409 invalid_state", "unpay": "200"}


@check("a payment that failed stays so, and every call with it is answered so")
def failures_stay(record, books):
    for (order_id, ref), calls in by_payment(record).items():
        failed = first_told(calls, is_failed)
        later = [one for one in calls if one.start > failed
                 and (one.answer not in (*UNKNOWN, *NOT_NOW, AFTER_FAILURE[one.what])
                      or told_state(one) not in (None, "failed"))]
        for one in later[:1]:
            yield (f"payment {ref} of {order_id} has failed, then {one.what} was answered"
                   f" {one.answer}"), up_to(one, calls)


@check("no payment fails that nobody said had failed")
def failures_have_reasons(record, books):
    failures, calls = failures_of(record, books), by_payment(record)
    for (order_id, ref), payment in books.payments.items():
        if payment.state == "failed" and not any(one.ref == ref for one in failures[order_id]):
            yield (f"nobody's unpay of {ref} of {order_id} was accepted or unclear",
                   calls.get((order_id, ref), []))


@check("no payment is in the ledger that nobody told")
def none_invented(record, books):
    told = by_payment(record)
    for (order_id, ref), payment in books.payments.items():
        calls = told.get((order_id, ref), [])
        if not any(one.what == "pay" and (one.decided and one.answer != FAILED
                                          or one.answer in UNKNOWN) for one in calls):
            yield f"payment {ref} of {order_id}: nobody's was accepted or unclear: {payment}", calls


@check("a payment that was refunded stays refunded, and its outcome stays")
def payments_stay(record, _):
    for (order_id, ref), calls in by_payment(record).items():
        refunded = first_told(calls, is_refunded)
        if any(told_state(one) not in (None, "refunded") and one.start > refunded
               for one in calls):
            yield f"payment {ref} of {order_id} was refunded, and then was not", calls
        answers = {(one.answer, one.told.get("retaken")) for one in calls
                   if one.decided and one.answer not in ("409 invalid_state", FAILED)}
        # One that was due pays the order once that has lost its first payment.
        paid = min((one.end for one in calls if one.decided and one.answer == "200"), default=None)
        follows = paid is not None and ("200", True) not in answers and not any(
            one.start > paid for one in calls if one.decided and one.answer in OUTCOMES
            and not is_refunded(one))
        if len(answers) > (2 if follows else 1):
            yield f"payment {ref} of {order_id} was answered {sorted(map(str, answers))}", calls


@check("paid, due back, refunded and failed make up the money that was told")
def sums_agree(record, books):
    told, unclear = set(), set()
    for one in record.calls:
        if one.what == "pay" and one.ref and (one.decided or one.answer in UNKNOWN):
            (told if one.decided else unclear).add((one.order_id, one.ref))
    unclear -= told
    states = Counter(payment.state for payment in books.payments.values())
    total = sum(states[state] for state in ("taken", "refund_due", "refunded", "failed"))
    if not len(told) <= total <= len(told) + len(unclear) or total != len(books.payments):
        yield f"{len(told)} payments told, {len(unclear)} unclear, the ledger has {states}", []


def fits_its_payments(status, payments, nameless):
    """The payments that order has may have made it what it is. What pays it first, in time or by a
    retake, may end, and leave that to one that was due. When the last of such a row ends by a
    refund, so does the order; when it fails, the order may be paid anew."""
    first = [payment.state for payment in payments if payment.pays]
    next_ones = [payment.state for payment in payments if not payment.pays]
    states = Counter(first + next_ones)
    by_name = states["taken"] > 0
    if states["taken"] > 1 or by_name != (status == "paid") and not (
            status == "paid" and nameless):
        return False
    if status == "refunded" and not states["refunded"]:
        return False
    # The next one pays or has failed only when the one before is refunded or failed.
    if {"taken", "failed"} & set(next_ones) and not {"refunded", "failed"} & set(first):
        return False
    # Each row has ended by a failure but one that still pays the order, or ended with it.
    last = by_name or status == "refunded"
    return len(first) >= last and sum(state != "failed" for state in first) - last <= (
        next_ones.count("failed"))


@check("an order that is paid by name has one payment that pays it, others have none")
def paid_once(record, books):
    nameless = {one.order_id for one in record.calls
                if one.what == "pay" and not one.ref and one.may_have_happened}
    payments = books.by_order()
    for row in books.orders.values():
        if not fits_its_payments(row.status, payments[row.order_id].values(),
                                 row.order_id in nameless):
            yield f"{row} has the payments {payments[row.order_id]}", []
    for order_id, payment in ((key[0], payment) for key, payment in books.payments.items()):
        if payment.listed != (payment.state == "refund_due") or (
                order_id not in books.orders or payment.pays and payment.state == "refund_due"):
            yield f"order {order_id}: no payment may be so: {payment}", []


def may_be_late(record, hold, start, end):
    """The order's time may have been over between these."""
    return any(record.epoch + end + CLOCKS_APART >= until + hold.row.grace
               for until, _ in hold.in_force(start, end))


def may_be_in_time(record, hold, start, end):
    return any(record.epoch + start - CLOCKS_APART < until + hold.row.grace
               for _, until in hold.in_force(start, end))


def decided_until(calls):
    """Of calls that were answered a payment was decided by the end of the first."""
    return first_told(calls, lambda one: one.decided) if any(one.decided for one in calls) else max(
        map(last_effect, calls), default=0.0)


@check("every payment has its outcome for a reason")
def outcomes_have_reasons(record, books):
    calls, payments, holds = by_payment(record), books.by_order(), holds_of(record, books)
    nameless = {one.order_id for one in record.calls
                if one.what == "pay" and not one.ref and one.may_have_happened}
    for (order_id, ref), payment in books.payments.items():
        row = books.orders.get(order_id)
        if row is None:
            continue
        told = [one for one in calls.get((order_id, ref), ())
                if one.what == "pay" and (one.decided or one.answer in UNKNOWN)]
        others = [other for name, other in payments[order_id].items() if name != ref and other.pays]
        start, end = min((one.start for one in told), default=float("inf")), decided_until(told)
        if payment.outcome == "already_paid":
            fits = others or order_id in nameless
        elif payment.outcome == "in_time":
            fits = may_be_in_time(record, holds[order_id], start, end)
        else:
            fits = books.is_over(row) or may_be_late(record, holds[order_id], start, end) or (
                payment.outcome == "too_late" and row.status in ("cancelled", "refunded"))
        if not fits:
            yield f"payment {ref} is {payment.outcome}: {row}", told


@check("no payment is refunded without a reason")
def refunds_have_reasons(record, books):
    told = by_payment(record)
    for (order_id, ref), payment in books.payments.items():
        calls = told.get((order_id, ref), [])
        if payment.state == "refunded" and not any(
                one.what == "refund" and not one.keep and one.may_have_happened for one in calls):
            yield f"nobody's refund of {ref} of {order_id} was accepted or unclear", calls


# Lists

def due_times(record, books):
    """[(key, sku, told as due, first end)]: of payments that clients were told to be due. With
    the end of another payment of its order it may pay the order, and is due no longer."""
    backs = defaultdict(lambda: float("inf"))
    for one in record.calls:
        if one.what in ("refund", "unpay") and one.may_have_happened:
            backs[one.order_id] = min(backs[one.order_id], one.start)
    for key, calls in by_payment(record).items():
        due = first_told(calls, lambda one: told_state(one) == "refund_due")
        if due < float("inf") and key[0] in books.orders:
            yield key, books.orders[key[0]].sku, due, backs[key[0]]


def ends_told(record):
    """{(order_id, ref): when it was first told to be refunded or failed; infinity: it was not}"""
    return {key: first_told(calls, lambda one: is_refunded(one) or is_failed(one))
            for key, calls in by_payment(record).items()}


@check("a list of the refunds due has each that is due, and no other")
def lists_are_right(record, books):
    times, ended = list(due_times(record, books)), ends_told(record)
    for one in record.listings:
        keys = [(row["order_id"], row["payment_ref"]) for row in one.rows]
        places = [(int(order_id), ref) for order_id, ref in keys]
        listed = set(keys)
        missing = [key for key, sku, due, back in times
                   if due < one.start and back > one.end and one.sku in (None, sku)
                   and key not in listed]
        wrong = [row for key, row in zip(keys, one.rows)
                 if row["state"] != "refund_due" or key not in books.payments
                 or books.payments[key].outcome != row["outcome"] or row["outcome"] not in DUE
                 or ended[key] < one.start
                 or one.sku not in (None, row["sku"])]
        if missing or wrong or places != sorted(set(places)):
            yield (f"listed from {one.start:.2f} to {one.end:.2f} s, {len(keys)} rows; missing:"
                   f" {missing[:5]}, wrong: {wrong[:5]}"), [one]


@check("a sale is retired in spite of refunds due only if the operator says so")
def retired_with_reason(record, books):
    times, ended = list(due_times(record, books)), ends_told(record)
    for one in record.changes:
        if one.what != "retire":
            continue
        due = [key for key, sku, told, back in times
               if sku == one.sku and told < one.start and back > one.end]
        if one.answer == "200" and due and not (one.body or {}).get("refunds_elsewhere"):
            yield f"{one.sku} was retired, due are {due[:5]}", [one]
        possible = any(payment.outcome in DUE and books.orders[order_id].sku == one.sku
                       and ended.get((order_id, ref), float("inf")) > one.start
                       for (order_id, ref), payment in books.payments.items()
                       if order_id in books.orders)
        if one.answer == "409 refunds_due" and (
                not possible or (one.body or {}).get("refunds_elsewhere")):
            yield f"{one.sku} was not retired, though no refund hinders it", [one]
