"""An operator resets, lists and reconciles sales."""

from harness.audit import audit, audit_after_faults, audit_sale
from harness.client import assert_problem
from harness.daemon import STEADY, TOKEN


def test_reset_creates_the_sale_and_says_so(daemon):
    assert daemon.reset("demo", 1000, 20) == {
        "sku": "demo", "round": 1, "total": 1000, "segments": 20, "sold": 0, "available": 1000,
        "paused": False, "late_payment": "retake"}
    assert daemon.stock()["available"] == 1000
    audit_sale(daemon.stack, "demo")


def test_each_reset_starts_another_round_from_full_stock(daemon):
    for round_no in (1, 2, 3):
        assert daemon.reset("demo", 10, 2)["round"] == round_no
        assert daemon.order().status == 201
        assert daemon.stock()["round"] == round_no
    assert audit(daemon) == 1
    assert daemon.stack.ledger.number("SELECT COUNT(*) FROM orders") == 3


def test_units_that_do_not_divide_are_spread_evenly(daemon):
    for total, segments in ((10, 3), (1, 1), (7, 7), (1024, 1024), (1025, 1024), (10_000_000, 3),
                            (10_000_000, 1024)):
        sku = f"{total}-{segments}"
        daemon.reset(sku, total, segments)
        capacities = [segment["capacity"] for segment in daemon.stock(sku)["segments"]]
        assert len(capacities) == segments
        assert sum(capacities) == total
        assert max(capacities) - min(capacities) <= 1
        assert audit(daemon, sku) == 0


def test_sales_lists_every_sale(daemon):
    assert daemon.admin("GET", "/admin/sales").json() == {"sales": []}
    daemon.reset("b", 10, 2)
    daemon.reset("a", 30, 3)
    daemon.order("a", qty=4)
    sales = daemon.admin("GET", "/admin/sales").json()["sales"]
    assert sorted(sales, key=lambda sale: sale["sku"]) == [
        {"sku": "a", "round": 1, "total": 30, "segments": 3, "sold": 4, "available": 26,
         "paused": False, "late_payment": "retake"},
        {"sku": "b", "round": 1, "total": 10, "segments": 2, "sold": 0, "available": 10,
         "paused": False, "late_payment": "retake"}]


def test_sales_come_in_pages(daemon):
    skus = sorted(["A", "B:1", "a", "a-1", "a.1", "z"])
    for sku in reversed(skus):
        daemon.reset(sku, 4, 1)
    for limit in (1, 2, 3, 6, 1000):
        seen, query = [], f"?limit={limit}"
        while query:
            page = daemon.admin("GET", "/admin/sales" + query).json()
            assert len(page["sales"]) <= limit
            seen += [sale["sku"] for sale in page["sales"]]
            query = page.get("next") and f"?limit={limit}&after={page['next']}"
        assert seen == skus
    assert "next" not in daemon.admin("GET", "/admin/sales").json()
    for bad in ("limit=0", "limit=1001", "limit=x", "after=", "after=a%27", "after=a&after=b",
                "limit=1&limit=1", "sku=a"):
        assert_problem(daemon.admin("GET", f"/admin/sales?{bad}"), 400, "invalid_request")


def test_reconcile_of_a_healthy_sale_finds_nothing(daemon):
    daemon.reset("demo", 100, 4)
    daemon.order(qty=3)
    assert daemon.reconcile() == {"sku": "demo", "round": 1, "segments": 4, "differences": [],
                                  "repaired": 0, "consistent": True}


def test_reconcile_names_the_difference_and_repairs_it(daemon):
    daemon.reset("demo", 100, 4)
    for tamper, reason, available in (
            (("HSET", "available", "7"), "mismatch", 7),
            (("HSET", "available", "999999"), "mismatch", 999999),
            (("HSET", "open", "somebody-who-died"), "dirty", 25),
            (("HSET", "round", "17"), "round", 25), (("DEL",), "missing", None)):
        daemon.stack.redis(tamper[0], "seckill:{demo:3}:segment", *tamper[1:])
        report = daemon.reconcile()
        assert report["differences"] == [{"segment": 3, "reason": reason,
                                          "redis_available": available, "ledger_available": 25}]
        assert (report["repaired"], report["consistent"]) == (1, True)
        assert daemon.reconcile()["differences"] == []
        assert audit(daemon) == 0


def test_reconcile_after_flushall_loads_every_segment(daemon):
    daemon.reset("demo", 100, 20)
    daemon.stack.redis("FLUSHALL")
    report = daemon.reconcile()
    assert {difference["reason"] for difference in report["differences"]} == {"missing"}
    assert (len(report["differences"]), report["repaired"]) == (20, 20)
    audit_sale(daemon.stack, "demo")


def test_reconcile_that_loses_a_lock_says_that_redis_still_differs(stack, proxies, spawn):
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url), **STEADY)
    daemon.reset("demo", 100, 4)
    for segment in (1, 2):
        stack.redis("HSET", f"seckill:{{demo:{segment}}}:segment", "available", 7)
    trap = proxy.once(rb"UPDATE stock_segment SET fence",
                      after=lambda link: stack.redis("SET", "seckill:{demo:1}:lock", "somebody"))
    report = daemon.reconcile()
    trap.wait()
    assert len(report["differences"]) == 2
    assert (report["repaired"], report["consistent"]) == (1, False)
    stack.redis("DEL", "seckill:{demo:1}:lock")
    report = daemon.reconcile()
    assert [difference["segment"] for difference in report["differences"]] == [1]
    assert (report["repaired"], report["consistent"]) == (1, True)
    assert daemon.order(qty=100).status == 201
    assert audit_after_faults(daemon) == 100


def test_no_token_configured_means_no_admin_at_all(stack, spawn):
    daemon = spawn(stack, env={"SECKILL_ADMIN_TOKEN": ""})
    for authorization in (None, "Bearer", "Bearer ", "Bearer x"):
        response = daemon.request("GET", "/admin/sales", None, {"Authorization": authorization})
        assert_problem(response, 401, "unauthorized")


def test_the_token_is_not_in_the_log(daemon):
    daemon.reset()
    daemon.request("GET", "/admin/sales", None, {"Authorization": "Bearer wrong-secret"})
    assert TOKEN not in daemon.log()
    assert "wrong-secret" not in daemon.log()
