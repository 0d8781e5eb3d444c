"""Orders one at a time: the answer, and the rows in the ledger."""

import http.client
import json
import re
import time
from datetime import datetime, timezone

from harness.audit import audit
from harness.client import assert_problem


def ledger_order(stack, order_id):
    rows = stack.ledger.run("SELECT sku, round, user_id, qty, segment, idempotency_key FROM orders"
                            f" WHERE order_id = {order_id}")
    assert len(rows) == 1
    return rows[0]


def test_order_answers_201_with_its_fields(daemon):
    daemon.reset("demo", 1000, 20)
    response = daemon.order("demo", "u1", 2)
    assert response.status == 201
    assert response.headers["Content-Type"].startswith("application/json")
    order = response.json()
    assert set(order) == {"order_id", "sku", "round", "user_id", "qty", "segment", "status",
                          "created_at"}
    assert re.fullmatch(r"[1-9]\d{0,19}", order["order_id"])
    assert (order["sku"], order["user_id"], order["qty"]) == ("demo", "u1", 2)
    assert order["round"] == 1
    assert 0 <= order["segment"] < 20
    assert order["status"] == "reserved"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", order["created_at"])
    created = datetime.strptime(order["created_at"], "%Y-%m-%dT%H:%M:%S.%f%z")
    assert abs((datetime.now(timezone.utc) - created).total_seconds()) < 60


def test_order_is_in_the_ledger_when_it_is_answered(daemon):
    daemon.reset("demo", 1000, 20)
    order = daemon.order("demo", "u1", 3, key="k1").json()
    assert ledger_order(daemon.stack, order["order_id"]) == (
        "demo", "1", "u1", "3", str(order["segment"]), "k1")
    assert audit(daemon) == 3


def test_get_order_gives_the_order_again_from_any_daemon(pair):
    one, other = pair
    one.reset()
    order = one.order().json()
    for daemon in pair:
        response = daemon.get(f"/order/{order['order_id']}")
        assert response.status == 200
        assert response.json() == {**order, "version": 1}


def test_unknown_sku_is_404_everywhere(daemon):
    daemon.reset("demo")
    assert_problem(daemon.order("other"), 404, "unknown_sku")
    assert_problem(daemon.get("/stock/other"), 404, "unknown_sku")
    assert_problem(daemon.admin("POST", "/admin/reconcile", {"sku": "other"}), 404, "unknown_sku")


def test_a_sale_created_after_a_404_sells_at_once_on_every_daemon(pair):
    one, other = pair
    for daemon in pair:
        assert daemon.order("late").answer == "404 unknown_sku"
    one.reset("late", 10, 2)
    assert one.order("late").status == 201
    assert other.order("late").status == 201


def test_stock_counts_every_order_on_every_daemon(pair):
    one, other = pair
    one.reset("demo", 100, 4)
    for units in (1, 2, 3):
        one.order(qty=units)
    stock = other.stock()
    assert (stock["sku"], stock["round"], stock["total"]) == ("demo", 1, 100)
    assert (stock["sold"], stock["available"]) == (6, 94)
    assert [segment["segment"] for segment in stock["segments"]] == [0, 1, 2, 3]
    for segment in stock["segments"]:
        assert segment["capacity"] == 25
        assert segment["available"] == segment["capacity"] - segment["sold"]
    assert sum(segment["sold"] for segment in stock["segments"]) == 6


def test_sold_out_is_409_and_a_smaller_qty_may_still_succeed(daemon):
    daemon.reset("demo", 5, 1)
    assert daemon.order(qty=3).status == 201
    assert_problem(daemon.order(qty=3), 409, "sold_out")
    assert daemon.order(qty=2).status == 201
    assert_problem(daemon.order(qty=1), 409, "sold_out")
    assert audit(daemon) == 5


def test_every_allowed_name_can_be_used(daemon):
    for name in ("A.b_c:d-9", "x", "n" * 64, "-", "null"):
        daemon.reset(name, 3, 3)
        response = daemon.order(name, user_id=name, key=name)
        assert response.status == 201
        assert (response.json()["sku"], response.json()["user_id"]) == (name, name)
        assert daemon.stock(name)["sold"] == 1
        assert ledger_order(daemon.stack, response.json()["order_id"])[2] == name


def test_json_as_json_allows_it(daemon):
    """Other orders of fields, white space, escapes, 4096 bytes."""
    daemon.reset()
    for body in (b'{"qty":1,"user_id":"u1","sku":"demo"}',
                 b' {\t"sku" : "demo" ,\r\n "user_id":"u1", "qty": 1 }\n',
                 rb'{"sku":"d\u0065mo","user_id":"\u00751","qty":1}',
                 b'{"sku":"demo","user_id":"u1","qty":1}'.ljust(4096)):
        response = daemon.request("POST", "/order", body)
        assert response.status == 201
        assert (response.json()["sku"], response.json()["user_id"]) == ("demo", "u1")


def test_content_type_with_parameters_or_capitals(daemon):
    daemon.reset()
    body = b'{"sku":"demo","user_id":"u1","qty":1}'
    for kind in ("application/json; charset=utf-8", "Application/JSON",
                 "application/json ;charset=utf-8"):
        assert daemon.request("POST", "/order", body, {"Content-Type": kind}).status == 201


def test_many_orders_over_one_connection(daemon):
    daemon.reset()
    connection = http.client.HTTPConnection(*daemon.address, timeout=30)
    connection.connect()
    before = connection.sock.getsockname()
    for number in range(50):
        body = json.dumps({"sku": "demo", "user_id": f"u{number}", "qty": 1})
        connection.request("POST", "/order", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        assert response.status == 201
        response.read()
    assert connection.sock.getsockname() == before
    connection.close()


def test_chunked_body(daemon):
    daemon.reset()
    connection = http.client.HTTPConnection(*daemon.address, timeout=30)
    pieces = iter([b'{"sku":"demo",', b'"user_id":"u1"', b',"qty":1}'])
    connection.request("POST", "/order", pieces, {"Content-Type": "application/json"},
                       encode_chunked=True)
    assert connection.getresponse().status == 201
    connection.close()


def test_order_ids_grow_with_time(daemon):
    daemon.reset()
    order_ids = []
    for _ in range(5):
        order_ids.append(int(daemon.order().json()["order_id"]))
        time.sleep(0.005)
    assert order_ids == sorted(set(order_ids))


def test_one_user_may_order_often(daemon):
    daemon.reset("demo", 10, 2)
    assert [daemon.order(user_id="u1").status for _ in range(10)] == [201] * 10
