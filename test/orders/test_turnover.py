"""A sale turns over: it sells to the last unit, nobody pays, every order expires, and all of it is
sold again, many times. No segment falls behind, and what clients read of the stock always adds up.

`TURNS=100` sets how often (2)."""

import os
import signal
import threading
from contextlib import contextmanager

from harness.audit import audit, sell_out, statuses
from harness.clock import TEST_SECONDS_MAX
from harness.processes import wait_until

TURNS = int(os.environ.get("TURNS", "2"))
TOTAL, SEGMENTS = 300, 20
PAUSE_S = 0.02  # between two readings of a client


def check_page(stock):
    """One reading of the stock is consistent in itself."""
    segments = stock["segments"]
    left = [segment["capacity"] - segment["sold"] for segment in segments]
    assert len(left) == SEGMENTS and min(left) >= 0, stock
    assert all(segment["sold"] >= 0 for segment in segments), stock
    assert sum(left) == stock["available"] == TOTAL - stock["sold"], stock
    assert 0 <= stock["available"] <= TOTAL == stock["total"], stock


@contextmanager
def readers(pair):
    """Two clients read the page and the exact stock all the while; a bad reading fails the test."""
    over, failures = threading.Event(), []

    def read(daemon):
        try:
            while not over.wait(PAUSE_S):
                for page in (daemon.get("/stock/demo").json(), daemon.stock()):
                    check_page(page)
        except Exception as error:
            failures.append(error)
    threads = [threading.Thread(target=read, args=(daemon,)) for daemon in pair]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not failures, failures


def sell_all(pair, load, turn):
    """Both daemons sell until nothing is left. Each has to hear first that units came back."""
    for daemon in pair:
        wait_until(lambda: daemon.order(user_id=f"first-{turn}").status == 201,
                   "an end of the memory that the sale is sold out")
    running = [load(daemon, connections=16, qty=(1, 5), stop_after=100) for daemon in pair]
    for one in running:
        assert set(one.wait().answers) <= {"201", "409 sold_out"}, one.answers
    sell_out(pair[turn % 2])


def make_due(stack):
    """Ends the time to pay of the orders that are still reserved."""
    stack.ledger.run("UPDATE orders SET expires_at = '2020-01-01' WHERE status = 'reserved';"
                     " UPDATE order_expiry SET expires_at = '2020-01-01'")


def test_every_segment_is_sold_out_in_every_turn(pair, load):
    signal.alarm(TEST_SECONDS_MAX + TURNS)
    stack = pair[0].stack
    pair[0].reset("demo", TOTAL, SEGMENTS, pay_within_s=3600)
    with readers(pair):
        for turn in range(TURNS):
            sell_all(pair, load, turn)
            assert statuses(stack.ledger)["reserved"][1] == TOTAL
            assert not stack.ledger.run("SELECT 1 FROM stock_segment WHERE sold != capacity")
            assert audit(pair[turn % 2]) == TOTAL
            for daemon in pair:
                wait_until(lambda: daemon.get("/stock/demo").json()["available"] == 0, "its page")
            make_due(stack)
            wait_until(lambda: pair[0].stock()["sold"] == 0, "expiry of all orders")
            assert set(statuses(stack.ledger)) == {"expired"}
            assert audit(pair[turn % 2]) == 0
            for daemon in pair:
                wait_until(lambda: daemon.get("/stock/demo").json()["available"] == TOTAL,
                           "its page")
