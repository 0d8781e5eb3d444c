"""The metrics: what a daemon says of sales, servers, queues and itself, and what the page says."""

import re
import socket
import time
from pathlib import Path

from harness.daemon import STEADY
from harness.ledger import numbers
from harness.processes import ROOT, wait_until

PAGE = ROOT / "docs" / "metrics.md"
ROW = re.compile(r"\| `(\w+)` \| (\w+) \| (.*?) \| (.+) \|")
NUMBER = re.compile(r"\d[\d,]*\d")  # of two digits or more
FREE_LABELS = ("sku", "address", "version", "strategy", "lock", "le", "webhook")  # any value
SERIES = re.compile(r"([a-z_]+)(?:\{(.*)\})? \S+")


def families(text):
    """{name: (type, {label: {value…}})} of a page of metrics."""
    found = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            found[name] = (kind, {})
        elif line[0] != "#":
            name, labels = SERIES.fullmatch(line).groups()
            if name not in found:
                name = re.sub(r"_(bucket|sum|count)$", "", name)
            for label, value in re.findall(r'(\w+)="([^"]*)"', labels or ""):
                found[name][1].setdefault(label, set()).add(value)
    return found


def sale(daemon, figure, sku="demo"):
    return daemon.metric(f'seckill_sale_{figure}{{sku="{sku}"}}', None)


def state(daemon, server):
    """The states of a server that are 1."""
    return [re.search(r'state="(\w+)"', name)[1] for name, value in daemon.metrics().items()
            if name.startswith(f'seckill_server_state{{server="{server}"') and value == 1]


def test_the_page_of_the_documentation_names_every_metric(stack, spawn):
    daemon = spawn(stack, admin_listen="127.0.0.1:0", events_retention_h=1, **STEADY)
    daemon.reset(starts_at="2020-01-01T00:00:00Z", ends_at="2999-01-01T00:00:00Z")
    wait_until(lambda: sale(daemon, "units"), "the figures of the sale")
    daemon.admin("PUT", "/admin/webhooks/erp", {"url": "https://localhost/hook"})
    wait_until(lambda: daemon.metric('seckill_webhook_disabled{webhook="erp"}', None) is not None,
               "the figures of the webhook")
    said = daemon.get("/metrics").body.decode()
    found = families(said)
    rows = {name: row for name, *row in ROW.findall(PAGE.read_text())}
    assert found.keys() == rows.keys()
    helps = dict(re.findall(r"# HELP (\w+) (.+)", said))
    assert helps.keys() == rows.keys()
    for name, text in helps.items():  # shorter than the page, and with its figures
        assert set(NUMBER.findall(text)) <= set(NUMBER.findall(rows[name][2])), name
    values = {"call": re.findall(r"`(\w+)`", rows["seckill_call_seconds"][1])[1:],
              "listener": re.findall(r"`(\w+)`", rows["seckill_connections"][1])[1:]}
    for name, (kind, labels) in found.items():
        assert rows[name][0] == kind, name
        words = re.findall(r"`(\w+)`", rows[name][1])
        for label, given in labels.items():
            if label != "le":
                assert label in words, (name, label)
            if label not in FREE_LABELS:
                assert given <= set(words) | set(values.get(label, [])), (name, label)


def test_figures_of_a_sale(pair):
    one, other = pair
    one.reset("demo", 10, 2)
    for _ in range(3):
        assert one.order().status == 201
    wait_until(lambda: sale(other, "sold_units") == 3, "the units sold at the other daemon")
    assert (sale(other, "units"), sale(other, "left_units")) == (10, 7)
    assert (sale(other, "paused"), sale(other, "open")) == (0, 1)
    assert sale(other, "starts_timestamp_seconds") is None
    one.change("demo", paused=True, starts_at="2999-01-01T00:00:00Z")
    wait_until(lambda: sale(other, "paused") == 1, "the pause")
    assert sale(other, "open") == 0
    assert sale(other, "starts_timestamp_seconds") == 32472144000
    metrics = other.metrics()
    assert (metrics["seckill_sales"], metrics["seckill_sales_not_shown"]) == (1, 0)
    assert abs(metrics["seckill_sales_read_timestamp_seconds"] - time.time()) < 60


def test_many_sales_with_the_longest_names(stack, daemon):
    """A hundred have series; the page has room for all of them."""
    sku = "CONCAT(REPEAT('s',60),999+seq)"
    stack.ledger.run(
        "INSERT INTO sale(sku,round,total,segments,starts_at,ends_at)"
        f"SELECT {sku},1,2147483647,1,'2998-12-31 23:59:59.999','2999-12-31 23:59:59.999'"
        f" FROM {numbers(120)};"
        "INSERT INTO stock_segment(sku,segment,round,capacity,sold,fence)"
        f"SELECT {sku},0,1,2147483647,2147483646,1 FROM {numbers(120)}")
    wait_until(lambda: daemon.metric("seckill_sales") == 120, "the figures of all sales")
    metrics = daemon.metrics()
    assert metrics["seckill_sales_not_shown"] == 20
    for figure in ("units", "sold_units", "left_units", "paused", "open",
                   "starts_timestamp_seconds", "ends_timestamp_seconds"):
        assert len([name for name in metrics if name.startswith(f"seckill_sale_{figure}{{")]) == 100
    assert daemon.metric("process_start_time_seconds") > 0  # it stands at the end of the page


def test_stages_of_an_order_add_up(daemon):
    daemon.reset()
    for _ in range(20):
        assert daemon.order().status == 201
    metrics = daemon.metrics()
    stages = [f'{{stage="{stage}"}}' for stage in ("queue", "redis", "ledger", "worker", "answer")]
    assert [metrics[f"seckill_order_stage_seconds_count{stage}"] for stage in stages] == [20] * 5
    whole = metrics["seckill_order_seconds_sum"]
    parts = sum(metrics[f"seckill_order_stage_seconds_sum{stage}"] for stage in stages)
    assert 0 < parts
    assert abs(parts - whole) < 0.1 * whole + 0.02, (parts, whole)  # the clock of a turn is early


def test_calls_by_kind(daemon):
    daemon.reset()
    order_id = daemon.order().json()["order_id"]
    assert daemon.pay(order_id).status == 200
    assert daemon.get(f"/order/{order_id}").status == 200
    metrics = daemon.metrics()
    counts = {kind: metrics[f'seckill_call_seconds_count{{call="{kind}"}}']
              for kind in ("lookup", "payment", "cancel", "list", "sale", "listing")}
    assert counts == {"lookup": 1, "payment": 1, "cancel": 0, "list": 0, "sale": 1, "listing": 0}


def test_queues_tell_their_places(stack, spawn):
    daemon = spawn(stack, queue_max=100, call_queue_max=70, **STEADY)
    metrics = daemon.metrics()
    assert metrics["seckill_queue_capacity"] == 100
    assert metrics['seckill_call_queue_capacity{call="lookup"}'] == 70
    assert metrics['seckill_call_queue_capacity{call="admin"}'] == 64
    assert metrics['seckill_call_queue_depth{call="lookup"}'] == 0


def test_connections_by_listener(stack, spawn):
    daemon = spawn(stack, admin_listen="127.0.0.1:0", connections_max=50, **STEADY)
    before = daemon.metrics()['seckill_connections{listener="public"}']
    with socket.create_connection(daemon.address), socket.create_connection(daemon.address):
        wait_until(lambda: daemon.metrics()['seckill_connections{listener="public"}']
                   >= before + 2, "two connections")
        metrics = daemon.metrics()
    assert metrics['seckill_connections{listener="admin"}'] >= 1
    assert metrics['seckill_connections_limit{listener="public"}'] == 50
    assert metrics['seckill_connections_limit{listener="admin"}'] > 0
    alone = spawn(stack, **STEADY).metrics()
    assert 'seckill_connections{listener="admin"}' not in alone


def test_state_of_the_servers(private_stack, spawn):
    daemon = spawn(private_stack)
    wait_until(lambda: (state(daemon, "redis"), state(daemon, "ledger")) == (["ok"], ["ok"]),
               "both ok")
    wait_until(lambda: daemon.metric("seckill_ready") == 1, "ready")
    wait_until(lambda: daemon.metric("seckill_ledger_durable") == 1, "a look at the settings")
    assert daemon.metric("seckill_redis_evicts") == 0
    private_stack.redis("REPLICAOF", "127.0.0.1", "1")
    wait_until(lambda: state(daemon, "redis") == ["read_only"], "a Redis that takes no writes")
    assert daemon.metric("seckill_ready") == 0
    private_stack.redis("REPLICAOF", "NO", "ONE")
    wait_until(lambda: state(daemon, "redis") == ["ok"], "a Redis that takes writes")
    private_stack.maria_server.kill()
    wait_until(lambda: state(daemon, "ledger") == ["down"], "the loss of the ledger")
    assert daemon.get("/metrics").status == 200


def test_refunds_due_are_the_same_at_each_daemon(stack, pair):
    def told():
        return [(daemon.metric("seckill_refunds_due", None),
                 daemon.metric("seckill_refunds_due_oldest_seconds", None)) for daemon in pair]
    one, other = pair
    one.reset()
    wait_until(lambda: told() == [(0, 0)] * 2, "a first count", pause=0.3)
    for number in range(3):
        order_id = one.order().json()["order_id"]
        assert one.cancel(order_id).status == 200
        assert one.pay(order_id, f"pi_{number}").code == "payment_too_late"
    stack.ledger.run("UPDATE refund_due SET due_at=due_at-INTERVAL 2 HOUR WHERE payment_ref='pi_1'")
    wait_until(lambda: all(due == 3 and 7200 <= age < 7300 for due, age in told()), "three",
               pause=0.3)
    for row in one.admin("GET", "/admin/payments?state=refund_due").json()["payments"]:
        assert other.refund(row["order_id"], row["payment_ref"]).status == 200
    wait_until(lambda: told() == [(0, 0)] * 2, "all paid back", pause=0.3)


def test_expiry_takes_turns_in_one_daemon(pair):
    def turns():
        return [daemon.metric("seckill_expiry_turns_total") for daemon in pair]
    before = sum(turns())
    wait_until(lambda: sum(turns()) > before + 3, "turns of the expiry worker")
    assert sorted(daemon.metric("seckill_expiry_elected") for daemon in pair) == [0, 1]


def test_what_the_process_uses(daemon):
    metrics = daemon.metrics()
    files = len(list(Path(f"/proc/{daemon.process.pid}/fd").iterdir()))
    assert abs(metrics["process_open_fds"] - files) < 20
    assert metrics["process_open_fds"] < metrics["process_max_fds"]
    assert metrics["process_resident_memory_bytes"] > 1 << 20
    assert abs(metrics["process_start_time_seconds"] - time.time()) < 120
    assert abs(metrics["seckill_time_seconds"] - time.time()) < 30
    used = metrics["process_cpu_seconds_total"]
    assert used > 0
    for _ in range(50):
        daemon.get("/metrics")
    assert daemon.metric("process_cpu_seconds_total") > used
