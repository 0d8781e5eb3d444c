"""Compares every recorded answer with the ledger. Each check yields its violations, and each check
can fail: test_checks.py feeds it false records."""

from collections import Counter, defaultdict
from dataclasses import dataclass

from chaos.record import ACCEPTED, UNKNOWN

CHECKS = {}
LATE = 60.0  # seconds after which a change without an answer is not carried out any more

ORDER_ANSWERS = {
    None, "200", "201", "404 unknown_sku", "409 sold_out", "409 limit_reached",
    "409 sale_not_started", "409 sale_ended", "409 sale_paused", "503 overloaded",
    "503 unavailable", "503 no_order_id", "503 outcome_unknown"}
CALL_ANSWERS = {None, "200", "404 unknown_order", "409 invalid_state", "503 overloaded",
                "503 unavailable", "503 outcome_unknown"}
CHANGE_ANSWERS = {None, "200", "404 unknown_sku", "409 sale_in_use", "503 overloaded",
                  "503 unavailable", "503 outcome_unknown"}


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
    for group, known in ((record.tries, ORDER_ANSWERS), (record.calls, CALL_ANSWERS),
                         (record.changes, CHANGE_ANSWERS)):
        for one in group:
            if one.answer not in known:
                yield f"the answer {one.answer}", [one]


@check("an accepted order is in the ledger, as it was told")
def accepted_are_there(record, books):
    for one in record.tries:
        if one.answer not in ACCEPTED:
            continue
        row = books.orders.get(one.order_id)
        if row is None:
            yield f"order {one.order_id} was answered {one.answer}; it is not in the ledger", [one]
            continue
        told = (one.sku, one.user, one.qty, one.key, one.round, one.qty)
        kept = (row.sku, row.user, row.qty, row.key, row.round, one.told_qty)
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

def final(status):
    return status in ("paid", "cancelled", "expired")


@check("an order ends in one state, and every answer agrees")
def one_end(record, books):
    for order_id, events in told_of(record).items():
        row = books.orders.get(order_id)
        if row is None:
            continue
        wrong = [one for one in events if one.status not in (None, "reserved", row.status)]
        if wrong:
            yield f"order {order_id} was told as {wrong[0].status}, it is {row.status}", events


@check("no order is reserved again after its end")
def ends_stay(record, _):
    for order_id, events in told_of(record).items():
        ended = min((one.end for one in events if final(one.status)), default=None)
        if ended is None:
            continue
        back = [one for one in events if one.status == "reserved" and one.start > ended]
        if back:
            yield f"order {order_id} was told as reserved after its end", events


@check("a payment that was answered 200 is in the ledger, and so is a cancellation")
def done_is_done(record, books):
    ends = {"pay": "paid", "cancel": "cancelled"}
    for one in record.calls:
        if one.what in ends and one.answer == "200":
            row = books.orders.get(one.order_id)
            if row is None or row.status != ends[one.what]:
                status = row and row.status
                yield f"order {one.order_id}: {one.what} was answered 200, it is {status}", [one]


@check("no order is paid, cancelled or expired without a reason")
def ends_have_reasons(record, books):
    asked, told = defaultdict(set), told_of(record)
    for one in record.calls:
        if one.answer in UNKNOWN + ("200",):
            asked[one.order_id].add(one.what)
    for row in books.orders.values():
        events = told.get(row.order_id, [])
        if row.status == "paid" and "pay" not in asked[row.order_id]:
            yield f"nobody's payment was accepted or unclear: {row}", events
        if row.status == "cancelled" and "cancel" not in asked[row.order_id]:
            yield f"nobody's cancel was accepted or unclear: {row}", events
        over = row.sku not in books.sales or row.round < books.sales[row.sku][0]
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
        if one.answer in ("200", "409 invalid_state") and one.order_id not in books.orders:
            yield f"order {one.order_id} was found, it is not in the ledger", [one]


@check("no order of an ended round is paid")
def no_late_payments(record, books):
    ended = defaultdict(list)  # {sku: [(round that began, when its reset was answered)]}
    for one in record.changes:
        if one.what == "reset" and one.answer == "200" and (one.sku, one.key) in books.resets:
            ended[one.sku].append((books.resets[one.sku, one.key][0], one.end))
    for order_id, events in told_of(record).items():
        row = books.orders.get(order_id)
        if row is None or row.status != "paid":
            continue
        paying = [one for one in events if getattr(one, "what", "") == "pay"
                  and one.answer in UNKNOWN + ("200",)]
        first = min((one.start for one in paying), default=None)
        if first is not None and any(number > row.round and end < first
                                     for number, end in ended[row.sku]):
            yield f"order {order_id} was paid after its round: {row}", events


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
            if row.sku == sku and row.status in ("reserved", "paid"):
                units[row.round, row.user] += row.qty
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
