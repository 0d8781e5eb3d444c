"""The checks can fail: each is fed a false record or a false ledger, and must tell."""

import pytest

from chaos import money  # noqa: F401  it registers checks
from chaos.accounts import undecided
from chaos.books import Books, Payment, Row
from chaos.checks import CHECKS, run_checks
from chaos.feed import History, Reader
from chaos.record import Call, Change, Listing, Page, Record, Try


def accepted(order_id="1", key="k1", user="u1", qty=2, answer="201", start=1.0, round_no=1,
             members=()):
    return Try(key, user, "steady", qty, 0, start, start + 0.1, answer, order_id, round_no, qty,
               "reserved", dict(members))


def told(what, answer, status=None, start=2.0, order_id="1", members=(), **asked):
    return Call(what, order_id, 0, start, start + 0.1, answer, status, **asked,
                told=dict(members))


def row(order_id="1", key="k1", user="u1", qty=2, status="reserved", round_no=1, until=None,
        **more):
    return Row(order_id, "steady", round_no, user, qty, status, key, until is not None,
               until=until, **more)


# A run of these tests begins at 0: 3.0 is both the third second and a time to pay that ends then.

def at(seconds):
    return {"expires_at": f"1970-01-01T00:00:0{seconds:.3f}Z"}


def pays(answer="200", start=2.0, ref="a", **members):
    status = "paid" if answer == "200" else members.pop("status", None)
    if answer == "200":
        members["payment_ref"] = members.get("payment_ref", ref)
    elif answer and answer[0] == "4":
        members.setdefault("payment_state", "refund_due")
    return told("pay", answer, status, start, ref=ref, members=members)


def refunds(answer="200", start=4.0, ref="a", state="refunded", status=None, **asked):
    members = {"payment_state": state, "payment_ref": ref} if answer == "200" else {}
    return told("refund", answer, status, start, ref=ref, members=members, **asked)


def unpays(answer="200", start=4.0, ref="a", state="failed", status="reserved", **members):
    members = {"payment_state": state, "payment_ref": ref, **members} if answer == "200" else {}
    return told("unpay", answer, status if answer == "200" else None, start, ref=ref,
                members=members)


def unpaid(start, ref="a"):
    """A call with a payment that has failed."""
    return pays("409 payment_failed", start, ref, payment_state="failed")


def listed(*refs, start=6.0, state="refund_due", outcome="already_paid"):
    return Listing(start, start + 0.1, None, [
        {"order_id": "1", "payment_ref": ref, "sku": "steady", "state": state, "outcome": outcome}
        for ref in refs])


TAKEN = Payment("taken", "in_time")
RETAKEN = Payment("taken", "retaken")
BACK = Payment("refunded", "in_time")
GONE = Payment("failed", "in_time")
GONE_NEXT = Payment("failed", "already_paid")
DUE = Payment("refund_due", "already_paid", True)
LATE = Payment("refund_due", "too_late", True)


def page(total=10, sold=4, available=6, segments=((5, 1), (5, 3))):
    return Page(1.0, {"sku": "steady", "total": total, "sold": sold, "available": available,
                      "segments": [{"capacity": capacity, "sold": gone}
                                   for capacity, gone in segments]})


def reset(key="r1", start=0.0, limit=None, time=None):
    return Change("reset", "steady", {"per_user_limit": limit, "pay_within_s": time}, key, 0, start,
                  start + 0.1, "200")


def patch(start, answer="200", **body):
    return Change("patch", "steady", body, None, 0, start, start + 0.1, answer)


def broken(records, rows, sales=None, resets=None, restocks=None, payments=None):
    """The checks that tell of violations. payments: {ref: Payment} of the order 1."""
    record = Record()
    record.epoch = 0.0
    for one in records:
        {Try: record.add_try, Call: record.add_call, Change: record.add_change,
         Page: record.add_page, Listing: record.add_listing}[type(one)](one)
    books = Books({one.order_id: one for one in rows}, restocks or {},
                  resets or {("steady", "r1"): (1, 10)}, sales or {"steady": (1, 10)},
                  {("1", ref): one for ref, one in (payments or {}).items()})
    return {title for title, found in run_checks(record, books).items() if found}


THERE = "an accepted order is in the ledger, as it was told"
END = "an order ends in one state, and every answer agrees"
DONE = "a payment that was answered 200 is in the ledger, and so is a cancellation"
REASON = "no order is paid, cancelled, expired or refunded without a reason"
STAYS = "no order goes back to a state that it has left, but when its payment fails"
UNITS = "an order's units only become fewer, as the shop asked for"
RETURNED = "units come back as the refunds said"
ONE_KEY = "a key has one order, and every answer names it"
REFUSED = "an order that was only refused is not in the ledger"
LIMIT = "nobody has more than the greatest limit that was in force"
KNOWN = "every answer is one that the interface names"
UNASKED = "every order in the ledger was asked for"
PAGES = "every stock page adds up"
FOUND = "an unclear order that is found later is in the ledger, one that is not there is not found"
ANSWERED = "a payment that was answered is in the ledger, as it was answered"
REFUNDED = "a refund that was answered is in the ledger, as it was answered"
INVENTED = "no payment is in the ledger that nobody told"
STAY = "a payment that was refunded stays refunded, and its outcome stays"
SUMS = "paid, due back, refunded and failed make up the money that was told"
ONCE = "an order that is paid by name has one payment that pays it, others have none"
OUTCOME = "every payment has its outcome for a reason"
PAID_BACK = "no payment is refunded without a reason"
LISTS = "a list of the refunds due has each that is due, and no other"
RETIRED = "a sale is retired in spite of refunds due only if the operator says so"
FAILED = "a failure that was answered is in the ledger, as it was answered"
FOR_GOOD = "a payment that failed stays so, and every call with it is answered so"
FAIL_REASON = "no payment fails that nobody said had failed"
FAIL_ROUND = "no payment of an ended round fails"
HOLDS = "an order is held as long as was told, and no longer than was asked for"

CASES = {
    "an accepted order is lost": ([accepted()], [], {THERE}),
    "an accepted order has another quantity": ([accepted()], [row(qty=3)], {THERE}),
    "an accepted order has more units than asked for": (
        [accepted(members={"qty": 2})], [row(qty=3)], {THERE, UNITS}),
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
        [row(status="paid")], {END, DONE, STAYS}),
    "a paid order is reserved again": (
        [accepted(), told("pay", "200", "paid"), told("get", "200", "reserved", 3.0)],
        [row(status="paid")], {STAYS}),
    "an order is paid after its refund": (
        [accepted(), pays(), refunds(status="refunded"), told("get", "200", "paid", 5.0)],
        [row(status="refunded", unreturned=2)], {STAYS}, {"a": BACK}),
    "an order that was paid in time was expired": (
        [accepted(), told("get", "200", "expired", 2.0), pays(start=3.0)], [row(status="paid")],
        {END, HOLDS}, {"a": TAKEN}),
    "a cancelled order is paid": (
        [accepted(), told("cancel", "200", "cancelled"), pays(start=3.0)], [row(status="paid")],
        {END, DONE, STAYS}, {"a": TAKEN}),
    "nobody paid": ([accepted()], [row(status="paid")], {REASON, ONCE}),
    "nobody cancelled": ([accepted()], [row(status="cancelled")], {REASON}),
    "an order expires that had no time to pay": ([accepted()], [row(status="expired")], {REASON}),
    "nobody refunded": (
        [accepted(), pays()], [row(status="refunded", unreturned=2)],
        {REASON, RETURNED, "no payment is refunded without a reason"}, {"a": BACK}),
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
        [accepted(None, answer="500 oops")], [], {KNOWN}),
    "a strange answer to a look-up": ([told("get", "409 already_paid")], [row()], {KNOWN, UNASKED}),
    "a payment without a name is due back": (
        [accepted(), told("pay", "409 already_paid")], [row()], {KNOWN}),
    "a payment without a name has failed": (
        [accepted(), told("pay", "409 payment_failed")], [row()], {KNOWN}),
    "an order goes back since the payment of another failed": (
        [accepted(), pays(), unpays(), accepted("2", "k2"),
         told("pay", "200", "paid", order_id="2"), told("get", "200", "reserved", 5.0, "2")],
        [row(), row("2", "k2", status="paid")], {STAYS}, {"a": GONE}),
}

PAID = row(status="paid")
# Records, the order, titles and payments: the order was accepted.
OF_MONEY = {
    "a payment is lost": ([pays()], PAID, {ANSWERED, SUMS, ONCE}, {}),
    "a payment is due though it was taken": (
        [pays()], row(status="paid"), {ANSWERED, ONCE, OUTCOME}, {"a": DUE}),
    "a payment is taken though it came too late": (
        [pays("409 payment_too_late")], row(status="paid", until=1.5), {ANSWERED, REASON},
        {"a": RETAKEN}),
    "money that is due is lost": (
        [pays(), pays("409 already_paid", 3.0, "b")], PAID, {ANSWERED, SUMS}, {"a": TAKEN}),
    "a payment was retaken, the answer said nothing": (
        [pays()], row(status="paid", until=1.5), {ANSWERED}, {"a": RETAKEN}),
    "a payment has the name of another": (
        [pays(payment_ref="b")], PAID, {ANSWERED}, {"a": TAKEN}),
    "a refund is lost": (
        [pays(), refunds(restock=True)], PAID, {REFUNDED}, {"a": TAKEN}),
    "a part is refunded of a payment that is due": (
        [pays(), pays("409 already_paid", 3.0, "b"), refunds(ref="b", state="taken", keep=2)], PAID,
        {REFUNDED}, {"a": TAKEN, "b": DUE}),
    "a known payment is unknown": (
        [pays(), refunds("404 unknown_payment")], PAID, {REFUNDED}, {"a": TAKEN}),
    "a refund is refused": ([pays(), refunds("409 invalid_state")], PAID, {REFUNDED},
                            {"a": TAKEN}),
    "a refund of a whole order keeps too much": (
        [pays(), refunds("422 keep_too_large")], PAID, {REFUNDED}, {"a": TAKEN}),
    "nobody told a payment": ([pays()], PAID, {INVENTED, SUMS}, {"a": TAKEN, "b": DUE}),
    "an unavailable payment was taken": (
        [pays(), pays("503 unavailable", 3.0, "b")], PAID, {INVENTED, SUMS},
        {"a": TAKEN, "b": DUE}),
    "a refunded payment is due again": (
        [pays(), pays("409 already_paid", ref="b"), refunds(ref="b"),
         pays("409 already_paid", 5.0, "b")], PAID, {STAY},
        {"a": TAKEN, "b": Payment("refunded", "already_paid")}),
    "a payment is answered in two ways": (
        [pays(), pays("409 already_paid", 3.0)], PAID, {STAY, ANSWERED}, {"a": TAKEN}),
    "two payments are taken": (
        [pays(), pays(start=3.0, ref="b")], PAID, {ONCE}, {"a": TAKEN, "b": TAKEN}),
    "a payment is taken of an order that is not paid": (
        [pays(None)], row(), {ONCE}, {"a": TAKEN}),
    "the order of a refunded payment is still paid": (
        [pays(), refunds(restock=True)], PAID, {ONCE}, {"a": BACK}),
    "a payment that is due is not on the list": (
        [pays(), pays("409 already_paid", 3.0, "b")], PAID, {ONCE},
        {"a": TAKEN, "b": Payment("refund_due", "already_paid")}),
    "nobody had paid an order that was paid already": (
        [pays("409 already_paid")], row(), {OUTCOME}, {"a": DUE}),
    "a payment in time was too late": (
        [pays("409 payment_too_late")], row(until=3.0), {OUTCOME}, {"a": LATE}),
    "a payment in time was retaken": (
        [pays(retaken=True)], row(status="paid", until=3.0), {OUTCOME}, {"a": RETAKEN}),
    "a late payment was in time": (
        [pays(start=4.0)], row(status="paid", until=3.0), {OUTCOME}, {"a": TAKEN}),
    "a second payment takes the place of one that is not refunded": (
        [pays(), pays("409 already_paid", 3.0, "b")], PAID, {ONCE, ANSWERED},
        {"a": Payment("refund_due", "in_time", True), "b": Payment("taken", "already_paid")}),
    "a payment is due again after it has paid": (
        [pays(), pays("409 already_paid", 3.0, "b"), refunds(status="paid"),
         pays(start=5.0, ref="b"), pays("409 already_paid", 7.0, "b")], PAID, {STAY},
        {"a": BACK, "b": Payment("taken", "already_paid")}),
    "nobody refunded what is due": (
        [pays(), pays("409 already_paid", 3.0, "b")], PAID, {PAID_BACK},
        {"a": TAKEN, "b": Payment("refunded", "already_paid")}),
}

# The same.
OF_FAILURES = {
    "a failure is lost": ([pays(), unpays()], PAID, {FAILED, STAYS}, {"a": TAKEN}),
    "a payment that failed is told as taken": (
        [pays(), unpays(state="taken")], row(), {FAILED}, {"a": GONE}),
    "the failure of another payment is told": (
        [pays(), unpays(payment_ref="b")], row(), {FAILED}, {"a": GONE}),
    "a payment that pays its order may not fail": (
        [pays(), unpays("409 invalid_state")], PAID, {FAILED}, {"a": TAKEN}),
    "a payment may not fail since it is refunded later": (
        [pays(), unpays("409 invalid_state", 3.0), refunds(start=5.0, restock=True)],
        row(status="refunded"), {FAILED}, {"a": BACK}),
    "a payment that pays in the place of another may not fail": (
        [pays(), pays("409 already_paid", 3.0, "b"), refunds(status="paid"),
         pays(start=5.0, ref="b"), unpays("409 invalid_state", 6.0, "b")], PAID, {FAILED},
        {"a": BACK, "b": Payment("taken", "already_paid")}),
    "a known payment cannot fail": (
        [pays(), unpays("404 unknown_payment")], PAID, {FAILED}, {"a": TAKEN}),
    "a repeat of a failure is refused": (
        [pays(), unpays(), unpays("409 invalid_state", 5.0)], row(), {FAILED, FOR_GOOD},
        {"a": GONE}),
    "nobody said that it has failed": ([pays()], row(), {FAIL_REASON, DONE}, {"a": GONE}),
    "a payment failed though that was not to be done": (
        [pays(), unpays("503 unavailable")], row(), {FAIL_REASON, DONE}, {"a": GONE}),
    "a payment that failed is taken again": (
        [pays(), unpays(), pays(start=5.0)], row(), {FOR_GOOD, DONE}, {"a": GONE}),
    "a payment that failed is taken, and then has failed": (
        [pays(), unpays(), pays(start=5.0), unpays(start=6.0)], row(), {FOR_GOOD, DONE, STAYS},
        {"a": GONE}),
    "an order goes back twice, one payment has failed": (
        [pays(), unpays(None, 2.5), unpays(start=3.0), told("pay", "200", "paid", 4.0),
         told("get", "200", "reserved", 6.0)], row(), {STAYS, DONE}, {"a": GONE}),
    "a payment that failed is refunded": (
        [pays(), unpays(), refunds(start=5.0)], row(), {FOR_GOOD, REFUNDED}, {"a": GONE}),
    "a part is refunded of a payment that failed": (
        [pays(), unpays(), refunds(start=5.0, state="taken", keep=2)], row(), {FOR_GOOD},
        {"a": GONE}),
    "a refund is refused since its payment fails later": (
        [pays(), refunds("409 invalid_state", start=3.0), unpays(start=5.0)], row(), {REFUNDED},
        {"a": GONE}),
    "a refund is refused since another payment failed": (
        [pays(), pays("409 already_paid", 3.0, "b"), unpays(status="paid"),
         pays(start=5.0, ref="b"), refunds("409 invalid_state", start=6.0, ref="b")], PAID,
        {REFUNDED}, {"a": GONE, "b": Payment("taken", "already_paid")}),
    "a refunded payment is unknown": (
        [pays(None), refunds(restock=True), unpays("404 unknown_payment", 5.0)],
        row(status="refunded"), {FAILED}, {"a": BACK}),
    "an order is refunded, and its only payment has failed": (
        [pays(), unpays(None), refunds(None, restock=True)], row(status="refunded"), {ONCE},
        {"a": GONE}),
    "a payment that is taken is told to have failed": (
        [pays(), unpaid(3.0)], PAID, {ANSWERED}, {"a": TAKEN}),
    "a payment that failed is told to be due": (
        [pays(), unpays(), pays("409 payment_failed", 5.0)], row(), {ANSWERED, FOR_GOOD},
        {"a": GONE}),
    "a payment that was refused has failed": (
        [pays("503 unavailable"), unpays(None, 3.0), unpaid(4.0)], row(), {INVENTED},
        {"a": GONE}),
    "an order is reserved before its payment fails": (
        [pays(), told("get", "200", "reserved", 3.0), unpays()], row(), {STAYS}, {"a": GONE}),
    "a cancelled order is reserved since its payment failed": (
        [pays(), unpays(), told("cancel", "200", "cancelled", 5.0),
         told("get", "200", "reserved", 6.0)], row(status="cancelled"), {STAYS}, {"a": GONE}),
    "an order was expired, and its payment in time failed": (
        [told("get", "200", "expired", 1.8), pays(), unpays()], row(), {STAYS, END}, {"a": GONE}),
    "an order is paid again after its payment failed": (
        [pays(), unpays(), told("get", "200", "paid", 5.0)], PAID, {ONCE}, {"a": GONE}),
    "an order is paid by a payment that failed": ([pays(), unpays()], PAID, {ONCE}, {"a": GONE}),
    "an order is reserved though its payment is refunded": (
        [pays(), refunds(), unpays(None)], row(), {ONCE, DONE, END}, {"a": BACK}),
    "an order is paid again after its refund": (
        [pays(), unpays(start=2.5), pays(start=3.0, ref="b"), refunds(None, ref="b"),
         pays(start=5.0, ref="c")], PAID, {ONCE}, {"a": GONE, "b": BACK, "c": TAKEN}),
    "a payment fails that does not pay yet": (
        [pays(), pays("409 already_paid", 3.0, "b"), unpays(None, ref="b")], PAID, {ONCE},
        {"a": TAKEN, "b": GONE_NEXT}),
    "an order is cancelled though another payment pays it": (
        [pays(), pays("409 already_paid", 3.0, "b"), unpays(), told("cancel", None, start=5.0)],
        row(status="cancelled"), {ONCE}, {"a": GONE, "b": Payment("taken", "already_paid")}),
    "a payment that failed is on the list": (
        [pays(), unpays()], row(), {ONCE}, {"a": Payment("failed", "in_time", True)}),
    "a payment that failed is not in the ledger": ([pays(), unpays()], row(), {
        FAILED, ANSWERED, SUMS, DONE, STAYS, END}, {}),
}

CUT = told("cancel", "200", "reserved", keep=1, members={"qty": 1, "ordered_qty": 2})
# Records, the order, and titles.
OF_UNITS = {
    "an order has more units than were to stay": (
        [told("cancel", "200", "reserved", keep=1, members={"qty": 2})], row(), {UNITS}),
    "an order has its units again": (
        [CUT, told("get", "200", "reserved", 3.0, members={"qty": 2})], row(qty=1, ordered=2),
        {UNITS}),
    "an order is told with fewer units than it has": ([CUT], row(), {UNITS}),
    "nobody cut an order": ([], row(qty=1, ordered=2), {UNITS}),
    "it is not told what was ordered": (
        [CUT, told("get", "200", "reserved", 3.0, members={"qty": 1})], row(qty=1, ordered=2),
        {UNITS}),
    "units were kept off the sale": (
        [pays(), refunds(restock=True)], row(status="refunded", unreturned=2), {RETURNED}),
    "units came back that were not to": ([pays(), refunds()], row(status="refunded"), {RETURNED}),
    "a part came back that was not to": (
        [pays(), refunds(keep=1, state="taken")], row(status="paid", qty=1, ordered=2),
        {RETURNED}),
    "an order holds more than it was of": (
        [pays(), refunds()], row(status="refunded", unreturned=3), {RETURNED}),
}


@pytest.mark.parametrize("name", OF_UNITS)
def test_false_units_are_noticed(name):
    records, order, titles = OF_UNITS[name]
    payment = BACK if order.status == "refunded" else TAKEN
    payments = {one.ref: payment for one in records if one.ref}
    assert broken([accepted(), *records], [order], payments=payments) == titles


@pytest.mark.parametrize("rows, titles", [
    (["b"], set()), ([], {LISTS}), (["b", "b"], {LISTS}), (["c", "b"], {LISTS})],
    ids=["right", "missing", "twice", "unsorted"])
def test_false_list_of_refunds_due_is_noticed(rows, titles):
    records = [accepted(), pays(), pays("409 already_paid", 3.0, "b"),
               pays(None, 5.95, "c"), listed(*rows)]
    assert broken(records, [PAID], payments={"a": TAKEN, "b": DUE, "c": DUE}) == titles


@pytest.mark.parametrize("change", [
    {"state": "taken"}, {"outcome": "too_late"}, {"start": 7.0}, {"ref": "d"}],
    ids=["another state", "another outcome", "refunded before", "unknown"])
def test_list_that_has_what_is_not_due_is_noticed(change):
    records = [accepted(), pays(), pays("409 already_paid", 3.0, "b"), refunds(ref="b", start=6.05)]
    kept = {"a": TAKEN, "b": Payment("refunded", "already_paid")}
    assert not broken([*records, listed("b")], [PAID], payments=kept)
    ref = change.pop("ref", "b")
    assert broken([*records, listed(ref, **change)], [PAID], payments=kept) == {LISTS}


@pytest.mark.parametrize("answer, elsewhere, state, titles", [
    ("409 refunds_due", False, "refund_due", set()), ("200", True, "refund_due", set()),
    ("200", False, "refund_due", {RETIRED}), ("409 refunds_due", True, "refund_due", {RETIRED}),
    ("200", False, "refunded", set()), ("409 refunds_due", False, "refunded", {RETIRED})])
def test_sale_retired_in_spite_of_refunds_due_is_noticed(answer, elsewhere, state, titles):
    records = [accepted(), pays(), pays("409 already_paid", 3.0, "b"),
               Change("retire", "steady", {"refunds_elsewhere": elsewhere}, None, 0, 6.0, 6.1,
                      answer)]
    if state == "refunded":
        records.append(refunds(ref="b"))
    payments = {"a": TAKEN, "b": Payment(state, "already_paid", state == "refund_due")}
    assert broken(records, [PAID], payments=payments) == titles


@pytest.mark.parametrize("records, order, titles", [
    ([], row(until=3.0), set()),
    ([told("extend", "200", "reserved", until=5.0, members=at(5))], row(until=5.0), set()),
    ([told("extend", None, until=5.0)], row(until=5.0), set()),
    ([told("extend", "200", "reserved", until=5.0, members=at(5)),
      told("get", "200", "reserved", 2.05, members=at(3))], row(until=5.0), set()),
    ([told("extend", "200", "reserved", until=5.0, members=at(5))], row(until=3.0), {HOLDS}),
    ([], row(until=5.0), {HOLDS}),
    ([told("extend", "200", "reserved", until=5.0, members=at(5)),
      told("get", "200", "reserved", 3.0, members=at(3))], row(until=5.0), {HOLDS}),
    ([told("get", "200", "expired", 2.0)], row(status="expired", until=3.0), {HOLDS}),
    ([told("get", "200", "expired", 3.0)], row(status="expired", until=3.0), set()),
    ([told("get", "200", "expired", 3.5)], row(status="expired", until=4.0, grace=1), {HOLDS})],
    ids=["as ordered", "extended", "perhaps extended", "extended meanwhile", "not extended",
         "extended by nobody", "shorter again", "expired too early", "expired",
         "expired within the grace"])
def test_hold_that_is_not_kept_is_noticed(records, order, titles):
    ordered = accepted(members={"qty": 2, **at(3)})
    assert broken([ordered, *records], [order]) == titles


TIME = reset(time=5)
LAST = row(until=7.55)
AGAIN = [pays(), unpays(start=2.5, **at(7.55))]


@pytest.mark.parametrize("records, order, titles", [
    ([TIME, *AGAIN], LAST, set()),
    ([TIME, *AGAIN], row(until=9), {HOLDS}),
    ([TIME, pays(), unpays(start=2.5, **at(3))], row(until=3), {HOLDS}),
    ([TIME, pays(), unpays(start=2.5, **at(9))], row(until=9), {HOLDS}),
    ([TIME, pays(), unpays(start=2.5, **at(5))], row(until=5), {HOLDS}),
    ([TIME, pays(), unpays(start=2.5, qty=2)], row(), {HOLDS}),
    ([TIME, patch(2.2, pay_within_s=2), pays(), unpays(start=2.5, **at(4.55))], row(until=4.55),
     set()),
    ([TIME, patch(2.2, pay_within_s=2), *AGAIN], LAST, {HOLDS}),
    ([TIME, patch(2.2, None, pay_within_s=2), *AGAIN], LAST, set()),
    ([TIME, patch(2.2, "503 unavailable", pay_within_s=2), pays(),
      unpays(start=2.5, **at(4.55))], row(until=4.55), {HOLDS}),
    ([TIME, patch(1.0, pay_within_s=2), reset(start=2.2, time=5), pays(),
      unpays(start=2.5, **at(4.55))], row(until=4.55), set()),
    ([TIME, patch(2.2, paused=True), *AGAIN], LAST, set()),
    ([patch(2.2, None, pay_within_s=5), *AGAIN], LAST, set()),
    ([TIME, patch(2.2, None, pay_within_s=2), patch(2.3, pay_within_s=5), *AGAIN], LAST, set()),
    ([reset(start=-200, time=5), patch(-100, None, pay_within_s=2), *AGAIN], LAST, set()),
    ([TIME, patch(1.0, pay_within_s=2), reset(start=2.2, time=5), *AGAIN], LAST, {HOLDS}),
    ([TIME, patch(2.2, pay_within_s=None), pays(), unpays(start=2.5, qty=2)], row(), set()),
    ([TIME, pays(), unpays(None, 2.5), told("get", "200", "reserved", 5.0, members=at(9))],
     row(until=9), set()),
    ([TIME, pays(), unpays(None, 2.5), told("get", "200", "reserved", 4.5, members=at(9.9))],
     row(until=9.9), {HOLDS}),
    ([TIME, *AGAIN, told("get", "200", "reserved", 3.0, members=at(7))], LAST, {HOLDS}),
    ([TIME, *AGAIN, told("get", "200", "expired", 6.0)], row(until=7.55, status="expired"),
     {HOLDS}),
    ([TIME, *AGAIN, told("get", "200", "expired", 7.6)], row(until=7.55, status="expired"),
     set()),
    ([TIME, *AGAIN, told("extend", "200", "reserved", until=9.0, start=3.0, members=at(9))],
     row(until=9), set()),
    ([TIME, told("extend", "200", "reserved", until=9.0, start=1.5, members=at(9)), pays(),
      unpays(start=2.5, **at(9))], row(until=9), {HOLDS}),
    ([TIME, told("extend", "409 invalid_state", until=9.0, start=3.0), *AGAIN], row(until=9),
     {HOLDS}),
    ([TIME, *AGAIN, told("get", "200", "paid", 2.55, members=at(3))], LAST, set()),
    ([TIME, told("extend", "200", "reserved", until=9.0, start=1.5, members=at(9)), *AGAIN,
      told("get", "200", "paid", 2.55, members=at(9)),
      told("get", "200", "reserved", 3.0, members=at(7.55))], LAST, set())],
    ids=["anew", "longer than told", "as before", "too long", "too short", "without an end",
         "with a new time", "with a former time", "perhaps with a new time",
         "with a time that was refused", "a repeated reset changes nothing", "another change",
         "perhaps with a first time", "perhaps another time before",
         "perhaps another time long before",
         "with the time of a repeated reset", "sale without a time", "perhaps failed",
         "failed later than that", "shorter again", "expired too early", "expired", "extended",
         "extended before", "not extended", "seen as before meanwhile",
         "seen as extended before meanwhile"])
def test_hold_after_a_failure_that_is_not_kept_is_noticed(records, order, titles):
    ordered = accepted(members={"qty": 2, **at(3)})
    assert broken([ordered, *records], [order], payments={"a": GONE}) == titles


TWO_FAIL = [pays(), unpays(start=2.2, **at(7.25)), pays(start=2.5, ref="b")]


@pytest.mark.parametrize("records, order, titles", [
    ([*TWO_FAIL, unpays(start=4.0, ref="b", **at(9.05))], row(until=9.05), set()),
    ([*TWO_FAIL, unpays(start=4.0, ref="b", **at(7.25))], row(until=7.25), {HOLDS}),
    ([*TWO_FAIL, unpays(start=4.0, ref="b", **at(9.05)), told("get", "200", "paid", 4.5,
                                                              members=at(7.25))],
     row(until=9.05), {HOLDS}),
    ([*TWO_FAIL, unpays(None, 3.0, "b"), told("get", "200", "reserved", 4.0, members=at(8.5))],
     row(until=8.5), set()),
    ([pays(), unpays(None, 2.3), pays(start=3.0, ref="b"), unpays(start=4.0, ref="b", **at(9.05))],
     row(until=9.05), set()),
    ([pays(), unpays(start=2.3, **at(7.35)), pays(start=7.7, ref="b"),
      unpays(start=8.0, ref="b", **at(9.05))], row(until=9.05), {OUTCOME})],
    ids=["anew twice", "not anew", "as before the second", "perhaps",
         "nobody was told of the first", "paid too late in between"])
def test_hold_after_two_failures_that_is_not_kept_is_noticed(records, order, titles):
    """The sale has times to pay of 5 s, and of 1 s from 7.9 s on."""
    ordered = accepted(members={"qty": 2, **at(3)})
    assert broken([TIME, patch(7.9, None, pay_within_s=1), ordered, *records], [order],
                  payments={"a": GONE, "b": GONE}) == titles


@pytest.mark.parametrize("first, titles", [({}, set()), ({"qty": 2, **at(3)}, {OUTCOME})])
@pytest.mark.parametrize("twice", [False, True])
def test_payment_may_have_been_late_for_a_time_that_nobody_was_told(first, titles, twice):
    records = [TIME, accepted(members=first), pays(retaken=True), unpays(start=2.5, **at(7.55))]
    payments = {"a": Payment("failed", "retaken")}
    if twice:
        records += [pays(start=3.0, ref="b"), unpays(start=4.0, ref="b", **at(9.05))]
        payments["b"] = GONE
    order = row(until=9.05 if twice else 7.55)
    assert broken(records, [order], payments=payments) == titles


def test_true_record_of_unclear_failures_passes():
    """Nobody was told when it failed: it may have been long after the calls."""
    ordered = accepted(start=1.0)
    assert not broken([ordered, pays(), unpays(None, 2.5), told("get", "200", "reserved", 3.0),
                       unpays(None, 5.0)], [row()], payments={"a": GONE})
    assert not broken([ordered, pays(), unpays(None, 2.5), unpays(None, 40.0),
                       told("get", "200", "paid", 65.0), told("get", "200", "reserved", 75.0)],
                      [row()], payments={"a": GONE})
    assert broken([ordered, pays(), unpays(None, 2.5), told("get", "200", "paid", 65.0),
                   told("get", "200", "reserved", 75.0)], [row()],
                  payments={"a": GONE}) == {STAYS}
    assert not broken([TIME, accepted(members=at(3)), pays(), unpays(None, 2.5),
                       pays(start=5.0, ref="b")], [row(status="paid", until=9)],
                      payments={"a": GONE, "b": TAKEN})
    assert not broken([ordered, pays(), unpays(), pays(start=4.05), told(
        "get", "200", "paid", 4.05)], [row()], payments={"a": GONE})


@pytest.mark.parametrize("start, payment, until, grace, titles", [
    (5.0, TAKEN, 7.55, 0, set()), (8.0, TAKEN, 7.55, 0, {OUTCOME}),
    (8.0, RETAKEN, 7.55, 0, set()), (5.0, RETAKEN, 7.55, 0, {OUTCOME}),
    (5.0, LATE, 7.55, 0, {OUTCOME}), (8.0, LATE, 7.55, 0, set()),
    (5.0, TAKEN, 4.55, 0, {OUTCOME}), (8.0, TAKEN, 7.55, 1, set()),
    (8.0, RETAKEN, 7.55, 1, {OUTCOME})],
    ids=["in time", "not in time", "late", "not late", "not too late", "too late",
         "in time no longer", "within the grace", "not late within the grace"])
def test_outcome_after_a_failure_has_a_reason(start, payment, until, grace, titles):
    time = patch(2.2, pay_within_s=until - 2.55)
    answers = {"in_time": pays(start=start, ref="b"),
               "retaken": pays(start=start, ref="b", retaken=True),
               "too_late": pays("409 payment_too_late", start, "b")}
    records = [TIME, time, accepted(members={"qty": 2, **at(3)}), pays(),
               unpays(start=2.5, **at(until)), answers[payment.outcome]]
    order = row(until=until + grace, grace=grace,
                status="paid" if payment.state == "taken" else "expired")
    assert broken(records, [order], payments={"a": GONE, "b": payment}) == titles


def test_true_record_of_failures_passes():
    """The first payment fails and the next one pays; that fails, and the buyer pays anew, twice."""
    records = [
        TIME, accepted(members={"qty": 2, **at(3)}), unpays("404 unknown_payment", 1.5), pays(),
        pays("409 already_paid", 2.2, "b"), unpays("409 invalid_state", 2.35, "b"),
        unpays(start=2.4, status="paid", qty=2, **at(3)), pays(start=2.5, ref="b"),
        listed(start=2.5), unpays(start=2.6, ref="b", qty=2, **at(7.65)),
        unpays(start=2.7, qty=2, **at(7.65)), unpaid(2.8), unpaid(2.8, "b"),
        refunds("409 invalid_state", 2.9), pays(None, 3.5, "c"), unpays(None, 3.7, "c"),
        unpays("503 unavailable", 3.8, "c"), told("get", "200", "reserved", 4.0, members=at(8.75)),
        pays(start=4.5, ref="d"), refunds(start=5.0, ref="d", status="refunded", restock=True),
        unpays("409 invalid_state", 5.5, "d")]
    payments = {"a": GONE, "b": GONE_NEXT, "c": GONE, "d": BACK}
    assert not broken(records, [row(status="refunded", until=8.75)], payments=payments)


def test_true_record_of_late_money_that_fails_passes():
    records = [
        TIME, accepted(members={"qty": 2, **at(1.5)}), told("get", "200", "expired", 1.8),
        pays(start=2.0, retaken=True), unpays(start=2.5, **at(7.55)),
        pays(start=3.0, ref="b"), told("get", "200", "paid", 8.0)]
    assert not broken(records, [row(status="paid", until=7.55)],
                      payments={"a": Payment("failed", "retaken"), "b": TAKEN})


@pytest.mark.parametrize("records, order, payments", [
    ([pays(), told("get", "200", "reserved", 2.05), unpays("404 unknown_payment", 2.05),
      refunds("404 unknown_payment", start=2.05)], PAID, {"a": TAKEN}),
    ([pays(), unpays("409 invalid_state", 2.25), refunds(start=2.3, restock=True)],
     row(status="refunded"), {"a": BACK}),
    ([pays(), refunds("409 invalid_state", start=4.05), unpays(start=4.1)], row(), {"a": GONE}),
    ([pays(), pays("409 already_paid", 3.0, "b"), refunds(status="paid"),
      pays(start=4.9, ref="b"), unpays("409 invalid_state", 4.95, "b")], PAID,
     {"a": BACK, "b": Payment("taken", "already_paid")}),
    ([pays(), told("get", "200", "reserved", 3.95), unpays(), told("get", "200", "paid", 4.05),
      told("get", "200", "reserved", 4.2)], row(), {"a": GONE})],
    ids=["payment", "refund", "failure", "promotion", "looks"])
def test_true_record_of_a_race_with_a_failure_passes(records, order, payments):
    """Calls at the same moment may be carried out in any order."""
    assert not broken([accepted(), *records], [order], payments=payments)


ROUNDS = {"resets": {("steady", "r1"): (1, 10), ("steady", "r2"): (2, 10)},
          "sales": {"steady": (2, 10)}}


@pytest.mark.parametrize("records, status, payments, titles", [
    ([unpays()], "expired", {"a": GONE}, {FAIL_ROUND}),
    ([unpays(start=2.5)], "expired", {"a": GONE}, set()),
    ([unpays("409 invalid_state")], "paid", {"a": TAKEN}, set()),
    ([unpays("409 invalid_state", 2.5)], "paid", {"a": TAKEN}, {FAILED}),
    ([unpays("409 invalid_state", 2.95)], "paid", {"a": TAKEN}, set()),
    ([pays(start=4.0)], "paid", {"a": TAKEN}, set()),
    ([unpays(start=2.5), pays(start=4.0, ref="b")], "paid", {"a": GONE, "b": TAKEN},
     {"no order of an ended round is paid"}),
    ([unpays(start=2.5), told("pay", "200", "paid", 4.0)], "paid", {"a": GONE},
     {"no order of an ended round is paid"})],
    ids=["failed", "failed before", "refused", "refused before", "refused meanwhile", "told again",
         "paid anew", "paid anew without a name"])
def test_failure_after_the_end_of_a_round_is_noticed(records, status, payments, titles):
    records = [reset(), accepted(), pays(), reset("r2", start=3.0), *records]
    assert broken(records, [row(status=status)], payments=payments, **ROUNDS) == titles


NEXT = [accepted(), pays(), pays("409 already_paid", 3.0, "b")]


def test_list_may_lack_a_payment_that_pays_when_another_failed():
    paying = {"a": GONE, "b": Payment("taken", "already_paid")}
    assert not broken([*NEXT, unpays(status="paid"), listed()], [PAID], payments=paying)
    failed = [*NEXT, unpays(status="paid"), unpays(start=5.0, ref="b")]
    payments = {"a": GONE, "b": GONE_NEXT}
    assert not broken([*failed, listed()], [row()], payments=payments)
    assert broken([*failed, listed("b")], [row()], payments=payments) == {LISTS}


def test_sale_that_is_not_retired_over_a_payment_that_failed_is_noticed():
    hindered = Change("retire", "steady", {}, None, 0, 6.0, 6.1, "409 refunds_due")
    records = [*NEXT, unpays(status="paid"), unpays(start=5.0, ref="b"), hindered]
    assert broken(records, [row()], payments={"a": GONE, "b": GONE_NEXT}) == {RETIRED}


@pytest.mark.parametrize("later, count", [
    ([], 1), ([unpays("503 unavailable", 5.0)], 1), ([unpays("409 invalid_state", 5.0)], 1),
    ([unpays(start=5.0)], 0), ([unpaid(5.0)], 0)],
    ids=["unclear", "then not done", "then refused", "repeated", "told by a payment"])
def test_unclear_failure_is_decided(later, count):
    record = Record()
    for one in (pays(), unpays(None), *later):
        record.add_call(one)
    assert [one.what for one in undecided(record)] == ["unpay"] * count


def test_units_that_were_not_restocked_count_towards_the_limit():
    records = [reset(limit=3), accepted(), accepted("2", "k2"), pays(), refunds()]
    rows = [row(status="refunded", unreturned=2), row("2", "k2")]
    assert broken(records, rows, payments={"a": BACK}) == {LIMIT}
    rows[0].unreturned, records[-1] = 0, refunds(restock=True)
    assert not broken(records, rows, payments={"a": BACK})


def test_true_record_of_money_passes():
    records = [
        accepted(members={"qty": 2, **at(1.5)}), told("get", "200", "expired", 1.8),
        pays(start=2.0, retaken=True), pays("409 already_paid", 3.0, "b", status="paid"),
        pays("503 unavailable", 3.0, "c"), pays(None, 3.0, "d"), listed("b", start=3.5),
        refunds(ref="b", status="paid"), pays("409 already_paid", 5.0, "b", status="paid",
                                              payment_state="refunded"),
        refunds(keep=1, state="taken", start=5.0, status="paid", restock=True),
        refunds(start=6.0, status="refunded"),
        pays("409 invalid_state", 7.0, status="refunded", payment_state="refunded"),
        pays("409 payment_too_late", 7.0, "e", status="refunded")]
    order = row(status="refunded", qty=1, ordered=2, unreturned=1, until=1.5)
    payments = {"a": Payment("refunded", "retaken"), "b": Payment("refunded", "already_paid"),
                "d": DUE, "e": LATE}
    assert not broken(records, [order], payments=payments)


@pytest.mark.parametrize("name", CASES)
def test_false_record_is_noticed(name):
    records, rows, titles, *payments = CASES[name]
    assert broken(records, rows, payments=payments[0] if payments else None) == titles


@pytest.mark.parametrize("name", [*OF_MONEY, *OF_FAILURES])
def test_false_record_of_money_is_noticed(name):
    records, order, titles, payments = {**OF_MONEY, **OF_FAILURES}[name]
    assert broken([accepted(), *records], [order], payments=payments) == titles


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
    named = set().union(*(case[2] for case in [*CASES.values(), *OF_MONEY.values(),
                                               *OF_FAILURES.values(), *OF_UNITS.values()])) | {
        FAIL_ROUND, LIMIT, LISTS, HOLDS, RETIRED, "no order of an ended round is paid",
        "rounds are begun once each",
        "a restock and a reset that were answered 200 happened, once",
        "a sale has the units of its reset and its restocks",
        "a change that was only refused did not happen"}
    assert named == set(CHECKS)


# ---- the feed of events ----

class Tables:
    """A ledger with these rows of orders, of payments that are due, and of those that failed."""

    def __init__(self, orders, due=(), failed=()):
        self.orders, self.due, self.failed = orders, due, failed

    def run(self, sql):
        return (self.orders if "FROM orders" in sql else
                self.failed if "'failed'" in sql else self.due)


def event(number, kind, version=None, subject="1", qty=2, **data):
    members = {"version": version} if version else {}
    return {"id": str(number), "type": kind, "subject": subject, **members,
            "data": {"qty": qty, **data}}


def differences(events, orders, due=(), failed=()):
    history = History()
    for number, one in enumerate(events, 1):
        history.take(number, one)
    return list(history.compare(Tables(orders, due, failed)))


TWO_EVENTS = [event(1, "order.accepted", 1), event(2, "order.paid", 2)]
PAID_ROWS = [("1", "2", "paid", "2")]


def test_feed_that_is_as_the_ledger_is_accepted():
    sale = event(3, "sale.sold_out", subject="steady")
    owed = event(4, "payment.refund_due", payment_ref="b")
    assert not differences([*TWO_EVENTS, sale, owed], PAID_ROWS, [("1", "b")])


UNPAID = event(3, "order.unpaid", 3, payment_ref="a")
BY_NEXT = [event(1, "order.accepted", 1), event(2, "order.paid", 2, payment_ref="a"),
           event(3, "payment.refund_due", payment_ref="b"),
           event(4, "order.changed", 3, payment_ref="b")]
RESERVED_ROWS, BY_NEXT_ROWS = [("1", "3", "reserved", "2")], [("1", "3", "paid", "2")]
A, B = ("1", "a"), ("1", "b")


@pytest.mark.parametrize("events, orders, due, failed, right", [
    ([*TWO_EVENTS, UNPAID], RESERVED_ROWS, [], [A], True),
    ([*TWO_EVENTS[:1], event(2, "order.paid", 2, payment_ref="a"),
      event(3, "order.changed", 3, payment_ref="a"), event(4, "order.unpaid", 4, payment_ref="a")],
     [("1", "4", "reserved", "2")], [], [A], True),
    ([*TWO_EVENTS, UNPAID], RESERVED_ROWS, [], [], False),
    ([*TWO_EVENTS, UNPAID], RESERVED_ROWS, [], [B], False),
    ([*TWO_EVENTS, UNPAID], PAID_ROWS, [], [A], False),
    ([*TWO_EVENTS, UNPAID, event(4, "order.unpaid", 4, payment_ref="a")],
     [("1", "4", "reserved", "2")], [], [A], False),
    (TWO_EVENTS, PAID_ROWS, [], [A], False),
    (BY_NEXT, BY_NEXT_ROWS, [B], [A], True),
    (BY_NEXT, BY_NEXT_ROWS, [B], [A, B], False),
    ([*BY_NEXT, event(5, "order.unpaid", 4, payment_ref="b")], [("1", "4", "reserved", "2")], [B],
     [A, B], True),
    ([*BY_NEXT, event(5, "order.unpaid", 4, payment_ref="a")], [("1", "4", "reserved", "2")], [B],
     [A], False)],
    ids=["right", "right, after a part went back", "not failed", "another failed", "still paid",
         "twice", "not told", "another pays", "of two one is not told", "both failed",
         "told though another pays"])
def test_failures_of_the_feed_are_those_of_the_ledger(events, orders, due, failed, right):
    assert (differences(events, orders, due, failed) == []) == right


@pytest.mark.parametrize("events, orders, due", [
    (TWO_EVENTS[:1], PAID_ROWS, ()),
    (TWO_EVENTS, [("1", "3", "paid", "2")], ()),
    (TWO_EVENTS, [("1", "2", "cancelled", "2")], ()),
    (TWO_EVENTS, [("1", "2", "paid", "1")], ()),
    (TWO_EVENTS, [], ()),
    ([], PAID_ROWS, ()),
    ([TWO_EVENTS[0], event(3, "order.paid", 2)], PAID_ROWS, ()),
    ([event(1, "order.paid", 2)], PAID_ROWS, ()),
    ([*TWO_EVENTS, event(3, "order.paid", 2)], PAID_ROWS, ()),
    ([event(1, "order.paid", 1), event(2, "order.paid", 2)], PAID_ROWS, ()),
    (TWO_EVENTS, PAID_ROWS, [("1", "b")]),
    ([*TWO_EVENTS, event(3, "payment.refund_due", payment_ref="b")], PAID_ROWS, ()),
    ([*TWO_EVENTS, *[event(number, "payment.refund_due", payment_ref="b") for number in (3, 4)]],
     PAID_ROWS, [("1", "b")])],
    ids=["event lost", "version lost", "another status", "another quantity", "order not in ledger",
         "order not in feed", "gap", "begins late", "twice", "not accepted first",
         "due payment lost", "payment not due", "due twice"])
def test_feed_that_differs_from_the_ledger_is_noticed(events, orders, due):
    assert differences(events, orders, due)


def test_reader_notices_a_position_that_it_was_told_out_of_turn():
    reader = Reader(None, Record(), 1)
    reader.take([event(1, "order.accepted", 1)], "1.7")
    assert not reader.faults
    reader.take([event(3, "order.paid", 2)], "3.7")
    reader.take([], "4.7")
    assert len(reader.faults) == 2
