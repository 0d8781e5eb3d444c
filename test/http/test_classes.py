"""Classes of calls: each has its own limit and workers, and operators have their own listener."""

import os
import signal
import socket
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from harness.audit import audit_sale
from harness.client import assert_problem, send
from harness.daemon import STEADY, TOKEN, Daemon
from harness.load import crowd
from harness.processes import wait_until

ADMIN = {"Authorization": f"Bearer {TOKEN}"}
OPERATORS = ["/admin/sales", "/healthz", "/servingz", "/readyz", "/metrics"]
FLOODERS = 24


# --- a kind of calls at its limit ---------------------------------------------------------------

def calls_of(daemon, order_id):
    """One call of each kind."""
    return {
        "order": lambda: daemon.order(user_id="u2"),
        "look-up": lambda: daemon.get(f"/order/{order_id}"),
        "payment": lambda: daemon.pay(order_id),
        "cancel": lambda: daemon.cancel("1"),
        "list": lambda: daemon.get("/user/u1/orders"),
        "admin": lambda: daemon.admin("PATCH", "/admin/sale/demo", {"paused": False}),
        "sale": lambda: daemon.admin("POST", "/admin/reconcile", {"sku": "demo"}),
        "listing": lambda: daemon.admin("GET", "/admin/orders"),
    }


@contextmanager
def flood(call):
    """Several clients repeat the call; gives the list of answers so far."""
    stop, answers = threading.Event(), []

    def repeat():
        while not stop.wait(0.1):  # more often they would only keep the processor busy
            answers.append(call().answer)

    with ThreadPoolExecutor(FLOODERS) as pool:
        futures = [pool.submit(repeat) for _ in range(FLOODERS)]
        try:
            yield answers
        finally:
            stop.set()
        for future in futures:
            future.result()


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("flooded", ["order", "look-up", "payment", "cancel", "list", "admin",
                                     "sale", "listing"])
def test_kind_at_its_limit_refuses_no_other(stack, proxies, spawn, flooded):
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url), call_queue_max=4, queue_max=4,
                   max_batch=1, lease_ms=5000)
    daemon.reset(total=100_000)
    order_id = daemon.order().json()["order_id"]
    calls = calls_of(daemon, order_id)
    for call in calls.values():
        call()  # every worker has its connections
    proxy.delay = 0.02
    with flood(calls[flooded]) as answers:
        wait_until(lambda: "503 overloaded" in answers, "the kind is at its limit")
        for kind in calls.keys() - {flooded}:
            answer = calls[kind]().answer
            assert "overloaded" not in answer, (kind, answer)
        for path in ["/healthz", "/metrics"]:
            assert daemon.get(path).status == 200
        daemon.wait_ready()  # at once, if the machine has not just stood still
    proxy.delay = 0


def test_call_that_waits_for_locks_does_not_hold_up_the_pause(stack, spawn):
    daemon = spawn(stack, lease_ms=5000)
    daemon.reset(segments=2)
    daemon.change(paused=False)
    stack.redis("SET", "seckill:{demo:0}:lock", "elsewhere")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(daemon.admin, "POST", "/admin/reconcile", {"sku": "demo"})
        time.sleep(0.2)
        assert daemon.change(paused=True)["paused"]
        assert not waiting.done()
        stack.redis("DEL", "seckill:{demo:0}:lock")
        assert waiting.result().status == 200


# --- the operators' listener --------------------------------------------------------------------

@pytest.fixture(params=["tcp", "unix"])
def parted(request, stack, spawn, tmp_path):
    """A daemon with a listener for operators."""
    where = "127.0.0.1:0" if request.param == "tcp" else f"unix:{tmp_path}/admin.sock"
    return spawn(stack, admin_listen=where)


def test_operators_are_served_on_their_listener_alone(parted):
    assert parted.admin_address() != parted.address
    for path in OPERATORS:
        wait_until(lambda: send(parted.admin_address(), "GET", path, headers=ADMIN).status == 200,
                   path)  # at once, but for /readyz once the machine has stood still
        assert_problem(send(parted.address, "GET", path, headers=ADMIN), 404, "not_found")
    parted.reset()
    order_id = parted.order().json()["order_id"]
    for method, path in [("GET", f"/order/{order_id}"), ("POST", f"/order/{order_id}/pay"),
                         ("GET", "/stock/demo"), ("GET", "/user/u1/orders")]:
        assert send(parted.address, method, path).status == 200
        answer = send(parted.admin_address(), method, path, headers=ADMIN)
        assert_problem(answer, 404, "not_found")


def test_both_listeners_describe_the_interface(parted):
    assert (send(parted.address, "GET", "/openapi.json").json()
            == send(parted.admin_address(), "GET", "/openapi.json").json())


def test_admin_calls_want_the_token_on_their_listener(parted):
    assert_problem(send(parted.admin_address(), "GET", "/admin/sales"), 401, "unauthorized")
    assert "event=unauthorized" in parted.log()


def test_operators_have_connections_of_their_own(stack, spawn):
    daemon = spawn(stack, admin_listen="127.0.0.1:0", connections_max=2)
    held = [socket.create_connection(daemon.address) for _ in range(8)]
    assert daemon.get("/healthz").status == 200
    assert daemon.admin("GET", "/admin/sales").status == 200
    for sock in held:
        sock.close()


def test_unix_socket_is_for_its_owner_and_group(stack, spawn, tmp_path):
    path = tmp_path / "admin.sock"
    daemon = spawn(stack, admin_listen=path)
    mode = path.stat().st_mode
    assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o660
    assert sorted(os.listdir(tmp_path)) == sorted([path.name, daemon.log_paths[-1].name])


@pytest.mark.parametrize("end", [Daemon.stop, Daemon.kill])
def test_unix_socket_of_a_former_daemon_is_replaced(stack, spawn, tmp_path, end):
    path = tmp_path / "admin.sock"
    daemon = spawn(stack, admin_listen=path)
    end(daemon)
    assert path.exists()
    daemon.start()
    assert daemon.get("/healthz").status == 200


@pytest.mark.parametrize("occupant", ["file", "daemon"])
def test_admin_listen_that_is_taken_ends_the_start(stack, spawn, tmp_path, occupant):
    path = tmp_path / "admin.sock"
    if occupant == "file":
        path.write_text("precious")
    else:
        first = spawn(stack, admin_listen=path)
    with pytest.raises(Exception, match="cannot_start.*admin_listen"):
        spawn(stack, admin_listen=path)
    if occupant == "file":
        assert path.read_text() == "precious"
    else:
        assert first.get("/healthz").status == 200


# --- orders first -------------------------------------------------------------------------------

@pytest.mark.long(keep=1)
@pytest.mark.parametrize("path", ["/stock/demo", "/order/1", "/nothing"])
def test_crowd_of_lookers_waits_for_orders_and_is_answered(stack, spawn, load, path):
    daemon = spawn(stack, **STEADY)  # a lease that ends under its last batch leaves a segment dirty
    daemon.reset(total=10_000_000)
    with load(daemon, connections=128, seconds=120) as orders:
        lookers = crowd(daemon, path, 120)  # until calls were held: that may take on a slow machine
        wait_until(lambda: daemon.metric("seckill_calls_held_total") > 0, "calls are held")
        assert daemon.admin("PATCH", "/admin/sale/demo", {"paused": False}).status == 200
        daemon.wait_ready()
        assert lookers.poll() is None, "the operator was answered after the crowd only"
        lookers.send_signal(signal.SIGINT)
        output = lookers.communicate(timeout=30)[0]
        assert "Socket errors" not in output, output
        accepted = orders.stop().accepted
    daemon.stop()  # carries through what wrk left in flight
    assert audit_sale(stack, "demo", accepted) >= len(accepted) > 0


def test_few_lookers_are_never_held(stack, spawn, load):
    daemon = spawn(stack)
    daemon.reset(total=10_000_000)
    with load(daemon, connections=128, seconds=2):
        crowd(daemon, "/stock/demo", 1, connections=32).communicate(timeout=30)
    assert daemon.metric("seckill_calls_held_total") == 0


@pytest.mark.long  # the next one has them beside a crowd that connects, too
def test_few_operators_are_never_held(stack, spawn, load):
    daemon = spawn(stack)
    daemon.reset(total=10_000_000)
    with load(daemon, connections=128, seconds=2):
        crowd(daemon, "/healthz", 1, connections=16).communicate(timeout=30)
    assert daemon.metric("seckill_calls_held_total") == 0


@contextmanager
def connecting(daemon, at_once=120):
    """Clients connect all the time, many at once, and leave without a word."""
    over = threading.Event()

    def connect():
        while not over.is_set():
            clients = [socket.socket() for _ in range(at_once)]
            for client in clients:
                client.setblocking(False)
                client.connect_ex(daemon.address)
            for client in clients:
                client.close()

    with ThreadPoolExecutor(1) as pool:
        crowds = pool.submit(connect)
        try:
            yield
        finally:
            over.set()
            crowds.result()


def test_few_operators_are_never_held_while_a_crowd_connects(stack, spawn, load):
    """A turn in which many are accepted takes several runs, and the few ask again in each."""
    daemon = spawn(stack)
    daemon.reset(total=10_000_000)
    with load(daemon, connections=128, seconds=2), connecting(daemon):
        crowd(daemon, "/healthz", 1, connections=16).communicate(timeout=30)
    assert daemon.metric("seckill_calls_held_total") == 0


def test_daemon_stops_with_calls_held(stack, spawn, load):
    daemon = spawn(stack)
    daemon.reset(total=10_000_000)
    with load(daemon, connections=128, seconds=150):
        lookers = crowd(daemon, "/stock/demo", 150)  # until calls were held
        wait_until(lambda: daemon.metric("seckill_calls_held_total") > 0, "calls are held",
                   timeout=150)
        daemon.stop()
        lookers.kill()
        lookers.communicate()
