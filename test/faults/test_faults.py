"""Redis and MariaDB fail in every way that we know; nothing is oversold, lost or leaked."""

import secrets
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlsplit

import pytest

from harness.audit import answered, audit, audit_after_faults, sell_out_after_faults
from harness.client import assert_problem
from harness.daemon import HASTY, STEADY
from harness.ledger import kill_sessions
from harness.processes import wait_until
from harness.proxy import COMMIT, WRITE, Link
from harness.servers import is_mysql
from test_fault_log import events

ANSWERS = {"201", "409 sold_out", "503 unavailable", "503 outcome_unknown", "503 overloaded",
           "503 no_order_id"}
STRIKES_MIN = 3  # in mid-load; a busy machine lets us strike more seldom
HANG_SECONDS = 20  # far more than any deadline used here


def orders_of(stack, user_id):
    return stack.ledger.number(f"SELECT COUNT(*) FROM orders WHERE user_id = '{user_id}'")


def assert_clear(daemon, response, user_id):
    """From the answer the client can find out what became of its order."""
    assert response.answer in ANSWERS
    order_id = response.json().get("order_id")
    rows = orders_of(daemon.stack, user_id)
    if response.status == 201:
        assert rows == 1
    elif response.code == "outcome_unknown":
        found = answered(lambda: daemon.get(f"/order/{order_id}"))
        assert found.status == (200 if rows else 404)
    else:
        assert rows == 0, f"{response.answer}, but the order is in the ledger"


def sell_out_and_audit(daemon, total, loads=(), accepted=()):
    """After the fault: sold out to exactly the total, with every acknowledged order."""
    accepted = list(accepted)
    for one in loads:
        accepted += one.wait().accepted
        assert set(one.answers) <= ANSWERS
        assert one.errors["timeout"] == 0
    known = sell_out_after_faults(daemon)
    assert audit_after_faults(daemon, accepted=accepted + known) == total


def row_waits(stack):
    """How often transactions have waited for rows that others held."""
    return stack.ledger.status("Innodb_row_lock_waits")


def test_held_row_of_one_sale_leaves_the_others_alone(stack, spawn):
    """A session, such as an operator's, holds the rows of one sale. Each of the two workers may
    wait for it once; they try each of the thirty orders three times."""
    daemon = spawn(stack, order_workers=2)
    for sku, segments in (("demo", 1), ("other", 20)):
        daemon.reset(sku, 1000, segments)
    ids = {sku: daemon.order(sku, user_id="first").json()["order_id"] for sku in ("demo", "other")}

    def buy(sku, count):
        return Counter(daemon.order(sku, key=secrets.token_hex(8)).answer for _ in range(count))

    def buy_all(*skus):
        bought = [pool.submit(buy, sku, 10) for sku in skus]
        return [answers.result() for answers in bought]

    waits = row_waits(stack)
    with ThreadPoolExecutor(8) as pool:
        with stack.ledger.transaction("SELECT * FROM stock_segment WHERE sku = 'demo' FOR UPDATE"):
            first = buy_all("demo", "demo", "other", "other")
            assert first == 2 * [{"503 unavailable": 10}] + 2 * [{"201": 10}]
            cancels = [pool.submit(daemon.cancel, ids[sku]) for sku in ("demo", "other")]
            assert [call.result().status for call in cancels] == [503, 200]
            assert buy_all("other", "demo", "other") == [{"201": 10}, {"503 unavailable": 10},
                                                         {"201": 10}]
            waits = row_waits(stack) - waits
        wait_until(lambda: daemon.order("demo").status == 201, "the row to be free")
        assert daemon.cancel(ids["demo"]).status == 200
        assert buy_all("demo", "other") == 2 * [{"201": 10}]
    rows = [row for row in events(daemon, "row_held") if "suppressed" not in row]
    assert {row["sku"] for row in rows} == {"demo"}
    # MySQL ends waits once a second: the worker that knows no row may tell of it first.
    assert "stock_segment 0" in [row["row"] for row in (rows if is_mysql() else rows[:1])]
    assert all(row["holder"] == "unknown" or row["holder"].startswith("connection ")
               for row in rows)
    assert waits < 10, waits
    assert audit_after_faults(daemon, "demo") == 11 and audit_after_faults(daemon, "other") == 50


def test_held_row_of_one_user_leaves_the_others_alone(stack, spawn):
    daemon = spawn(stack, order_workers=2)
    daemon.reset("demo", 1000, 4, per_user_limit=100)
    for user_id in ("u1", "u2"):
        assert daemon.order(user_id=user_id).status == 201
    waits = row_waits(stack)
    with stack.ledger.transaction("SELECT * FROM user_quota WHERE sku = 'demo' AND round = 1"
                                  " AND user_id = 'u1' FOR UPDATE"):
        for _ in range(5):
            assert daemon.order(user_id="u1").answer == "503 unavailable"
            assert daemon.order(user_id="u2").status == daemon.order(user_id="new").status == 201
        assert row_waits(stack) - waits <= 2  # each worker waits once
    wait_until(lambda: daemon.order(user_id="u1").status == 201, "the row to be free")
    assert audit_after_faults(daemon) == 13


# Redis forgets

def strike_in_mid_load(stack, loads, pause, strike):
    """Calls strike(number) again and again until a load ends. Counts the calls that found units
    left, by what they returned."""
    struck, number = Counter(), 0
    while all(one.process.poll() is None for one in loads):
        left = stack.ledger.number("SELECT SUM(capacity - sold) FROM stock_segment")
        what = strike(number)
        struck[what] += left > 0
        number += 1
        time.sleep(pause)
    return struck


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("command", ["FLUSHALL", "SCRIPT FLUSH"])
def test_redis_flushed_again_and_again_in_mid_load(stack, spawn, load, command):
    pair = spawn(stack), spawn(stack)
    redis = stack.redis
    pair[0].reset("demo", 2000, 20)
    loads = [load(daemon, connections=32, qty=(1, 2), delay_ms=50) for daemon in pair]
    struck = strike_in_mid_load(stack, loads, 0.01, lambda _: redis(*command.split()))
    assert struck["OK"] >= STRIKES_MIN, struck
    sell_out_and_audit(pair[0], 2000, loads)


def test_scripts_that_redis_forgot_run_in_their_order_all_the_same(daemon):
    """Else a lock would be released before its segment is settled, and leave it dirty."""
    redis = daemon.stack.redis
    daemon.reset("demo", 100, 20)
    for _ in range(10):
        daemon.stack.wait_unlocked()
        redis("SCRIPT", "FLUSH")
        assert daemon.order().status == 201
    assert daemon.reconcile()["differences"] == []
    assert daemon.metric("seckill_recoveries_total") == 0


def test_any_key_deleted_in_mid_load(stack, spawn, load):
    pair = spawn(stack), spawn(stack)
    redis = pair[0].stack.redis
    pair[0].reset("demo", 2000, 5)
    loads = [load(daemon, connections=32, delay_ms=50) for daemon in pair]
    kinds = ["lock", "fence", "segment"]

    def delete(number):
        kind = kinds[number % 3]
        segments = range(5) if kind == "lock" else [number % 5]  # of locks there are few at a time
        keys = [f"seckill:{{demo:{segment}}}:{kind}" for segment in segments]
        return kind if redis("DEL", *keys) else "nothing"
    struck = strike_in_mid_load(stack, loads, 0.001, delete)
    assert all(struck[kind] for kind in kinds), struck
    sell_out_and_audit(pair[0], 2000, loads)


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("lost", ["fences and locks", "fences", "nothing"])
def test_redis_goes_back_in_time(stack, spawn, lost):
    """As a replica that lagged behind or an old append-only file would: counters higher than the
    ledger has left, with every fence the old one, or none."""
    daemon = spawn(stack)
    redis = stack.redis
    daemon.reset("demo", 100, 4)
    daemon.order()
    old = {key: redis("DUMP", key) for key in redis("KEYS", "seckill:*") if b"lock" not in key}
    for _ in range(60):
        assert daemon.order().status == 201
    for key, value in old.items():
        redis("RESTORE", key, 0, value, "REPLACE")
    if lost != "nothing":
        for key in redis("KEYS", "seckill:*:fence"):
            redis("DEL", key)
    if lost == "fences and locks":
        for key in redis("KEYS", "seckill:*:lock"):
            redis("DEL", key)
    assert len(sell_out_after_faults(daemon)) == 39
    assert audit_after_faults(daemon) == 100


@pytest.mark.long
def test_redis_goes_back_in_time_again_and_again_in_mid_load(stack, spawn, load):
    pair = spawn(stack), spawn(stack)
    redis = pair[0].stack.redis
    pair[0].reset("demo", 2000, 5)
    old = {key: redis("DUMP", key) for key in redis("KEYS", "seckill:*") if b"lock" not in key}
    loads = [load(daemon, connections=32, delay_ms=50) for daemon in pair]

    def go_back(_):
        for key, value in old.items():
            redis("RESTORE", key, 0, value, "REPLACE")
        return len(old)
    struck = strike_in_mid_load(stack, loads, 0.02, go_back)
    assert old and struck[len(old)] >= STRIKES_MIN, struck
    sell_out_and_audit(pair[0], 2000, loads)


def test_segment_that_says_something_else_than_the_ledger(stack, spawn):
    daemon = spawn(stack)
    for number, command in enumerate((
            ("HSET", "available", "1000000"), ("HSET", "available", "0"),
            ("HSET", "available", "-5"), ("HSET", "available", "rubbish"), ("HSET", "round", "99"),
            ("HSET", "settled", "1"), ("HSET", "settled", "99999999999999999"),
            ("HDEL", "settled"), ("HDEL", "available"), ("HSET", "open", "nobody"), ("DEL",))):
        print(*command)
        sku = f"case-{number}"
        daemon.reset(sku, 9, 3)
        daemon.order(sku)
        for segment in range(3):
            stack.redis(command[0], f"seckill:{{{sku}:{segment}}}:segment", *command[1:])
        assert len(sell_out_after_faults(daemon, sku)) == 8
        assert audit_after_faults(daemon, sku) == 9


def test_order_for_more_than_redis_knows_of(stack, spawn):
    """As when units came back to the ledger, and Redis has lost what it was told of them."""
    daemon = spawn(stack)
    daemon.reset("demo", 30, 3)
    for segment in range(3):
        stack.redis("HSET", f"seckill:{{demo:{segment}}}:segment", "available", "2")
    assert answered(lambda: daemon.order(qty=25)).status == 201
    assert len(sell_out_after_faults(daemon)) == 5
    assert audit_after_faults(daemon) == 30


def test_ledger_that_has_seen_later_fences_than_redis(stack, spawn):
    """As when another server takes over whose clock is an hour behind."""
    daemon = spawn(stack)
    daemon.reset("demo", 30, 3)
    daemon.order()
    stack.ledger.run("UPDATE stock_segment SET fence = fence + 3600 * 1000000")
    assert answered(daemon.order).status == 201
    assert len(sell_out_after_faults(daemon)) == 28
    assert audit_after_faults(daemon) == 30


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("kind", ["lock", "fence", "segment"])
def test_key_of_the_wrong_type(stack, spawn, kind):
    """Only the segment of the key may suffer, until somebody removes the key."""
    daemon = spawn(stack)
    redis = stack.redis
    daemon.reset("demo", 30, 3)
    redis("DEL", f"seckill:{{demo:1}}:{kind}")
    redis("SADD", f"seckill:{{demo:1}}:{kind}", "x")
    for _ in range(10):
        assert daemon.order().answer in ANSWERS
    redis("DEL", f"seckill:{{demo:1}}:{kind}")
    sell_out_after_faults(daemon)
    assert audit_after_faults(daemon) == 30


# Redis is not there

def assert_unavailable(daemon, part):
    """While it cannot serve it says so, in time. The batch that was under way when the server went
    may still be in doubt, so one order is let go ahead."""
    daemon.order(user_id="before")
    started = time.monotonic()
    response = daemon.order(user_id="during")
    assert_problem(response, 503, response.code)
    assert response.code in ("unavailable", "overloaded")
    ready = daemon.get("/readyz")
    assert (ready.status, ready.json()["status"]) == (503, "unavailable")
    assert ready.json()[part] == "down"
    assert time.monotonic() - started < HANG_SECONDS
    assert daemon.get("/healthz").status == 200


def is_down(daemon, part):
    response = daemon.get("/readyz")
    return response.status == 503 and response.json()[part] == "down"


def test_redis_stopped_for_3_s_in_mid_load(private_stack, spawn, load):
    daemon = spawn(private_stack, **HASTY)
    daemon.reset("demo", 1_000_000, 20)
    running = load(daemon, connections=32, seconds=250, delay_ms=100)
    wait_until(lambda: running.accepted, "an accepted order")
    private_stack.redis_server.signal(signal.SIGSTOP)
    stopped = time.monotonic()
    wait_until(lambda: is_down(daemon, "redis"), "redis down in /readyz")
    assert_unavailable(daemon, "redis")
    time.sleep(max(0, 3 - (time.monotonic() - stopped)))
    private_stack.redis_server.signal(signal.SIGCONT)
    daemon.wait_ready()
    wait_until(lambda: daemon.order().status == 201, "an order")
    running.stop()
    assert set(running.answers) <= ANSWERS
    audit_after_faults(daemon, accepted=running.accepted)


@pytest.mark.long
@pytest.mark.parametrize("empty", [True, False], ids=["empty", "with its data"])
def test_redis_killed_and_restarted_in_mid_load(private_stack, spawn, load, empty):
    pair = [spawn(private_stack) for _ in range(2)]
    pair[0].reset("demo", 1000, 20)
    loads = [load(daemon, connections=32, seconds=250, delay_ms=100) for daemon in pair]
    wait_until(lambda: loads[0].accepted, "an accepted order")
    private_stack.redis_server.kill()
    for daemon in pair:
        wait_until(lambda: is_down(daemon, "redis"), "redis down in /readyz")
        assert_unavailable(daemon, "redis")
    if empty:
        private_stack.redis_server.forget()
    private_stack.redis_server.start()
    for daemon in pair:
        daemon.wait_ready()
    wait_until(lambda: pair[1].order().answer in ("201", "409 sold_out"), "an order")
    sell_out_and_audit(pair[0], 1000, loads)


def test_redis_that_says_no_to_writes(private_stack, spawn):
    """OOM under noeviction; and a replica that was promoted the other way."""
    daemon = spawn(private_stack, deadline_ms=1000)
    daemon.reset("demo", 20, 4)
    for refuse, allow in [("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
                          ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE")]:
        private_stack.redis(*refuse.split())
        response = daemon.order()
        assert_problem(response, 503, response.code)
        private_stack.redis(*allow.split())
        wait_until(lambda: daemon.order().status == 201, "an order")
    sell_out_after_faults(daemon)
    assert audit_after_faults(daemon) == 20


def test_redis_that_fills_up_under_an_order_settles_it(private_stack, proxies, spawn):
    """Its lock and its mark go although Redis takes no more memory; else nothing would be sold
    until the lease ends, and then only after a recovery."""
    ledger = proxies(private_stack.ledger.port)
    daemon = spawn(private_stack, mysql_url=ledger.url(private_stack.mysql_url), **STEADY)
    daemon.reset("demo", 20, 1)
    trap = ledger.once(WRITE, before=lambda _: private_stack.redis("CONFIG", "SET", "maxmemory", 1))
    first = daemon.order()
    trap.wait()
    assert first.status == 201
    wait_until(lambda: private_stack.redis.hash("seckill:{demo:0}:segment")["open"] == "",
               "the end of the round")
    private_stack.redis("CONFIG", "SET", "maxmemory", 0)
    assert audit(daemon, accepted=[(first.json()["order_id"], 1)]) == 1


def test_redis_answers_lost(stack, proxies, spawn):
    """Thirty times, at whatever request comes first; a take is among them."""
    proxy = proxies(stack.redis.address[1])
    daemon = spawn(stack, redis_url=proxy.url(stack.redis_url))
    daemon.reset("demo", 60, 3)
    accepted = []
    for number in range(30):
        trap = proxy.once(rb"seckill:\{demo", after=Link.cut)
        response = daemon.order(user_id=f"u{number}")
        trap.wait()
        assert_clear(daemon, response, f"u{number}")
        if response.status == 201:
            accepted.append((response.json()["order_id"], 1))
    sell_out_and_audit(daemon, 60, accepted=accepted)


def test_redis_requests_lost(stack, proxies, spawn):
    proxy = proxies(stack.redis.address[1])
    daemon = spawn(stack, redis_url=proxy.url(stack.redis_url))
    daemon.reset("demo", 60, 3)
    for number in range(10):
        trap = proxy.once(rb"seckill:\{demo", before=Link.cut)
        response = daemon.order(user_id=f"u{number}")
        trap.wait()
        assert_clear(daemon, response, f"u{number}")
    sell_out_and_audit(daemon, 60)


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("fault", ["hold", "deaf", "refuse"])
def test_redis_unreachable_by_the_network(stack, proxies, spawn, fault):
    proxy = proxies(stack.redis.address[1])
    daemon = spawn(stack, redis_url=proxy.url(stack.redis_url), deadline_ms=1000, **HASTY)
    other = spawn(stack)
    daemon.reset("demo", 20, 4)
    responses = break_and_order(daemon, proxy, fault)
    assert other.order().status == 201
    heal_and_check(daemon, proxy, responses)


def break_and_order(daemon, proxy, fault):
    """Breaks the way to one server; {user_id: answer} of orders meanwhile."""
    proxy.fail(fault)
    started = time.monotonic()
    responses = {user_id: daemon.order(user_id=user_id) for user_id in ("d1", "d2", "d3")}
    assert time.monotonic() - started < HANG_SECONDS
    for response in responses.values():
        assert_problem(response, 503, response.code)
    wait_until(lambda: not daemon.ready(), "/readyz 503")
    return responses


def heal_and_check(daemon, proxy, responses):
    proxy.heal()
    wait_until(lambda: daemon.order().status == 201, "an order")
    for user_id, response in responses.items():
        assert_clear(daemon, response, user_id)
    sell_out_and_audit(daemon, 20)


# MariaDB

def test_mariadb_killed_and_restarted_in_mid_load(private_stack, spawn, load):
    pair = [spawn(private_stack) for _ in range(2)]
    pair[0].reset("demo", 1000, 20)
    loads = [load(daemon, connections=32, seconds=250, delay_ms=100) for daemon in pair]
    wait_until(lambda: loads[0].accepted, "an accepted order")
    private_stack.maria_server.kill()
    for daemon in pair:
        wait_until(lambda: is_down(daemon, "ledger"), "ledger down in /readyz")
        assert_unavailable(daemon, "ledger")
        assert_problem(daemon.get("/order/1"), 503, "unavailable")
        assert_problem(daemon.get("/stock/demo"), 503, "unavailable")
        assert_problem(daemon.admin("GET", "/admin/sales"), 503, "unavailable")
    private_stack.maria_server.start()
    for daemon in pair:
        daemon.wait_ready()
    wait_until(lambda: pair[1].order().answer in ("201", "409 sold_out"), "an order")
    sell_out_and_audit(pair[0], 1000, loads)


@pytest.mark.long
def test_mariadb_killed_five_times_over(private_stack, spawn, load):
    daemon = spawn(private_stack, deadline_ms=1000)
    daemon.reset("demo", 10_000_000, 20)
    running = load(daemon, connections=64, seconds=250, delay_ms=100)
    for _ in range(5):
        before = len(running.accepted)
        wait_until(lambda: len(running.accepted) > before, "orders")
        private_stack.maria_server.kill()
        private_stack.maria_server.start()
    running.stop()
    assert set(running.answers) <= ANSWERS
    daemon.wait_ready()
    wait_until(lambda: daemon.order().status == 201, "an order")
    audit_after_faults(daemon, accepted=running.accepted)
    for order_id in running.unclear[:20]:
        in_ledger = private_stack.ledger.number(
            f"SELECT COUNT(*) FROM orders WHERE order_id = {order_id}")
        assert daemon.get(f"/order/{order_id}").status == (200 if in_ledger else 404)


@pytest.mark.parametrize("pattern, lost", [
    (WRITE, "request"), (WRITE, "answer"), (COMMIT, "request"), (COMMIT, "answer")],
    ids=["write lost", "answer to the write lost", "commit lost", "answer to the commit lost"])
def test_connection_to_the_ledger_lost_in_an_order(stack, proxies, spawn, pattern, lost):
    """Of one segment, and of several. The daemon may try again or give up, but it never says what
    is not true."""
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url))
    for units, sku in ((1, "one"), (9, "several")):
        victim = f"victim-{sku}"
        order = {"sku": sku, "user_id": victim, "qty": units, "key": "k"}
        daemon.reset(sku, 20, 5)
        daemon.order(sku)
        trap = proxy.once(pattern, **{"before" if lost == "request" else "after": Link.cut})
        response = daemon.order(**order)
        trap.wait()
        assert_clear(daemon, response, victim)
        if (pattern, lost) == (COMMIT, "answer"):
            assert orders_of(stack, victim) == 1
        repeat = answered(lambda order=order: daemon.order(**order))
        assert repeat.status in (200, 201)
        assert orders_of(stack, victim) == 1
        sell_out_after_faults(daemon, sku)
        assert audit_after_faults(daemon, sku) == 20


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("lost", ["answer", "request"])
def test_commit_and_then_the_whole_ledger_out_of_reach(stack, proxies, spawn, lost):
    """It cannot be settled within the deadline: outcome_unknown, with the id to ask for later."""
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url), deadline_ms=1000)
    daemon.reset("demo", 20, 5)
    daemon.order()
    trap = proxy.once(COMMIT, **{"before" if lost == "request" else "after":
                                 lambda _: proxy.refuse()})
    response = wait_until(  # an order that comes late to its commit is not committed
        lambda: (told := daemon.order(user_id="victim", key="k")).code == "outcome_unknown"
        and trap.sprung.is_set() and told, "a commit in doubt")
    assert_problem(response, 503, "outcome_unknown")
    in_ledger = orders_of(stack, "victim")
    assert in_ledger == (0 if lost == "request" else 1)
    proxy.admit()
    daemon.wait_ready()
    assert_clear(daemon, response, "victim")
    repeat = answered(lambda: daemon.order(user_id="victim", key="k"))
    assert repeat.status == (200 if in_ledger else 201)
    if in_ledger:
        assert repeat.json()["order_id"] == response.json()["order_id"]
    sell_out_after_faults(daemon)
    assert audit_after_faults(daemon) == 20


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("pattern", [WRITE, COMMIT], ids=["write", "commit"])
@pytest.mark.parametrize("seconds", [0.3, 1.2])
def test_transaction_that_arrives_late(stack, proxies, spawn, pattern, seconds):
    """Its connection is lost, but what was sent reaches the server when the daemon has long asked
    what became of it: then it must be refused, or known."""
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url), deadline_ms=3000)
    daemon.reset("demo", 20, 1)
    daemon.order()

    def arrive_late(link):
        link.cut_client()
        time.sleep(seconds)
    trap = proxy.once(pattern, before=arrive_late)
    response = daemon.order(user_id="victim", key="k")
    trap.wait()
    time.sleep(seconds + 0.1)
    assert_clear(daemon, response, "victim")
    sell_out_after_faults(daemon)
    assert audit_after_faults(daemon) == 20


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("fault", ["hold", "deaf", "refuse"])
def test_ledger_unreachable_by_the_network(stack, proxies, spawn, fault):
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url), deadline_ms=1000,
                   mysql_timeout_ms=3000)
    daemon.reset("demo", 20, 4)
    daemon.order()
    responses = break_and_order(daemon, proxy, fault)
    heal_and_check(daemon, proxy, responses)


def test_idle_connections_closed_by_the_servers_go_unnoticed(daemon):
    """As wait_timeout and `CLIENT KILL` do: the next call of each kind just connects again."""
    def close_all():
        daemon.stack.wait_unlocked()  # else a lock stays for a lease
        daemon.stack.redis("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        assert kill_connections(daemon.stack) > 0
    daemon.reset()
    order_id = daemon.order().json()["order_id"]
    for call in (lambda: daemon.order().status == 201,
                 lambda: daemon.get(f"/order/{order_id}").status == 200,
                 lambda: daemon.stock()["sold"] == 2,
                 lambda: daemon.reconcile()["consistent"],
                 lambda: daemon.reset("demo", 5, 1)["round"] == 2,
                 lambda: daemon.admin("GET", "/admin/sales").status == 200,
                 lambda: daemon.order().status == 201):
        for _ in range(3):  # the threads for look-ups, one after the other
            daemon.get(f"/order/{order_id}")
        close_all()
        assert call()


def kill_connections(stack):
    """Kills the sessions of all daemons and returns how many there were. It comes by the daemons'
    way: by another it is another account, whose sessions alone it sees."""
    socket, = parse_qs(urlsplit(stack.mysql_url).query).get("socket", [None])
    with stack.ledger.connect(stack.ledger.database, socket=socket) as connection:
        return kill_sessions(connection, "db = DATABASE() AND id <> CONNECTION_ID()")


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("part", ["redis", "ledger"])
def test_readyz_says_which_part_hangs(stack, proxies, spawn, part):
    proxy = proxies(stack.redis.address[1] if part == "redis" else stack.ledger.port)
    url = "redis_url" if part == "redis" else "mysql_url"
    daemon = spawn(stack, **{url: proxy.url(getattr(stack, url))}, deadline_ms=1000)
    proxy.hold()
    took = []

    def says_so():  # after a standstill the other part is down, too, until it is asked again
        started = time.monotonic()
        answer = daemon.get("/readyz").json()
        took.append(time.monotonic() - started)
        return answer == {"status": "unavailable", "redis": "ok", "ledger": "ok", part: "down"}
    for _ in range(3):
        wait_until(says_so, f"only {part} down in /readyz", timeout=HANG_SECONDS)
    assert min(took[-3:]) < 0.5, took  # a busy machine may stop everything for a while
    proxy.resume()
    daemon.wait_ready()


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("part", ["redis", "ledger"])
def test_readyz_trusts_no_answer_that_is_older_than_a_second(stack, proxies, spawn, part):
    """The server answers each question within the time-outs, but the probe takes too long."""
    proxy = proxies(stack.redis.address[1] if part == "redis" else stack.ledger.port)
    url = "redis_url" if part == "redis" else "mysql_url"
    daemon = spawn(stack, **{url: proxy.url(getattr(stack, url))})
    proxy.delay = 0.42  # each way; with the pause between two probes more than a second
    wait_until(lambda: is_down(daemon, part), f"{part} down in /readyz", timeout=10)
    proxy.delay = 0
    daemon.wait_ready()


@pytest.mark.long
def test_everything_cut_again_and_again_in_mid_load(stack, proxies, spawn, load):
    links = [proxies(stack.redis.address[1]), proxies(stack.ledger.port)]
    pair = [spawn(stack, redis_url=links[0].url(stack.redis_url),
                  mysql_url=links[1].url(stack.mysql_url)) for _ in range(2)]
    pair[0].reset("demo", 1500, 20)
    loads = [load(daemon, connections=16, seconds=250, qty=(1, 2), delay_ms=80) for daemon in pair]
    for one in loads:
        one.wait_answered()
    hits = 0
    for number in range(20):
        time.sleep(0.05)
        hits += links[number % 2].cut() > 0
    assert hits >= 10
    for daemon in pair:
        daemon.wait_ready()
    sell_out_and_audit(pair[0], 1500, loads)


@pytest.mark.long
def test_connections_killed_by_the_database_in_mid_load(stack, spawn, load):
    """KILL of every connection, as an administrator would send it."""
    pair = spawn(stack), spawn(stack)
    pair[0].reset("demo", 1000, 5)
    loads = [load(daemon, connections=32, seconds=250, delay_ms=100) for daemon in pair]
    for one in loads:
        one.wait_answered()
    hits = 0
    for _ in range(10):
        hits += kill_connections(stack) > 0
        time.sleep(0.02)
    assert hits >= 5
    sell_out_and_audit(pair[0], 1000, loads)
