"""Sales that are retired: what goes, what stays, and what a later sale of the sku begins with."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.audit import audit, sell_out
from harness.client import assert_problem
from harness.daemon import STEADY
from harness.ledger import numbers
from harness.processes import wait_until
from harness.proxy import COMMIT, Link


def retire(daemon, sku="demo"):
    return daemon.admin("DELETE", f"/admin/sale/{sku}")


def keys_of(stack, sku="demo"):
    return stack.redis("KEYS", f"seckill:{{{sku}:*")


def pay_all(daemon, count, key=None):
    paid = [daemon.order(user_id=f"u{n}", key=key).json() for n in range(count)]
    for order in paid:
        assert daemon.pay(order["order_id"]).status == 200
        order["status"] = "paid"
    return paid


def test_retired_sale_is_gone_everywhere_and_its_orders_stay(pair):
    one, other = pair
    one.reset("demo", 40, 4, per_user_limit=10)
    paid = pay_all(one, 3, key="k")
    assert other.cancel(other.order(user_id="u0").json()["order_id"]).status == 200
    assert keys_of(one.stack)
    gone = retire(other)
    assert (gone.status, gone.json()["sku"], gone.json()["round"]) == (200, "demo", 1)
    assert keys_of(one.stack) == []
    for daemon in pair:
        wait_until(lambda: daemon.order().answer == "404 unknown_sku", "news of it")
        wait_until(lambda: daemon.get("/stock/demo").answer == "404 unknown_sku", "the page")
        assert daemon.admin("GET", "/admin/stock/demo").answer == "404 unknown_sku"
        assert daemon.admin("GET", "/admin/sales").json()["sales"] == []
        assert_problem(retire(daemon), 404, "unknown_sku")
        assert_problem(daemon.add(5), 404, "unknown_sku")
        assert daemon.admin("PATCH", "/admin/sale/demo", {"paused": True}).status == 404
        for order in paid:
            assert daemon.get(f"/order/{order['order_id']}").json()["status"] == "paid"
            listed = daemon.get(f"/user/{order['user_id']}/orders").json()["orders"]
            assert order["order_id"] in [each["order_id"] for each in listed]
            assert daemon.pay(order["order_id"]).status == 200
            assert daemon.cancel(order["order_id"]).answer == "409 invalid_state"
        repeat = daemon.order(user_id="u1", key="k")
        assert (repeat.status, repeat.json()["order_id"]) == (200, paid[1]["order_id"])
    assert keys_of(one.stack) == []


def test_sale_with_reserved_orders_stays(pair):
    one, other = pair
    one.reset("demo", 40, 4)
    pay_all(one, 2)
    reserved = one.order(qty=7).json()["order_id"]
    refused = retire(other)
    assert_problem(refused, 409, "sale_in_use")
    assert (refused.json()["reserved"], refused.json()["paid"]) == (1, 2)
    assert other.order(user_id="next").status == 201
    assert len(sell_out(one)) == 30
    assert audit(one) == 40
    assert one.cancel(reserved).status == 200


def test_order_that_comes_while_the_orders_are_counted_keeps_the_sale(stack, proxies, spawn):
    line = proxies(stack.ledger.port)
    one = spawn(stack, mysql_url=line.url(stack.mysql_url), **STEADY)
    other = spawn(stack, **STEADY)
    one.reset("demo", 40, 4)
    pay_all(one, 2)
    ordered = []
    trap = line.once(rb"SUM\(held", after=lambda link: ordered.append(other.order().status))
    refused = retire(one)
    trap.wait()
    assert ordered == [201]
    assert_problem(refused, 409, "sale_in_use")
    assert len(sell_out(other)) == 37
    assert audit(other) == 40


def test_order_of_an_earlier_round_is_ended_before_its_sale_is(daemon):
    daemon.reset("demo", 10, 2)
    ledger, old = daemon.stack.ledger, daemon.order().json()["order_id"]
    with ledger.transaction(f"SELECT * FROM orders WHERE order_id = {old} FOR UPDATE"):
        ledger.run("INSERT INTO round_end (sku, round, units) VALUES ('demo', 1, 1);"
                   "UPDATE stock_segment SET round = 2, sold = 0;"
                   "UPDATE sale SET round = 2")
        assert_problem(retire(daemon), 503, "unavailable")
    answers = []
    wait_until(lambda: answers.append(retire(daemon).answer) or answers[-1] == "200", "its end")
    assert set(answers) <= {"200", "503 unavailable"}
    assert daemon.get(f"/order/{old}").json()["status"] == "expired"


def test_id_ahead_of_its_time_hides_no_reserved_order(daemon):
    """The order of another sale was made while a daemon's clock was two hours ahead."""
    ledger = daemon.stack.ledger
    daemon.reset("other", 10, 2)
    assert daemon.pay(daemon.order("other").json()["order_id"]).status == 200
    ledger.run("UPDATE orders SET order_id = order_id + (7200000 << 22)")
    daemon.reset("demo", 10, 2)
    reserved = daemon.order("demo").json()["order_id"]
    refused = retire(daemon)
    assert_problem(refused, 409, "sale_in_use")
    assert (refused.json()["reserved"], refused.json()["counted"]) == (1, True)
    # The ledger's clock may have been ahead as well.
    ledger.run("UPDATE sale_round SET ended_at = ended_at + INTERVAL 2 HOUR")
    assert_problem(retire(daemon), 409, "sale_in_use")
    assert daemon.cancel(reserved).status == 200
    assert retire(daemon).status == 200


def test_count_that_takes_long_goes_on_with_the_next_call(stack, proxies, spawn):
    """One call counts for half a second, so that its thread serves other calls in between."""
    line = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=line.url(stack.mysql_url), **STEADY)
    daemon.reset("demo", 10, 2)
    pay_all(daemon, 2)
    stack.ledger.run("INSERT INTO orders (order_id, sku, round, user_id, qty, created_at)"
                     " SELECT seq, 'other', 1, 'u', 1, NOW()"
                     f" FROM {numbers(60_000)};"
                     "UPDATE sale_round SET last_id = 0")  # all of them are looked at
    slow = line.once(rb"SUM\(held", after=lambda link: time.sleep(0.6))
    refused = retire(daemon)
    slow.wait()
    assert_problem(refused, 503, "unavailable")
    assert refused.headers["Retry-After"] == "1"
    assert daemon.reset("more", 1, 1)["round"] == 1
    going_on = line.once(rb"SUM\(held.*order_id>[1-9]")
    assert retire(daemon).status == 200
    going_on.wait()


def test_sku_that_comes_again_counts_its_rounds_on(pair):
    one, other = pair
    one.reset("demo", 10, 2, per_user_limit=3)
    first, = pay_all(one, 1, key="k")
    one.reset("demo", 10, 2, per_user_limit=3)
    assert retire(one).status == 200
    sale = other.reset("demo", 4, 4, per_user_limit=3)
    assert (sale["round"], sale["sold"]) == (3, 0)
    for daemon in pair:  # what was bought before does not count, and its key still finds it
        wait_until(lambda: daemon.order(user_id="u0", qty=4).answer == "409 limit_reached", "news")
        assert daemon.order(user_id="u0", key="k").json()["order_id"] == first["order_id"]
    assert one.order(user_id="u0", qty=3).status == 201
    assert len(sell_out(other)) == 1
    assert audit(one) == 4


def test_new_sku_finds_the_place_of_a_retired_one(daemon):
    """The limit is counted in sales, not in skus that there ever were."""
    ledger = daemon.stack.ledger
    ledger.run("INSERT INTO sale (sku, round, total, segments) SELECT CONCAT('s', seq), 1, 1, 1"
               f" FROM {numbers(10_000)}; INSERT INTO stock_segment (sku, segment, round, capacity,"
               f" fence) SELECT CONCAT('s', seq), 0, 1, 1, 1 FROM {numbers(10_000)}")
    daemon.stop()
    daemon.start()  # it reads them all
    body = {"sku": "new", "total": 1, "segments": 1}
    assert_problem(daemon.admin("POST", "/admin/stock/reset", body), 400, "invalid_request")
    assert retire(daemon, "s77").status == 200
    assert daemon.reset("new", 1, 1)["round"] == 1
    assert daemon.order("new").status == 201
    assert_problem(daemon.admin("POST", "/admin/stock/reset", {**body, "sku": "newer"}), 400,
                   "invalid_request")


def test_orders_race_the_end_of_their_sale(pair):
    """Each round: buyers pay at once or cancel; whoever is told 201 has an order, and no unit of
    an accepted order is lost by the DELETE."""
    def buy(n):
        daemon = pair[n % 2]
        answer = daemon.order(user_id=f"u{n}")
        if answer.status == 201:
            call = daemon.pay if n % 3 else daemon.cancel
            assert call(answer.json()["order_id"]).status == 200
            return n % 3 > 0
        assert answer.answer in ("404 unknown_sku", "409 sold_out", "503 unavailable"), answer
        return False

    bought = 0
    for round_no in range(1, 4):
        assert pair[0].reset("demo", 1000, 4)["round"] == round_no
        with ThreadPoolExecutor(12) as pool:
            buyers = [pool.submit(buy, n) for n in range(40)]
            answers = Counter()
            while not answers["200"]:
                answers[retire(pair[1]).answer] += 1
            bought += sum(one.result() for one in buyers)
        assert set(answers) <= {"200", "409 sale_in_use", "503 unavailable"}, answers
    ledger = pair[0].stack.ledger
    assert ledger.number("SELECT COUNT(*) FROM orders WHERE status = 'paid'") == bought
    assert ledger.number("SELECT COUNT(*) FROM orders WHERE status = 'reserved'") == 0
    assert ledger.number("SELECT COUNT(*) FROM sale") == 0
    wait_until(lambda: keys_of(pair[0].stack) == [], "the end of the keys")


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("lost", ["answer", "request"])
def test_commit_of_the_end_lost(stack, proxies, spawn, lost):
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url))
    daemon.reset("demo", 6, 2)
    trap = proxy.once(COMMIT, **{"before" if lost == "request" else "after": Link.cut})
    assert retire(daemon).status == 200
    trap.wait()
    assert_problem(retire(daemon), 404, "unknown_sku")
    assert keys_of(stack) == []


def test_daemon_that_missed_it_learns_from_the_ledger(stack, proxies, spawn):
    """Its subscription was cut off meanwhile; its first orders leave nothing in Redis."""
    proxy = proxies(stack.redis.address[1])
    deaf = spawn(stack, redis_url=proxy.url(stack.redis_url))
    other = spawn(stack)
    other.reset("demo", 6, 2)
    assert deaf.cancel(deaf.order().json()["order_id"]).status == 200
    proxy.refuse()
    assert retire(other).status == 200
    proxy.admit()
    wait_until(lambda: deaf.order(user_id="late").answer == "404 unknown_sku", "the ledger's word")
    # The worker takes back what it made in Redis with its next calls, perhaps after the answer.
    wait_until(lambda: keys_of(stack) == [], "the end of the keys")


@pytest.mark.parametrize("path", ["/admin/sale/", "/admin/sale/a'b", "/admin/sale/no-such-sale"])
def test_end_of_no_sale_is_404(daemon, path):
    assert daemon.admin("DELETE", path).status == 404


def test_end_wants_the_token(daemon):
    assert_problem(daemon.request("DELETE", "/admin/sale/demo"), 401, "unauthorized")


# --- retention ------------------------------------------------------------------------------------

LEFT = ["order_key", "user_quota", "restock"]


@pytest.fixture
def both(stack, spawn):
    """Two daemons that keep what rounds leave for two days."""
    return [spawn(stack, retention_days=2, **STEADY) for _ in range(2)]


def rows_left(stack):
    return {table: stack.ledger.number(f"SELECT COUNT(*) FROM {table}") for table in LEFT}


def make_old(stack, sku, days=3):
    stack.ledger.run(f"UPDATE sale_round SET ended_at = NOW() - INTERVAL {days} DAY"
                     f" WHERE sku = '{sku}'")


def test_rounds_that_ended_long_ago_are_purged(both):
    one, other = both
    stack = one.stack
    for sku in ("old", "young", "runs"):
        one.reset(sku, 40, 4, per_user_limit=10)
        assert one.add(2, sku, key="more").status == 200
    bought = {(sku, n): one.order(sku, f"u{n % 2}", key=f"{sku}{n}").json()
              for n in range(6) for sku in ("old", "young", "runs")}
    for order in bought.values():
        assert one.pay(order["order_id"]).status == 200
    assert retire(one, "old").status == retire(one, "young").status == 200
    make_old(stack, "young", days=1)
    before = rows_left(stack)
    make_old(stack, "old")
    wait_until(lambda: any("event=round_purged sku=old round=1" in each.log() for each in both),
               "the purge")
    after = rows_left(stack)
    assert before["order_key"] - after["order_key"] == 6
    assert before["user_quota"] - after["user_quota"] == 2
    assert before["restock"] - after["restock"] == 1
    counted = {what: sum(each.metric(f'seckill_purged_total{{what="{what}"}}') for each in both)
               for what in ("keys", "users")}
    assert counted == {"keys": 6, "users": 2}
    for (sku, n), order in bought.items():  # orders stay, and the keys of the others
        assert one.get(f"/order/{order['order_id']}").json()["status"] == "paid"
        repeat = other.order(sku, f"u{n % 2}", key=f"{sku}{n}")
        assert repeat.answer == ("404 unknown_sku" if sku == "old" else "200")
    listed = one.admin("GET", "/admin/orders?sku=old").json()["orders"]
    assert len(listed) == 6
    for user in ("u0", "u1"):
        mine = one.get(f"/user/{user}/orders").json()["orders"]
        assert Counter(each["sku"] for each in mine) == {"young": 3, "runs": 3}


def test_purge_of_a_round_leaves_the_next_one_alone(both):
    one, _ = both
    one.reset("demo", 40, 4, per_user_limit=2)
    assert one.pay(one.order(key="first").json()["order_id"]).status == 200
    one.reset("demo", 40, 4, per_user_limit=2)
    second = one.order(key="second").json()
    make_old(one.stack, "demo")
    wait_until(lambda: one.stack.ledger.number("SELECT COUNT(*) FROM sale_round WHERE step = 'done'"
                                               " AND round = 1") == 1, "the purge")
    assert one.order(key="second").json() == second
    assert one.order(key="third", qty=2).answer == "409 limit_reached"
    assert one.order(key="first").status == 201  # the key of another order by now
    assert audit(one) == 2


def test_nothing_is_purged_unless_asked_for(daemon):
    daemon.reset("demo", 40, 4, per_user_limit=2)
    assert daemon.pay(daemon.order(key="k").json()["order_id"]).status == 200
    assert retire(daemon).status == 200
    make_old(daemon.stack, "demo", days=30000)
    before = rows_left(daemon.stack)
    daemon.reset("other", 10, 1, pay_within_s=1)
    order_id = daemon.order("other").json()["order_id"]
    wait_until(lambda: daemon.get(f"/order/{order_id}").json()["status"] == "expired", "a turn")
    after = rows_left(daemon.stack)
    assert after["order_key"] == before["order_key"] + 1 == 2  # of the order of the other sale
    assert after["user_quota"] == before["user_quota"] == 1
