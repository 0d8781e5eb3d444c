"""The log as its readers need it: requests named in answers and lines, JSON, priorities, the access
log, the line of progress, a level and a drain that operators set."""

import json
import re
import signal
import time
from itertools import takewhile

from harness.client import assert_problem
from harness.processes import wait_until
from harness.standstill import timed

PAIR = re.compile(r'([\w.-]+)=("(?:[^"\\]|\\.)*"|\S*)')
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


def events(daemon, name):
    """The lines of one event, each as {key: value}."""
    lines = [line for line in daemon.log().splitlines() if f" event={name} " in line + " "]
    return [{key: value.strip('"') for key, value in PAIR.findall(line)} for line in lines]


def ids(response):
    return response.headers.get("X-Request-Id"), response.headers.get("traceparent")


# Requests and traces

def test_an_answer_names_its_request_as_the_client_did(daemon):
    daemon.reset()
    for method, path, body, status in (
            ("POST", "/order", {"sku": "demo", "user_id": "u1", "qty": 1}, 201),
            ("POST", "/order", {"sku": "none", "user_id": "u1", "qty": 1}, 404),
            ("GET", "/stock/demo", None, 200),
            ("GET", "/order/1", None, 404),
            ("GET", "/nothing", None, 404),
            ("PUT", "/order", None, 405),
            ("GET", "/metrics", None, 200),
            ("GET", "/openapi.json", None, 200),
            ("HEAD", "/stock/demo", None, 200),
            ("GET", "/readyz", None, 200)):
        def ask(headers=(), call=(method, path, body), status=status):
            # Once, but for /readyz once the machine has stood still.
            return wait_until(lambda: (answer := daemon.request(*call, headers)).status
                              == status and answer, f"an answer {status}")
        name, parent = ids(ask({"X-Request-Id": "shop-7", "traceparent": PARENT}))
        assert name == "shop-7", path
        assert re.fullmatch(rf"00-{TRACE}-[0-9a-f]{{16}}-01", parent) and parent != PARENT, path
        # The next answer is shared with others, and names nobody's request.
        assert ids(ask()) == (None, None), path


def test_operators_calls_name_their_requests(daemon):
    daemon.reset()
    assert daemon.order().status == 201
    bearer = {"Authorization": f"Bearer {daemon.token}"}
    for path in ("/admin/orders", "/admin/sales"):
        response = daemon.request("GET", path, headers={**bearer, "X-Request-Id": "ops:1"})
        assert (response.status, response.headers["X-Request-Id"]) == (200, "ops:1")
        made = daemon.request("GET", path, headers=bearer).headers["X-Request-Id"]
        assert re.fullmatch("[0-9a-f]{16}", made)


def test_ids_that_are_not_plain_are_ignored(daemon):
    daemon.reset()
    for given in ("a b", "x" * 65, 'a"b', "a,b", "\xe4"):
        response = daemon.request("GET", "/stock/demo", headers={"X-Request-Id": given})
        assert response.status == 200 and ids(response) == (None, None)
    for parent in ("", PARENT.upper(), PARENT + "-1", "ff" + PARENT[2:], PARENT[:-3]):
        response = daemon.request("GET", "/stock/demo", headers={"traceparent": parent})
        assert response.status == 200 and ids(response) == (None, None)


def test_operators_changes_name_their_requests_in_the_log(daemon):
    daemon.reset()
    response = daemon.request("PATCH", "/admin/sale/demo", {"paused": True}, {
        "Authorization": f"Bearer {daemon.token}", "X-Request-Id": "ops-7", "traceparent": PARENT})
    assert response.status == 200
    assert {"request_id": "ops-7", "trace_id": TRACE}.items() <= events(daemon, "change")[0].items()
    response = daemon.request("PATCH", "/admin/sale/demo", {"paused": False},
                              {"Authorization": "Bearer wrong"})
    assert response.status == 401
    assert events(daemon, "unauthorized")[-1]["request_id"] == response.headers["X-Request-Id"]
    assert events(daemon, "reset")[0]["request_id"]


def test_a_failed_request_is_named_in_body_header_and_log(stack, proxies, spawn):
    ledger = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=ledger.url(stack.mysql_url))
    daemon.reset()
    ledger.refuse()
    for method, path, body in (("POST", "/order", {"sku": "demo", "user_id": "u1", "qty": 1}),
                               ("GET", "/order/1", None)):
        response = daemon.request(method, path, body)
        assert_problem(response, 503, "unavailable")
        name = response.headers["X-Request-Id"]
        assert response.json()["request_id"] == name
        wait_until(lambda: [line for line in events(daemon, "request_failed")
                            if line["request_id"] == name], "the line of the request")
        line = [line for line in events(daemon, "request_failed") if line["request_id"] == name][0]
        assert (line["method"], line["status"]) == (method, "503")
        assert int(line["bytes"]) == len(response.body) and int(line["ms"]) >= 0
        assert line["address"] == "127.0.0.1"
    given = daemon.request("GET", "/order/1", headers={"X-Request-Id": "shop-8"})
    assert given.json()["request_id"] == given.headers["X-Request-Id"] == "shop-8"
    ledger.admit()
    named = {line["request_id"] for line in events(daemon, "request_failed")}
    failures = events(daemon, "unavailable") + events(daemon, "lookups_failed")
    # A server that failed names a request that suffered from it.
    assert {line["request_id"] for line in failures if "request_id" in line} <= named


def test_failed_requests_are_bounded_and_counted(stack, proxies, spawn):
    ledger = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=ledger.url(stack.mysql_url))
    daemon.reset()
    ledger.refuse()
    for count in range(200):
        assert daemon.get("/order/1").status == 503
    lines = events(daemon, "request_failed")
    by_second = {}
    for line in lines:
        by_second[line["ts"][:19]] = by_second.get(line["ts"][:19], 0) + 1
    # The bound is of a second by another clock, so two bounds may meet in one of these.
    assert max(by_second.values()) <= 40
    assert len(lines) + sum(int(line.get("suppressed", 0)) for line in lines) <= 200
    ledger.admit()


def test_a_probe_that_finds_the_daemon_not_ready_is_no_failure(stack, proxies, spawn):
    redis = proxies(stack.redis.address[1])
    daemon = spawn(stack, redis_url=redis.url(stack.redis_url))
    redis.refuse()
    wait_until(lambda: daemon.get("/readyz").status == 503, "not ready")
    assert events(daemon, "request_failed") == []
    redis.admit()


# The access log

def test_the_access_log_is_off_by_default(daemon):
    daemon.reset()
    for _ in range(5):
        daemon.order()
    assert events(daemon, "request") == []


def test_the_access_log_has_a_line_of_each_answer(stack, spawn):
    daemon = spawn(stack, access_log=1)
    daemon.reset()
    before = len(events(daemon, "request"))
    secret = "private@example.org"
    sent = [("POST", "/order", {"sku": "demo", "user_id": secret, "qty": 1}, "/order", 201),
            ("GET", "/stock/demo", None, "/stock/*", 200),
            ("HEAD", "/stock/demo", None, "/stock/*", 200),
            ("GET", f"/user/{secret}/orders", None, "/user/{user_id}/orders", 200),
            ("GET", f"/order/{secret}", None, "/order/*", 404),
            ("GET", "/admin/sales", None, "/admin/sales", 401),
            ("GET", f"/{secret}", None, "other", 404)]
    for method, path, body, _, status in sent:
        response = daemon.request(method, path, body)
        assert response.status == status
        assert response.headers["X-Request-Id"]
    lines = events(daemon, "request")[before:]
    found = [(line["path"], int(line["status"])) for line in lines]
    assert found == [(template, status) for _, _, _, template, status in sent]
    assert [line["method"] for line in lines[:3]] == ["POST", "GET", "HEAD"]
    assert all(line["address"] == "127.0.0.1" and line["request_id"] for line in lines)
    assert secret not in daemon.log()


def test_the_access_log_takes_one_of_many(stack, spawn):
    daemon = spawn(stack, access_log=10, http_threads=1)
    daemon.reset()
    before = len(events(daemon, "request"))
    for _ in range(100):
        assert daemon.get("/stock/demo").status == 200
    assert len(events(daemon, "request")) == before + 10


def test_the_access_log_follows_the_configuration(stack, spawn, tmp_path):
    path = tmp_path / "seckill.conf"
    path.write_text("access_log = 1\n")
    daemon = spawn(stack, config=path)
    for text, lines in (("", 0), ("access_log = 1\n", 1)):
        path.write_text(text)
        reloads = len(events(daemon, "reloaded"))
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: len(events(daemon, "reloaded")) > reloads, "the configuration")
        before = len(events(daemon, "request"))
        daemon.get("/nothing")
        assert len(events(daemon, "request")) == before + lines
    assert events(daemon, "option_needs_restart") == []


def test_the_access_log_tells_the_client_behind_a_proxy(stack, spawn):
    daemon = spawn(stack, access_log=1, trusted_proxies="127.0.0.0/8")
    daemon.request("GET", "/nothing", headers={"X-Forwarded-For": "192.0.2.7"})
    assert events(daemon, "request")[-1]["address"] == "192.0.2.7"


# Format

def assert_json(line):
    def unique(pairs):
        keys = [key for key, _ in pairs]
        assert len(keys) == len(set(keys)), keys
        return dict(pairs)
    found = json.loads(line, object_pairs_hook=unique)
    assert {"ts", "level", "event"} <= found.keys()
    return found


def test_every_line_is_json_whatever_clients_send(stack, spawn):
    daemon = spawn(stack, log_format="json", access_log=1, log_level="debug")
    daemon.reset("12")
    for given in (b"\xff\xfe", b"a\x80b", b'"}', b"\\", "\u20ac".encode()):
        daemon.request("GET", "/stock/12", headers={"X-Request-Id": given, "traceparent": given})
        daemon.request("POST", "/order", given + b'{"sku":"12"', {"Idempotency-Key": given})
        daemon.request("GET", "/admin/sales", headers={"Authorization": given})
    daemon.request("GET", "/stock/12", headers={"X-Request-Id": "12"})
    lines = [assert_json(line) for line in daemon.log().splitlines()]
    assert {type(line["sku"]) for line in lines if "sku" in line} == {str}
    requests = [line for line in lines if line["event"] == "request"]
    assert requests[-1]["request_id"] == "12" and requests[-1]["status"] == 200
    start = [line for line in lines if line["event"] == "starting"][0]
    assert start["access_log"] == 1 and "truncated" not in start


def test_lines_have_priorities_when_asked_for(stack, spawn):
    daemon = spawn(stack, log_priority="on")
    daemon.request("GET", "/admin/sales")
    lines = daemon.log().splitlines()
    assert all(re.match(r"<[3467]>ts=", line) for line in lines)
    assert any(line.startswith("<4>") and "event=unauthorized" in line for line in lines)
    assert any(line.startswith("<6>") and "event=prepared" in line for line in lines)


def test_lines_have_none_where_the_journal_is_another_stream(stack, spawn):
    daemon = spawn(stack, env={"JOURNAL_STREAM": "1:2"})
    assert all(line.startswith("ts=") for line in daemon.log().splitlines())


# The level of the log

def test_the_level_is_set_while_the_daemon_runs(daemon):
    daemon.reset()
    assert daemon.admin("GET", "/admin/log-level").json() == {"level": "info"}
    answer = daemon.admin("PUT", "/admin/log-level", {"level": "error"})
    assert (answer.status, answer.json()) == (200, {"level": "error"})
    line = events(daemon, "log_level")[-1]
    assert (line["from"], line["to"], line["address"]) == ("info", "error", "127.0.0.1")
    assert line["request_id"] == answer.headers["X-Request-Id"]
    assert daemon.request("GET", "/admin/sales").status == 401
    assert events(daemon, "unauthorized") == []
    answer = daemon.admin("PUT", "/admin/log-level", {"level": "debug", "for_s": 3600})
    assert answer.json()["level"] == "debug" and 3590 <= answer.json()["for_s"] <= 3600
    assert events(daemon, "log_level")[-1]["to"] == "debug"
    daemon.admin("PUT", "/admin/log-level", {"level": "debug", "for_s": 1})
    wait_until(lambda: daemon.admin("GET", "/admin/log-level").json()["level"] == "info",
               "the level of the configuration")
    daemon.admin("PUT", "/admin/log-level", {"level": "warn"})
    daemon.signal(signal.SIGHUP)
    wait_until(lambda: events(daemon, "reloaded"), "the configuration's level again")


def test_a_wrong_level_changes_nothing(daemon):
    for body in ({}, {"level": "loud"}, {"level": 1}, {"level": "info", "for_s": 0},
                 {"level": None}, {"level": "info", "for_s": 86401},
                 {"level": "info", "for_s": "1"}, {"level": "info", "x": 1}):
        assert_problem(daemon.admin("PUT", "/admin/log-level", body), 400, "invalid_request")
        assert daemon.admin("GET", "/admin/log-level").json()["level"] == "info", body


def test_steering_takes_the_admin_token(daemon):
    for method, path in (("GET", "/admin/log-level"), ("PUT", "/admin/log-level"),
                         ("GET", "/admin/drain"), ("POST", "/admin/drain"),
                         ("DELETE", "/admin/drain")):
        assert_problem(daemon.request(method, path, None if method == "GET" else {}), 401,
                       "unauthorized")
    for path, allow in (("/admin/log-level", "GET, HEAD, PUT"),
                        ("/admin/drain", "DELETE, GET, HEAD, POST")):
        answer = daemon.admin("PATCH", path, {})
        assert_problem(answer, 405, "method_not_allowed")
        assert answer.headers["Allow"] == allow


# Drain

def test_a_call_drains_and_ends_the_daemon(stack, spawn):
    daemon = spawn(stack, lame_duck_ms=5000)
    daemon.reset()
    answer = daemon.admin("POST", "/admin/drain", {})
    assert (answer.status, answer.json()["status"]) == (200, "draining")
    assert 0 < answer.json()["stops_in_ms"] <= 5000
    assert daemon.get("/readyz").json()["status"] == "draining"
    assert daemon.order().status == 201  # a lame duck serves
    assert daemon.wait() == 0
    assert [line["signal"] for line in events(daemon, "draining")] == ["0"]
    assert events(daemon, "stopped")


def test_a_signal_after_the_call_does_not_cut_the_drain_short(stack, spawn):
    daemon = spawn(stack, lame_duck_ms=8000)
    daemon.reset()
    daemon.admin("POST", "/admin/drain", {})
    wait_until(lambda: daemon.get("/stock/demo").headers.get("Connection") == "close",
               "the second half", pause=0.3)
    daemon.signal(signal.SIGTERM)
    wait_until(lambda: len(events(daemon, "draining")) == 2, "the signal")
    assert daemon.order().status == 201
    assert daemon.wait() == 0
    assert events(daemon, "ending_at_once") == []


def test_a_signal_does_not_wait_for_the_longer_time_of_a_call(stack, spawn):
    daemon = spawn(stack, lame_duck_ms=500)
    daemon.admin("POST", "/admin/drain", {"lame_duck_ms": 600_000})
    daemon.signal(signal.SIGTERM)
    assert daemon.wait() == 0
    assert events(daemon, "ending_at_once") == []


def test_a_signal_in_the_second_half_does_not_wait_for_the_longer_time_of_a_call(stack, spawn):
    daemon = spawn(stack)
    daemon.reset()
    daemon.admin("POST", "/admin/drain", {"lame_duck_ms": 20_000})
    wait_until(lambda: daemon.get("/stock/demo").headers.get("Connection") == "close",
               "the second half", pause=0.3)
    daemon.signal(signal.SIGTERM)
    status, passed = timed(daemon.wait)
    assert (status, events(daemon, "ending_at_once")) == (0, [])
    assert passed.running < 5  # of the 10 s that are left


def test_a_drain_is_taken_back(stack, spawn):
    daemon = spawn(stack)
    daemon.reset()
    assert daemon.admin("DELETE", "/admin/drain").json()["status"] == "serving"
    assert daemon.admin("POST", "/admin/drain", {"lame_duck_ms": 500_000}).status == 200
    assert daemon.get("/readyz").status == 503
    assert 400_000 < daemon.admin("GET", "/admin/drain").json()["stops_in_ms"] <= 500_000
    answer = daemon.admin("DELETE", "/admin/drain")
    assert answer.json() == {"status": "serving"}
    daemon.wait_ready()
    assert daemon.order().status == 201
    assert [line["result"] for line in events(daemon, "drain_undone")] == ["ok", "ok"]


def test_a_daemon_out_of_the_balancer_ends_by_signal_all_the_same(stack, spawn):
    daemon = spawn(stack)
    daemon.reset()
    answer = daemon.admin("POST", "/admin/drain", {"stop": False})
    assert answer.json() == {"status": "draining"}
    assert daemon.get("/readyz").json()["status"] == "draining"
    assert daemon.order().status == 201
    daemon.signal(signal.SIGTERM)
    assert daemon.wait() == 0


def test_a_drain_by_signal_is_not_taken_back(stack, spawn):
    daemon = spawn(stack, lame_duck_ms=10_000)
    daemon.signal(signal.SIGTERM)
    wait_until(lambda: daemon.get("/readyz").json()["status"] == "draining", "the lame duck")
    for method, body in (("DELETE", None), ("POST", {"stop": False})):
        assert_problem(daemon.admin(method, "/admin/drain", body), 409, "invalid_state")
    assert events(daemon, "drain_undone")[0]["result"] == "too_late"
    daemon.signal(signal.SIGTERM)
    daemon.end_expected = True
    assert daemon.process.wait(30) == 128 + signal.SIGTERM


def test_a_wrong_drain_changes_nothing(daemon):
    for body in ([], {"stop": 1}, {"lame_duck_ms": -1}, {"lame_duck_ms": 600_001},
                 {"lame_duck_ms": "1"}, {"undo": True}):
        assert_problem(daemon.admin("POST", "/admin/drain", body), 400, "invalid_request")
        assert daemon.get("/servingz").status == 200, body


# The line of progress

def test_a_line_tells_what_goes_on_and_none_while_nothing_does(stack, spawn):
    daemon = spawn(stack, log_every=1)
    daemon.reset("calm", 10, 1)
    daemon.reset("demo", 100_000, 20)
    assert events(daemon, "progress") == []
    sold = 0

    def told():
        nonlocal sold
        sold += daemon.order(user_id=f"u{sold}").status == 201
        return [line for line in events(daemon, "progress") if {"sku", "p99_ms"} <= line.keys()]
    line = wait_until(told, "a line of the sale")[0]
    assert (line["sku"], line["round"], line["total"]) == ("demo", "1", "100000")
    assert 0 < int(line["sold"]) <= sold and float(line["per_s"]) > 0
    assert float(line["orders_per_s"]) > 0 and float(line["p99_ms"]) > 0
    assert float(line["errors_per_s"]) == 0 and int(line["queue"]) >= 0

    def silent():
        before = len(events(daemon, "progress"))
        time.sleep(3)  # three lines' time
        return len(events(daemon, "progress")) == before
    wait_until(silent, "silence")


def test_a_line_tells_of_repeats_though_nothing_is_sold(stack, spawn):
    daemon = spawn(stack, log_every=1)
    daemon.reset("demo", 1, 1)
    assert daemon.order(key="k").status == 201

    def told():
        assert daemon.order(key="k").status == 200
        return any(float(line.get("repeats_per_s", 0)) > 0 and float(line["orders_per_s"]) == 0
                   for line in events(daemon, "progress"))
    wait_until(told, "a line with repeats")


def test_of_many_sales_the_busiest_have_lines(stack, spawn):
    daemon = spawn(stack, log_every=1)
    skus = [f"sale-{n}" for n in range(8)]
    for sku in skus:
        daemon.reset(sku, 10_000, 1)

    def told():
        for sku in skus:
            assert daemon.order(sku).status == 201
        return [line for line in events(daemon, "progress") if int(line.get("sales", 0)) > 5]
    total = wait_until(told, "a line for all of them", pause=0.1)[0]
    lines = events(daemon, "progress")
    lines = reversed(lines[:lines.index(total)])
    rates = ("orders_per_s", "p99_ms")  # which tell its own lines from those of the turn before

    def is_own(line):  # nor has the line for all sales of that turn a sku
        return "sku" in line and all(line.get(rate) == total.get(rate) for rate in rates)
    assert len(list(takewhile(is_own, lines))) == 5
    assert float(total["orders_per_s"]) > 0


def test_no_lines_of_progress_when_none_are_wanted(stack, spawn):
    daemon = spawn(stack, log_every=0)
    daemon.reset()
    assert daemon.order().status == 201
    wait_until(lambda: daemon.metric('seckill_orders_total{outcome="accepted"}') == 1, "the order")
    assert events(daemon, "progress") == []
