"""Signatures of webhooks, checked by the library that the authors of Standard Webhooks publish."""

import json
import subprocess
from pathlib import Path

import pytest

from harness.daemon import STEADY
from harness.processes import clean_environment, wait_until

HERE = Path(__file__).parent


@pytest.fixture
def secrets(tmp_path):
    """Writes the secrets of which the receiver wants every one to accept a request."""
    def write(*wanted):
        (tmp_path / "next").write_text(json.dumps(wanted))
        (tmp_path / "next").rename(tmp_path / "secrets")
    write()
    return write


@pytest.fixture
def receiver(secrets, tmp_path):
    """The URL of the receiver."""
    with subprocess.Popen(["node", HERE / "receiver.mjs", tmp_path / "secrets"], text=True,
                          env=clean_environment(), stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/"
        process.stdin.close()
        assert process.wait(30) == 0


def test_library_accepts_both_signatures_during_a_rotation(receiver, secrets, stack, spawn):
    daemon = spawn(stack, events_retention_h=1, webhook_networks="127.0.0.0/8", **STEADY)
    daemon.reset("demo", 100, 4)
    path = "/admin/webhooks/w"
    settings = {"url": receiver, "types": ["order.accepted"]}
    users = iter(range(100))

    def put(**more):
        return daemon.admin("PUT", path, {**settings, **more}).json()["secret"]

    def tested():
        return daemon.admin("POST", path + "/test").json()["status"]

    def assert_delivered():
        """By the library's word: the call that tests, and an event."""
        delivered = daemon.admin("GET", path).json()["delivered"]
        assert tested() == 204
        assert daemon.order(user_id=f"u{next(users)}").status == 201
        wait_until(lambda: daemon.admin("GET", path).json()["delivered"] > delivered,
                   "a delivery that the library accepts")

    old = put()
    secrets(old)
    assert_delivered()
    new = put(rotate_secret=True)
    secrets(old, new)
    assert_delivered()
    daemon.stack.ledger.run("UPDATE webhook SET old_secret_until=UTC_TIMESTAMP(3)")
    assert tested() == 401
    secrets(new)
    assert_delivered()
