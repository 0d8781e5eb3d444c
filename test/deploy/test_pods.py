"""Two pods behind deploy/proxy/haproxy.cfg: each sells exactly, and neither waits for the other."""

import csv
import io
import json
import subprocess
from contextlib import ExitStack

import pytest

from balancer import HAPROXY, PodProxy
from harness.audit import audit_after_faults
from harness.client import assert_problem, send
from harness.daemon import TOKEN
from harness.processes import BUILD, clean_environment, free_port, wait_until
from harness.stack import PrivateStack

pytestmark = pytest.mark.skipif(not HAPROXY, reason="no HAProxy is installed")
CONTROL = BUILD / "seckillctl"
SKUS = ("zero", "one")  # by their pods
PATIENCE_S = 60
NOINPUT, UNAVAILABLE, USAGE = 66, 69, 64


class Pods:
    """Two pods, the proxy before them, and seckillctl."""

    def __init__(self, stacks, daemons, proxy):
        self.stacks, self.daemons, self.proxy = stacks, daemons, proxy
        self.env = {**clean_environment(), "HOME": "/nowhere", "LC_ALL": "C.UTF-8",
                    "SECKILLCTL_ADMIN_TOKEN": TOKEN,
                    "SECKILLCTL_SHOP": "%s:%d" % proxy.front,
                    "SECKILLCTL_ADMIN": ";".join(daemon.options["admin_listen"]
                                                 for daemon in daemons)}

    def ctl(self, line, status=0, data=None):
        done = subprocess.run([CONTROL, *line.split()], env=self.env, input=data, text=True,
                              capture_output=True, timeout=PATIENCE_S)
        assert done.returncode == status, done
        return done

    def lines(self, line, status=0):
        return [json.loads(text) for text in self.ctl(line + " --json", status).stdout.splitlines()]

    def ask(self, method, path, body=None, **headers):
        return send(self.proxy.front, method, path, body, headers)

    def order(self, sku, user_id="u1"):
        return self.ask("POST", "/order", {"sku": sku, "user_id": user_id, "qty": 1})

    def url(self):
        """For wrk, which orders through the proxy."""
        return "http://%s:%d" % self.proxy.front


@pytest.fixture
def pods_on(spawn, tmp_path):
    """pods_on(stack, stack) gives the Pods that these two have."""
    with ExitStack() as running:
        def start(*stacks):
            return start_pods(running, stacks, spawn, tmp_path)
        yield start


@pytest.fixture
def pods(stack, pods_on):
    """In two databases of the servers that all tests share."""
    return pods_on(stack, stack.aside("pod", 2))


def start_pods(running, stacks, spawn, tmp_path):
    daemons = [spawn(stack, pod=pod, listen=f"127.0.0.1:{free_port()}",
                     admin_listen=f"127.0.0.1:{free_port()}",
                     env={"SECKILL_ADMIN_TOKEN": TOKEN}, events_retention_h=1,
                     **PodProxy.OPTIONS)
               for pod, stack in enumerate(stacks)]
    for daemon in daemons:
        daemon.token = TOKEN
    made = Pods(stacks, daemons, running.enter_context(
        PodProxy(daemons, tmp_path, SKUS[1:])))
    made.proxy.wait_pods("UP", "UP")
    for pod, sku in enumerate(SKUS):
        made.ctl(f"create {sku} --total 1000000 --pod {pod}")
    return made


def pod_of(order_id):
    return int(order_id) >> 8 & 15


def test_each_call_reaches_its_pod(pods):
    for pod, sku in enumerate(SKUS):
        placed = pods.order(sku)
        order = placed.json()["order_id"]
        assert (placed.status, pod_of(order)) == (201, pod)
        payment, later = {"payment_ref": "pi_1"}, {"expires_at": "2999-01-01T00:00:00Z"}
        for method, path, body in (
                ("GET", f"/order/{order}", None), ("POST", f"/order/{order}/extend", later),
                ("POST", f"/order/{order}/pay", payment), ("GET", f"/stock/{sku}", None),
                ("POST", f"/order/{order}/cancel", None)):
            answer = pods.ask(method, path, body)
            assert answer.status == (409 if path.endswith("cancel") else 200), answer
        for path, headers in ((f"/user/u1/orders?sku={sku}", {}),
                              ("/user/u1/orders", {"Seckill-Pod": str(pod)})):
            listed = pods.ask("GET", path, **headers).json()["orders"]
            assert [row["order_id"] for row in listed] == [order]
        for path, headers in ((f"/payments?sku={sku}", {}),
                              ("/payments", {"Seckill-Pod": str(pod)})):
            listed = pods.ask("GET", path, **headers).json()["payments"]
            assert [row["order_id"] for row in listed] == [order]
        feed = wait_until(lambda pod=pod: pods.ask("GET", "/events", **{"Seckill-Pod": str(pod)})
                          .json()["events"], "events")
        assert {event["sku"] for event in feed} == {sku}
        assert pods.daemons[1 - pod].get(f"/order/{order}").status == 404
        refund = {**payment, "restock": True}
        assert pods.ask("POST", f"/order/{order}/refund", refund).status == 200
    for path in ("/user/u1/orders", "/payments", "/events"):
        assert_problem(pods.ask("GET", path), 400, "invalid_request")
    for sku in ("unknown", "zero%20one"):
        assert pods.ask("GET", f"/stock/{sku}").status in (400, 404)
    assert_problem(pods.order("unknown"), 404, "unknown_sku")
    assert_problem(pods.ask("GET", f"/order/{2 << 8}"), 404, "unknown_order")
    assert_problem(pods.ask("POST", "/order", b"{"), 400, "invalid_request")


def test_orders_from_before_there_were_pods_are_in_pod_0(pods, tmp_path):
    """Their ids have any bits where those of a pod are now."""
    order = pods.order("zero").json()["order_id"]
    old = str(int(order) | 1 << 8)
    pods.stacks[0].ledger.run(f"UPDATE orders SET order_id = {old} WHERE order_id = {order}")
    assert pods.ask("GET", f"/order/{old}").status == 404
    assert pods.lines(f"order {old}")[0]["order_id"] == old
    with PodProxy(pods.daemons, tmp_path, SKUS[1:], pods_since=int(old) + 1) as proxy:
        proxy.wait_pods("UP", "UP")
        assert send(proxy.front, "GET", f"/order/{old}").json()["order_id"] == old


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("dead", [1, 0])
def test_one_ledger_dies_and_the_other_pod_sells_on(template, pods_on, load, dead):
    alive = 1 - dead
    with PrivateStack() as one, PrivateStack() as other:
        one_ledger_dies(pods_on(one, other), load, alive, dead)


def one_ledger_dies(pods, load, alive, dead):
    first = [pods.order(sku).json()["order_id"] for sku in SKUS]
    loads = [load(pods, skus=[sku], connections=16, seconds=90, stop_after=10**9, delay_ms=100)
             for sku in SKUS]
    for daemon in pods.daemons:
        wait_until(lambda daemon=daemon: daemon.metric("seckill_order_seconds_count") > 100,
                   "answers to wrk")
    pods.stacks[dead].maria_server.kill()
    wait_until(lambda: not pods.daemons[dead].ready(), "the ledger to be seen as down")
    pods.proxy.wait_pods(*("DOWN" if pod == dead else "UP" for pod in (0, 1)))
    refused = pods.order(SKUS[dead])
    assert refused.status == 503, refused
    assert refused.code in ("unavailable", "overloaded", "no_order_id"), refused
    before = pods.daemons[alive].stock(SKUS[alive])["sold"]
    for method, path in (("GET", f"/order/{first[alive]}"), ("POST", f"/order/{first[alive]}/pay"),
                         ("GET", f"/user/u1/orders?sku={SKUS[alive]}&limit=1"),
                         ("GET", f"/stock/{SKUS[alive]}")):
        assert pods.ask(method, path).status == 200, path
    assert pods.order(SKUS[alive]).status == 201
    wait_until(lambda: pods.daemons[alive].stock(SKUS[alive])["sold"] > before + 200,
               "the load on the other pod to go on")
    loads[alive].stop()
    assert set(loads[alive].answers) == {"201"}
    assert UNAVAILABLE == pods.ctl("status", UNAVAILABLE).returncode
    assert "503" not in pods.ctl(f"audit {SKUS[alive]} --pod {alive} --wait 60").stderr
    pods.stacks[dead].maria_server.start()
    wait_until(lambda: pods.order(SKUS[dead]).status == 201, "a sale by the pod that was down")
    loads[dead].stop()
    for pod, sku in enumerate(SKUS):
        audit_after_faults(pods.daemons[pod], sku, loads[pod].accepted)
    acked = "".join(f"{order}\n" for one in loads for order, _ in one.accepted)
    assert "consistent" in pods.ctl("audit --acked - --wait 60", data=acked).stdout


def test_operators_tool_knows_all_pods(pods, tmp_path):
    orders = [[pods.order(sku, f"u{n}").json()["order_id"] for n in range(3)] for sku in SKUS]
    assert [row["pod"] for row in pods.lines("status")] == [0, 1]
    assert [[sale["sku"] for sale in row["sales"]] for row in pods.lines("sales")] == \
        [["zero"], ["one"]]
    for pod, sku in enumerate(SKUS):
        pods.ctl(f"pause {sku} --yes")
        assert pods.daemons[pod].stock(sku) and pods.order(sku).code == "sale_paused"
        pods.ctl(f"resume {sku}")
        found = pods.lines(f"order {orders[pod][0]}")[0]
        assert (found["order_id"], found["pod"]) == (orders[pod][0], pod)
    listed = pods.lines("user u1")[0]["orders"]
    assert [row["order_id"] for row in listed] == [orders[0][1], orders[1][1]]
    rows = list(csv.DictReader(io.StringIO(pods.ctl("export").stdout)))
    assert [row["order_id"] for row in rows] == orders[0] + orders[1]
    assert "--pod" in pods.ctl(f"export --after {orders[1][0]}", USAGE).stderr
    rows = list(csv.DictReader(io.StringIO(
        pods.ctl(f"export --pod 1 --after {orders[1][0]}").stdout)))
    assert [row["order_id"] for row in rows] == orders[1][1:]
    assert "round" in pods.ctl("create one --total 5", 1).stderr  # it is there, in pod 1
    assert "no pod" in pods.ctl("pause nowhere", NOINPUT).stderr
    assert "several daemons" in pods.ctl("drain --yes", USAGE).stderr
    assert "--pod must be" in pods.ctl("sales --pod 2", USAGE).stderr
    pods.ctl("create one --total 5 --pod 0")
    assert "both have one" in pods.ctl("pause one --yes", 1).stderr
    pods.ctl("retire one --pod 0 --yes")


def test_audit_of_all_pods(pods, tmp_path):
    orders = [[pods.order(sku, f"u{n}").json()["order_id"] for n in range(3)] for sku in SKUS]
    acked = tmp_path / "acked"
    acked.write_text("".join(f"{order}\n" for pod in orders for order in pod))
    (report,) = pods.lines(f"audit --acked {acked}")
    assert report["consistent"] and [(sale["pod"], sale["sku"]) for sale in report["sales"]] == \
        [(0, "zero"), (1, "one")]
    for pod, sku in enumerate(SKUS):
        (report,) = pods.lines(f"audit --pod {pod} --acked {acked}")
        assert (report["acked"], len(report["sales"])) == (3, 1)
        (report,) = pods.lines(f"audit {sku}")
        assert [(sale["pod"], sale["ordered"]) for sale in report["sales"]] == [(pod, 3)]
    pods.stacks[1].ledger.run(f"DELETE FROM orders WHERE order_id = {orders[1][0]}")
    found = pods.lines(f"audit --acked {acked}", 1)[0]["differences"]
    assert any("one: 3 sold, 2 in orders" in text for text in found), found
    assert any(f"such as {orders[1][0]}" in text for text in found), found
    pods.ctl("audit zero")


def test_daemon_of_another_pod_uses_no_ledger(pods, spawn):
    """A ledger knows its pod, so that ids of two pods never meet."""
    intruder = spawn(pods.stacks[0], ready=False, pod=1)
    assert intruder.wait(PATIENCE_S) == 2
    assert "it is pod 0" in intruder.log()
