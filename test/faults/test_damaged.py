"""Rows of the ledger that make no sense: each is logged with its key and left out, and everything
else goes on."""

from harness.client import assert_problem
from harness.processes import wait_until

SALES = {
    "no-segments": "UPDATE sale SET segments=0 WHERE sku='{}'",
    "many-segments": "UPDATE sale SET segments=1025 WHERE sku='{}'",
    "other-segments": "UPDATE sale SET segments=7 WHERE sku='{}'",
    "last-round": "UPDATE sale SET round=4294967295 WHERE sku='{}'",
    "huge-total": "UPDATE sale SET total=4294967295 WHERE sku='{}'",
    "last-version": "UPDATE sale SET settings_version=4294967295 WHERE sku='{}'",
}
NO_IDENTIFIER = "INSERT INTO sale(sku,round,total,segments) VALUES('a\"b ''c',1,10,2)"
ORDERS = {
    "no-status": "SET sql_mode=''; UPDATE orders SET status='lost' WHERE order_id={}",
    "no-units": "UPDATE orders SET qty=0 WHERE order_id={}",
    "no-sku": "UPDATE orders SET sku='x y' WHERE order_id={}",
    "no-user": "UPDATE orders SET user_id='a b' WHERE order_id={}",
}
OTHER_SEGMENT = "UPDATE orders SET segment=4000000000 WHERE order_id={}"
DUE = ("UPDATE orders SET expires_at='2020-01-01';"
       " UPDATE order_expiry SET expires_at='2020-01-01'")


def damage(daemon, statement):
    """The statement's own session is its only one: it may change the mode of SQL."""
    daemon.stack.ledger.run(statement)


def assert_unavailable(response):
    assert_problem(response, 503, "unavailable")
    assert "makes no sense" in response.json()["detail"], response


def wait_for_row(daemon, path, text):
    """The log names the row, though not at the first look: it has one such line a second."""
    def told():
        assert_unavailable(daemon.admin("GET", path))
        return any("event=ledger_damaged" in line and text in line
                   for line in daemon.log().splitlines())
    wait_until(told, f"a line about {text}", pause=0.3)


def assert_others_go_on(daemon, n):
    """A sale without damage is sold, cancelled, listed and shown."""
    order = daemon.order(sku="good", user_id=f"user-{n}", key=f"key-{n}")
    assert order.status == 201, order
    assert daemon.cancel(order.json()["order_id"]).status == 200
    assert daemon.get("/stock/good").status == 200
    listed = [sale["sku"] for sale in daemon.admin("GET", "/admin/sales").json()["sales"]]
    assert "good" in listed
    return listed


def listed_orders(daemon):
    """The ids of all listed orders of demo, whose pages are small."""
    ids, after = set(), 0
    while after is not None:
        page = daemon.admin("GET", f"/admin/orders?sku=demo&limit=2&after={after}").json()
        ids |= {order["order_id"] for order in page["orders"]}
        after = page.get("next")
    return ids


def test_damaged_sales_stop_neither_the_others_nor_a_start(daemon):
    daemon.reset("good", 1000, 4)
    for sku in SALES:
        daemon.reset(sku, 100, 4)
    for sku, statement in SALES.items():
        damage(daemon, statement.format(sku))
    damage(daemon, NO_IDENTIFIER)
    for n in range(2):  # beside a running daemon, and at its start
        shown = assert_others_go_on(daemon, n)
        assert not set(shown) & (set(SALES) - {"other-segments"})
        for sku in SALES:
            assert_unavailable(daemon.get(f"/stock/{sku}"))
            wait_for_row(daemon, f"/admin/stock/{sku}", f"sku '{sku}'")
        assert daemon.get("/dashboard").status == 200
        daemon.stop()
        daemon.start()
    for sku in set(SALES) - {"other-segments"}:
        assert_unavailable(daemon.order(sku=sku))


def test_damaged_orders_stop_neither_expiry_nor_other_orders(daemon):
    daemon.reset("good", 1000, 4)
    daemon.reset("demo", 1000, 4, pay_within_s=600)
    orders = {name: daemon.order(user_id=f"{name}@x", key=name).json()["order_id"]
              for name in ORDERS}
    for name, statement in ORDERS.items():
        damage(daemon, statement.format(orders[name]))
    for name, order_id in orders.items():
        wait_for_row(daemon, f"/order/{order_id}", order_id)
        assert_unavailable(daemon.cancel(order_id))
        assert_unavailable(daemon.pay(order_id))
    far = daemon.order(user_id="far").json()["order_id"]  # that is no damage: a unit has no home
    damage(daemon, OTHER_SEGMENT.format(far))
    assert daemon.get(f"/order/{far}").json()["segment"] == 4000000000
    assert daemon.cancel(far).status == 200
    whole = daemon.order(user_id="whole").json()["order_id"]
    several = daemon.order(user_id="several", qty=300).json()["order_id"]
    assert daemon.order(user_id="no-units@x", key="no-units").status == 503
    damage(daemon, DUE)
    for order_id in (whole, several):
        wait_until(lambda: daemon.get(f"/order/{order_id}").json()["status"] == "expired",
                   "expiry of an order without damage")
    assert listed_orders(daemon) == {far, whole, several}
    assert_others_go_on(daemon, 1)
    daemon.stop()
    daemon.start()
    assert_others_go_on(daemon, 2)


def test_order_with_more_units_than_were_sold_keeps_no_other_one(daemon):
    """All of them are returned by one transaction, which the ledger refuses with that order."""
    daemon.reset("demo", 1000, 1, pay_within_s=600)
    many, *others = [daemon.order(user_id=f"u{n}").json()["order_id"] for n in range(4)]
    damage(daemon, f"UPDATE orders SET qty=1000000 WHERE order_id={many}")
    assert_unavailable(daemon.cancel(many))
    damage(daemon, DUE)
    for order_id in others:
        wait_until(lambda: daemon.get(f"/order/{order_id}").json()["status"] == "expired", "expiry")
    wait_until(lambda: any("event=ledger_damaged" in line and many in line
                           for line in daemon.log().splitlines()), "a line about the order")
    assert daemon.get(f"/order/{many}").json()["status"] == "reserved"
    assert daemon.order(user_id="next").status == 201
