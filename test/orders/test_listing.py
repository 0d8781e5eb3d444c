"""Lists of orders, page by page, of one user or of all, with filters and bad parameters."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.audit import audit
from harness.client import assert_problem
from harness.daemon import STEADY

FIELDS = {"order_id", "sku", "round", "user_id", "qty", "segment", "status", "version",
          "created_at"}
ADMIN = "/admin/orders"
USER = "/user/u1/orders"


def get(daemon, path, query=""):
    """A call with the admin token, which calls that need none ignore."""
    response = daemon.admin("GET", path + query)
    assert response.status == 200, response
    return response.json()


def read_all(daemon, path, query="?limit=7"):
    """The orders of all pages."""
    orders, page = [], get(daemon, path, query)
    while True:
        orders += page["orders"]
        if "next" not in page:
            return orders
        page = get(daemon, path, f"{query}&after={page['next']}")


@pytest.fixture
def shop(daemon):
    """Two sales; users u0..u4 bought in turn, 20 orders of a and 10 of b. shop.bought: answers."""
    daemon.bought = []
    for sku, count in (("a", 20), ("b", 10)):
        daemon.reset(sku, 1000, 4)
        for n in range(count):
            response = daemon.order(sku, f"u{n % 5}", qty=n % 3 + 1)
            assert response.status == 201
            daemon.bought.append({**response.json(), "version": 1})
    return daemon


def test_listing_shows_each_order_once_and_as_it_was_answered(shop):
    listed = read_all(shop, ADMIN)
    assert all(set(order) == FIELDS for order in listed)
    assert listed == shop.bought
    assert read_all(shop, ADMIN, "?limit=1000") == listed
    assert read_all(shop, ADMIN, "?sku=b&limit=3") == [o for o in shop.bought if o["sku"] == "b"]


def test_user_sees_own_orders_only(shop):
    mine = [order for order in shop.bought if order["user_id"] == "u1"]
    assert len(mine) == 6
    for query in ("?limit=1", "?limit=2", "?limit=6", "?limit=1000"):
        assert read_all(shop, USER, query) == mine
    assert read_all(shop, USER, "?sku=a&limit=3") == [o for o in mine if o["sku"] == "a"]
    assert get(shop, USER) == {"orders": mine}
    assert get(shop, USER, "?sku=none") == {"orders": []}
    assert get(shop, "/user/U1/orders") == {"orders": []}
    assert shop.get(USER).json() == {"orders": mine}  # without a token


def test_status_and_segment_of_an_order_that_several_filled(shop):
    shop.reset("c", 4, 4)
    split = shop.order("c", "u9", qty=3).json()
    paid = shop.bought[3]["order_id"]
    shop.stack.ledger.run("UPDATE orders SET status = 'paid',"
                          f" expires_at = '2026-12-24 18:00:00' WHERE order_id = {paid}")
    order, = get(shop, ADMIN, "?status=paid")["orders"]
    assert order == {**shop.bought[3], "status": "paid", "expires_at": "2026-12-24T18:00:00.000Z"}
    assert len(read_all(shop, ADMIN, "?status=reserved&limit=10")) == 30
    order, = get(shop, "/user/u9/orders")["orders"]
    assert order["segment"] == split["segment"]
    assert order["qty"] == 3


def test_orders_with_and_without_a_key_are_found_at_once(stack, spawn):
    """Two daemons commit orders while others ask."""
    pair = [spawn(stack, **STEADY) for _ in range(2)]
    pair[0].reset("demo", 100_000, 8)

    def order(n):
        response = pair[n % 2].order(user_id=f"u{n % 40}", key=f"k{n}" if n % 3 else None)
        assert response.status == 201
        if n % 10 == 0:
            ids = [o["order_id"] for o in read_all(pair[1], f"/user/u{n % 40}/orders")]
            assert response.json()["order_id"] in ids
        return response.json()

    with ThreadPoolExecutor(4) as clients:
        bought = list(clients.map(order, range(400)))
    for n in (0, 7, 39):  # 10 orders each, on three pages
        mine = sorted(int(o["order_id"]) for o in bought if o["user_id"] == f"u{n}")
        listed = read_all(pair[0], f"/user/u{n}/orders", "?limit=4")
        assert [int(o["order_id"]) for o in listed] == mine
    assert audit(pair[0]) == 400


BAD = ["?limit=0", "?limit=1001", "?limit=-1", "?limit=1.5", "?limit=", "?limit", "?limit=1e2",
       "?limit=%31x", "?limit=99999999999999999999", "?limit=+1", "?limit=0x10",
       "?after=", "?after=x", "?after=-1", "?after=9223372036854775808", "?after=01", "?after=1%00",
       "?after=99999999999999999999999", "?sku=", "?sku=a'b", "?sku=a%27b", "?sku=" + "x" * 65,
       "?sku=a%00", "?sku=%C3%A9", "?sku=a&sku=a", "?limit=5&limit=5", "?status=",
       "?status=RESERVED", "?status=returned", "?status=paid,expired", "?status=%27%20OR%201--",
       "?page=2", "?SKU=a", "?sku=a&x", "?=", "?user_id=u1",
       "?" + "&".join(f"a{n}=1" for n in range(40)),
       "?sku=a&status=paid&after=1&limit=2&more=1"]


def test_bad_parameter_is_400(daemon):
    many = "?" + "&".join(f"a{n}=1" for n in range(60))
    for path in (ADMIN, USER):
        for query in BAD:
            response = daemon.admin("GET", path + query)
            assert_problem(response, 400, "invalid_request")
        assert_problem(daemon.admin("GET", path + many), 414, "uri_too_long")


def test_bad_user_is_400_or_no_path(daemon):
    for user in ("x" * 129, "", "a%20b", "%00", "%C3%A9", "a%", "a/b", "%2%"):
        response = daemon.get(f"/user/{user}/orders")
        assert response.answer in ("400 invalid_request", "404 not_found"), user
        assert_problem(response, response.status, response.code)


def test_no_such_path(daemon):
    for path in ("/user", "/user/", "/user/u1", "/user/u1/", "/user/u1/orders/", "/user/u1/ordersx",
                 "/user/u1/x/orders", "/user//orders/x", "/admin/orders/", "/admin/orders/1"):
        assert_problem(daemon.admin("GET", path), 404, "not_found")


def test_listing_of_all_wants_the_token_and_get(daemon):
    assert_problem(daemon.get(ADMIN), 401, "unauthorized")
    for path in (ADMIN, USER):
        response = daemon.admin("POST", path, {"sku": "demo"})
        assert_problem(response, 405, "method_not_allowed")
        assert response.headers["Allow"] == "GET, HEAD"
        assert daemon.admin("HEAD", path).status == 200
    assert get(daemon, ADMIN) == {"orders": []}


def test_listing_without_a_ledger_is_unavailable(private_stack, spawn):
    daemon = spawn(private_stack)
    daemon.reset("demo", 10, 1)
    private_stack.maria_server.kill()
    for path in (ADMIN, USER):
        assert_problem(daemon.admin("GET", path), 503, "unavailable")
    private_stack.maria_server.start()
