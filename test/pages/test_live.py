"""GET /dashboard/live says each second what a page shows, of all daemons; GET /admin/actions what
operators did last."""

import json
import math
import socket
from datetime import datetime
from itertools import pairwise
from statistics import median

import pytest

from harness.client import assert_problem
from harness.daemon import HASTY, STEADY
from harness.processes import wait_until


class Page:
    """An open page: gives one state after the other."""

    def __init__(self, daemon):
        self.daemon, self.at = daemon, None

    def answer(self):
        return self.daemon.get("/dashboard/live")

    def state(self):
        """The next state that is new."""
        def fresh():
            answer = self.answer()
            state = answer.status == 200 and answer.json()
            return state and state["at"] != self.at and state
        state = wait_until(fresh, "a new state", pause=0.1)
        self.at = state["at"]
        return state

    def until(self, condition, states=40):
        """The first state of which the condition holds, and how many came before."""
        for number in range(states):
            state = self.state()
            if condition(state):
                return state, number
        raise AssertionError(f"not in {states} states: {state}")


def sale_of(state, sku="demo"):
    return next((sale for sale in state["sales"] if sale["sku"] == sku), None)


def moment(state):
    return datetime.fromisoformat(state["at"].replace("Z", "+00:00"))


def names(state):
    return [daemon["name"] for daemon in state["daemons"]]


# --- one daemon ---------------------------------------------------------------------------------

def test_page_gets_a_new_state_each_second(daemon):
    page = Page(daemon)
    one, _ = page.until(lambda state: not state["error"])  # both servers have been probed
    states = [one, *(page.state() for _ in range(3))]
    assert page.answer().headers["Content-Type"] == "application/json"
    assert page.answer().headers["Cache-Control"] == "no-store"
    assert all(before["at"] < state["at"] for before, state in pairwise(states))
    assert {state["daemon"] for state in states} == {one["daemon"]}
    # The median: a state that came late is closer to the next than a second.
    assert 0.9 < median((moment(state) - moment(before)).total_seconds()
                        for before, state in pairwise(states))
    assert one["error"] is None
    [own] = one["daemons"]
    assert own["name"] == one["daemon"] and own["age_ms"] == 0 and own["state"] == "ready"
    assert own["address"] == "%s:%d" % daemon.address
    assert own["name"].endswith(f":{daemon.address[1]}#{daemon.process.pid}")
    assert {(server["kind"], server["state"]) for server in own["servers"]} == {
        ("redis", "ok"), ("ledger", "ok")}
    assert own["memory_bytes"] > 1_000_000 and own["queue_max"] > 0
    with socket.create_connection(daemon.address):
        page.until(lambda state: state["daemons"][0]["connections"] == 1)


def test_figures_are_those_of_the_metrics_and_the_ledger(daemon):
    daemon.reset(total=10, segments=2)
    page = Page(daemon)
    page.until(lambda state: sale_of(state))
    before, got = daemon.metrics(), {"accepted": 0, "sold_out": 0}

    def seen(state):
        for name in got:
            got[name] += state["daemons"][0]["per_s"][name]
        for _ in range(0 if all(got.values()) else 4):
            daemon.order()
        return all(got.values())

    def count(metrics, name):
        return metrics.get(f'seckill_orders_total{{outcome="{name}"}}', 0)
    page.until(seen)
    state, _ = page.until(lambda state: sale_of(state)["sold"] == 10)
    after = daemon.metrics()
    assert count(after, "accepted") - count(before, "accepted") == 10
    for name, value in got.items():  # each rate is of a second, or of more on a slow machine
        assert 0 < value <= 1.2 * (count(after, name) - count(before, name))
    sale, stock = sale_of(state), daemon.stock()
    assert (sale["sold"], sale["left"], sale["total"], sale["round"], sale["state"]) == (
        stock["sold"], stock["available"], 10, 1, "sold_out")
    assert [(part["total"], part["sold"], part["left"]) for part in sale["segments"]] == [
        (part["capacity"], part["sold"], part["available"]) for part in stock["segments"]]


def test_sale_shows_its_settings(daemon):
    daemon.reset("a", total=100, segments=4, per_user_limit=2, pay_within_s=900,
                 late_payment="refund", hold_max_s=7200, grace_s=30)
    daemon.reset("b", starts_at="2090-01-01T00:00:00Z")
    daemon.reset("c", ends_at="2090-01-01T00:00:00Z", paused=True)
    page = Page(daemon)
    state, _ = page.until(lambda state: len(state["sales"]) == 3)
    one, paused, coming = (sale_of(state, sku) for sku in "acb")
    assert [sale["sku"] for sale in state["sales"]] == ["a", "c", "b"]  # coming ones last
    assert (one["state"], one["per_user_limit"], one["pay_within_s"]) == ("open", 2, 900)
    assert (one["late_payment"], one["hold_max_s"], one["grace_s"]) == ("refund", 7200, 30)
    assert (paused["late_payment"], paused["hold_max_s"], paused["grace_s"]) == ("retake", 0, 0)
    assert (paused["state"], paused["paused"]) == ("paused", True)
    assert paused["ends_at"] == "2090-01-01T00:00:00.000Z"
    assert (coming["state"], coming["starts_at"]) == ("scheduled", "2090-01-01T00:00:00.000Z")
    daemon.change("c", paused=False)
    page.until(lambda state: sale_of(state, "c")["state"] == "open")


def test_segments_beyond_the_bound_are_counted(daemon):
    daemon.reset("large", total=2000, segments=1000)
    daemon.reset("other", total=2000, segments=1000)  # both together: more than is read
    daemon.reset("small", total=20, segments=20)
    page = Page(daemon)
    state, _ = page.until(lambda state: len(state["sales"]) == 3)
    parts = {sale["sku"]: (len(sale["segments"]), sale["segments_more"]) for sale in state["sales"]}
    assert parts == {"large": (256, 744), "other": (0, 1000), "small": (20, 0)}


def test_lost_segment_is_dirty(daemon, stack):
    daemon.reset(total=20, segments=2)
    page = Page(daemon)
    page.until(lambda state: sale_of(state))
    stack.redis("DEL", "seckill:{demo:0}:segment")
    state, _ = page.until(lambda state: sale_of(state)["segments"][0]["dirty"])
    assert sale_of(state)["segments"][0] == {
        "total": 10, "sold": 0, "left": None, "locked": False, "dirty": True}
    daemon.reconcile()
    page.until(lambda state: not sale_of(state)["segments"][0]["dirty"])


# --- the group ----------------------------------------------------------------------------------

def test_daemons_see_each_other(pair):
    one, other = pair
    first = Page(one)
    second = Page(other)
    here, _ = first.until(lambda state: len(state["daemons"]) == 2)
    there, _ = second.until(lambda state: len(state["daemons"]) == 2)
    assert names(here) == names(there)[::-1]  # its own first
    assert here["daemon"] == names(here)[0] and there["daemon"] == names(there)[0]
    other.stop()
    state, _ = first.until(lambda state: len(state["daemons"]) == 1)
    assert names(state) == [here["daemon"]]


def test_daemon_that_hangs_gets_old(pair):
    one, other = pair
    page = Page(one)
    state, _ = page.until(lambda state: len(state["daemons"]) == 2)
    name = names(state)[1]
    other.pause()
    page.until(lambda state: state["daemons"][1]["age_ms"] > 3000)
    other.cont()
    state, _ = page.until(lambda state: state["daemons"][1]["age_ms"] < 3000)
    assert names(state)[1] == name


SAID = {
    "type": ("RPUSH", "x"),
    "text": ("SET", "no JSON"),
    "list": ("SET", '["a list"]'),
    "huge": ("SET", json.dumps({"name": "x" * 100_000})),
    "bytes": ("SET", b'{"name":"\xff"}'),
}


def test_what_no_daemon_has_said_is_left_out(pair, stack):
    one, other = pair
    for name, (command, value) in SAID.items():
        key = "seckill:{live}:daemon:" + name
        stack.redis(command, key, value)
        stack.redis("PEXPIRE", key, "50000")
        stack.redis("SADD", "seckill:{live}:daemons", name)
    page = Page(one)
    state, _ = page.until(lambda state: len(state["daemons"]) == 2)
    for _ in range(2):
        assert names(state)[1].endswith(f"#{other.process.pid}")
        # A state has an error, too, just after the machine stood still.
        state, _ = page.until(lambda state: not state["error"])
    assert not set(SAID) & {name.decode() for name in
                            stack.redis("SMEMBERS", "seckill:{live}:daemons")}


def test_orders_of_another_daemon_are_seen(pair):
    one, other = pair
    one.reset()
    page = Page(one)
    page.until(lambda state: len(state["daemons"]) == 2)

    def seen(state):
        other.order()
        return state["daemons"][1]["per_s"]["accepted"] > 0 and state["daemons"][1]["p99_ms"]
    state, _ = page.until(seen)  # each report is there for a second, and may be missed
    assert state["daemons"][1]["p99_ms"] > 0


# --- what is broken -----------------------------------------------------------------------------

@pytest.mark.long(keep=1)
@pytest.mark.parametrize("how", ["refuse", "hold"])
def test_broken_redis_shows(stack, spawn, proxies, how):
    proxy = proxies(int(stack.redis_url.rsplit(":", 1)[1].split("/")[0]))
    daemon = spawn(stack, redis_url=proxy.url(stack.redis_url), **STEADY, **HASTY)
    other = spawn(stack, **STEADY)
    daemon.reset(total=20, segments=2)
    page = Page(daemon)
    page.until(lambda state: sale_of(state) and len(state["daemons"]) == 2)
    getattr(proxy, how)()
    state, before = page.until(
        lambda state: state["daemons"][0]["servers"][0]["state"] == "down" and state["error"])
    assert before <= 4
    assert state["error"]["server"] == "redis" and state["error"]["detail"]
    assert state["daemons"][0]["state"] == "not_ready"
    assert sale_of(state)["sold"] == 0  # of the ledger, which answers
    assert sale_of(state)["segments"][0]["left"] is None
    page.until(lambda state: state["daemons"][1]["age_ms"] > 3000)
    {"refuse": proxy.admit, "hold": proxy.resume}[how]()
    page.until(lambda state: not state["error"] and state["daemons"][1]["age_ms"] < 3000
               and sale_of(state)["segments"][0]["left"] == 10)
    assert other.running()


def test_broken_ledger_shows(stack, spawn, proxies):
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url), **STEADY)
    other = spawn(stack, **STEADY)
    daemon.reset(total=20, segments=2)
    page = Page(daemon)
    page.until(lambda state: sale_of(state) and "refunds" in state)
    proxy.refuse()
    state, _ = page.until(lambda state: state["error"] and state["error"]["server"] == "ledger")
    assert sale_of(state)["total"] == 20  # the last that is known
    assert state["refunds"] == {"due": 0, "oldest_s": 0}
    order_id = other.order().json()["order_id"]
    assert other.cancel(order_id).status == 200
    assert other.pay(order_id, "late").code == "payment_too_late"
    proxy.admit()
    state, _ = page.until(lambda state: not state["error"] and state["refunds"]["due"] == 1)
    assert 0 <= state["refunds"]["oldest_s"] < 300


def test_names_that_are_no_text_are_shown_as_far_as_they_are(stack, spawn):
    daemon = spawn(stack, ready=False, mysql_url="mysql://u:p@localhost/db?socket=/tmp/%FFx")
    wait_until(lambda: daemon.get("/healthz").status == 200, "it lets clients in")
    page = Page(daemon)
    state, _ = page.until(lambda state: state["error"] and state["error"]["server"] == "ledger")
    assert state["daemons"][0]["servers"][1]["name"] == "/tmp/?x"


# --- bounds -------------------------------------------------------------------------------------

def test_servers_of_the_group_are_for_operators(stack, spawn):
    """A client elsewhere is one that a proxy names."""
    daemon = spawn(stack, **STEADY)
    Page(daemon).state()  # before the first one the answer is 503
    elsewhere = {"X-Forwarded-For": "192.0.2.9"}
    for headers in (elsewhere, {"Forwarded": "for=192.0.2.9"},
                    {**elsewhere, "Authorization": "Bearer guess"}):
        answer = daemon.request("GET", "/dashboard/live", None, headers)
        assert_problem(answer, 401, "unauthorized")
    bearer = {**elsewhere, "Authorization": f"Bearer {daemon.token}"}
    assert daemon.request("HEAD", "/dashboard/live", None, bearer).status == 200
    for path in ("/dashboard", "/dashboard/dashboard.js"):  # which ask for the token
        assert daemon.request("GET", path, None, elsewhere).status == 200
    assert daemon.metric('seckill_unauthorized_total{class="admin"}') == 3
    assert daemon.get("/dashboard/live").status == 200
    shown = spawn(stack, demo="on", **STEADY)
    Page(shown).state()
    assert shown.request("HEAD", "/dashboard/live", None, elsewhere).status == 200


def test_pages_share_what_they_are_told(daemon):
    """However many ask, no server is asked more often."""
    page = Page(daemon)
    before = page.state()["at"]
    asked = [page.answer().json()["at"] for _ in range(500)]
    passed_s = (moment(page.state()) - datetime.fromisoformat(
        before.replace("Z", "+00:00"))).total_seconds()
    # Rounded up: a text that came late by some ms is closer to the next than a second.
    assert len(set(asked)) <= math.ceil(passed_s) + 1


def test_post_is_refused(daemon):
    answer = daemon.request("POST", "/dashboard/live")
    assert_problem(answer, 405, "method_not_allowed")
    assert answer.headers["Allow"] == "GET, HEAD"


def test_drain_shows(daemon):
    page = Page(daemon)
    page.until(lambda state: state["daemons"][0]["state"] == "ready")
    assert daemon.admin("POST", "/admin/drain", {"lame_duck_ms": 600_000}).status == 200
    page.until(lambda state: state["daemons"][0]["state"] == "draining")
    assert daemon.admin("DELETE", "/admin/drain").status == 200
    page.until(lambda state: state["daemons"][0]["state"] == "ready")


# --- what operators did -------------------------------------------------------------------------

def actions(daemon):
    answer = daemon.admin("GET", "/admin/actions")
    assert answer.status == 200, answer
    return answer.json()["actions"]


def test_actions_of_all_daemons_newest_first(pair):
    one, other = pair
    one.reset(total=100, segments=4)
    wait_until(lambda: [action["action"] for action in actions(other)] == ["reset"],
               "the reset is noted: each daemon notes its own once a second")
    other.change(paused=True)
    wait_until(lambda: [action["action"] for action in actions(one)] == ["change", "reset"],
               "the other daemon's action is there")
    one.add(5, key="k1")
    one.add(6, key="k1")
    one.reconcile()
    other.admin("DELETE", "/admin/sale/nothing")
    other.admin("PUT", "/admin/log-level", {"level": "debug", "for_s": 60})
    other.admin("POST", "/admin/drain", {"stop": False})
    other.admin("DELETE", "/admin/drain")
    wait_until(lambda: len(actions(one)) == 9, "all of them are there")
    found = [(action["action"], action.get("sku"), action["status"]) for action in actions(one)]
    assert sorted(found) == sorted([
        ("reset", "demo", 200), ("change", "demo", 200), ("restock", "demo", 200),
        ("restock", "demo", 422), ("reconcile", "demo", 200), ("retire", "nothing", 404),
        ("log_level", None, 200), ("drain", None, 200), ("drain_undone", None, 200)])
    reset = actions(one)[-1]
    assert reset["address"] == "127.0.0.1" and reset["daemon"].endswith(f"#{one.process.pid}")
    assert reset["detail"].startswith("total=100 segments=4 ")
    assert next(action for action in actions(one) if action["action"] == "change")[
        "detail"].startswith("paused=true result=ok ")


def test_actions_are_bounded_and_need_the_token(daemon):
    assert_problem(daemon.get("/admin/actions"), 401, "unauthorized")
    daemon.reset()
    for number in range(104):
        daemon.change(per_user_limit=number + 1)
    wait_until(lambda: len(actions(daemon)) == 100, "a hundred are kept")
    assert actions(daemon)[0]["detail"].startswith("per_user_limit=104 ")


def test_action_during_an_outage_of_redis_is_told_later(stack, spawn, proxies):
    proxy = proxies(int(stack.redis_url.rsplit(":", 1)[1].split("/")[0]))
    daemon = spawn(stack, redis_url=proxy.url(stack.redis_url), **STEADY)
    daemon.reset()
    wait_until(lambda: len(actions(daemon)) == 1, "the reset is noted")
    proxy.refuse()
    daemon.admin("PATCH", "/admin/sale/demo", {"paused": True})
    assert_problem(daemon.admin("GET", "/admin/actions"), 503, "unavailable")
    proxy.admit()
    wait_until(lambda: daemon.admin("GET", "/admin/actions").status == 200
               and len(actions(daemon)) == 2, "the pause is noted, once")
