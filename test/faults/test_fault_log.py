"""What the daemon says when a server fails: which one, what it was at, what that means for orders;
and nothing of what must stay secret."""

import os
import re
import resource
import socket
import subprocess
import time
from contextlib import ExitStack

import pytest

from harness.client import assert_problem
from harness.processes import PROGRAM, clean_environment, free_port, wait_until
from harness.proxy import COMMIT

PAIR = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\S*)')
SECRET = "s3cr3t-w0rd"


def events(daemon, name):
    """The lines of one event, each as {key: value}."""
    lines = [line for line in daemon.log().splitlines() if f" event={name} " in line + " "]
    return [{key: value.strip('"') for key, value in PAIR.findall(line)} for line in lines]


def detail(response):
    return response.json()["detail"]


def one_second(lines):
    """True when no two of them, sums apart, were written in the same second."""
    seconds = [line["ts"][:19] for line in lines if "effect" in line]
    return len(seconds) == len(set(seconds))


def both_through(proxies, stack):
    redis, ledger = proxies(stack.redis.address[1]), proxies(stack.ledger.port)
    return redis, ledger, {"redis_url": redis.url(stack.redis_url),
                           "mysql_url": ledger.url(stack.mysql_url)}


def test_only_the_server_that_failed_is_blamed(stack, proxies, spawn):
    redis, ledger, urls = both_through(proxies, stack)
    # One worker: another would find only later that Redis is back.
    daemon = spawn(stack, order_workers=1, **urls)
    daemon.reset("demo", 100, 4)
    redis.refuse()
    response = daemon.order()
    assert_problem(response, 503, "unavailable")
    assert "Redis" in detail(response) and "ledger" not in detail(response)
    redis.admit()
    wait_until(lambda: daemon.order().status == 201, "an order")
    assert {line["server"] for line in events(daemon, "unavailable")} == {"redis"}
    ledger.refuse()
    response = daemon.order()
    assert_problem(response, 503, "unavailable")
    assert "ledger" in detail(response) and "Redis" not in detail(response)
    line = [line for line in events(daemon, "unavailable") if line["server"] == "ledger"][0]
    assert line["address"] == f"127.0.0.1:{ledger.port}"
    assert line["doing"] and line["error"] and int(line["calls"]) > 0
    assert "nothing was done" in line["effect"]

    def lines():
        assert daemon.order().status == 503
        return [line for line in events(daemon, "unavailable") if line["server"] == "ledger"]
    wait_until(lambda: any("suppressed" in line for line in lines()), "lines left out", pause=0)
    assert one_second(lines())
    ledger.admit()


def test_lookups_that_fail_are_logged(stack, proxies, spawn):
    _, ledger, urls = both_through(proxies, stack)
    daemon = spawn(stack, **urls)
    daemon.reset("demo", 10, 1)
    ledger.refuse()
    for path in ("/order/1", "/stock/demo?exact=1", "/stock/other", "/user/u1/orders"):
        response = daemon.get(path)
        assert_problem(response, 503, "unavailable")
        assert "ledger" in detail(response)
    assert_problem(daemon.admin("GET", "/admin/sales"), 503, "unavailable")
    for name in ("lookups_failed", "lists_failed", "admin_failed"):
        wait_until(lambda: events(daemon, name), name)
        line = events(daemon, name)[0]
        assert line["server"] == "ledger"
        assert line["address"] == f"127.0.0.1:{ledger.port}"
    ledger.admit()


def test_answer_after_a_failure_is_no_failure(stack, proxies, spawn):
    _, ledger, urls = both_through(proxies, stack)
    daemon = spawn(stack, http_threads=1, **urls)
    daemon.reset("demo", 10, 1)
    ledger.refuse()
    assert_problem(daemon.get("/stock/demo"), 503, "unavailable")
    ledger.admit()
    wait_until(lambda: daemon.get("/stock/demo").status == 200, "the stock")
    assert daemon.get("/order/1").status == 404  # the worker has logged what was before
    assert {line["server"] for line in events(daemon, "lookups_failed")} == {"ledger"}


def test_ledger_that_hangs_leaves_a_line_for_the_order_it_cost(stack, proxies, spawn):
    _, ledger, urls = both_through(proxies, stack)
    # An order whose time is over before its commit is sent is not accepted.
    daemon = spawn(stack, deadline_ms=5000, **urls)
    daemon.reset("demo", 10, 1)
    wait_until(lambda: daemon.order().status == 201, "an order")
    trap = ledger.once(COMMIT, before=lambda link: ledger.hold())
    response = daemon.order(user_id="u2")
    trap.wait()
    assert_problem(response, 503, "outcome_unknown")
    ledger.resume()
    wait_until(lambda: events(daemon, "orders_late"), "a line for the late order")
    line = events(daemon, "orders_late")[0]
    assert (line["server"], line["orders"], line["accepted"]) == ("ledger", "1", "1")
    assert line["address"] == f"127.0.0.1:{ledger.port}"


def test_commit_in_doubt_names_the_ledger_and_the_commit(stack, proxies, spawn):
    _, ledger, urls = both_through(proxies, stack)
    daemon = spawn(stack, deadline_ms=1000, **urls)
    daemon.reset("demo", 10, 1)
    daemon.order()

    def lose(link):
        ledger.refuse()
    ledger.once(COMMIT, before=lose)
    wait_until(lambda: daemon.order(user_id="u2") and events(daemon, "commit_in_doubt"),
               "a line for the commit")
    assert {line["server"] for line in events(daemon, "commit_in_doubt")} == {"ledger"}
    ledger.admit()


def test_recoveries_are_logged(private_stack, spawn):
    daemon = spawn(private_stack)
    daemon.reset("demo", 100, 4)
    assert daemon.order().status == 201
    private_stack.redis("FLUSHALL")
    wait_until(lambda: daemon.order().status == 201 and events(daemon, "segments_recovered"),
               "a recovery")
    line = events(daemon, "segments_recovered")[0]
    assert int(line["segments"]) > 0 and line["server"] == "redis"
    assert "no order is lost" in line["effect"]


def test_wrong_ports_at_start_are_named_once_a_second(stack, spawn):
    port = free_port()
    daemon = spawn(stack, ready=False, mysql_url=f"mysql://u:{SECRET}@127.0.0.1:{port}/db",
                   redis_url=f"redis://:{SECRET}@127.0.0.1:{port}/0")
    for name in ("ledger_not_ready", "ledger_down", "redis_down"):
        wait_until(lambda: events(daemon, name), name)
        assert events(daemon, name)[0]["address"] == f"127.0.0.1:{port}"
    wait_until(lambda: len(events(daemon, "ledger_not_ready")) > 1, "the next second")
    assert one_second(events(daemon, "ledger_not_ready"))
    assert SECRET not in daemon.log()


def test_redis_that_evicts_is_warned_of(private_stack, spawn):
    private_stack.redis("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        daemon = spawn(private_stack)
        wait_until(lambda: events(daemon, "redis_evicts"), "the warning")
        assert events(daemon, "redis_evicts")[0]["maxmemory_policy"] == "allkeys-lru"
    finally:
        private_stack.redis("CONFIG", "SET", "maxmemory-policy", "noeviction")
    daemon = spawn(private_stack)
    time.sleep(0.3)
    assert not events(daemon, "redis_evicts")


def test_changes_are_logged_by_name_with_their_caller(stack, spawn):
    daemon = spawn(stack)
    daemon.reset("demo", 100, 4, per_user_limit=5)
    daemon.change("demo", paused=True, per_user_limit=3, pay_within_s=None)
    daemon.add(7)
    daemon.reconcile()
    assert daemon.admin("PATCH", "/admin/sale/none", {"paused": True}).status == 404
    reset, add = events(daemon, "reset")[0], events(daemon, "restock")[0]
    assert (reset["total"], reset["per_user_limit"], reset["result"]) == ("100", "5", "ok")
    assert (add["units"], add["result"]) == ("7", "ok")
    done, refused = events(daemon, "change")
    assert (done["paused"], done["per_user_limit"], done["pay_within_s"], done["result"]) == \
        ("true", "3", "none", "ok")
    assert refused["result"] == "unknown_sku"
    for line in (reset, add, done, refused, events(daemon, "reconcile")[0]):
        assert line["address"] == "127.0.0.1"


def test_clients_that_cannot_be_let_in_are_logged(stack, spawn):
    daemon = spawn(stack)
    daemon.get("/healthz")
    pid = daemon.process.pid
    limit = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = max(int(fd) for fd in os.listdir(f"/proc/{pid}/fd")) + 1
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (used, limit[1]))
    with ExitStack() as clients:
        for _ in range(20):
            clients.enter_context(socket.create_connection(daemon.address))
        wait_until(lambda: events(daemon, "not_accepting"), "a line for the clients")
        assert one_second(events(daemon, "not_accepting"))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limit)
    wait_until(daemon.ready, "it serves again")


# secrets

URLS = {"redis_url": f"redis://app:{SECRET}@%s/0", "mysql_url": f"mysql://app:{SECRET}@%s/db",
        "lock_servers": f"redis://:{SECRET}@%s redis://:{SECRET}@%s redis://{SECRET}@%s"}


@pytest.mark.parametrize("changes", [
    {},
    {"redis_url": f"REDIS://:{SECRET}@127.0.0.1:1/0"},
    {"redis_url": f"redis://:{SECRET}@127.0.0.1:x/0"},
    {"mysql_url": f"MYSQL://root:{SECRET}@127.0.0.1:1/db"},
    {"mysql_url": f"mysql://root:{SECRET}@/db"},
    {"lock": "redlock"},
    {"lock": "redlock", "lock_servers": f"REDIS://:{SECRET}@a:1,REDIS://:{SECRET}@b:1"},
    {"lock": "mysql", "lock_servers": f"MYSQL://root:{SECRET}@127.0.0.1:1/db"},
    {"lock": "mysql", "lock_servers": f"pgsql://root:{SECRET}@127.0.0.1:1/db"},
    {"admin_token": f"{SECRET} {SECRET}", "shop_token": f"{SECRET}\t\x01"},
    {"listen": "127.0.0.1"},
    {"strategy": "none"},
], ids=lambda changes: "-".join(changes) or "all")
def test_no_secret_reaches_the_log(changes):
    """Whatever is wrong at a start, and with passwords in all options that take one."""
    nowhere = f"127.0.0.1:{free_port()}"
    options = {name: url.replace("%s", nowhere) for name, url in URLS.items()}
    options |= {"listen": "127.0.0.1:0", "admin_token": SECRET, "shop_token": SECRET,
                "mysql_timeout_ms": "300", "redis_timeout_ms": "300", "log_level": "debug"}
    options |= changes
    env = clean_environment() | {f"SECKILL_{name.upper()}": value
                                 for name, value in options.items()}
    process = subprocess.Popen([PROGRAM], env=env, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, bufsize=0)
    text = process.stdout.readline()  # a slow machine takes its time until here
    try:
        process.wait(0.7)
    except subprocess.TimeoutExpired:
        process.terminate()
    text = (text + process.communicate(timeout=20)[0]).decode(errors="replace")
    assert text and SECRET not in text
