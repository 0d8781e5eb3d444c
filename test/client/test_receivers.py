"""The receivers of docs/examples in Express, Fastify and Flask, with the packages themselves: each
gets its events with the default settings of a webhook, and none that is forged."""

import contextlib
import http.client
import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from harness.daemon import STEADY
from harness.processes import ROOT, clean_environment, free_port, wait_until

HERE = Path(__file__).parent
EXAMPLES = ROOT / "docs" / "examples"
RECEIVERS = ("receiver.express.mjs", "receiver.fastify.mjs", "receiver.flask.py", "receiver.py")


def events_of(folder):
    """What a receiver has stored."""
    with contextlib.suppress(FileNotFoundError):
        lines = (folder / "receiver.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]
    with contextlib.closing(sqlite3.connect(folder / "receiver.sqlite")) as database:
        with contextlib.suppress(sqlite3.OperationalError):  # it has none yet
            return [json.loads(row[0]) for row in database.execute("SELECT event FROM event")]
    return []


@contextlib.contextmanager
def receiver(name, port, folder):
    program = EXAMPLES / name
    runs = [sys.executable, program]
    if name.endswith(".mjs"):  # modules are looked for above the program
        (HERE / "generated").mkdir(exist_ok=True)
        program = shutil.copy(program, HERE / "generated" / name)
        runs = ["node", program]
    environment = {**clean_environment(), "RECEIVER_LISTEN": f"127.0.0.1:{port}",
                   "RECEIVER_SECRET_FILE": str(folder / "secret")}
    with subprocess.Popen(runs, cwd=folder, env=environment) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


def forged(port):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as line:
        line.request("POST", "/hook", "{}", {
            "Content-Type": "application/json", "webhook-id": "evt_0_1", "webhook-timestamp": "1",
            "webhook-signature": "v1,AAAA"})
        return line.getresponse().status


@pytest.mark.parametrize("name", RECEIVERS)
@pytest.mark.parametrize("batch", [1, 5])
def test_receiver_stores_each_event_once(name, batch, stack, spawn, tmp_path):
    daemon = spawn(stack, events_retention_h=1, webhook_networks="127.0.0.0/8", **STEADY)
    port, path = free_port(), "/admin/webhooks/w"
    made = daemon.admin("PUT", path, {"url": f"http://127.0.0.1:{port}/hook", "batch": batch,
                                      "types": ["order.accepted"]}).json()
    (tmp_path / "secret").write_text(made["secret"])
    with receiver(name, port, tmp_path):
        wait_until(lambda: daemon.admin("POST", path + "/test").json().get("status") == 204,
                   "the receiver to take a test")
        assert forged(port) == 401
        daemon.reset("demo", 100, 4)
        ids = {daemon.order(user_id=f"u{n}").json()["order_id"] for n in range(20)}

        def stored():
            return [event["subject"] for event in events_of(tmp_path) if "subject" in event]
        wait_until(lambda: set(stored()) == ids, "all events")

        def delivered():
            return daemon.admin("GET", path).json()["delivered"]
        wait_until(lambda: delivered() == 20, "their note")
        daemon.admin("POST", path + "/replay", {"after": "0"})
        wait_until(lambda: delivered() == 40, "them once more")
    assert sorted(stored()) == sorted(ids)
