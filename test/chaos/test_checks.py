"""The checks can fail: each is fed a false record or a false ledger, and must tell."""

import pytest

from chaos.books import Books, Row
from chaos.checks import CHECKS, run_checks
from chaos.record import Call, Change, Page, Record, Try


def accepted(order_id="1", key="k1", user="u1", qty=2, answer="201", start=1.0, round_no=1):
    return Try(key, user, "steady", qty, 0, start, start + 0.1, answer, order_id, round_no, qty,
               "reserved")


def told(what, answer, status=None, start=2.0, order_id="1"):
    return Call(what, order_id, 0, start, start + 0.1, answer, status)


def row(order_id="1", key="k1", user="u1", qty=2, status="reserved", round_no=1):
    return Row(order_id, "steady", round_no, user, qty, status, key, False)


def page(total=10, sold=4, available=6, segments=((5, 1), (5, 3))):
    return Page(1.0, {"sku": "steady", "total": total, "sold": sold, "available": available,
                      "segments": [{"capacity": capacity, "sold": gone}
                                   for capacity, gone in segments]})


def reset(key="r1", start=0.0, limit=None):
    return Change("reset", "steady", {"per_user_limit": limit}, key, 0, start, start + 0.1, "200")


def broken(records, rows, sales=None, resets=None, restocks=None):
    """The checks that tell of violations."""
    record = Record()
    for one in records:
        {Try: record.add_try, Call: record.add_call, Change: record.add_change,
         Page: record.add_page}[type(one)](one)
    books = Books({one.order_id: one for one in rows}, restocks or {},
                  resets or {("steady", "r1"): (1, 10)}, sales or {"steady": (1, 10)})
    return {title for title, found in run_checks(record, books).items() if found}


THERE = "an accepted order is in the ledger, as it was told"
END = "an order ends in one state, and every answer agrees"
DONE = "a payment that was answered 200 is in the ledger, and so is a cancellation"
REASON = "no order is paid, cancelled or expired without a reason"
ONE_KEY = "a key has one order, and every answer names it"
REFUSED = "an order that was only refused is not in the ledger"
LIMIT = "nobody has more than the greatest limit that was in force"
PAGES = "every stock page adds up"
FOUND = "an unclear order that is found later is in the ledger, one that is not there is not found"

CASES = {
    "an accepted order is lost": ([accepted()], [], {THERE}),
    "an accepted order has another quantity": ([accepted()], [row(qty=3)], {THERE}),
    "an accepted order has another key": (
        [accepted()], [row(key="k2")], {THERE, "every order in the ledger was asked for"}),
    "an order is acknowledged twice": (
        [accepted(), accepted(start=2.0)], [row()], {"an order is acknowledged as new once"}),
    "a key has two orders": (
        [accepted(), accepted("2", answer="200", start=2.0)], [row(), row("2")], {ONE_KEY}),
    "a unit is sold twice over one key": ([accepted()], [row(), row("2")], {ONE_KEY}),
    "a refused order is in the ledger": (
        [accepted(None, answer="409 limit_reached")], [row()], {REFUSED}),
    "an unavailable order is in the ledger": (
        [accepted(None, None, answer="503 unavailable")], [row(key=None)], {REFUSED}),
    "nobody asked for an order": (
        [], [row()], {"every order in the ledger was asked for"}),
    "a repeat is refused": (
        [accepted(), accepted(None, answer="409 limit_reached", start=2.0)], [row()],
        {"a repeat is never refused when its order is known"}),
    "a sale that has units is sold out": (
        [accepted(None, answer="409 sold_out")], [],
        {"steady, which always has units, is never sold out"}),
    "an unclear order has another id": (
        [accepted("1", None, answer="503 outcome_unknown")], [row("2", key=None)],
        {"the id of an unclear order is the one it has, if it has one"}),
    "a payment is lost": (
        [accepted(), told("pay", "200", "paid")], [row()], {END, DONE}),
    "a cancellation is lost": (
        [accepted(), told("cancel", "200", "cancelled"), told("pay", "200", "paid", 3.0)],
        [row(status="paid")], {END, DONE}),
    "a paid order is reserved again": (
        [accepted(), told("pay", "200", "paid"), told("get", "200", "reserved", 3.0)],
        [row(status="paid")], {"no order is reserved again after its end"}),
    "nobody paid": ([accepted()], [row(status="paid")], {REASON}),
    "nobody cancelled": ([accepted()], [row(status="cancelled")], {REASON}),
    "an order expires that had no time to pay": ([accepted()], [row(status="expired")], {REASON}),
    "an order is not found": (
        [accepted(), told("get", "404 unknown_order")], [row()],
        {"an order that was told of is found"}),
    "an order is found that is not there": (
        [told("get", "200", "reserved")], [], {FOUND}),
    "a page has more units than the sale": ([page(available=7)], [], {PAGES}),
    "a page mixes two moments": ([page(segments=((5, 1), (5, 4)))], [], {PAGES}),
    "a page mixes two rounds": ([page(segments=((5, 1), (6, 3)))], [], {PAGES}),
    "a page is oversold": ([page(5, 4, 1, ((1, 2), (4, 2)))], [], {PAGES}),
    "a strange answer": (
        [accepted(None, answer="500 oops")], [], {"every answer is one that the interface names"}),
}


@pytest.mark.parametrize("name", CASES)
def test_false_record_is_noticed(name):
    records, rows, titles = CASES[name]
    assert broken(records, rows) == titles


def test_true_record_passes():
    records = [reset(limit=5), accepted(), accepted(answer="200", start=2.0),
               accepted(None, "k2", answer=None), accepted("3", None, "u3", answer="201"),
               accepted(None, None, "u4", answer="503 overloaded"), told("pay", "503 unavailable"),
               told("pay", None, start=3.0), told("get", "200", "paid", 4.0), page()]
    assert not broken(records, [row(status="paid"), row("3", None, "u3")])


@pytest.mark.parametrize("limit, patched, titles", [
    (4, None, set()), (3, None, {LIMIT}), (3, 4, set()), (2, 3, {LIMIT}), (None, None, set())])
def test_who_is_above_the_limit_is_noticed(limit, patched, titles):
    records = [reset(limit=limit), accepted(), accepted("2", "k2")]
    if patched:
        records.append(Change("patch", "steady", {"per_user_limit": patched}, None, 0, 0.5, 0.6,
                              "200"))
    assert broken(records, [row(), row("2", "k2")]) == titles


@pytest.mark.parametrize("changed, titles", [
    ({"restocks": {("steady", "a1"): (5, 1)}, "sales": {"steady": (1, 15)}}, set()),
    ({"restocks": {("steady", "a1"): (5, 1)}},
     {"a sale has the units of its reset and its restocks"}),
    ({"restocks": {}}, {"a restock and a reset that were answered 200 happened, once"}),
    ({"restocks": {("steady", "a1"): (6, 1)}, "sales": {"steady": (1, 16)}},
     {"a restock and a reset that were answered 200 happened, once"})],
    ids=["done", "lost units", "lost", "other units"])
def test_restock_that_did_not_happen_as_answered_is_noticed(changed, titles):
    records = [reset(), Change("add", "steady", {"units": 5}, "a1", 0, 1.0, 1.1, "200")]
    assert broken(records, [], **changed) == titles


def test_refused_restock_that_happened_is_noticed():
    records = [reset(), Change("add", "steady", {"units": 5}, "a1", 0, 1.0, 1.1, "503 unavailable")]
    assert broken(records, [], restocks={("steady", "a1"): (5, 1)}, sales={"steady": (1, 15)}) == {
        "a change that was only refused did not happen"}


def test_round_that_begins_twice_is_noticed():
    resets = {("steady", "r1"): (1, 10), ("steady", "r2"): (1, 0)}
    assert broken([reset()], [], resets=resets) == {"rounds are begun once each"}


def test_payment_after_the_end_of_a_round_is_noticed():
    records = [reset(), accepted(), reset("r2", start=2.0), told("pay", "200", "paid", 3.0)]
    resets = {("steady", "r1"): (1, 10), ("steady", "r2"): (2, 10)}
    assert broken(records, [row(status="paid")], resets=resets, sales={"steady": (2, 10)}) == {
        "no order of an ended round is paid"}


def test_every_check_can_fail():
    """Those above name each of them."""
    named = set().union(*(titles for *_, titles in CASES.values())) | {
        LIMIT, "no order of an ended round is paid", "rounds are begun once each",
        "a restock and a reset that were answered 200 happened, once",
        "a sale has the units of its reset and its restocks",
        "a change that was only refused did not happen"}
    assert named == set(CHECKS)
