"""Sales sell out under load: never a unit too many, never one too few."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.audit import audit, sell_out
from harness.client import assert_problem
from harness.daemon import STEADY
from harness.processes import wait_until

SOLD_OUT = {"201", "409 sold_out"}


def run_all(loads):
    """Waits for every load and returns all that was accepted, but for answers that were under way
    when a load ended: a refusal of many units does not mean that the last few are gone."""
    return [order for load in loads for order in load.wait().accepted]


def test_two_daemons_and_256_clients_sell_exactly_1000_units(pair, load):
    pair[0].reset("demo", 1000, 20)
    loads = [load(daemon, connections=128, stop_after=1000) for daemon in pair]
    accepted = run_all(loads)
    for one in loads:
        assert set(one.answers) <= SOLD_OUT
        assert one.answers["409 sold_out"] > 1000
        assert one.errors["read"] == one.errors["connect"] == one.errors["timeout"] == 0
    assert 0 < len(accepted) <= 1000
    assert audit(pair[0], accepted=accepted) == 1000
    assert pair[0].stack.ledger.number("SELECT COUNT(*) FROM orders") == 1000
    for daemon in pair:
        assert daemon.metric("seckill_sold_out_fast_total") > 0


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("segments", [1, 20, 1000])
def test_mixed_quantities_sell_the_last_unit_too(pair, load, segments):
    pair[0].reset("demo", 1000, segments)
    loads = [load(daemon, connections=64, qty=(1, 5)) for daemon in pair]
    accepted = run_all(loads)
    assert all(set(one.answers) <= SOLD_OUT for one in loads)
    accepted += sell_out(pair[0])
    assert audit(pair[0], accepted=accepted) == 1000


def test_several_skus_in_one_batch_sell_out_each_for_itself(pair, load):
    totals = {"a": (150, 20), "b": (300, 1), "c": (50, 50), "d": (1, 1)}
    for sku, (total, segments) in totals.items():
        pair[0].reset(sku, total, segments)
    loads = [load(daemon, skus=totals, qty=(1, 3)) for daemon in pair]
    accepted = run_all(loads)
    assert all(set(one.answers) <= SOLD_OUT for one in loads)
    for sku, (total, _) in totals.items():
        accepted += sell_out(pair[0], sku)
        assert audit(pair[1], sku) == total
    audit(pair[1], "a", accepted)


def test_one_unit_is_sold_once(pair, load):
    pair[0].reset("demo", 1, 1)
    loads = [load(daemon, connections=128) for daemon in pair]
    accepted = run_all(loads)
    assert len(accepted) <= 1
    assert audit(pair[0], accepted=accepted) == 1
    assert pair[0].stack.ledger.number("SELECT COUNT(*) FROM orders") == 1


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("workers, max_batch", [(4, 1), (4, 16), (1, 1)])
def test_any_number_of_workers_and_any_batch_sell_exactly_the_total(stack, spawn, load, workers,
                                                                    max_batch):
    pair = [spawn(stack, order_workers=workers, max_batch=max_batch, http_threads=2, **STEADY)
            for _ in range(2)]
    pair[0].reset("demo", 400, 5)
    loads = [load(daemon, connections=64, qty=(1, 3)) for daemon in pair]
    accepted = run_all(loads)
    assert all(set(one.answers) <= SOLD_OUT for one in loads)
    accepted += sell_out(pair[1])
    assert audit(pair[0], accepted=accepted) == 400


def test_qty_that_no_segment_can_fill_comes_from_several(daemon):
    daemon.reset("demo", 100, 20)
    response = daemon.order(qty=30)
    assert response.status == 201
    order = response.json()
    assert daemon.get(f"/order/{order['order_id']}").json() == {**order, "version": 1}
    rows = daemon.stack.ledger.run("SELECT segment, sold FROM stock_segment WHERE sold > 0")
    assert len(rows) >= 6 and sum(int(sold) for _, sold in rows) == 30
    assert str(order["segment"]) in {segment for segment, _ in rows}
    assert audit(daemon) == 30


@pytest.mark.parametrize("total, segments", [(1000, 1000), (50, 20), (40, 2)])
def test_one_order_can_buy_the_whole_sale(daemon, total, segments):
    daemon.reset("demo", total, segments)
    if total < 1000:
        assert_problem(daemon.order(qty=total + 1), 409, "sold_out")
        assert daemon.stock()["sold"] == 0
    assert daemon.order(qty=total).status == 201
    assert_problem(daemon.order(qty=1), 409, "sold_out")
    assert audit(daemon) == total


def test_large_orders_at_once_neither_deadlock_nor_leak(pair):
    pair[0].reset("demo", 100, 20)
    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda n: pair[n % 2].order(user_id=f"u{n}", qty=7), range(32)))
    assert {response.answer for response in answers} <= SOLD_OUT
    accepted = [(r.json()["order_id"], 7) for r in answers if r.status == 201]
    assert len(accepted) == 14
    last = sell_out(pair[1])
    assert len(last) == 2
    assert audit(pair[0], accepted=accepted + last) == 100


def test_large_and_small_orders_together_sell_out(pair, load):
    pair[0].reset("demo", 1000, 100)
    loads = [load(daemon, connections=32, qty=(1, 60)) for daemon in pair]
    accepted = run_all(loads)
    assert all(set(one.answers) <= SOLD_OUT for one in loads)
    accepted += sell_out(pair[0])
    assert audit(pair[0], accepted=accepted) == 1000


def test_fewer_units_left_than_segments(pair):
    pair[0].reset("demo", 20, 20)
    for number in range(17):
        assert pair[number % 2].order().status == 201
    assert pair[0].order(qty=4).answer == "409 sold_out"
    response = pair[1].order(qty=3)
    assert response.status == 201
    for daemon in pair:
        assert daemon.order().answer == "409 sold_out"
    assert audit(pair[0]) == 20


def test_sold_out_memory_ends_in_every_daemon_with_a_reset(pair):
    pair[0].reset("demo", 2, 2)
    for daemon in pair:
        daemon.order()
    for daemon in pair:
        for _ in range(3):
            assert daemon.order().answer == "409 sold_out"
    pair[0].reset("demo", 10, 2)
    assert pair[0].order().status == 201
    wait_until(lambda: pair[1].order().status == 201, "a sale at the other daemon")
