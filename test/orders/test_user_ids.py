"""User ids are what shops have: e-mail addresses, phone numbers, any printable ASCII but blanks.
Whatever its signs, a user id stays one value in the ledger, Redis, JSON, paths and CSV."""

from urllib.parse import quote

from harness.audit import audit, audit_after_faults
from harness.client import assert_problem
from harness.daemon import STEADY
from harness.processes import wait_until

ODD = ["ann@example.org", "o'neil+tag@b.org", '"quoted"@b.org', "back\\slash@b.org", "{a}", "}{",
       "%2F", "%", "%41", "a/b", "/", "../..", "=1+1", "+8613800000000", "-1", "@x", "'1", "a,b",
       "\"a,\"\"b\"", "';DROP/**/TABLE/**/orders--", "\\'--", "?x=1&y#z", "~!$^*()|`<>;[]",
       "x" * 64, "x" * 65, "@" * 128, "'" * 128, '"' * 128, "\\" * 128]

# Each differs from another one in one sign.
TWINS = ["a@b", "a/b", "A@b", "a%2Fb", "a'", "a\\", "a''", "a\\\\", 'a"', "{u}", "{u", "{a}{b}",
         "{a}{c}", "x" * 127 + "a", "x" * 127 + "b", "x" * 64, "x" * 65, "x" * 64 + "a",
         "x" * 64 + "b"]


def listed(daemon, user):
    response = daemon.get(f"/user/{quote(user, safe='')}/orders")
    assert response.status == 200, response
    return response.json()["orders"]


def test_orders_of_odd_users_are_found_again(pair):
    one, other = pair
    one.reset("demo", 1000, 4, per_user_limit=3)
    bought = {}
    for user in ODD:
        first = one.order(user_id=user, key="k")
        assert (first.status, first.json()["user_id"]) == (201, user)
        repeat = other.order(user_id=user, key="k")
        assert (repeat.status, repeat.json()) == (200, first.json())
        assert_problem(other.order(user_id=user, qty=2, key="k"), 422, "idempotency_key_reused")
        second = other.order(user_id=user, qty=2).json()
        bought[user] = [first.json(), second]
        refused = one.order(user_id=user)
        assert_problem(refused, 409, "limit_reached")
        assert refused.json()["orders"] == [second["order_id"], first.json()["order_id"]]
    for user, orders in bought.items():
        orders = [{**order, "version": 1} for order in orders]
        assert other.get(f"/order/{orders[0]['order_id']}").json() == orders[0]
        assert listed(one, user) == orders
        assert one.cancel(orders[1]["order_id"]).status == 200
        assert one.order(user_id=user, qty=2).status == 201  # its units came back to its user
    for user, orders in bought.items():
        assert [order["order_id"] for order in listed(other, user)][:2] == [
            order["order_id"] for order in orders]
    listing = one.admin("GET", "/admin/orders?limit=1000").json()["orders"]
    assert [order["user_id"] for order in listing if order["status"] == "cancelled"] == ODD
    assert audit(other) == 3 * len(ODD)


def test_orders_of_odd_users_expire(daemon):
    daemon.reset("demo", 1000, 4, pay_within_s=1, per_user_limit=1)
    ids = [daemon.order(user_id=user).json()["order_id"] for user in ODD]
    wait_until(lambda: daemon.get(f"/order/{ids[-1]}").json()["status"] == "expired", "the end",
               pause=0.1)
    wait_until(lambda: daemon.stock()["available"] == 1000, "all units back")
    assert daemon.order(user_id=ODD[1]).status == 201


def test_orders_of_odd_users_are_counted_and_purged(stack, spawn):
    """A first limit in mid-sale counts what they have; a round that is over forgets it."""
    daemon = spawn(stack, retention_days=2, **STEADY)
    daemon.reset("demo", 1000, 4)
    ids = [daemon.order(user_id=user, key="k").json()["order_id"] for user in ODD]
    daemon.change(per_user_limit=1)
    wait_until(lambda: not daemon.stock().get("counting", False), "counting")
    for user, order in zip(ODD, ids):
        refused = daemon.order(user_id=user)
        assert_problem(refused, 409, "limit_reached")
        assert refused.json()["orders"] == [order]
        assert daemon.pay(order).status == 200
    stack.redis("FLUSHALL")
    assert daemon.order(user_id="new").status == 201  # whose segment is recovered
    audit_after_faults(daemon)
    daemon.reset("demo", 10, 1, end_round=True)
    stack.ledger.run("UPDATE sale_round SET ended_at = NOW() - INTERVAL 3 DAY")
    wait_until(lambda: stack.ledger.number("SELECT COUNT(*) FROM order_key") == 0, "the purge")
    assert daemon.order(user_id=ODD[0], key="k").status == 201


def test_users_that_differ_in_one_sign_share_nothing(daemon):
    daemon.reset("demo", 100, 4, per_user_limit=1)
    orders = {user: daemon.order(user_id=user, key="k").json() for user in TWINS}
    assert len({order["order_id"] for order in orders.values()}) == len(TWINS)
    for user, order in orders.items():
        assert daemon.order(user_id=user, key="k").json() == order
        assert listed(daemon, user) == [{**order, "version": 1}]
        refused = daemon.order(user_id=user)
        assert_problem(refused, 409, "limit_reached")
        assert refused.json()["orders"] == [order["order_id"]]
    assert audit(daemon) == len(TWINS)


def test_users_that_differ_in_one_sign_have_a_rate_each(stack, spawn):
    """Without a limit per user, which refuses some orders before they are counted."""
    daemon = spawn(stack, rate_user_per_min=1, rate_user_burst=2, **STEADY)
    daemon.reset("demo", 100, 4)
    for user in TWINS:
        assert [daemon.order(user_id=user).status for _ in range(2)] == [201, 201]
        assert_problem(daemon.order(user_id=user), 429, "rate_limited")
    assert audit(daemon) == 2 * len(TWINS)


def test_no_user_has_blanks_or_is_too_long(daemon):
    daemon.reset("demo", 10, 1)
    for user in ("", " ", "a ", " a", "a b", "a\t", "a\x7f", "x" * 129, "é"):
        response = daemon.order(user_id=user)
        assert_problem(response, 400, "invalid_request")
        assert "1 to 128 printable ASCII characters" in response.json()["detail"]
    for path in ("a%20b", "a%00", "%02", "a%0x", "a%2xb", "x" * 129, "%7F", "a%09", "%C3%A9"):
        response = daemon.get(f"/user/{path}/orders")
        assert_problem(response, 400, "invalid_request")
    for path in ("a%", "%2%"):  # a % that takes the slash behind it for its digits
        assert_problem(daemon.get(f"/user/{path}/orders"), 404, "not_found")
    assert audit(daemon) == 0


def test_log_shows_no_control_character(daemon):
    """Nor can a user id begin a line of its own."""
    daemon.reset("demo", 10, 1)
    for user in ("a\nlevel=error", "a\x1b[31m", "%0Alevel=error"):
        daemon.order(user_id=user)
        daemon.get(f"/user/{quote(user, safe='')}/orders")
    assert all(line.startswith("ts=") for line in daemon.log().splitlines())


def columns(ledger):
    return dict(ledger.run("SELECT table_name, column_type FROM information_schema.columns"
                           " WHERE table_schema = DATABASE() AND column_name = 'user_id'"))


def test_tables_of_the_version_before_are_widened(stack, spawn):
    daemon = spawn(stack, **STEADY)
    daemon.reset("demo", 100, 4, per_user_limit=2)
    order = daemon.order(user_id="u1", key="k").json()
    daemon.stop()
    for table in ("orders", "order_key", "user_quota"):
        stack.ledger.run(f"ALTER TABLE {table} MODIFY user_id VARCHAR(64) CHARACTER SET ascii"
                         " COLLATE ascii_bin NOT NULL")
    stack.ledger.run("DELETE FROM schema_version WHERE name = '0007_user_id'")
    before = columns(stack.ledger)
    daemon.start()
    assert before == dict.fromkeys(before, "varchar(64)") and len(before) == 3
    assert columns(stack.ledger) == dict.fromkeys(before, "varchar(128)")
    assert daemon.order(user_id="u1", key="k").json() == order
    assert daemon.order(user_id="@" * 128).status == 201
    assert audit(daemon) == 2
