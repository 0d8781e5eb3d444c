"""Every way not to oversell sells out exactly, repeats safely, and dies as stock/README.md says."""

import itertools
import time

import pytest

from harness.audit import audit, audit_after_faults, audit_sale, sell_out, sell_out_after_faults
from harness.daemon import STEADY
from harness.load import kill_under_load
from harness.processes import wait_until
from harness.proxy import COMMIT, STEPS, Link, kill_at
from harness.standstill import undisturbed

COUNTERS = ("atomic", "optimistic")  # units that they had taken when they died are missing in Redis
LEDGER_ONLY = ("single_lock", "database")  # they do not write to Redis
STRATEGIES = ("segment_lock", *COUNTERS, *LEDGER_ONLY)
TURN_STEPS = range(1, len(STRATEGIES))
SOLD_OUT = {"201", "409 sold_out"}
ANSWERS = SOLD_OUT | {"503 unavailable", "503 outcome_unknown", "503 overloaded"}

every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)
# So that the short form tries those that it otherwise leaves out.
every_strategy_backwards = pytest.mark.parametrize("strategy", STRATEGIES[::-1])
# Faults that test_crash and test_faults try with segment_lock.
every_other = pytest.mark.parametrize("strategy", STRATEGIES[1:])


def audit_of(strategy):
    """The counters in Redis of strategies that do not write to it are reconciled first."""
    return audit_after_faults if strategy in LEDGER_ONLY else audit


def units(orders):
    return sum(qty for _, qty in orders)


@pytest.mark.long(keep=2)
@every_strategy
def test_two_daemons_sell_exactly_the_total(stack, spawn, load, strategy):
    """Each order by itself."""
    pair = [spawn(stack, strategy=strategy, max_batch=1, **STEADY) for _ in range(2)]
    pair[0].reset("demo", 300, 20)
    loads = [load(daemon, connections=32, qty=(1, 3)) for daemon in pair]
    accepted = [order for one in loads for order in one.wait().accepted]
    assert all(set(one.answers) <= SOLD_OUT for one in loads)
    accepted += sell_out(pair[0])
    audit_sale(stack, "demo", allow_dirty=strategy in LEDGER_ONLY)
    assert audit_of(strategy)(pair[1], accepted=accepted) == 300
    audit_sale(stack, "demo")


@pytest.mark.long(keep=2)
@every_strategy_backwards
def test_several_lanes_and_skus_sell_out_each_for_itself(stack, spawn, load, strategy):
    pair = [spawn(stack, strategy=strategy, order_workers=3, max_batch=16, **STEADY)
            for _ in range(2)]
    totals = {"a": (150, 20), "b": (100, 1), "c": (50, 50)}
    for sku, (total, segments) in totals.items():
        pair[0].reset(sku, total, segments)
    loads = [load(daemon, connections=32, skus=totals, qty=(1, 9)) for daemon in pair]
    accepted = [order for one in loads for order in one.wait().accepted]
    assert all(set(one.answers) <= SOLD_OUT for one in loads)
    for sku, (total, _) in totals.items():
        accepted += sell_out(pair[1], sku)
        assert audit_of(strategy)(pair[0], sku) == total
    audit_of(strategy)(pair[0], "a", accepted)


@pytest.mark.long(keep=2)
@every_strategy
def test_repeat_of_a_key_is_the_same_order_at_every_daemon(stack, spawn, strategy):
    pair = [spawn(stack, strategy=strategy, **STEADY) for _ in range(2)]
    pair[0].reset("demo", 10, 5)
    first = pair[0].order(qty=5, key="k")
    assert first.status == 201
    for daemon in (*pair, *pair):
        repeat = daemon.order(qty=5, key="k")
        assert (repeat.status, repeat.json()) == (200, first.json())
    assert pair[1].order(qty=2, key="k").answer == "422 idempotency_key_reused"
    assert len(sell_out(pair[1])) == 5
    assert pair[0].order(qty=5, key="k").status == 200
    assert audit_of(strategy)(pair[0]) == 10


@pytest.mark.long
@every_other
def test_kill_9_in_mid_load_loses_at_most_what_the_table_says(stack, proxies, spawn, load,
                                                              strategy):
    """Each transaction takes some 20 ms, of which a kill hits any."""
    ledger = proxies(stack.ledger.port)
    ledger.delay = 0.004
    options = {"strategy": strategy, "max_batch": 4, "mysql_url": ledger.url(stack.mysql_url)}
    steady, victim = spawn(stack, **options), spawn(stack, **options)
    steady.reset("demo", 20_000, 20)
    loads = [load(steady, connections=8, seconds=250, delay_ms=20),
             *kill_under_load(victim, load, times=2)]
    loads[0].stop()
    ledger.delay = 0
    accepted = [order for one in loads for order in one.wait().accepted]
    assert all(set(one.answers) <= ANSWERS for one in loads)
    wait_until(lambda: steady.metric("seckill_queue_depth") == 0, "the end of orders under way")
    assert steady.stock()["available"] > 0, "the sale was over too soon for this test"
    if strategy in COUNTERS:
        leaked = sum(difference["ledger_available"] - difference["redis_available"]
                     for difference in steady.reconcile()["differences"])
        assert 0 <= leaked <= 2 * 2 * 4  # kills, order workers, orders of a batch
    while (left := steady.stock()["available"]) > 0:
        order = steady.order(qty=min(left, 1000))
        assert order.status == 201, order
        accepted.append((order.json()["order_id"], min(left, 1000)))
    assert steady.order().answer == "409 sold_out"
    assert audit_after_faults(victim, accepted=accepted) == 20_000


@pytest.mark.long(keep=2)
@every_other
def test_kill_9_at_each_step_leaks_only_from_counters(stack, proxies, spawn, strategy):
    """The same two daemons at each step, with a sale for each, which the log names."""
    proxy = proxies(stack.ledger.port)
    victim = spawn(stack, strategy=strategy, mysql_url=proxy.url(stack.mysql_url))
    other = spawn(stack, strategy=strategy)
    for number, (pattern, when, how, sold) in enumerate(STEPS.values()):
        sku = f"step-{number}"  # no word that a trap knows
        other.reset(sku, 5, 1)
        first = undisturbed(lambda: victim.order(sku, key=f"first-{sku}"),
                            lambda answer: answer.status == 503)
        assert first.status == 201
        trap = kill_at(victim, proxy, pattern, when, how)
        with pytest.raises(ConnectionError):
            victim.order(sku, key=sku)
        trap.wait()
        leaked = 1 - sold if strategy in COUNTERS else 0
        assert len(sell_out_after_faults(other, sku)) == 4 - sold - leaked
        assert other.stock(sku)["available"] == leaked
        if leaked:
            report = other.reconcile(sku)
            assert report["differences"] == [{"segment": 0, "reason": "mismatch",
                                              "redis_available": 0, "ledger_available": 1}]
            assert (report["repaired"], report["consistent"]) == (1, True)
            assert len(sell_out_after_faults(other, sku)) == 1
        assert audit_after_faults(other, sku) == 5
        assert other.order(sku, key=sku).answer == ("200" if sold else "409 sold_out")
        victim.start()


@pytest.mark.long(keep=2)
@every_other
def test_commit_without_an_answer_is_asked_after(stack, proxies, spawn, strategy):
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, strategy=strategy, mysql_url=proxy.url(stack.mysql_url))
    for number, lost in enumerate(("before", "after"), 1):
        daemon.reset(lost, 5, 2)
        assert daemon.order(lost).status == 201
        trap = proxy.once(COMMIT, **{lost: Link.cut})
        assert daemon.order(lost).status == 201
        trap.wait()
        wait_until(lambda: daemon.metric("seckill_unknown_commits_total") == number,
                   "its metric")
        assert len(sell_out_after_faults(daemon, lost)) == 3
        assert audit_after_faults(daemon, lost) == 5


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("strategy", COUNTERS)
def test_reconcile_in_mid_load_neither_loses_nor_makes_units(stack, spawn, load, strategy):
    pair = [spawn(stack, strategy=strategy, max_batch=8, **STEADY) for _ in range(2)]
    pair[0].reset("demo", 1000, 5)
    loads = [load(daemon, connections=16, qty=(1, 3), delay_ms=50) for daemon in pair]
    times = 0  # while there were units left
    while loads[0].process.poll() is None:
        times += pair[0].stock()["available"] > 0
        pair[0].reconcile()
        time.sleep(0.02)
    assert times >= 3
    accepted = [order for one in loads for order in one.wait().accepted]
    assert all(set(one.answers) <= SOLD_OUT for one in loads)
    pair[0].reconcile()
    accepted += sell_out(pair[1])
    # Reconcile refuses what is under way, and the ledger then knows of units that Redis lacks.
    assert audit(pair[0], accepted=accepted, changed=True) == 1000


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("strategy", COUNTERS)
def test_counters_that_redis_forgot_are_set_again(stack, proxies, spawn, strategy):
    """As a Redis that was killed, and starts empty."""
    redis = proxies(stack.redis.address[1])
    daemon = spawn(stack, strategy=strategy, redis_url=redis.url(stack.redis_url))
    daemon.reset("demo", 100, 4)
    for _ in range(3):
        assert daemon.order(qty=7).status == 201
        redis.refuse()
        stack.redis("FLUSHALL")
        redis.admit()
    assert len(sell_out_after_faults(daemon)) == 79
    assert audit_after_faults(daemon) == 100


def test_ledger_alone_sells_without_redis(stack, proxies, spawn):
    redis = proxies(stack.redis.address[1])
    daemon = spawn(stack, strategy="database", redis_url=redis.url(stack.redis_url))
    daemon.reset("demo", 20, 5)
    redis.refuse()
    assert daemon.order(qty=13).status == 201
    assert len(sell_out_after_faults(daemon)) == 7
    redis.admit()
    wait_until(daemon.ready, "/readyz 200")
    assert audit_after_faults(daemon) == 20


def turns_of(step):
    """The strategies of one sale after each other."""
    return [STRATEGIES[turn * step % len(STRATEGIES)] for turn in range(len(STRATEGIES) + 1)]


def test_turns_lead_from_each_strategy_to_each_other_one():
    pairs = [pair for step in TURN_STEPS for pair in itertools.pairwise(turns_of(step))]
    assert sorted(pairs) == sorted(itertools.permutations(STRATEGIES, 2))


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("step", TURN_STEPS)
def test_sale_goes_on_after_a_restart_with_any_other_strategy(stack, spawn, step):
    """A kill in between leaves whatever a strategy can leave behind."""
    turns = turns_of(step)
    daemon = spawn(stack, strategy=turns[0])
    daemon.reset("demo", 3 * (len(STRATEGIES) + 1) + 1, 7)
    accepted = []
    for strategy in turns:
        if accepted:
            daemon.kill()
            daemon.options["strategy"] = strategy
            daemon.start()
        order = daemon.order(qty=3)
        assert order.status == 201
        accepted.append((order.json()["order_id"], 3))
    accepted += sell_out_after_faults(daemon)
    assert audit_after_faults(daemon, accepted=accepted) == units(accepted)
    assert daemon.stock()["available"] == 0
