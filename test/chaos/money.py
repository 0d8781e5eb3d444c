"""Compares what clients were told of payments and of extended holds with the ledger."""

from collections import Counter, defaultdict
from datetime import datetime

from chaos.checks import check, told_of
from chaos.record import ACCEPTED, UNKNOWN

CLOCKS_APART = 0.1  # seconds that two readings of the machine's clock may differ by
MS = 0.0015         # seconds: times are told in milliseconds
STORY = 6           # calls
DUE = ("too_late", "already_paid")
# What a payment's outcome must be, by its answer.
OUTCOMES = {"409 payment_too_late": ("too_late",), "409 already_paid": ("already_paid",),
            "409 invalid_state": ("in_time", "retaken")}


def by_payment(record):
    """{(order_id, ref): its calls, by their ends}"""
    groups = defaultdict(list)
    for one in record.calls:
        if one.ref and one.what in ("pay", "refund"):
            groups[one.order_id, one.ref].append(one)
    for calls in groups.values():
        calls.sort(key=lambda one: one.end)
    return groups


def up_to(one, calls):
    """The call with some before it, for a story that ends with it."""
    return calls[:calls.index(one) + 1][-STORY:]


def is_refunded(one):
    return one.told.get("payment_state") == "refunded"


def told_state(one):
    """The state that an answer tells of; None: of none."""
    state = one.told.get("payment_state")
    return "taken" if one.what == "pay" and one.answer == "200" else state


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
            if one.what != "pay" or one.answer not in ("200", *OUTCOMES):
                continue
            wrong = contradiction(one, payment)
            if wrong:
                yield (f"payment {ref} of {order_id} was answered {one.answer}; {wrong}",
                       up_to(one, calls))
                break


@check("a refund that was answered is in the ledger, as it was answered")
def refunds_are_there(record, books):
    for (order_id, ref), calls in by_payment(record).items():
        payment = books.payments.get((order_id, ref))
        known = min((one.end for one in calls if one.decided), default=float("inf"))
        for one in calls:
            if one.what != "refund" or not one.answer or one.answer[0] == "5":
                continue
            if one.answer == "404 unknown_payment":
                fits = one.start < known
            elif one.answer in ("409 invalid_state", "422 keep_too_large"):
                fits = one.keep is not None
            elif one.answer == "200" and one.keep:
                fits = payment and payment.state != "refund_due" and told_state(one) == "taken"
            else:
                fits = payment and payment.state == "refunded" and is_refunded(one)
            if one.answer != "404 unknown_order" and not fits:
                yield (f"refund of {ref} of {order_id} was answered {one.answer}, {one.told};"
                       f" the ledger has {payment}"), up_to(one, calls)
                break


@check("no payment is in the ledger that nobody told")
def none_invented(record, books):
    told = by_payment(record)
    for (order_id, ref), payment in books.payments.items():
        calls = told.get((order_id, ref), [])
        if not any(one.what == "pay" and (one.decided or one.answer in UNKNOWN) for one in calls):
            yield f"payment {ref} of {order_id}: nobody's was accepted or unclear: {payment}", calls


@check("a payment that was refunded stays refunded, and its outcome stays")
def payments_stay(record, _):
    for (order_id, ref), calls in by_payment(record).items():
        refunded = min((one.end for one in calls if is_refunded(one)), default=float("inf"))
        if any(told_state(one) not in (None, "refunded") and one.start > refunded
               for one in calls):
            yield f"payment {ref} of {order_id} was refunded, and then was not", calls
        answers = {(one.answer, one.told.get("retaken")) for one in calls
                   if one.decided and one.answer != "409 invalid_state"}
        # One that was due pays the order once that has lost its first payment.
        paid = min((one.end for one in calls if one.decided and one.answer == "200"), default=None)
        follows = paid is not None and ("200", True) not in answers and not any(
            one.start > paid for one in calls if one.decided and one.answer in OUTCOMES
            and not is_refunded(one))
        if len(answers) > (2 if follows else 1):
            yield f"payment {ref} of {order_id} was answered {sorted(map(str, answers))}", calls


@check("paid, due back and refunded make up the money that was told")
def sums_agree(record, books):
    told, unclear = set(), set()
    for one in record.calls:
        if one.what == "pay" and one.ref and (one.decided or one.answer in UNKNOWN):
            (told if one.decided else unclear).add((one.order_id, one.ref))
    unclear -= told
    states = Counter(payment.state for payment in books.payments.values())
    total = states["taken"] + states["refund_due"] + states["refunded"]
    if not len(told) <= total <= len(told) + len(unclear) or total != len(books.payments):
        yield f"{len(told)} payments told, {len(unclear)} unclear, the ledger has {states}", []


@check("an order that is paid by name has one payment that pays it, others have none")
def paid_once(record, books):
    nameless = {one.order_id for one in record.calls
                if one.what == "pay" and not one.ref and one.may_have_happened}
    payments = books.by_order()
    for row in books.orders.values():
        every = list(payments[row.order_id].values())
        states = Counter(payment.state for payment in every)
        first = [payment for payment in every if payment.pays]
        if row.status == "paid":
            fits = states["taken"] == 1 or not first and not states["taken"] and (
                row.order_id in nameless)
        else:
            fits = not states["taken"] and len(first) == (row.status == "refunded") and all(
                payment.state == "refunded" for payment in first)
        # Another pays the order only when the first is refunded.
        if len(first) > 1 or not fits or any(
                payment.state == "taken" and not payment.pays for payment in every) and [
                    payment.state for payment in first] != ["refunded"]:
            yield f"{row} has the payments {payments[row.order_id]}", []
    for order_id, payment in ((key[0], payment) for key, payment in books.payments.items()):
        if payment.listed != (payment.state == "refund_due") or (
                order_id not in books.orders or payment.pays and payment.state == "refund_due"):
            yield f"order {order_id}: no payment may be so: {payment}", []


def may_be_late(record, books, row, calls):
    """The order's time was over when the last of these calls was answered, or its round was."""
    last = max((one.end for one in calls), default=0.0)
    return books.is_over(row) or (
        row.until is not None and record.epoch + last + CLOCKS_APART >= row.until)


def may_be_in_time(record, row, calls):
    first = min((one.start for one in calls), default=float("inf"))
    return row.until is None or record.epoch + first - CLOCKS_APART < row.until


@check("every payment has its outcome for a reason")
def outcomes_have_reasons(record, books):
    calls, payments = by_payment(record), books.by_order()
    nameless = {one.order_id for one in record.calls
                if one.what == "pay" and not one.ref and one.may_have_happened}
    for (order_id, ref), payment in books.payments.items():
        row = books.orders.get(order_id)
        if row is None:
            continue
        told = [one for one in calls.get((order_id, ref), ())
                if one.what == "pay" and (one.decided or one.answer in UNKNOWN)]
        others = [other for name, other in payments[order_id].items() if name != ref and other.pays]
        # Of calls that were answered it was carried out by the end of the first.
        answered = [one for one in told if one.decided][:1] or told
        if payment.outcome == "already_paid":
            fits = others or order_id in nameless
        elif payment.outcome == "in_time":
            fits = may_be_in_time(record, row, told)
        else:
            fits = may_be_late(record, books, row, answered) or (
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
    """[(key, sku, told as due, first refund)]: of payments that clients were told to be due. With
    the refund of another payment of its order it may pay the order, and is due no longer."""
    backs = defaultdict(lambda: float("inf"))
    for one in record.calls:
        if one.what == "refund" and one.may_have_happened:
            backs[one.order_id] = min(backs[one.order_id], one.start)
    for key, calls in by_payment(record).items():
        due = min((one.end for one in calls if one.told.get("payment_state") == "refund_due"),
                  default=None)
        if due is not None and key[0] in books.orders:
            yield key, books.orders[key[0]].sku, due, backs[key[0]]


@check("a list of the refunds due has each that is due, and no other")
def lists_are_right(record, books):
    times = list(due_times(record, books))
    refunded = {}  # {key: when that was first told}
    for key, calls in by_payment(record).items():
        ends = [one.end for one in calls if is_refunded(one)]
        if ends:
            refunded[key] = min(ends)
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
                 or refunded.get(key, one.start) < one.start
                 or one.sku not in (None, row["sku"])]
        if missing or wrong or places != sorted(set(places)):
            yield (f"listed from {one.start:.2f} to {one.end:.2f} s, {len(keys)} rows; missing:"
                   f" {missing[:5]}, wrong: {wrong[:5]}"), [one]


@check("a sale is retired in spite of refunds due only if the operator says so")
def retired_with_reason(record, books):
    times = list(due_times(record, books))
    refunded = {key: min((one.end for one in calls if is_refunded(one)), default=float("inf"))
                for key, calls in by_payment(record).items()}
    for one in record.changes:
        if one.what != "retire":
            continue
        due = [key for key, sku, told, back in times
               if sku == one.sku and told < one.start and back > one.end]
        if one.answer == "200" and due and not (one.body or {}).get("refunds_elsewhere"):
            yield f"{one.sku} was retired, due are {due[:5]}", [one]
        possible = any(payment.outcome in DUE and books.orders[order_id].sku == one.sku
                       and refunded.get((order_id, ref), float("inf")) > one.start
                       for (order_id, ref), payment in books.payments.items()
                       if order_id in books.orders)
        if one.answer == "409 refunds_due" and (
                not possible or (one.body or {}).get("refunds_elsewhere")):
            yield f"{one.sku} was not retired, though no refund hinders it", [one]


# Holds

def seconds_of(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


@check("an order is held as long as was told, and no longer than was asked for")
def holds_are_kept(record, books):
    for order_id, events in told_of(record).items():
        row = books.orders.get(order_id)
        if row is None or row.until is None:
            continue
        until = row.until - row.grace
        told = [(one, seconds_of(one.told["expires_at"])) for one in events
                if one.answer in ACCEPTED and one.told.get("expires_at")]
        asked = [one.until for one in events if getattr(one, "until", None)]
        if any(time > until + MS for _, time in told) or any(
                other.end < one.start and before > time + MS
                for one, time in told for other, before in told):
            yield f"order {order_id} was told to be held for longer: {row}", events
        first = min((time for _, time in told), default=until)
        if not any(abs(until - time) < MS for time in (first, *asked)):
            yield f"order {order_id} is held longer than anybody asked for: {row}", events
        early = [one for one in events if one.status == "expired"
                 and record.epoch + one.end + CLOCKS_APART < row.until]
        if early and not books.is_over(row):
            yield f"order {order_id} expired before its time: {row}", early
