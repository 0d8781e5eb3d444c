"""Compares every recorded answer with the ledger. Each check yields its violations, and each check
can fail: test_checks.py feeds it false records."""

from collections import Counter, defaultdict
from dataclasses import dataclass

from chaos.failures import failures_of, may_fail_within
from chaos.record import ACCEPTED, FAILED, LATE, NOT_NOW, PAID_BACK, UNKNOWN

CHECKS = {}

ORDER_ANSWERS = {
    *UNKNOWN, *NOT_NOW, "200", "201", "404 unknown_sku", "409 sold_out", "409 limit_reached",
    "409 sale_not_started", "409 sale_ended", "409 sale_paused", "503 no_order_id"}
CALL_ANSWERS = {*UNKNOWN, *NOT_NOW, "200", "404 unknown_order"}
OF_CALLS = {"get": set(), "pay": {"409 invalid_state", FAILED, *PAID_BACK},
            "cancel": {"409 invalid_state", "422 keep_too_large"},
            "refund": {"409 invalid_state", "404 unknown_payment", "422 keep_too_large"},
            "unpay": {"409 invalid_state", "404 unknown_payment"},
            "extend": {"409 invalid_state", "409 hold_limit_reached"}}
CHANGE_ANSWERS = {*UNKNOWN, *NOT_NOW, "200", "404 unknown_sku", "409 sale_in_use",
                  "409 refunds_due"}

# How far an order has come: it never goes back, but for a payment that fails, which leaves a paid
# order reserved. An expired one is paid when its money is late.
STEPS = {"reserved": 0, "expired": 1, "paid": 2, "cancelled": 3, "refunded": 3}
# What an order may have been told as, by what it is in the end.
WAYS = {"reserved": {"reserved"}, "cancelled": {"reserved", "expired", "cancelled"},
        "expired": {"reserved", "expired"}, "paid": {"reserved", "paid"},
        "refunded": {"reserved", "paid", "refunded"}}


@dataclass
class Violation:
    """`at`: seconds of the run, near which the reader looks for the faults that struck."""

    check: str
    text: str
    at: float
    told: list


def check(title):
    """Registers check(record, books), which yields (text, records that it is about)."""
    def register(act):
        CHECKS[title] = act
        return act
    return register


def run_checks(record, books):
    """{title: [violations]}, one entry per check."""
    results = {}
    for title, act in CHECKS.items():
        results[title] = [Violation(title, text, told[-1].start if told else 0.0, told)
                          for text, told in act(record, books)]
    return results


def by_key(record):
    """{(user, key): tries in the order of their starts}; without a key the user has one try."""
    groups = defaultdict(list)
    for one in record.tries:
        groups[one.user, one.key].append(one)
    for tries in groups.values():
        tries.sort(key=lambda one: one.start)
    return groups


def told_of(record):
    """{order_id: tries and calls that were told of the order, by their ends}"""
    groups = defaultdict(list)
    for one in record.tries + record.calls:
        if one.order_id:
            groups[one.order_id].append(one)
    for events in groups.values():
        events.sort(key=lambda one: one.end)
    return groups


# Orders

@check("every answer is one that the interface names")
def known_answers(record, _):
    for group, known in ((record.tries, lambda _: ORDER_ANSWERS),
                         (record.calls, lambda one: CALL_ANSWERS | OF_CALLS[one.what]),
                         (record.changes, lambda _: CHANGE_ANSWERS)):
        for one in group:
            if one.answer not in known(one):
                yield f"the answer {one.answer}", [one]
    for one in record.calls:
        if not one.ref and one.answer in (*PAID_BACK, FAILED):
            yield f"the answer {one.answer} to a payment without a name", [one]


@check("an accepted order is in the ledger, as it was told")
def accepted_are_there(record, books):
    for one in record.tries:
        if one.answer not in ACCEPTED:
            continue
        row = books.orders.get(one.order_id)
        if row is None:
            yield f"order {one.order_id} was answered {one.answer}; it is not in the ledger", [one]
            continue
        told = (one.sku, one.user, one.qty, one.key, one.round)
        kept = (row.sku, row.user, row.asked, row.key, row.round)
        if told != kept:
            yield f"order {one.order_id}: asked and told {told}, the ledger has {kept}", [one]


@check("an order is acknowledged as new once")
def new_once(record, _):
    groups = defaultdict(list)
    for one in record.tries:
        if one.answer == "201":
            groups[one.order_id].append(one)
    for order_id, tries in groups.items():
        if len(tries) > 1:
            yield f"order {order_id} was answered 201 {len(tries)} times", tries


@check("a key has one order, and every answer names it")
def one_order_per_key(record, books):
    rows = books.by_user()
    for (user, key), tries in by_key(record).items():
        found = {row.order_id for row in rows.get((user, key), ())}
        named = {one.order_id for one in tries if one.answer in ACCEPTED}
        if len(found | named) > 1:
            yield (f"user {user}, key {key}: the ledger has the orders {sorted(found)}, answers"
                   f" named {sorted(named)}"), tries


@check("an order that was only refused is not in the ledger")
def refused_are_not_there(record, books):
    rows = books.by_user()
    for (user, key), tries in by_key(record).items():
        if not any(one.answer in ACCEPTED + UNKNOWN for one in tries) and (user, key) in rows:
            yield (f"user {user}, key {key}: answered {sorted({one.answer for one in tries})}, yet"
                   f" the ledger has {rows[user, key]}"), tries


@check("every order in the ledger was asked for")
def none_unasked(record, books):
    asked = by_key(record)
    for (user, key), rows in books.by_user().items():
        if (user, key) not in asked:
            yield f"nobody asked for {rows[0]}", []


@check("a repeat is never refused when its order is known")
def repeats_find_their_order(record, _):
    for (user, key), tries in by_key(record).items():
        if key is None:
            continue
        known = min((one.end for one in tries if one.answer in ACCEPTED), default=None)
        for one in tries:
            if known is not None and one.start > known and one.answer and one.answer[0] == "4":
                yield f"user {user}, key {key}: a repeat was answered {one.answer}", tries


@check("the id of an unclear order is the one it has, if it has one")
def unclear_ids(record, books):
    rows = books.by_user()
    for one in record.tries:
        if one.answer == "503 outcome_unknown" and one.key is None and one.order_id:
            for row in rows.get((one.user, None), ()):
                if row.order_id != one.order_id:
                    yield f"order {one.order_id} is unclear, the ledger has {row.order_id}", [one]


@check("steady, which always has units, is never sold out")
def never_sold_out(record, _):
    for one in record.tries:
        if one.sku == "steady" and one.answer == "409 sold_out" and not one.user.startswith("last"):
            yield "an order of steady was answered sold_out", [one]


@check("every stock page adds up")
def pages_add_up(record, _):
    for one in record.pages:
        yield f"a page of {one.page['sku']} mixes moments or rounds", [one]


# Outcomes of orders

@check("an order ends in one state, and every answer agrees")
def one_end(record, books):
    payments = books.by_order()
    for order_id, events in told_of(record).items():
        row = books.orders.get(order_id)
        if row is None:
            continue
        ways = {None} | WAYS[row.status]
        if any(payment.outcome == "retaken" for payment in payments[order_id].values()):
            ways.add("expired")
        if any(payment.state == "failed" for payment in payments[order_id].values()):
            ways.add("paid")
        wrong = [one for one in events if one.status not in ways]
        if wrong:
            yield f"order {order_id} was told as {wrong[0].status}, it is {row.status}", events


def may_go_back(one, other, failures, retaken):
    """An order that was told as one says may be as the other says later, since a payment failed.
    `retaken`: money that came late has paid it."""
    left = ("paid", "expired") if retaken else ("paid",)
    return (one.status in left and STEPS[other.status] < STEPS["paid"]
            and may_fail_within(failures, one.start, other.end))


@check("no order goes back to a state that it has left, but when its payment fails")
def states_stay(record, books):
    failures, payments = failures_of(record, books), books.by_order()
    for order_id, events in told_of(record).items():
        told = [one for one in events if one.status]
        retaken = any(one.outcome == "retaken" for one in payments[order_id].values())
        back = [(one, other) for one in told for other in told if one.end < other.start
                and STEPS[one.status] > STEPS[other.status]
                and not may_go_back(one, other, failures[order_id], retaken)]
        for one, other in back[:1]:
            yield f"order {order_id} was told as {other.status} after it was {one.status}", events


@check("a payment that was answered 200 is in the ledger, and so is a cancellation")
def done_is_done(record, books):
    ends = {"pay": ("paid", "refunded"), "cancel": ("cancelled",)}
    failures = failures_of(record, books)
    for one in record.calls:
        if one.what in ends and one.answer == "200" and not one.keep:
            row = books.orders.get(one.order_id)
            failed = one.what == "pay" and may_fail_within(failures[one.order_id], one.start,
                                                           float("inf"))
            if row is None or row.status not in ends[one.what] and not failed:
                status = row and row.status
                yield f"order {one.order_id}: {one.what} was answered 200, it is {status}", [one]


@check("no order is paid, cancelled, expired or refunded without a reason")
def ends_have_reasons(record, books):
    asked, told = defaultdict(set), told_of(record)
    for one in record.calls:
        if one.may_have_happened and not one.keep:
            asked[one.order_id].add(one.what)
    for row in books.orders.values():
        events = told.get(row.order_id, [])
        if row.status in ("paid", "refunded") and "pay" not in asked[row.order_id]:
            yield f"nobody's payment was accepted or unclear: {row}", events
        if row.status == "cancelled" and "cancel" not in asked[row.order_id]:
            yield f"nobody's cancel was accepted or unclear: {row}", events
        if row.status == "refunded" and "refund" not in asked[row.order_id]:
            yield f"nobody's refund was accepted or unclear: {row}", events
        over = books.is_over(row)
        if row.status == "expired" and not row.expires and not over:
            yield f"it had no time to pay, and its round goes on: {row}", events
        if row.status == "reserved" and over:
            yield f"its round is over: {row}", events


@check("an order that was told of is found")
def told_are_found(record, _):
    for order_id, events in told_of(record).items():
        known = min((one.end for one in events if one.answer in ACCEPTED), default=None)
        lost = [one for one in events if known is not None and one.start > known
                and one.answer == "404 unknown_order"]
        if lost:
            yield f"order {order_id} was not found at daemon {lost[0].daemon}", events


@check("an unclear order that is found later is in the ledger, one that is not there is not found")
def found_are_there(record, books):
    for one in record.calls:
        found = one.answer and one.answer[0] != "5" and one.answer != "404 unknown_order"
        if found and one.order_id not in books.orders:
            yield f"order {one.order_id} was found, it is not in the ledger", [one]


def ended_rounds(record, books):
    """{sku: [(round that began, when its reset was answered)]}"""
    ended = defaultdict(list)
    for one in record.changes:
        if one.what == "reset" and one.answer == "200" and (one.sku, one.key) in books.resets:
            ended[one.sku].append((books.resets[one.sku, one.key][0], one.end))
    return ended


def is_after_round(row, start, ended):
    return any(number > row.round and end < start for number, end in ended[row.sku])


def last_paying(row, payments):
    """The names of those that may have made the order paid when that happened last; None: of a
    payment without one."""
    states = {ref: payment.state for ref, payment in payments.items() if payment.pays}
    if row.status == "paid" and not any(one.state == "taken" for one in payments.values()):
        return {None}
    for state in ("taken", "refunded", "failed"):
        if state in states.values():
            return {ref for ref in states if states[ref] == state}
    return {None}


@check("no order of an ended round is paid")
def no_late_payments(record, books):
    payments, ended = books.by_order(), ended_rounds(record, books)
    for order_id, events in told_of(record).items():
        row = books.orders.get(order_id)
        if row is None or row.status not in ("paid", "refunded"):
            continue
        refs = last_paying(row, payments[order_id])
        paying = [one for one in events if getattr(one, "what", "") == "pay"
                  and one.may_have_happened and one.ref in refs]
        first = min((one.start for one in paying), default=None)
        if first is not None and is_after_round(row, first, ended):
            yield f"order {order_id} was paid after its round: {row}", events


@check("no payment of an ended round fails")
def no_late_failures(record, books):
    ended = ended_rounds(record, books)
    for order_id, failures in failures_of(record, books).items():
        row = books.orders.get(order_id)
        for one in failures if row else ():
            if is_after_round(row, one.low, ended):
                yield f"payment {one.ref} of order {order_id} failed after its round: {row}", [
                    call for call in record.calls if call.order_id == order_id]


# Units

def kept_parts(record):
    """{order_id: calls that left, or may have left, an order a part}"""
    groups = defaultdict(list)
    for one in record.calls:
        if one.keep and one.may_have_happened:
            groups[one.order_id].append(one)
    return groups


@check("an order's units only become fewer, as the shop asked for")
def units_only_go(record, books):
    parts = kept_parts(record)
    for order_id, events in told_of(record).items():
        row = books.orders.get(order_id)
        told = [one for one in events if one.answer in ACCEPTED and "qty" in one.told]
        for one in told if row else ():
            qty, keep = one.told["qty"], getattr(one, "keep", None)
            if one.told.get("ordered_qty", qty) != row.asked or qty < row.qty:
                yield f"order {order_id} was told with {one.told}: {row}", [one]
            elif keep and qty > keep:
                yield f"order {order_id} was to keep {keep} units, it was told with {qty}", [one]
            elif any(other.end < one.start and other.told["qty"] < qty for other in told):
                yield f"order {order_id} has units again that it gave back", events
    for row in books.orders.values():
        if row.qty not in {row.asked, *(one.keep for one in parts[row.order_id])}:
            yield f"nobody asked for so many units: {row}", parts[row.order_id]


@check("units come back as the refunds said")
def returned_as_said(record, books):
    refunds, parts = defaultdict(list), kept_parts(record)
    for one in record.calls:
        if one.what == "refund" and one.may_have_happened:
            refunds[one.order_id].append(one)
    for row in books.orders.values():
        said = {one.restock for one in refunds[row.order_id]}
        cut = any(one.what == "cancel" for one in parts[row.order_id])
        gone = row.asked - (row.qty if row.status != "refunded" else 0)
        if row.held > row.asked:
            yield f"it holds more than was ordered: {row}", refunds[row.order_id]
        elif row.unreturned and False not in said:
            yield f"no refund kept units off the sale: {row}", refunds[row.order_id]
        elif said == {False} and not cut and row.unreturned != gone:
            yield f"{gone} units were not to come back: {row}", refunds[row.order_id]


# Limits

def limits_in_force(record, books, sku):
    """{round: greatest limit that may have been in force in it}; None: none at all."""
    changes = sorted((one for one in record.changes if one.sku == sku
                      and one.answer in UNKNOWN + ("200",)
                      and "per_user_limit" in (one.body or {})), key=lambda one: one.start)
    begun = {}  # round: (earliest begin, limit)
    for one in changes:
        if one.what == "reset" and (sku, one.key) in books.resets:
            number = books.resets[sku, one.key][0]
            limit = one.body["per_user_limit"]
            begun[number] = min(begun.get(number, (one.start, limit)), (one.start, limit),
                                key=lambda pair: pair[0])
    result = {}
    for number, (start, limit) in begun.items():
        end = min((other for later, (other, _) in begun.items() if later > number),
                  default=float("inf")) + LATE
        values = [limit]
        for one in changes:
            # Until when it may have been carried out: an unanswered one some time after.
            until = one.end + (0 if one.answer == "200" else LATE)
            if one.what == "patch" and until > start and one.start < end:
                values.append(one.body["per_user_limit"])
        result[number] = None if None in values else max(values)
    return result


@check("nobody has more than the greatest limit that was in force")
def limits_hold(record, books):
    for sku in {row.sku for row in books.orders.values()}:
        limits = limits_in_force(record, books, sku)
        units, orders = Counter(), defaultdict(list)
        for row in books.orders.values():
            if row.sku == sku and row.held:
                units[row.round, row.user] += row.held
                orders[row.round, row.user].append(row)
        for (number, user), count in units.items():
            if limits.get(number) is not None and count > limits[number]:
                rows = orders[number, user]
                yield f"{user} has {count} units, the limit was {limits[number]}: {rows}", []


# Operators

@check("a restock and a reset that were answered 200 happened, once")
def changes_happened(record, books):
    tables = {"add": books.restocks, "reset": books.resets}
    for one in record.changes:
        if one.answer == "200" and one.what in tables and one.key:
            entry = tables[one.what].get((one.sku, one.key))
            if entry is None:
                yield f"{one.what} {one.key} was answered 200, the ledger does not know it", [one]
            elif one.what == "add" and entry[0] != one.body["units"]:
                yield f"{one.what} {one.key}: {entry[0]} units instead of {one.body}", [one]


@check("a change that was only refused did not happen")
def refused_changes(record, books):
    tables = {"add": books.restocks, "reset": books.resets}
    groups = defaultdict(list)
    for one in record.changes:
        if one.what in tables and one.key:
            groups[one.what, one.sku, one.key].append(one)
    for (what, sku, key), changes in groups.items():
        possible = any(one.answer in UNKNOWN + ("200",) for one in changes)
        if not possible and (sku, key) in tables[what]:
            yield f"{what} {key} was refused each time, the ledger has it", changes


@check("a sale has the units of its reset and its restocks")
def totals_add_up(_, books):
    for sku, (number, total) in books.sales.items():
        expected = sum(units for (of, _), (begun, units) in books.resets.items()
                       if of == sku and begun == number)
        expected += sum(units for (of, _), (units, begun) in books.restocks.items()
                        if of == sku and begun == number)
        if total != expected:
            yield f"{sku} has {total} units in round {number}, {expected} were given to it", []


@check("rounds are begun once each")
def rounds_once(_, books):
    rounds = Counter((sku, number) for (sku, _), (number, _) in books.resets.items())
    for (sku, number), count in rounds.items():
        if count > 1:
            yield f"round {number} of {sku} was begun {count} times", []
