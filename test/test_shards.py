"""Sales on two ledgers: each sells exactly, and neither waits for the other."""

import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pymysql
import pytest

from audit import audit_sale
from harness.engines_shards import TwoLedgers
from harness.processes import wait_until

ANSWERS = {"201", "409 sold_out", "503 unavailable", "503 outcome_unknown", "503 overloaded",
           "503 no_order_id"}
PATIENCE_S = 60
SKUS = ("zero", "one")  # by their shard


@pytest.fixture(scope="module")
def servers(template):
    with TwoLedgers() as two:
        yield two


@pytest.fixture
def two(servers):
    servers.clean()
    yield servers
    for server in servers.servers:
        if server.process.poll() is None:
            server.signal(signal.SIGCONT)


@pytest.fixture
def daemon(two, spawn):
    """With a sale of 1000 units on each shard."""
    started = spawn(two.stacks[0], mysql_url=two.url)
    for shard in (0, 1):
        place(started, shard, 1000)
    return started


def place(daemon, shard, total, sku=None):
    """Begins a sale on the shard. A busy machine may take a ledger for one that is down."""
    body = {"sku": sku or SKUS[shard], "total": total, "segments": min(total, 20), "shard": shard}
    wait_until(lambda: daemon.ask("POST", "/admin/stock/reset", body)[0] == 200, "a new sale",
               timeout=PATIENCE_S)


def shard_of(order_id):
    return int(order_id) >> 8 & 15


def states(daemon):
    """What /readyz says of the ledgers."""
    return daemon.get("/readyz").json()["ledgers"]


def audit(daemon, two, accepted=((), ())):
    """Of both shards; returns the units sold on each."""
    sold = []
    for shard, sku in enumerate(SKUS):
        wait_until(lambda sku=sku: daemon.ask("POST", "/admin/reconcile", {"sku": sku})[0] == 200,
                   f"a consistent {sku}", timeout=PATIENCE_S)
        sold.append(audit_sale(two.stacks[shard], sku, accepted=accepted[shard]))
        assert two.stacks[1 - shard].ledger.run(
            f"SELECT COUNT(*) FROM orders WHERE sku = '{sku}'") == [("0",)]
        assert daemon.stock(sku)["sold"] == sold[shard]
    return sold


def test_both_shards_sell_out_exactly(two, daemon, load):
    loads = [load(daemon, skus=[sku], connections=32) for sku in SKUS]
    accepted = [one.wait().accepted for one in loads]
    for shard, orders in enumerate(accepted):
        assert sum(qty for _, qty in orders) == 1000
        assert {shard_of(order_id) for order_id, _ in orders} == {shard}
    assert audit(daemon, two, accepted) == [1000, 1000]


@pytest.mark.parametrize("dead", [1, 0])
def test_one_ledger_dies_and_the_others_sales_go_on(two, spawn, load, dead):
    alive = 1 - dead
    daemon = spawn(two.stacks[0], mysql_url=two.url)
    for shard in (0, 1):
        place(daemon, shard, 1_000_000)
    other = spawn(two.stacks[0], mysql_url=two.url)  # learns both sales at its start
    loads = [load(daemon, skus=[sku], connections=16, seconds=90, stop_after=10**9)
             for sku in SKUS]
    for one in loads:
        one.wait_answered()
    two.ledgers[dead].kill()
    wait_until(lambda: states(daemon)[dead] == "down", "the ledger to be seen as down")
    assert daemon.get("/readyz").status == 200 and states(daemon)[alive] == "ok"
    refused = daemon.order(SKUS[dead])
    assert (refused.status, refused.json()["code"]) == (503, "unavailable")
    before = daemon.stock(SKUS[alive])["sold"]
    bought = [peer.order(SKUS[alive]) for peer in (daemon, other)]
    assert [order.status for order in bought] == [201, 201]
    order_id = bought[0].json()["order_id"]
    assert daemon.get(f"/order/{order_id}").status == 200
    assert daemon.pay(order_id).status == 200
    assert daemon.cancel(bought[1].json()["order_id"]).status == 200
    assert daemon.change(SKUS[alive], per_user_limit=None)["sku"] == SKUS[alive]
    wait_until(lambda: daemon.stock(SKUS[alive])["sold"] > before + 1000,
               "the load on the other shard to go on", timeout=PATIENCE_S)
    assert daemon.admin("GET", f"/admin/stock/{SKUS[dead]}").status == 503
    assert daemon.get("/stock/unknown").status == 503
    assert daemon.order("unknown").status == 503
    restarted = time.monotonic()
    two.ledgers[dead].start()
    answers = time.monotonic()
    wait_until(lambda: daemon.order(SKUS[dead]).status == 201, "a sale on the shard that was down",
               timeout=PATIENCE_S)
    print(f"shard {dead} sells again {time.monotonic() - restarted:.2f} s after its ledger was"
          f" started, {time.monotonic() - answers:.2f} s after that answered")
    wait_until(lambda: states(daemon) == ["ok", "ok"], "both ledgers to be up")
    wait_until(lambda: daemon.order("unknown").status == 404, "all shards to be asked")
    loads = [one.stop() for one in loads]
    assert set(loads[0].answers) | set(loads[1].answers) <= ANSWERS
    assert set(loads[alive].answers) == {"201"}
    audit(daemon, two, [one.accepted for one in loads])


@pytest.mark.parametrize("absent", [1, 0])
def test_a_daemon_starts_while_a_ledger_is_away(two, spawn, absent):
    first = spawn(two.stacks[0], mysql_url=two.url)
    for shard in (0, 1):
        place(first, shard, 100)
    first.stop()
    two.ledgers[absent].kill()
    daemon = spawn(two.stacks[0], mysql_url=two.url)  # is ready
    present = 1 - absent
    assert states(daemon)[present] == "ok" and states(daemon)[absent] != "ok"
    assert daemon.order(SKUS[present]).status == 201
    assert daemon.order(SKUS[absent]).status == 503
    if absent == 0:  # the directory of skus is there
        assert daemon.ask("POST", "/admin/stock/reset",
                          {"sku": "new", "total": 5, "segments": 1})[0] == 503
    two.ledgers[absent].start()
    wait_until(lambda: daemon.order(SKUS[absent]).status == 201, "the shard to be prepared",
               timeout=PATIENCE_S)
    assert len(re.findall("event=prepared", daemon.log())) == 2
    assert audit(daemon, two)[present] == 1


def test_a_shard_is_added_and_no_sale_moves(two, spawn):
    daemon = spawn(two.stacks[0], mysql_url=two.ledgers[0].url)
    daemon.reset("zero", 100, 2)
    order_id = daemon.order("zero", key="k").json()["order_id"]
    daemon.stop()
    daemon = spawn(two.stacks[0], mysql_url=two.url)
    place(daemon, 1, 100)
    again = daemon.order("zero", key="k")
    assert (again.status, again.json()["order_id"]) == (200, order_id)
    assert shard_of(daemon.order("zero").json()["order_id"]) == 0
    assert shard_of(daemon.order("one").json()["order_id"]) == 1
    assert daemon.reset("zero", 50, 2)["round"] == 2
    assert shard_of(daemon.order("zero").json()["order_id"]) == 0
    assert daemon.get(f"/order/{order_id}").json()["sku"] == "zero"
    assert audit(daemon, two) == [1, 1]


def test_all_that_an_order_can_do_on_shard_1(two, daemon):
    daemon.change("one", per_user_limit=2)
    first = daemon.order("one", "u1", key="k1")
    assert first.status == 201
    order_id = first.json()["order_id"]
    assert shard_of(order_id) == 1
    assert daemon.order("one", "u1", key="k1").json()["order_id"] == order_id
    assert daemon.order("one", "u1", qty=2, key="k1").json()["code"] == "idempotency_key_reused"
    assert daemon.order("one", "u1", qty=2).json()["code"] == "limit_reached"
    assert daemon.pay(order_id).json()["status"] == "paid"
    assert daemon.cancel(order_id).json()["code"] == "invalid_state"
    second = daemon.order("one", "u1").json()["order_id"]
    assert daemon.cancel(second).json()["status"] == "cancelled"
    daemon.change("one", pay_within_s=1)
    third = daemon.order("one", "u2").json()["order_id"]
    wait_until(lambda: daemon.get(f"/order/{third}").json()["status"] == "expired",
               "the order to expire", timeout=PATIENCE_S)
    assert daemon.add(5, "one", key="r").status == 200
    assert daemon.stock("one")["available"] == 1004
    wait_until(lambda: daemon.get("/stock/one").json()["available"] == 1004, "the page of the sale")
    assert daemon.reset("one", 10, 2)["round"] == 2
    assert audit(daemon, two) == [0, 0]
    assert daemon.admin("DELETE", "/admin/sale/one").status == 200
    assert daemon.order("one").json()["code"] == "unknown_sku"
    assert daemon.admin("DELETE", "/admin/sale/one").json()["code"] == "unknown_sku"
    assert daemon.reset("one", 10, 2)["round"] == 3
    assert shard_of(daemon.order("one").json()["order_id"]) == 1


def test_what_no_shard_knows_is_unknown(daemon):
    for answer in (daemon.order("nothing"), daemon.order("nothing", key="k"),
                   daemon.get("/stock/nothing"), daemon.admin("GET", "/admin/stock/nothing"),
                   daemon.admin("PATCH", "/admin/sale/nothing", {"paused": True}),
                   daemon.add(1, "nothing"),
                   daemon.admin("POST", "/admin/reconcile", {"sku": "nothing"})):
        assert (answer.status, answer.json()["code"]) == (404, "unknown_sku")
    order_id = int(daemon.order("one").json()["order_id"])
    for missing in (order_id + 1, order_id - (1 << 8), order_id + (5 << 8)):
        for answer in (daemon.get(f"/order/{missing}"), daemon.pay(missing),
                       daemon.cancel(missing)):
            assert (answer.status, answer.json()["code"]) == (404, "unknown_order")


def test_an_unknown_sku_is_asked_of_the_directory_alone(two, daemon):
    """However many ledgers there are: clients may make skus up."""
    other = two.ledgers[1].client
    other.run("SET GLOBAL log_output = 'TABLE', general_log = 1; TRUNCATE mysql.general_log",
              database="")
    for answer in (daemon.order("nothing"), daemon.get("/stock/nothing"),
                   daemon.admin("GET", "/admin/stock/nothing")):
        assert (answer.status, answer.json()["code"]) == (404, "unknown_sku")
    assert daemon.order("one").status == 201
    assert other.run("SET GLOBAL general_log = 0; SELECT COUNT(*) > 0, "
                     "SUM(argument LIKE '%nothing%' AND argument NOT LIKE '%general_log%') "
                     "FROM mysql.general_log", database="") == [("1", "0")]


def refused_as_unlisted(answer):
    return (answer.status, answer.json()["code"], "shard 1" in answer.json()["detail"]) == \
        (503, "unavailable", True)


def test_a_list_that_is_too_short_denies_nothing(two, daemon, spawn):
    """As while a ledger is added to the lists of the daemons, one after the other."""
    short = spawn(two.stacks[0], mysql_url=two.ledgers[0].url)
    order_id = daemon.order("one", "u1").json()["order_id"]
    asked = (("POST", "/order", {"sku": "one", "user_id": "u2", "qty": 1}),
             ("GET", f"/order/{order_id}"), ("POST", f"/order/{order_id}/pay"),
             ("POST", f"/order/{order_id}/cancel"), ("GET", "/stock/one"),
             ("GET", "/user/u1/orders"), ("GET", "/admin/stock/one"), ("GET", "/admin/sales"),
             ("GET", "/admin/orders"), ("GET", "/admin/audit/one"),
             ("PATCH", "/admin/sale/one", {"paused": True}),
             ("POST", "/admin/reconcile", {"sku": "one"}),
             ("POST", "/admin/stock/reset", {"sku": "one", "total": 5, "segments": 1}))
    for request in asked:
        assert refused_as_unlisted(short.admin(*request)), request
    assert short.order("zero", "u1").status == 201
    unknown = int(short.order("zero").json()["order_id"]) + 1
    for answer, code in ((short.order("nothing"), "unknown_sku"),
                         (short.get("/stock/nothing"), "unknown_sku"),
                         (short.get(f"/order/{unknown}"), "unknown_order")):
        assert (answer.status, answer.json()["code"]) == (404, code)
    assert short.admin("GET", "/admin/orders?sku=zero").status == 200
    assert audit(daemon, two) == [2, 1]


def test_ids_of_other_shards_are_unknown_while_there_are_none(two, spawn):
    """Those that a version before has made name any shard."""
    daemon = spawn(two.stacks[0], mysql_url=two.ledgers[0].url)
    daemon.reset("zero", 10, 2)
    order_id = int(daemon.order("zero").json()["order_id"])
    assert daemon.get(f"/order/{order_id + (5 << 8)}").json()["code"] == "unknown_order"
    assert daemon.admin("GET", "/admin/orders").status == 200


def test_a_sale_that_another_daemon_made_is_found(two, daemon, spawn):
    other = spawn(two.stacks[0], mysql_url=two.url)
    for shard in (0, 1):
        place(daemon, shard, 10, f"new{shard}")
        found = other.order(f"new{shard}")
        assert found.status == 201 and shard_of(found.json()["order_id"]) == shard
    place(daemon, 1, 10, "late")
    assert other.get("/stock/late").json()["available"] == 10


def test_a_list_in_another_order_is_refused(two, daemon, spawn):
    daemon.stop()
    wrong = spawn(two.stacks[0], mysql_url=" ".join(reversed(two.url.split())), ready=False)
    wait_until(lambda: wrong.log().count("event=shard_mismatch") >= 1, "the mismatch to be noticed",
               timeout=PATIENCE_S)
    assert wrong.get("/readyz").status == 503


@contextmanager
def locked_keys(ledger):
    """Whoever looks keys up waits; nothing else does."""
    connection = pymysql.connect(host=ledger.host, port=ledger.port, user=ledger.user,
                                 password=ledger.password, database=ledger.database)
    with connection, connection.cursor() as cursor:
        cursor.execute("LOCK TABLES order_key WRITE")
        yield


def test_an_order_looks_for_its_shard_while_the_daemon_ends(two, spawn):
    """All that wait for nothing have ended when its worker gives up on the look-up of its key."""
    daemon = spawn(two.stacks[0], mysql_url=two.url, mysql_timeout_ms=2000, drain_ms=100,
                   env={"MALLOC_PERTURB_": "165"})  # what is freed reads as nonsense
    with locked_keys(two.stacks[0].ledger), ThreadPoolExecutor() as pool:
        order = pool.submit(daemon.order, "unknown", key="k")
        wait_until(lambda: daemon.metric("seckill_queue_depth") > 0, "the order in its queue")
        assert daemon.stop() in (0, None)
        assert order.result().status == 503


def test_an_order_that_finds_its_shard_full_is_refused_as_overloaded(two, spawn):
    """Not as if a server were down."""
    daemon = spawn(two.stacks[0], mysql_url=two.url, queue_max=2, mysql_timeout_ms=60_000,
                   lease_ms=60_000, deadline_ms=60_000)
    place(daemon, 1, 1000)
    two.stacks[0].ledger.run("INSERT INTO sale_shard (sku, shard) VALUES ('far', 1)")
    with ThreadPoolExecutor() as pool, locked_keys(two.stacks[1].ledger):
        orders = [pool.submit(daemon.order, "one", key=f"k{n}", timeout=60) for n in range(2)]
        wait_until(lambda: daemon.metric("seckill_queue_depth") == 2, "a full queue")
        answer = daemon.order("far")
    assert (answer.status, answer.json()["code"]) == (503, "overloaded")
    assert [order.result().status for order in orders] == [201, 201]
    assert daemon.metrics()['seckill_orders_total{outcome="overloaded"}'] == 1


def test_the_daemon_ends_while_a_ledger_hangs(two, spawn, load):
    daemon = spawn(two.stacks[0], mysql_url=two.url, mysql_timeout_ms=1000, drain_ms=2000)
    for shard in (0, 1):
        place(daemon, shard, 1_000_000)
    loads = [load(daemon, skus=[sku], connections=8, seconds=60, stop_after=10**9) for sku in SKUS]
    for one in loads:
        one.wait_answered()
    two.ledgers[1].signal(signal.SIGSTOP)
    wait_until(lambda: states(daemon)[1] == "down", "the ledger to be seen as down")
    assert daemon.order("zero").status == 201
    began = time.monotonic()
    assert daemon.stop() in (0, None)
    print(f"the daemon ended {time.monotonic() - began:.2f} s after it was told to")
    assert "event=node_not_released" not in daemon.log()  # nobody waited for the hung one again
    accepted = [one.stop().accepted for one in loads]
    two.ledgers[1].signal(signal.SIGCONT)
    audit(spawn(two.stacks[0], mysql_url=two.url), two, accepted)
