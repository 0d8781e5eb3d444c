"""Rate limits per user and per address: all daemons share them, and nobody gets around them."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.audit import answered, audit, audit_after_faults
from harness.client import assert_problem, order_bytes, send_many
from harness.daemon import STEADY
from harness.processes import wait_until
from harness.proxy import WRITE, Link

SLOW = 1  # order per minute: within a test no quota comes back


def forwarded(daemon, address, user="u1"):
    return daemon.request("POST", "/order", {"sku": "demo", "user_id": user, "qty": 1},
                          {"X-Forwarded-For": address})


def assert_limited(response, burst):
    assert_problem(response, 429, "rate_limited")
    assert int(response.headers["Retry-After"]) >= 1
    assert response.headers["RateLimit-Limit"] == str(burst)
    assert response.headers["RateLimit-Remaining"] == "0"
    assert int(response.headers["RateLimit-Reset"]) >= 1


def test_user_gets_the_burst_and_then_429_while_others_buy(stack, spawn):
    daemon = spawn(stack, rate_user_per_min=SLOW, rate_user_burst=3, **STEADY)
    daemon.reset("demo", 100, 4)
    answers = [daemon.order(user_id="u1") for _ in range(6)]
    assert [answer.status for answer in answers] == [201] * 3 + [429] * 3
    for answer in answers[3:]:
        assert_limited(answer, 3)
        assert 30 <= int(answer.headers["Retry-After"]) <= 91  # one a minute, and up to half of it
        assert 120 <= int(answer.headers["RateLimit-Reset"]) <= 180
    assert daemon.order(user_id="u2").status == 201
    assert daemon.metric('seckill_orders_total{outcome="rate_limited"}') == 3
    assert audit(daemon) == 4  # what was taken for refused orders is back


def test_limit_holds_over_daemons_and_in_one_batch(stack, spawn):
    daemons = [spawn(stack, rate_user_per_min=SLOW, rate_user_burst=5, **STEADY) for _ in range(2)]
    daemons[0].reset("demo", 1000, 4)
    with ThreadPoolExecutor(40) as clients:
        answers = list(clients.map(lambda n: daemons[n % 2].order(user_id=f"u{n % 4}"), range(80)))
    assert {answer.status for answer in answers} == {201, 429}
    accepted = Counter(a.json()["user_id"] for a in answers if a.status == 201)
    assert accepted == {f"u{n}": 5 for n in range(4)}
    assert audit(daemons[1]) == 20


def test_quota_comes_back_at_its_rate(stack, spawn):
    daemon = spawn(stack, rate_user_per_min=60, rate_user_burst=2)
    daemon.reset("demo", 100, 4)
    while daemon.order().status == 201:
        pass
    wait_until(lambda: daemon.order().status == 201, "an order a second later")
    ttl = int(stack.redis("PTTL", "seckill:{rate}:users"))
    assert 0 < ttl <= 4000


def test_no_key_without_an_end(stack, spawn):
    daemon = spawn(stack, rate_user_per_min=SLOW, rate_user_burst=2, rate_address_per_min=SLOW)
    daemon.reset("demo", 100, 4)
    for n in range(5):
        daemon.order(user_id=f"u{n}")
    keys = stack.redis("KEYS", "seckill:{rate}:*")
    assert sorted(key.decode() if isinstance(key, bytes) else key for key in keys) == [
        "seckill:{rate}:addresses", "seckill:{rate}:users"]
    assert all(int(stack.redis("PTTL", key)) != -1 for key in keys)


def test_address_limit_ignores_a_header_that_nobody_vouches_for(stack, spawn):
    daemon = spawn(stack, rate_address_per_min=SLOW, rate_address_burst=2)
    daemon.reset("demo", 100, 4)
    statuses = [forwarded(daemon, f"192.0.2.{n}", f"u{n}").status for n in range(4)]
    assert statuses == [201, 201, 429, 429]
    assert_limited(daemon.order(user_id="u9"), 2)


def test_address_behind_trusted_proxies(stack, spawn):
    daemon = spawn(stack, rate_address_per_min=SLOW, rate_address_burst=1,
                   trusted_proxies="127.0.0.0/8, 10.0.0.0/8, 2001:db8::/32")
    daemon.reset("demo", 100, 4)
    for list_, status in [("192.0.2.1", 201), ("192.0.2.1", 429),
                          ("192.0.2.2, 192.0.2.1", 429),  # what the client wrote itself
                          ("192.0.2.2, 192.0.2.3, 10.1.2.3, 2001:db8::7", 201),
                          ("192.0.2.3, 10.9.9.9", 429), ("192.0.2.4:5678", 201),
                          ("192.0.2.4", 429), ("2a00:1::1", 201), ("[2a00:1::2]:443", 429),
                          ("2a00:1:0:1::2", 201), ("10.0.0.1", 201), ("10.0.0.1", 429),
                          ("nonsense", 201), ("192.0.2.77, nonsense", 429), ("", 429)]:
        assert forwarded(daemon, list_).status == status, list_


def test_address_is_the_proxys_word_whatever_the_client_has_sent(stack, spawn):
    """Each of the client's headers names another address; the proxy's header comes last."""
    daemon = spawn(stack, rate_address_per_min=SLOW, rate_address_burst=1,
                   trusted_proxies="127.0.0.1")
    daemon.reset("demo", 100, 4)
    for user, status in (("u1", 201), ("u2", 429), ("u3", 429)):
        heads = "".join(f"X-Forwarded-For: 198.51.{user[1:]}.{n}\r\n" for n in range(12))
        line, rest = order_bytes(user_id=user).split(b"\r\n", 1)
        data = line + b"\r\n" + heads.encode() + b"X-Forwarded-For: 192.0.2.1\r\n" + rest
        assert [answer.status for answer in send_many(daemon.address, [data])] == [status]


def test_refused_by_the_address_does_not_cost_the_user(stack, spawn):
    daemon = spawn(stack, rate_address_per_min=SLOW, rate_address_burst=1, rate_user_per_min=SLOW,
                   rate_user_burst=2, trusted_proxies="127.0.0.1")
    daemon.reset("demo", 100, 4)
    answers = [forwarded(daemon, address).status for address in
               ("192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.3")]
    assert answers == [201, 429, 429, 201, 429, 429]
    assert daemon.order(user_id="u2").status == 201
    assert forwarded(daemon, "192.0.2.3", "u3").status == 201  # nor the address, by the user


def test_repeat_of_an_accepted_order_is_answered_with_it(stack, spawn):
    daemon = spawn(stack, rate_user_per_min=SLOW, rate_user_burst=1)
    daemon.reset("demo", 100, 4)
    first = daemon.order(key="k1")
    assert first.status == 201
    assert_limited(daemon.order(key="k2"), 1)
    again = daemon.order(key="k1")
    assert (again.status, again.json()) == (200, first.json())
    assert_limited(daemon.order(key="k2"), 1)
    assert_problem(daemon.order(key="k1", qty=2), 422, "idempotency_key_reused")


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("strategy", ["segment_lock", "database"])
def test_limit_that_redis_cannot_tell_lets_nobody_through(stack, spawn, strategy):
    daemon = spawn(stack, rate_user_per_min=SLOW, rate_user_burst=2, strategy=strategy)
    daemon.reset("demo", 100, 4)
    stack.redis("SET", "seckill:{rate}:users", "no list of users")
    assert_problem(daemon.order(), 503, "unavailable")
    stack.redis("DEL", "seckill:{rate}:users")
    assert daemon.order().status == 201
    assert audit_after_faults(daemon) == 1


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("strategy", ["segment_lock", "database"])
def test_redis_down_is_unavailable_and_no_way_around(private_stack, spawn, strategy):
    daemon = spawn(private_stack, rate_user_per_min=SLOW, rate_user_burst=2, strategy=strategy)
    daemon.reset("demo", 100, 4)
    assert [daemon.order().status for _ in range(3)] == [201, 201, 429]
    private_stack.redis_server.kill()
    for _ in range(3):
        assert_problem(daemon.order(), 503, "unavailable")
    private_stack.redis_server.start()
    assert answered(lambda: daemon.order(user_id="u2")).status == 201
    assert audit_after_faults(daemon) <= 5  # limits may begin anew, but hold


@pytest.mark.parametrize("lost, left", [("request", 1), ("answer", 0)])
def test_question_lost_while_the_ledger_writes(stack, proxies, spawn, lost, left):
    """A lost answer accepts no order; the daemon asks once more, and may count the order twice."""
    proxy = proxies(stack.redis.address[1])
    daemon = spawn(stack, redis_url=proxy.url(stack.redis_url), rate_user_per_min=SLOW,
                   rate_user_burst=2)
    daemon.reset("demo", 20, 4)
    trap = proxy.once(rb"\{rate\}:users", **{"before" if lost == "request" else "after": Link.cut})
    assert daemon.order().status == 201
    trap.wait()
    assert [daemon.order().status for _ in range(2)] == [201] * left + [429] * (2 - left)
    assert audit_after_faults(daemon) == 1 + left


def test_refused_orders_leave_the_batch_and_the_others_are_accepted(stack, proxies, spawn):
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url), mysql_timeout_ms=60_000,
                   rate_user_per_min=SLOW, rate_user_burst=3, deadline_ms=60_000, lease_ms=60_000)
    daemon.reset("demo", 100, 4)
    users = ["greedy"] * 10 + [f"u{n}" for n in range(10)]
    trap = proxy.once(WRITE, before=lambda link: proxy.hold())
    with ThreadPoolExecutor(21) as clients:
        first = clients.submit(daemon.order, user_id="first", timeout=60)
        trap.wait()  # the first order waits in its transaction, the others for the next batch
        answers = [clients.submit(daemon.order, user_id=user, timeout=60) for user in users]
        try:
            wait_until(lambda: daemon.metric("seckill_queue_depth") == 21, "all to wait")
        finally:
            proxy.resume()
    statuses = Counter((user[0], answer.result().status) for user, answer in zip(users, answers))
    assert first.result().status == 201
    assert statuses == {("g", 201): 3, ("g", 429): 7, ("u", 201): 10}
    assert audit(daemon) == 14


def test_order_that_is_tried_again_is_counted_once(stack, spawn):
    """Many order workers on one segment: most orders find it busy and go back to the queue."""
    daemon = spawn(stack, order_workers=4, max_batch=4, rate_user_per_min=SLOW, rate_user_burst=30)
    daemon.reset("demo", 1000, 1)
    with ThreadPoolExecutor(30) as clients:
        statuses = Counter(clients.map(lambda n: daemon.order().status, range(60)))
    assert statuses == {201: 30, 429: 30}


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("strategy", ["single_lock", "atomic", "optimistic", "database"])
def test_limit_holds_whatever_the_strategy(stack, spawn, strategy):
    daemon = spawn(stack, strategy=strategy, rate_user_per_min=SLOW, rate_user_burst=5)
    daemon.reset("demo", 1000, 4)
    with ThreadPoolExecutor(20) as clients:
        statuses = Counter(clients.map(lambda n: daemon.order().status, range(20)))
    assert statuses == {201: 5, 429: 15}


def test_retry_after_differs_between_clients(stack, spawn):
    daemon = spawn(stack, rate_user_per_min=SLOW, rate_user_burst=1)
    daemon.reset("demo", 100, 4)
    waits = set()
    for n in range(8):
        daemon.order(user_id=f"u{n}")
        waits.add(daemon.order(user_id=f"u{n}").headers["Retry-After"])
        time.sleep(0.002)
    assert len(waits) > 1
