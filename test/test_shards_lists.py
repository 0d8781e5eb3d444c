"""Several ledgers, each sku on one: where a new sku goes, and what asks all of them."""

import csv
import io

import pytest

from audit import answered
from daemon import STEADY
from harness.client import assert_problem
from harness.processes import wait_until
from test_live import Page
from test_seckillctl import Control

ADMIN = "/admin/orders"


class Shop:
    """A daemon over two ledgers: `one` holds shard 0, `two` shard 1, behind a proxy."""

    def __init__(self, stack, proxy, spawn):
        self.one, self.two = stack, stack.aside("shard_1", 1)
        self.proxy, self.spawn = proxy, spawn
        self.url = f"{self.one.mysql_url} {proxy.url(self.two.mysql_url)}"
        self.daemon = self.start()

    def start(self, **options):
        """One that has both ledgers."""
        daemon = self.spawn(self.one, mysql_url=self.url, **STEADY, **options)
        self.wait_both(daemon)
        return daemon

    def wait_both(self, daemon):
        wait_until(lambda: daemon.admin("GET", "/admin/sales").status == 200, "both ledgers")

    def on(self, shard, sku, total=100, segments=2, **settings):
        """Creates a sale there."""
        response = self.daemon.admin("POST", "/admin/stock/reset", {
            "sku": sku, "total": total, "segments": segments, "shard": shard, **settings})
        assert response.status == 200, response
        assert self.where(sku) == shard
        return response.json()

    def where(self, sku):
        """The shard whose ledger has the sale; None: neither has."""
        found = [number for number, stack in enumerate((self.one, self.two))
                 if stack.ledger.number(f"SELECT COUNT(*) FROM sale WHERE sku='{sku}'")]
        assert len(found) < 2
        return found[0] if found else None

    def buy(self, sku, user="u1", **more):
        response = self.daemon.order(sku, user, **more)
        assert response.status == 201, response
        return response.json()

    def lose(self):
        """The ledger of shard 1, as far as the daemon can tell."""
        self.proxy.refuse()
        wait_until(lambda: "ledger_down" in self.daemon.log(), "the loss")

    def find(self):
        self.proxy.admit()
        self.wait_both(self.daemon)


@pytest.fixture
def shop(stack, proxies, spawn):
    return Shop(stack, proxies(stack.ledger.port), spawn)


def refused(response, status, code):
    """The problem."""
    assert_problem(response, status, code)
    return response.json()


def pages(daemon, path, query, name="orders"):
    """What all pages list, and the size of each."""
    listed, sizes, after = [], [], ""
    while True:
        # After a standstill no answer of a ledger is recent enough to count, for a moment.
        response = answered(lambda: daemon.admin("GET", f"{path}?{query}{after}"))
        assert response.status == 200, response
        answer = response.json()
        listed += answer[name]
        sizes.append(len(answer[name]))
        if "next" not in answer:
            return listed, sizes
        after = f"&after={answer['next']}"


def fill(shop):
    """Two sales on each shard; users u0 to u4 buy of them in turn. In order of the ids: shards make
    theirs side by side, so two of one ms may be the other way round."""
    skus = [("a", 0), ("b", 1), ("c", 0), ("d", 1)]
    for sku, shard in skus:
        shop.on(shard, sku)
    bought = [shop.buy(skus[n % 4][0], f"u{n % 5}") for n in range(40)]
    return sorted(bought, key=lambda order: int(order["order_id"]))


def test_lists_of_both_shards_in_order(shop):
    bought = fill(shop)
    for limit in (1, 3, 7, 40, 1000):
        listed, sizes = pages(shop.daemon, ADMIN, f"limit={limit}")
        assert listed == bought
        assert all(size == limit for size in sizes[:-1])
        mine, _ = pages(shop.daemon, "/user/u1/orders", f"limit={limit}")
        assert mine == [order for order in bought if order["user_id"] == "u1"]
    assert len({order["sku"] for order in mine}) == 4
    of_sku, _ = pages(shop.daemon, ADMIN, "sku=b&limit=3")
    assert of_sku == [order for order in bought if order["sku"] == "b"]
    shards = {int(order["order_id"]) >> 8 & 15: order["sku"] for order in bought}
    assert set(shards) == {0, 1}
    sales, _ = pages(shop.daemon, "/admin/sales", "limit=1", "sales")
    assert [(sale["sku"], sale["sold"]) for sale in sales] == [(sku, 10) for sku in "abcd"]
    shard_of = {order["sku"]: int(order["order_id"]) >> 8 & 15 for order in bought}
    assert {sale["sku"]: sale["shard"] for sale in sales} == shard_of
    for sku, shard in shard_of.items():
        for path in (f"/stock/{sku}", f"/admin/stock/{sku}"):
            assert shop.daemon.admin("GET", path).json()["shard"] == shard
    rows = list(csv.reader(io.StringIO(shop.daemon.admin("GET", ADMIN + ".csv").body.decode())))
    assert [row[0] for row in rows[1:]] == [order["order_id"] for order in bought]


def test_user_is_found_before_and_after_orders_are_indexed(shop):
    bought = fill(shop)
    for stack in (shop.one, shop.two):
        wait_until(lambda: stack.ledger.number("SELECT COUNT(*) FROM order_batch") == 0, "index")
    mine, _ = pages(shop.daemon, "/user/u3/orders", "limit=3")
    assert mine == [order for order in bought if order["user_id"] == "u3"]


def test_long_stream_has_every_order_of_both_once(shop):
    """Of many pages, of which one shard has far more than the other."""
    expected = []
    shop.on(0, "a", 10, 1)
    shop.on(1, "b", 10, 1)
    for stack, sku, count, step in ((shop.one, "a", 5000, 3), (shop.two, "b", 700, 11)):
        stack.ledger.run(
            "INSERT INTO orders(order_id, sku, round, user_id, qty, segment, created_at)"
            " WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)"
            f" SELECT ((a.i - 1) * 1000 + b.i) * {step}, '{sku}', 1, 'u', 1, 0,"
            f" '2026-11-20 21:30:00.123' FROM n a, n b WHERE (a.i - 1) * 1000 + b.i <= {count}")
        expected += [(n * step, sku) for n in range(1, count + 1)]
    rows = list(csv.reader(io.StringIO(shop.daemon.admin("GET", ADMIN + ".csv").body.decode())))
    listed = [(int(row[0]), row[1]) for row in rows[1:]]
    assert sorted(listed) == sorted(expected)
    assert [order_id for order_id, _ in listed] == sorted(order_id for order_id, _ in expected)
    by_pages, sizes = pages(shop.daemon, ADMIN, "limit=999")
    assert [(int(order["order_id"]), order["sku"]) for order in by_pages] == listed
    assert set(sizes[:-1]) == {999}


def test_no_list_lacks_a_shard(shop):
    """A ledger is away: what would be short is refused, and what the other has goes on."""
    fill(shop)
    paths = [ADMIN, ADMIN + ".csv", "/admin/sales", "/admin/audit", "/user/u1/orders"]
    shop.lose()
    for path in paths:
        problem = refused(shop.daemon.admin("GET", path), 503, "unavailable")
        assert "shard 1" in problem["detail"]
    for query in ("/admin/audit/a", "/admin/audit?sku=a", ADMIN + "?sku=a", ADMIN + ".csv?sku=a",
                  "/user/u1/orders?sku=a"):
        assert shop.daemon.admin("GET", query).status == 200
    assert_problem(shop.daemon.admin("GET", ADMIN + "?sku=b"), 503, "unavailable")
    assert_problem(shop.daemon.admin("GET", "/admin/audit/b"), 503, "unavailable")
    assert shop.daemon.order("a", "u9").status == 201
    assert_problem(shop.daemon.order("b", "u9"), 503, "unavailable")
    shop.find()
    wait_until(lambda: shop.daemon.order("b", "u9").status == 201, "an order")
    for path in paths:
        assert shop.daemon.admin("GET", path).status == 200


def test_new_sku_goes_to_one_shard_and_stays(shop):
    skus = [f"new-{n}" for n in range(12)]
    for sku in skus:
        assert shop.daemon.reset(sku, 10, 1)["round"] == 1
    placed = {sku: shop.where(sku) for sku in skus}
    assert set(placed.values()) == {0, 1}
    other = shop.start()
    for sku in skus:
        assert other.reset(sku, 10, 1, if_round=1)["round"] == 2
    assert {sku: shop.where(sku) for sku in skus} == placed


def test_named_shard(shop):
    shop.on(1, "x")
    for shard in (-1, 2, 16, "1", 1.0, None, True):
        response = shop.daemon.admin("POST", "/admin/stock/reset", {
            "sku": "y", "total": 10, "segments": 1, "shard": shard})
        assert_problem(response, 400, "invalid_request")
    response = shop.daemon.admin("POST", "/admin/stock/reset", {
        "sku": "x", "total": 10, "segments": 1, "shard": 0})
    assert refused(response, 409, "shard_mismatch")["shard"] == 1
    assert shop.on(1, "x", if_round=1)["round"] == 2
    assert shop.where("y") is None


def test_retired_sku_comes_again_where_it_was(shop):
    """Its rounds count on, so no order of before is taken for one of the new sale."""
    shop.on(1, "x", per_user_limit=1)
    old = shop.buy("x", key="k")
    shop.daemon.cancel(old["order_id"])
    assert shop.daemon.admin("DELETE", "/admin/sale/x").status == 200
    assert shop.where("x") is None
    response = shop.daemon.admin("POST", "/admin/stock/reset", {
        "sku": "x", "total": 10, "segments": 1, "shard": 0})
    assert refused(response, 409, "shard_mismatch")["shard"] == 1
    again = shop.start()  # one that has never seen the sale
    assert again.reset("x", 10, 1)["round"] == 2
    assert shop.where("x") == 1
    assert again.order("x", "u1", key="k").json()["order_id"] == old["order_id"]
    wait_until(lambda: shop.daemon.order("x", "u1").status == 201, "the new sale")


def test_sku_from_before_the_second_ledger_stays_on_the_first(stack, proxies, spawn):
    """A daemon with one ledger has sold; the sale that runs and the one that was retired stay."""
    before = spawn(stack, **STEADY)
    for sku in ("runs", "gone"):
        before.reset(sku, 10, 1)
    assert before.admin("DELETE", "/admin/sale/gone").status == 200
    stack.ledger.run("DELETE FROM sale_shard")  # as a version before the shards has left it
    old = before.order("runs").json()
    before.stop()
    shop = Shop(stack, proxies(stack.ledger.port), spawn)
    assert shop.daemon.get(f"/order/{old['order_id']}").status == 200
    for sku, number in (("runs", 1), ("gone", 1)):
        response = shop.daemon.admin("POST", "/admin/stock/reset", {
            "sku": sku, "total": 10, "segments": 1, "shard": 1})
        assert refused(response, 409, "shard_mismatch")["shard"] == 0
        answer = shop.daemon.reset(sku, 10, 1, end_round=True)
        assert answer["round"] == number + 1
        assert shop.where(sku) == 0


def test_claim_without_a_sale_harms_nothing(shop):
    """Whoever was to create the sale has died in between."""
    shop.one.ledger.run("INSERT INTO sale_shard(sku, shard) VALUES ('x', 1), ('far', 9)")
    assert_problem(shop.daemon.get("/stock/x"), 404, "unknown_sku")
    assert_problem(shop.daemon.order("x"), 404, "unknown_sku")
    shop.daemon.reset("x", 10, 1)
    assert shop.where("x") == 1
    shop.buy("x")
    response = shop.daemon.admin("POST", "/admin/stock/reset",
                                 {"sku": "far", "total": 10, "segments": 1})
    assert "shard 9" in refused(response, 503, "unavailable")["detail"]


def test_new_sku_while_a_ledger_is_away(shop):
    shop.on(0, "runs")
    shop.lose()
    answers = {sku: shop.daemon.admin("POST", "/admin/stock/reset",
                                      {"sku": sku, "total": 10, "segments": 1})
               for sku in (f"new-{n}" for n in range(8))}
    assert {response.status for response in answers.values()} == {200, 503}
    for sku, response in answers.items():
        if response.status == 503:
            assert "shard 1" in response.json()["detail"]
            shop.on(0, sku)
    shop.find()
    assert all(shop.where(sku) == 0 for sku in answers)


def test_operators_program_over_both(shop, tmp_path):
    ctl = Control(tmp_path)
    ctl.aim(shop.daemon)
    ctl("create ctl --total 30 --segments 3 --shard 1")
    assert shop.where("ctl") == 1
    assert "shard_mismatch" in ctl("create ctl --total 30 --shard 0", status=1).stderr
    bought = fill(shop)
    shop.daemon.pay(bought[0]["order_id"])
    shop.daemon.cancel(bought[1]["order_id"])
    ctl("audit --wait 30")
    listed = ctl("export").stdout.splitlines()
    assert len(listed) == len(bought) + 1
    assert {"a", "b", "c", "d", "ctl"} <= {sale["sku"] for sale in ctl.json("sales")["sales"]}
    shop.two.ledger.run("UPDATE stock_segment SET sold=sold+1 WHERE sku='b' AND segment=0")
    assert "b" in ctl("audit --wait 1", status=1).stdout
    shop.lose()
    ctl("audit --wait 1", status=69)
    ctl("audit a --wait 30")


def test_dashboard_shows_both_and_what_is_missing(shop):
    fill(shop)
    page = Page(shop.daemon)
    state, _ = page.until(lambda state: len(state["sales"]) == 4 and all(
        sale["segments"] for sale in state["sales"]))
    assert {sale["sku"]: sale["sold"] for sale in state["sales"]} == dict.fromkeys("abcd", 10)
    kinds = [server["kind"] for server in state["daemons"][0]["servers"]]
    assert kinds == ["redis", "ledger", "ledger"] and state["error"] is None
    shop.proxy.refuse()
    state, _ = page.until(lambda state: state["error"])
    assert state["error"]["server"] == "ledger" and "shard 1" in state["error"]["detail"]
    shop.buy("a")
    state, _ = page.until(lambda state: any(
        sale["sku"] == "a" and sale["sold"] == 11 for sale in state["sales"]))
    assert {sale["sku"] for sale in state["sales"]} == set("abcd")
    assert all(sale["segments"] for sale in state["sales"])


def test_metrics_have_the_sales_of_both(shop):
    fill(shop)
    wait_until(lambda: all(shop.daemon.metrics().get(f'seckill_sale_sold_units{{sku="{sku}"}}')
                           == 10 for sku in "abcd"), "the sales")
