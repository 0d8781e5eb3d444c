"""The examples in service/openapi.json, executed: a real daemon answers what they say.

STORY has the calls that succeed, in an order in which each finds what it needs; RECIPES has a way
to each problem. Ids, times and numbers of segments differ from run to run (see description.py)."""

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.audit import answered
from harness.client import order_bytes, read_response
from harness.daemon import STEADY, TOKEN, Daemon
from harness.ledger import numbers
from harness.processes import wait_until
from harness.proxy import COMMIT
from description import Description, alike

# Recipes share a daemon, so one worker runs all of them.
pytestmark = pytest.mark.xdist_group("openapi examples")

# (operationId, the example sent, the example answered)
STORY = [
    ("resetSale", "create", "create"),
    ("listActions", None, "actions"),
    ("getLiveState", None, "an_excerpt"),
    ("listEvents", None, "sale"),
    ("placeOrder", "one_unit", "one_unit"),
    ("placeOrder", "one_unit", "repeated"),
    ("listEvents", None, "sale_and_order"),
    ("placeOrder", "two_units", "two_units"),
    ("getOrder", None, "reserved"),
    ("getStockNow", None, "stock"),
    ("getStock", None, "stock"),
    ("payOrder", None, "paid"),
    ("cancelOrder", "part", "part"),
    ("cancelOrder", None, "cancelled"),
    ("listUserOrders", None, "paid"),
    ("listOrders", None, "paid"),
    ("auditOrders", None, "sums"),
    ("auditSale", None, "audit"),
    ("addStock", "add", "add"),
    ("listSales", None, "sales"),
    ("changeSale", "pause", "pause"),
    ("changeSale", "resume", "resume"),
    ("changeSale", "limit", "limit"),
    ("changeSale", "window", "window"),
    ("changeSale", "no_window", "no_window"),
    ("changeSale", "late", "late"),
    ("placeOrder", "to_be_paid", "to_be_paid"),
    ("extendOrder", "longer", "longer"),
    ("payOrder", "declined", "declined"),
    ("unpayOrder", "failed", "failed"),
    ("payOrder", "with_ref", "with_ref"),
    ("refundOrder", "part", "part"),
    ("refundOrder", "whole", "whole"),
    ("listPayments", None, "refunded"),
    ("listAllPayments", None, "refunded"),
    ("reconcileSale", "consistent", "consistent"),
    ("resetSale", "next_round", "next_round"),
    ("retireSale", "refunds_elsewhere", "retired"),
    ("setWebhook", "create", "create"),
    ("pauseWebhook", None, "paused"),
    ("setWebhook", "rotate", "rotate"),
    ("getWebhook", None, "paused"),
    ("listWebhooks", None, "webhooks"),
    ("testWebhook", None, "refused"),
    ("listUndelivered", None, "none"),
    ("deleteWebhook", None, "paused"),
    ("setWebhook", "create", "create"),
    ("resumeWebhook", None, "active"),
    ("pauseWebhook", None, "paused"),
    ("replayWebhook", "replay", "replay"),
    ("discardUndelivered", "discard", "discard"),
    ("replayUndelivered", "replay", "replay"),
    ("setLogLevel", "loud", "loud"),
    ("setLogLevel", "quiet", "quiet"),
    ("getLogLevel", None, "quiet"),
    ("drain", "aside", "aside"),
    ("drain", "leaving", "leaving"),
    ("getDrain", None, "leaving"),
    ("undoDrain", None, "serving"),
    ("getHealth", None, "alive"),
    ("getServing", None, "takes_requests"),
    ("getReadiness", None, "ready"),
    ("getMetrics", None, "an_excerpt"),
    ("getDescription", None, "an_excerpt"),
]
# Up to 100 ms old; Redis hears of a batch after its answers; a daemon is prepared after its start;
# a probe's answer is too old once the machine has stood still; events are published afterwards.
LATE = {"getStock", "auditSale", "getLiveState", "getReadiness", "listEvents"}
WITHOUT_KEY = {"two_units", "to_be_paid", "next_round"}
LOCK_LEASES = "SELECT number FROM node_lease FOR UPDATE"  # nobody renews one meanwhile
ELSEWHERE = {("getReadiness", "unavailable"), ("getServing", "takes_none")}
GIVEN_UP = {"discardUndelivered", "replayUndelivered"}  # a request, some time before the call
PROBLEMS = Description().document["components"]["examples"]


@pytest.fixture(scope="module")
def description():
    return Description()


# --- What succeeds ------------------------------------------------------------------------------


class Reader:
    """Goes through the story on one daemon, and knows which order an example's id stands for."""

    def __init__(self, description, daemon):
        self.description, self.daemon, self.ids = description, daemon, {}

    def call(self, operation_id, sent, told):
        """The parameters are the examples, but for an order's id; one key stands for one call."""
        other = {"Idempotency-Key": None} if sent in WITHOUT_KEY else {}
        for named in (told, *told.get("payments", ())):
            if "order_id" in named:
                other["order_id"] = self.ids.get(named["order_id"])
        method, path, body, headers = self.description.request(operation_id, sent, **other)
        headers["Authorization"] = f"Bearer {TOKEN}"
        return self.daemon.request(method, path, body, headers)

    def find(self, operation_id, name):
        """(status, response, example) of an answer that succeeds."""
        for status, response in self.description.responses(operation_id).items():
            examples = self.description.response_examples(response)
            if status[0] == "2" and name in examples:
                return int(status), response, examples[name]
        raise AssertionError(f"no answer {name} of {operation_id}")

    def fits(self, told, got):
        if isinstance(told, str):  # a page of metrics holds the lines of its example
            return set(told.splitlines()) <= set(got.splitlines())
        for name, value in told.items():
            if name == "order_id" and self.ids.setdefault(value, got[name]) != got[name]:
                return False
            if name in ("orders", "payments") and isinstance(value, list) and not all(
                    map(self.fits, value, got[name])):
                return False
        return alike(told, got)

    def tell(self, operation_id, sent, name):
        status, response, told = self.find(operation_id, name)
        answer = self.call(operation_id, sent, told if isinstance(told, dict) else {})
        if operation_id in LATE and answer.status == 503:
            return False, answer
        assert answer.status == status, (operation_id, name, answer)
        got = self.description.check(response, answer)
        if name == "an_excerpt" and isinstance(told, dict):
            got = {member: got[member] for member in told}
        return self.fits(told, got), answer


def test_story_has_every_example(description):
    requests, answers = set(), set()
    for operation_id in description.by_id:
        requests |= {(operation_id, name) for name in description.request_examples(operation_id)}
        for status, response in description.responses(operation_id).items():
            if "application/problem+json" not in response.get("content", {}):
                answers |= {(operation_id, name)
                            for name in description.response_examples(response)}
    assert {(call, sent) for call, sent, _ in STORY if sent} == requests
    assert {(call, told) for call, _, told in STORY} | ELSEWHERE == answers
    assert RECIPES.keys() == PROBLEMS.keys()


def test_story(stack, spawn, description):
    daemon = spawn(stack, events_retention_h=24, **STEADY)
    reader = Reader(description, daemon)
    for operation_id, sent, name in STORY:
        if operation_id in GIVEN_UP:
            stack.ledger.run(
                "INSERT INTO webhook_undelivered SET webhook='erp', id='evt_0_17', events=1,"
                " answer='500 ', body='{}', failing_since=UTC_TIMESTAMP(3),"
                " given_up_at=UTC_TIMESTAMP(3)")

        def tells(operation_id=operation_id, sent=sent, name=name):
            fits, answer = reader.tell(operation_id, sent, name)
            assert fits or operation_id in LATE, (operation_id, name, answer)
            return fits
        wait_until(tells, f"the answer {name} of {operation_id}")


def test_not_ready(stack, spawn, description, proxies):
    proxy = proxies(int(stack.redis_url.rsplit(":", 1)[1].split("/")[0]))
    daemon = spawn(stack, redis_url=proxy.url(stack.redis_url), **STEADY)
    proxy.refuse()
    response = description.responses("getReadiness")["503"]
    example = description.response_examples(response)["unavailable"]
    wait_until(lambda: daemon.get("/readyz").json() == example, "the example")
    answer = daemon.get("/readyz")
    assert answer.status == 503
    description.check(response, answer)
    proxy.admit()


def test_not_serving(stack, spawn, description):
    daemon = spawn(stack, **STEADY)
    daemon.admin("POST", "/admin/drain", {"stop": False})
    response = description.responses("getServing")["503"]
    answer = daemon.get("/servingz")
    assert (answer.status, answer.json()) == (
        503, description.response_examples(response)["takes_none"])
    description.check(response, answer)


# --- Problems -----------------------------------------------------------------------------------


class World:
    """What the recipes need: a daemon for those that change no more than a sale, and parts for
    daemons of their own."""

    def __init__(self, daemon, sku, request):
        self.daemon, self.sku, self.request = daemon, sku, request

    def sale(self, **settings):
        self.daemon.reset(self.sku, **{"total": 100, "segments": 2, **settings})

    def order(self, **order):
        return self.daemon.order(**{"sku": self.sku, **order})

    def raw(self, data):
        with socket.create_connection(self.daemon.address, timeout=60) as sock:
            sock.sendall(data)
            return read_response(sock)

    def spawn(self, **options):
        """Another daemon, with a sale, which the patient one makes."""
        self.sale()
        return self.request.getfixturevalue("spawn")(self.daemon.stack, **options)

    def behind(self, server, **options):
        """A daemon whose Redis or ledger is behind a proxy."""
        stack = self.daemon.stack
        url = {"redis_url": stack.redis_url, "mysql_url": stack.mysql_url}[server]
        port = stack.ledger.port if server == "mysql_url" else int(
            url.rsplit(":", 1)[1].split("/")[0])
        proxy = self.request.getfixturevalue("proxies")(port)
        return self.spawn(**{server: proxy.url(url)}, **options), proxy


def invalid_request(world):
    return world.order(qty=0)


def unauthorized(world):
    return world.daemon.get("/admin/sales")


def origin_refused(world):
    return world.daemon.request("POST", "/order/1/pay", headers={"Origin": "https://evil.example"})


def ambiguous_end(world):
    return world.raw(b"POST /order HTTP/1.1\r\nHost: x\r\nContent-Length: +2\r\n\r\n")


def invalid_head(world):
    return world.raw(b"GET /healthz HTTP/1.1\r\n\r\n")


def repeated_header(world):
    return world.raw(b"POST /order HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n"
                     b"Idempotency-Key: A1\r\nIdempotency-Key: B1\r\n\r\n")


def http_version_not_supported(world):
    return world.raw(b"GET /healthz HTTP/2.0\r\nHost: x\r\n\r\n")


def not_found(world):
    return world.daemon.get("/nothing")


def unknown_sku(world):
    return world.order(sku="nothing")


def unknown_order(world):
    return world.daemon.get("/order/1")


def method_not_allowed(world):
    answer = world.daemon.get("/order")
    assert answer.headers["Allow"] == "POST"
    return answer


def request_timeout(world):
    return World(world.spawn(deadline_ms=1000), world.sku, world.request).raw(order_bytes()[:-1])


def sold_out(world):
    world.sale(total=1, segments=1)
    return world.order(qty=2)


def sale_not_started(world):
    world.sale(starts_at="2099-11-11T20:00:00+08:00")
    answer = world.order()
    assert answer.headers["Retry-After"]
    return answer


def sale_ended(world):
    world.sale(ends_at="2026-11-11T14:00:00Z")
    return world.order()


def sale_paused(world):
    world.sale(paused=True)
    answer = world.order()
    assert answer.headers["Retry-After"]
    return answer


def limit_reached(world):
    world.sale(per_user_limit=2)
    assert [world.order().status for _ in range(2)] == [201, 201]
    return world.order()


def reset(world, **more):
    return world.daemon.admin("POST", "/admin/stock/reset",
                              {"sku": world.sku, "total": 100, "segments": 2, **more})


def round_mismatch(world):
    world.sale()
    return reset(world, if_round=2)


def round_in_use(world):
    world.sale()
    world.order()
    world.daemon.pay(world.order(qty=2).json()["order_id"])
    return reset(world)


def invalid_state(world):
    world.sale()
    order_id = world.order().json()["order_id"]
    assert world.daemon.pay(order_id).status == 200
    return world.daemon.cancel(order_id)


def ordered(world, **settings):
    """The path of an order that is reserved."""
    world.sale(**settings)
    return f"/order/{world.order().json()['order_id']}"


def unknown_payment(world):
    return world.daemon.request("POST", ordered(world) + "/refund", {"payment_ref": "pi_1"})


def payment_too_late(world):
    order = ordered(world)
    assert world.daemon.request("POST", order + "/cancel").status == 200
    return world.daemon.request("POST", order + "/pay", {"payment_ref": "pi_1"})


def already_paid(world):
    order = ordered(world)
    assert world.daemon.request("POST", order + "/pay", {"payment_ref": "pi_1"}).status == 200
    return world.daemon.request("POST", order + "/pay", {"payment_ref": "pi_2"})


def payment_failed(world):
    order = ordered(world)
    for call in ("/pay", "/unpay"):
        assert world.daemon.request("POST", order + call, {"payment_ref": "pi_1"}).status == 200
    return world.daemon.request("POST", order + "/pay", {"payment_ref": "pi_1"})


def keep_too_large(world):
    return world.daemon.request("POST", ordered(world) + "/cancel", {"keep": 2})


def hold_limit_reached(world):
    order = ordered(world, pay_within_s=900, hold_max_s=7200)
    return world.daemon.request("POST", order + "/extend", {"expires_at": "2099-11-11T12:00:00Z"})


def sale_in_use(world):
    world.sale()
    world.order()
    return world.daemon.admin("DELETE", f"/admin/sale/{world.sku}")


def refunds_due(world):
    assert payment_too_late(world).code == "payment_too_late"
    return world.daemon.admin("DELETE", f"/admin/sale/{world.sku}")


def payload_too_large(world):
    return world.daemon.request("POST", "/order", b" " * 4097)


def uri_too_long(world):
    return world.daemon.get(f"/stock/{world.sku}?" + "&".join(["a=b"] * 51))


def unsupported_media_type(world):
    return world.daemon.request("POST", "/order", b"{}", {"Content-Type": "text/plain"})


def idempotency_key_reused(world):
    world.sale()
    world.order(key="key")
    return world.order(key="key", qty=2)


def rate_limited(world):
    daemon = world.spawn(rate_user_per_min=1, rate_user_burst=1)
    assert daemon.order(world.sku).status == 201
    return daemon.order(world.sku)


def headers_too_large(world):
    parameters = b"&".join([b"a=b"] * 30)
    return world.raw(b"GET /stock/x?%b HTTP/1.1\r\nHost: x\r\nX-Long: %b\r\n\r\n" % (
        parameters, b"x" * 5500))


def overloaded(world):
    daemon, ledger = world.behind("mysql_url", queue_max=1, max_batch=1, order_workers=1,
                                  deadline_ms=3000, **STEADY)
    ledger.hold()
    with ThreadPoolExecutor(12) as pool:
        answers = [pool.submit(daemon.order, world.sku, f"u{n}") for n in range(12)]
        refused = next(answer.result() for answer in answers
                       if answer.result().code == "overloaded")
        ledger.resume()
    return refused


def unavailable(world):
    daemon, redis = world.behind("redis_url", deadline_ms=1000)
    redis.refuse()
    answers = []

    def says_so():
        answers.append(daemon.order(world.sku))
        return "Redis" in answers[-1].body.decode()
    wait_until(says_so, "a refusal that names Redis")
    return answers[-1]


def no_order_id(world):
    shift = world.request.getfixturevalue("clock")
    daemon = world.spawn(env=shift.environment())
    with world.daemon.stack.ledger.transaction(LOCK_LEASES):
        shift.set(boot_s=3600)
        return daemon.order(world.sku)


def outcome_unknown(world):
    daemon, ledger = world.behind("mysql_url", deadline_ms=1000)
    assert answered(lambda: daemon.order(world.sku, key="warm-up")).status in (200, 201)
    ledger.once(COMMIT, after=lambda _: ledger.refuse())
    return wait_until(  # an order that gets its deadline before its commit is none
        lambda: (answer := daemon.order(world.sku, "u2", key="unknown")).code == "outcome_unknown"
        and answer, "an order whose commit is lost")


def events_off(world):
    return world.daemon.admin("GET", "/admin/webhooks")


def unknown_undelivered(world):
    daemon = world.spawn(events_retention_h=24)
    daemon.admin("PUT", "/admin/webhooks/w", {"url": "https://localhost/"})
    return daemon.admin("POST", "/admin/webhooks/w/undelivered/replay", {"id": "evt_0_17"})


def unknown_webhook(world):
    return world.spawn(events_retention_h=24).admin("GET", "/admin/webhooks/w")


def too_many_webhooks(world):
    daemon, body = world.spawn(events_retention_h=24), {"url": "https://localhost/"}
    return [daemon.admin("PUT", f"/admin/webhooks/w{n}", body) for n in range(65)][-1]


def too_many_orders(world):
    daemon = world.spawn()
    daemon.stack.ledger.run("INSERT INTO order_key(user_id, idempotency_key, order_id) "
                            f"SELECT 'guest', seq, seq FROM {numbers(10_001)}")
    return daemon.get("/user/guest/orders")


def cursor_expired(world):
    daemon = world.spawn(events_retention_h=24)
    daemon.stack.ledger.run("UPDATE event_feed SET oldest = 101, next = 101,"
                            "before_at = '2026-11-22 20:48:06.002'")
    return daemon.get("/events?after=0")


RECIPES = {recipe.__name__: recipe for recipe in (
    invalid_request, unauthorized, origin_refused, ambiguous_end, invalid_head, repeated_header,
    not_found, unknown_sku, unknown_order, unknown_payment, method_not_allowed, request_timeout,
    sold_out, sale_not_started, sale_ended, sale_paused, limit_reached, round_mismatch,
    round_in_use, invalid_state, payment_too_late, already_paid, payment_failed, hold_limit_reached,
    sale_in_use, refunds_due, keep_too_large, payload_too_large, uri_too_long,
    unsupported_media_type, idempotency_key_reused, rate_limited, headers_too_large, overloaded,
    unavailable, no_order_id, outcome_unknown, events_off, unknown_webhook, unknown_undelivered,
    too_many_orders, too_many_webhooks, cursor_expired, http_version_not_supported)}


@pytest.fixture(scope="module")
def shared(shared_servers, tmp_path_factory):
    stack = shared_servers.aside("openapi", 3)
    with Daemon(stack, tmp_path_factory.mktemp("openapi"), **STEADY) as daemon:
        yield daemon


@pytest.mark.parametrize("code", RECIPES)
def test_problem(shared, request, description, code):
    answer = RECIPES[code](World(shared, code, request))
    example = PROBLEMS[code]["value"]
    assert answer.code == code, answer
    assert answer.status == example["status"]
    assert alike(example, answer.json()), (answer, example)
    holders = [response for response in description.document["components"]["responses"].values()
               if code in description.response_examples(response)]
    assert holders
    for response in holders:
        description.check(response, answer)
