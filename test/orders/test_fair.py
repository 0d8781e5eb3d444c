"""One hot sale does not starve the others: turns in the queue, places in it, and what waiting ends
with. Order workers give ids in the order in which they take orders: ids tell who was served when.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from harness.audit import audit
from harness.client import assert_problem
from harness.processes import wait_until
from harness.proxy import WRITE

BATCH = 8
HOT = 100
WORKERS = 2


@pytest.fixture
def stalled(stack, proxies, spawn):
    """stalled(option=value…): a daemon with the sales hot and cold, whose order workers hang in
    their first batches until stalled.resume(). Its other threads' calls pass, unless `hang` is
    "ledger": a node's lease does not outlive a hanging ledger by 10 s."""
    proxy = proxies(stack.ledger.port)
    resumed = threading.Event()

    def resume():
        resumed.set()
        proxy.resume()

    @contextmanager
    def start(hang="workers", **options):
        daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url), mysql_timeout_ms=60_000,
                       lease_ms=60_000, order_workers=WORKERS, **options)
        for sku in ("hot", "cold"):
            daemon.reset(sku, 1000, 4)
            assert daemon.order(sku).status == 201
            stack.wait_unlocked(sku)  # by then the worker is through with what follows its answer
        if hang == "ledger":
            proxy.hold()
        else:
            for _ in range(WORKERS):
                proxy.once(WRITE, before=lambda link: resumed.wait())
        with ThreadPoolExecutor(HOT + 20) as clients:
            try:
                yield daemon, clients
            finally:
                resume()

    start.resume = resume
    return start


def waiting(daemon, count):
    wait_until(lambda: daemon.metric("seckill_queue_depth") >= count, f"{count} orders waiting")


def test_order_of_a_quiet_sale_does_not_wait_for_the_queue_of_a_hot_one(stalled):
    with stalled(max_batch=BATCH, deadline_ms=60_000) as (daemon, clients):
        hot = [clients.submit(daemon.order, "hot", f"u{n}", timeout=60) for n in range(HOT)]
        waiting(daemon, HOT)
        cold = clients.submit(daemon.order, "cold", timeout=60)
        waiting(daemon, HOT + 1)
        stalled.resume()
        answers = [order.result() for order in [cold, *hot]]
    assert {answer.status for answer in answers} == {201}
    served = [int(answer.json()["order_id"]) for answer in answers]
    before = sum(order_id < served[0] for order_id in served[1:])
    # A batch of each worker that hung, and a turn of the hot sale.
    assert before <= 3 * BATCH
    assert audit(daemon, "hot") == HOT + 1


def test_hot_sale_leaves_places_to_others(stalled):
    with stalled(max_batch=BATCH, queue_max=45, deadline_ms=60_000) as (daemon, clients):
        hot = [clients.submit(daemon.order, "hot", f"u{n}", timeout=60) for n in range(HOT)]
        wait_until(lambda: daemon.metric('seckill_orders_total{outcome="overloaded"}') > 0
                   and sum(order.done() for order in hot) >= HOT - 41, "refused orders")
        assert daemon.metric("seckill_queue_depth") <= 41  # 8/9 of the places, and one
        cold = [clients.submit(daemon.order, "cold", f"u{n}", timeout=60) for n in range(3)]
        waiting(daemon, 43)
        stalled.resume()
        assert {order.result().answer for order in cold} == {"201"}
        assert {order.result().answer for order in hot} == {"201", "503 overloaded"}


def test_order_that_waits_for_a_hanging_ledger_is_unavailable_and_not_accepted(stalled):
    with stalled("ledger", max_batch=1, deadline_ms=3000) as (daemon, clients):
        answers = [order.result() for order in
                   [clients.submit(daemon.order, "hot", f"u{n}") for n in range(20)]]
        untaken = [answer for answer in answers if answer.code != "outcome_unknown"]
        assert len(untaken) >= 18  # one hangs in the order worker
        for answer in untaken:
            assert_problem(answer, 503, "unavailable")
        count = daemon.metric('seckill_orders_total{outcome="unavailable"}')
        assert count == len(untaken)
        assert daemon.metric('seckill_orders_total{outcome="overloaded"}') == 0
        stalled.resume()
        wait_until(lambda: daemon.metric("seckill_queue_depth") == 0, "an empty queue")
        assert audit(daemon, "hot") <= 1 + len(answers) - len(untaken)
