"""A ledger whose server has settings that others chose for other programs, and one whose address is
"localhost"."""

import re
import shutil

import pytest

from harness.audit import audit
from harness.daemon import STEADY
from harness.processes import server_folder, wait_until
from harness.servers import MariaServer
from harness.stack import Stack

# Those of one line together: each does harm without regard to the others.
SETTINGS = [
    ["sql_safe_updates=1", "completion_type=1", "sql_auto_is_null=1", "max_sort_length=64"],
    ["max_join_size=1", "autocommit=0", "group_concat_max_len=4", "tx_isolation='SERIALIZABLE'",
     "transaction_isolation='SERIALIZABLE'", "alter_algorithm='INSTANT'"],
    ["sql_select_limit=1", "innodb_snapshot_isolation=1", "max_execution_time=1",
     "alter_algorithm='INPLACE'", "time_zone='-11:00'"],
    ["max_statement_time=0.000001", "foreign_key_checks=0,GLOBAL unique_checks=0",
     "check_constraint_checks=0"],
    ["sql_mode='ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,PAD_CHAR_TO_FULL_LENGTH'",
     "init_connect='SET SESSION sql_select_limit=1, autocommit=0'"]]


@pytest.fixture(scope="module")
def server(template, shared_servers):
    """A MariaDB of this module's own, with the shared Redis."""
    folder = server_folder()
    maria = MariaServer(folder)
    try:
        maria.start()
        yield Stack(shared_servers.redis_url, maria.url, maria_server=maria)
    finally:
        maria.close()
        shutil.rmtree(folder)


def names_in(setting):
    return re.findall(r"(?:^|GLOBAL )(\w+)=", setting)


@pytest.fixture(params=SETTINGS, ids=lambda settings: settings[0].partition("=")[0])
def odd(server, request):
    """The server with odd settings, which connections that come later have; and mend(), which
    undoes them."""
    server.clean()
    with server.ledger.connect("") as keeper, keeper.cursor() as cursor:
        def ask(text):
            cursor.execute(text)
            return cursor.fetchall()

        def known(names):
            return all(ask(f"SHOW GLOBAL VARIABLES LIKE '{name}'") for name in names)

        wanted = [setting for setting in request.param if known(names_in(setting))]
        assert wanted
        names = [name for setting in wanted for name in names_in(setting)]
        values = {name: ask(f"SELECT @@GLOBAL.{name}")[0][0] for name in names}

        def mend():
            for name, value in values.items():
                number = re.fullmatch(r"\d+(\.\d+)?", value)
                ask(f"SET GLOBAL {name}={value if number else keeper.literal(value)}")

        ask("CREATE USER IF NOT EXISTS shop@'127.0.0.1'")
        ask("GRANT ALL ON seckill.* TO shop@'127.0.0.1'")
        for setting in wanted:
            ask(f"SET GLOBAL {setting}")
        yield Stack(server.redis_url, server.mysql_url.replace("root@", "shop@")), mend
        mend()


@pytest.mark.long(keep=2)
def test_settings_of_the_server_stop_and_mislead_nobody(odd, server, spawn):
    """Migrates, sells, pays, cancels, lets expire, restocks, limits, resets, lists and retires."""
    stack, mend = odd
    daemon = spawn(stack, retention_days=2, events_retention_h=1, **STEADY)
    daemon.reset("demo", 40, 4, per_user_limit=5, pay_within_s=600)
    orders = [daemon.order(user_id=f"u{n % 3}", key=f"k{n}").json()["order_id"] for n in range(9)]
    assert daemon.order(user_id="u0", key="k0").status == 200
    assert daemon.pay(orders[0], "p0").status == daemon.cancel(orders[1]).status == 200
    assert daemon.refund(orders[0], "p0").status == 200
    assert daemon.add(4, key="more").status == daemon.add(4, key="more").status == 200
    daemon.change(pay_within_s=1)
    late = daemon.order(user_id="late").json()["order_id"]
    wait_until(lambda: daemon.get(f"/order/{late}").json()["status"] == "expired", "expiry")
    assert daemon.pay(late, "p1").json()["status"] == "paid", "late money takes its unit again"
    daemon.change(per_user_limit=2, pay_within_s=None)
    assert daemon.order(user_id="wide", qty=3).answer == "409 limit_reached"
    assert daemon.order(user_id="wide", qty=2).status == 201
    listed = daemon.admin("GET", "/admin/orders").json()["orders"]
    assert len(listed) == 11 and len({order["order_id"] for order in listed}) == 11
    mine = daemon.request("GET", "/user/u0/orders?sku=demo").json()["orders"]
    assert {order["order_id"] for order in mine} == {orders[0], orders[3], orders[6]}
    assert len(daemon.admin("GET", "/events").json()["events"]) > 12
    daemon.reconcile()
    mend()  # for the tests' own connections
    assert audit(daemon, changed=True) == 11
    daemon.reset("demo", 10, 2)
    daemon.change(paused=True)
    assert daemon.admin("DELETE", "/admin/sale/demo").status == 200
    server.ledger.run("UPDATE sale_round SET ended_at = NOW() - INTERVAL 3 DAY")
    wait_until(lambda: daemon.log().count("event=round_purged") >= 2, "the purge")
    assert not any(event in daemon.log() for event in ("_failed", "ledger_down", "damaged"))


def test_localhost_is_its_port(server, shared_servers, spawn):
    """Not the machine's default socket, where the client libraries look for another server."""
    server.clean()
    daemon = spawn(server, mysql_url=server.mysql_url.replace("127.0.0.1", "localhost"))
    daemon.reset()
    order = daemon.order().json()["order_id"]
    assert server.ledger.number(f"SELECT COUNT(*) FROM orders WHERE order_id={order}") == 1
