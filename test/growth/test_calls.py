"""What a call examines does not grow with the tables, whether it has one element or many.

The bounds are of rows that the ledger's server reads while the call is answered, those that the
daemon's threads read meanwhile included: some hundred a second."""

import time

import pytest

from conftest import MANY
from harness.receiver import Receiver
from ledger import FIRST_ID, GUEST

pytestmark = pytest.mark.xdist_group("growth")

IDLE = 150  # what is read beside a call, and a little more
PIECE = 1000  # payments that a filtered list reads, each with its order
SCAN = 10_000  # orders that one reads, or an audit adds up
TIMES = (1, MANY)
PLAIN = {1: IDLE, MANY: 20}  # the bound of each call that moves no units
MOVES = {1: 400, MANY: 60}  # and of each that does


@pytest.mark.parametrize("sku", ("demo", "limited", "past"))
@pytest.mark.parametrize("count", TIMES)
@pytest.mark.parametrize("keyed", (False, True))
def test_new_order(shop, sku, count, keyed):
    key = "with a key" if keyed else "without a key"
    shop.check(f"`POST /order` of `{sku}`, {key}", PLAIN[count],
               lambda _: shop.each(lambda _: shop.order(sku, key=shop.new("k") if keyed else None),
                                   range(count)), count=count)


@pytest.mark.parametrize("count", TIMES)
def test_repeated_order(shop, count):
    def order(key):
        return shop.daemon.order("demo", "repeats", key=key)

    def prepare():
        keys = [shop.new("again") for _ in range(count)]
        shop.each(order, keys)
        return keys
    shop.check("`POST /order`, a repeated key", PLAIN[count],
               lambda keys: shop.each(order, keys), prepare, count)


@pytest.mark.parametrize("count", TIMES)
@pytest.mark.parametrize("named", (False, True))
def test_payment(shop, count, named):
    shop.check(f"`POST /order/{{id}}/pay` {'with' if named else 'without'} a name",
               PLAIN[count],
               lambda ids: shop.each(lambda i: shop.daemon.pay(i, named and f"p-{i}"), ids),
               lambda: shop.orders(count), count)


@pytest.mark.parametrize("count", TIMES)
def test_late_payment(shop, count):
    """Of orders that have expired and have a payment that is due: units are taken again."""
    def expired():
        return [FIRST_ID + 5 * next(shop.numbers) + 4 for _ in range(count)]
    shop.check("`POST /order/{id}/pay`, late", MOVES[count],
               lambda ids: shop.each(lambda i: shop.daemon.pay(i, f"late-{i}"), ids),
               expired, count)


@pytest.mark.parametrize("count", TIMES)
def test_second_payment(shop, count):
    """Each is due for refund."""
    shop.check("`POST /order/{id}/pay`, a second one", PLAIN[count],
               lambda ids: shop.each(lambda i: shop.daemon.pay(i, f"b-{i}"), ids, (409,)),
               lambda: shop.paid(count), count)


@pytest.mark.parametrize("count", TIMES)
def test_refund_of_what_is_due(shop, count):
    def due():
        return [5 * next(shop.numbers) + 4 for _ in range(count)]
    shop.check("`POST /order/{id}/refund` of what is due", PLAIN[count],
               lambda ns: shop.each(lambda n: shop.daemon.refund(FIRST_ID + n, f"pay-{n}"), ns),
               due, count)


@pytest.mark.parametrize("count", TIMES)
def test_refund_of_a_paid_order(shop, count):
    shop.check("`POST /order/{id}/refund` of what pays", MOVES[count],
               lambda ids: shop.each(lambda i: shop.daemon.refund(i, f"a-{i}"), ids),
               lambda: shop.paid(count), count)


@pytest.mark.parametrize("count", TIMES)
def test_payment_that_fails(shop, count):
    shop.check("`POST /order/{id}/unpay`", MOVES[count],
               lambda ids: shop.each(lambda i: shop.daemon.unpay(i, f"a-{i}"), ids),
               lambda: shop.paid(count), count)


@pytest.mark.parametrize("count", TIMES)
def test_cancel(shop, count):
    shop.check("`POST /order/{id}/cancel`", MOVES[count],
               lambda ids: shop.each(shop.daemon.cancel, ids), lambda: shop.orders(count), count)


@pytest.mark.parametrize("count", TIMES)
def test_extension(shop, count):
    def extend(order_id):
        until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 7200))
        return shop.daemon.extend(order_id, until)
    shop.check("`POST /order/{id}/extend`", PLAIN[count],
               lambda ids: shop.each(extend, ids), lambda: shop.orders(count), count)


@pytest.mark.parametrize("count", TIMES)
def test_look_up(shop, count):
    shop.check("`GET /order/{id}`", PLAIN[count],
               lambda _: shop.each(lambda n: shop.daemon.get(f"/order/{FIRST_ID + n}"),
                                   range(count)), count=count)


@pytest.mark.parametrize("path, bound", (
    ("/user/user-1/orders", 40),
    ("/user/user-1/orders?limit=1", 40),
    ("/user/user-1/orders?status=cancelled", 40),
    ("/admin/orders?limit=1", 1),
    ("/admin/orders?limit=1000", 1000),
    ("/admin/orders?sku=past&limit=1", SCAN),
    ("/admin/orders?sku=none", 3 * SCAN),
    ("/admin/orders?status=refunded", 3 * SCAN),
    ("/payments?limit=1", 10),
    ("/payments?limit=1000", 6000),
    ("/payments?state=taken&limit=1", 6 * PIECE),
    ("/payments?state=refunded&limit=1", 6 * PIECE),
    ("/payments?state=refund_due&limit=1", 10),
    ("/payments?state=refund_due&sku=past", 500),
    ("/payments?state=refund_due&sku=none", 10),
    ("/payments?sku=past&limit=1", 6 * PIECE),
    ("/payments?sku=none", 6 * PIECE),
    (f"/payments?order_id={FIRST_ID}", 10),
    ("/admin/payments?limit=1", 10),
    ("/events?after=0&limit=1", 10),
    ("/events?after=0&limit=1000", 1010),
    ("/events?after=end", 10),
    ("/stock/past", 40),
    ("/admin/stock/past", 40),
    ("/admin/sales", 100),
    ("/admin/audit", 45 * SCAN),
    ("/admin/audit?sku=past", 45 * SCAN),
    ("/admin/audit/limited", 1000),
    ("/admin/actions", 10),
    ("/admin/webhooks", 64),
    ("/readyz", 10),
    ("/metrics", 10),
))
def test_reading(shop, path, bound):
    shop.check(f"`GET {path}`".replace(str(FIRST_ID), "{id}"), IDLE + bound,
               lambda _: shop.get(path))


def test_reading_on_in_the_feed(shop):
    cursor = shop.get("/events?after=0&limit=1000").json()["next"]
    shop.check("`GET /events?after={next}&limit=10`", IDLE + 30,
               lambda _: shop.get(f"/events?after={cursor}&limit=10"))


def test_orders_of_a_user_who_has_too_many(shop):
    shop.check(f"`GET /user/{GUEST}/orders`, who has 100,000", IDLE + 4 * SCAN,
               lambda _: shop.get(f"/user/{GUEST}/orders?limit=10", (409,)))


@pytest.mark.parametrize("key", (False, True))
def test_admin_calls_of_a_sale(shop, key):
    def keyed(path, **body):
        headers = {"Authorization": f"Bearer {shop.daemon.token}",
                   "Idempotency-Key": shop.new("op") if key else None}
        response = shop.daemon.request("POST", path, body, headers)
        assert response.status == 200, response
    how = "with a key" if key else "without a key"
    shop.check(f"`POST /admin/stock/add` {how}", IDLE + 500,
               lambda _: keyed("/admin/stock/add", sku="past", units=20))
    shop.check(f"`POST /admin/stock/reset` {how}", IDLE + 700,
               lambda _: keyed("/admin/stock/reset", sku="limited", total=1000, segments=20,
                               per_user_limit=5, end_round=True))


def test_changes_and_retirement_of_a_sale(shop):
    shop.check("`PATCH /admin/sale/{sku}`", IDLE + 300,
               lambda _: shop.daemon.change("past", paused=False))
    shop.check("`POST /admin/reconcile`", IDLE + 500, lambda _: shop.daemon.reconcile("past"))

    def made():
        """Earlier sales of its name have left refunds to be made elsewhere."""
        sku = shop.new("short")
        shop.daemon.reset(sku, total=100, segments=20)
        shop.stack.ledger.run(
            "INSERT INTO refund_due(order_id,payment_ref,sku,due_at)SELECT order_id,"
            f"CONCAT('{sku}-',payment_ref),'{sku}',NULL FROM refund_due WHERE sku='past' "
            f"LIMIT {SCAN}")
        return sku
    for body in (None, {"refunds_elsewhere": True}):
        shop.check("`DELETE /admin/sale/{sku}`" + (" with its refunds elsewhere" if body else ""),
                   IDLE + 500, lambda sku, body=body: shop.each(
                       lambda s: shop.daemon.admin("DELETE", f"/admin/sale/{s}", body), [sku]),
                   made)


ASIDE = 256  # requests that a webhook may have undelivered
UNDELIVERED = """
INSERT INTO webhook_undelivered(webhook,id,events,failing_since,given_up_at,answer,body)
  WITH RECURSIVE n AS(SELECT 0 n UNION ALL SELECT n+1 FROM n WHERE n<255)
  SELECT w,CONCAT('evt_0_',n),1,UTC_TIMESTAMP(3),UTC_TIMESTAMP(3),'500','{}'
    FROM n JOIN(SELECT 'w' w UNION ALL SELECT CONCAT('w-',n)FROM n WHERE n<63)ws
"""


def test_webhooks(shop):
    def call(method, path, body=None):
        response = shop.daemon.admin(method, f"/admin/webhooks/w{path}", body)
        assert response.status in (200, 201), response

    def check(method, path, body=None, bound=IDLE + 100, prepare=lambda: None):
        shop.check(f"`{method} /admin/webhooks/{{name}}{path}`", bound,
                   lambda _: call(method, path, body), prepare)
    with Receiver() as receiver:
        check("PUT", "", {"url": receiver.url})
        for method, path in (("GET", ""), ("POST", "/pause"), ("POST", "/resume"),
                             ("POST", "/test")):
            check(method, path)
        call("POST", "/pause")
        shop.stack.ledger.run(UNDELIVERED)
        check("GET", "/undelivered", bound=IDLE + 4 * ASIDE)
        for n, settle in enumerate(("replay", "discard")):
            check("POST", f"/undelivered/{settle}", {"id": f"evt_0_{n}"}, IDLE + 8 * ASIDE)
        check("DELETE", "", bound=IDLE + 4 * ASIDE,
              prepare=lambda: call("PUT", "", {"url": receiver.url}))
