"""Node numbers of order ids: no two daemons ever make the same id, whatever they sleep through."""

from harness.audit import audit_after_faults
from harness.client import assert_problem
from harness.processes import wait_until

LOCK_LEASES = "SELECT number FROM node_lease FOR UPDATE"  # nobody renews one meanwhile
ENDED = "UPDATE node_lease SET leased_until=UTC_TIMESTAMP(6)"
LASTING = "UPDATE node_lease SET leased_until=UTC_TIMESTAMP(6) + INTERVAL 1 HOUR"


def node_of(response):
    assert response.status == 201, response
    return int(response.json()["order_id"]) >> 12 & 1023


def made_at_ms(response):
    return (int(response.json()["order_id"]) >> 22) + 1735689600000


def pod_of(response):
    return int(response.json()["order_id"]) >> 8 & 15


def holders(stack):
    return stack.ledger.number("SELECT COUNT(*) FROM node_lease WHERE holder IS NOT NULL")


def test_daemons_hold_a_number_each_and_give_it_back(pair):
    stack = pair[0].stack
    pair[0].reset()
    assert holders(stack) == 2
    assert len({node_of(daemon.order(user_id=f"u{n}")) for n, daemon in enumerate(pair)}) == 2
    for left, daemon in ((1, pair[0]), (0, pair[1])):
        daemon.stop()
        assert holders(stack) == left
    pair[0].start()
    assert holders(stack) == 1


def test_daemon_that_slept_beyond_its_lease_goes_on_with_another_number(stack, spawn):
    """Its former number has been taken meanwhile."""
    sleeper = spawn(stack)
    sleeper.reset()
    former = node_of(sleeper.order())
    sleeper.pause()
    stack.ledger.run(ENDED)
    taker = spawn(stack, node_id=former)
    orders = [taker.order()]
    sleeper.cont()
    answers = [daemon.order() for _ in range(5) for daemon in (sleeper, taker)]
    # The sleeper's lease may be over by its own clock before it has another number.
    assert {answer.answer for answer in answers[::2]} <= {"201", "503 no_order_id"}
    assert {answer.answer for answer in answers[1::2]} == {"201"}
    orders += [answer for answer in answers if answer.status == 201]
    wait_until(lambda: "event=node_lost" in sleeper.log(), "the loss")
    wait_until(lambda: sleeper.log().count("event=node_leased") == 2, "another number")
    orders.append(sleeper.order())
    assert node_of(orders[-1]) != former == node_of(orders[0])
    ids = {order.json()["order_id"] for order in orders}
    assert len(ids) == len(orders)
    assert audit_after_faults(taker) == len(orders) + 1


def test_without_a_lease_orders_are_refused_and_nothing_else(stack, spawn, clock):
    """The host slept, and the lease cannot be renewed at first."""
    daemon = spawn(stack, env=clock.environment())
    daemon.reset()
    first = daemon.order()
    with stack.ledger.transaction(LOCK_LEASES):
        clock.set(boot_s=3600)
        for key in (None, "k"):
            assert_problem(daemon.order(key=key), 503, "no_order_id")
        assert daemon.get(f"/order/{first.json()['order_id']}").status == 200
        assert daemon.metric('seckill_orders_total{outcome="unavailable"}') == 2
    wait_until(lambda: daemon.order(key="k").status == 201, "an order")
    assert audit_after_faults(daemon) == 2


def test_second_daemon_with_the_same_node_id_ends(stack, spawn):
    first = spawn(stack, node_id=7)
    second = spawn(stack, node_id=7, ready=False)
    assert second.wait(timeout=30) == 2
    assert "node_id 7 is in use by another daemon" in second.log()
    first.reset()
    order = first.order()
    assert node_of(order) == 7 and pod_of(order) == 0


def test_node_id_of_a_dead_daemon_is_taken_when_its_lease_ends(stack, spawn):
    daemon = spawn(stack, node_id=7)
    daemon.kill()
    stack.ledger.run(LASTING)
    daemon.launch()
    wait_until(lambda: "event=node_taken" in daemon.log(), "a warning")
    stack.ledger.run(ENDED)
    daemon.wait_started()
    daemon.reset()
    assert node_of(daemon.order()) == 7


def test_next_holder_begins_behind_the_ids_of_the_last(stack, spawn):
    """The ledger's clock was an hour ahead when they were made."""
    daemon = spawn(stack, node_id=7)
    daemon.reset()
    former = [daemon.order().json()["order_id"] for _ in range(3)]
    daemon.kill()
    stack.ledger.run(ENDED)
    stack.ledger.run("UPDATE node_lease SET ids_before=ids_before+3600000 WHERE number=7")
    ids_before_ms = stack.ledger.number("SELECT ids_before FROM node_lease WHERE number=7")
    next_holder = spawn(stack, node_id=7)
    order = next_holder.order()
    assert node_of(order) == 7
    assert order.json()["order_id"] > max(former)
    assert made_at_ms(order) >= ids_before_ms
    assert audit_after_faults(next_holder) == 4


CENTURY_S = 100 * 366 * 86400  # no order id carries a time after 2094


def late_numbers(stack):
    return stack.ledger.number("SELECT COUNT(*) FROM node_lease WHERE ids_before > 3900000000000")


def test_clock_beyond_all_ids_spoils_no_number(stack, spawn, clock):
    """Ids go by the ledger's clock, whatever the daemon's says."""
    clock.set(wall_s=CENTURY_S)
    daemon = spawn(stack, env=clock.environment())
    daemon.reset()
    node = node_of(daemon.order())
    clock.set()
    assert node_of(daemon.order(user_id="u2")) == node
    clock.set(wall_s=CENTURY_S)
    assert node_of(daemon.order(user_id="u3")) == node
    daemon.stop()
    assert late_numbers(stack) == 0


def test_number_that_a_clock_has_spoilt_is_passed_over(stack, spawn):
    first = spawn(stack)
    first.reset()
    stack.ledger.run("UPDATE node_lease SET ids_before=4000000000000 WHERE number<1000")
    second = spawn(stack)
    assert node_of(second.order()) >= 1000
    third = spawn(stack, ready=False, node_id=7)
    third.wait_until(lambda: "number 7, ids_before" in third.log(), "a line about the number")
    assert_problem(third.order(), 503, "unavailable")
    assert first.order(user_id="u2").status == 201
