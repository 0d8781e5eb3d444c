"""seckillctl webhooks against a real daemon and a receiver."""

import json
import re

import pytest

from control import DATAERR, NOINPUT, PROTOCOL, REFUSED, USAGE, Control, impostor
from harness.daemon import STEADY
from harness.feed import published
from harness.processes import ROOT, wait_until
from harness.receiver import Receiver

NAMES = ROOT / "sql" / "events" / "events.h"
SETTINGS = json.loads((ROOT / "service/openapi.json").read_text(encoding="utf-8"))[
    "components"]["schemas"]["NewWebhook"]["properties"].keys() - {"rotate_secret"}


@pytest.fixture
def ctl(tmp_path):
    return Control(tmp_path)


@pytest.fixture
def daemon(stack, spawn):
    return spawn(stack, events_retention_h=1, webhook_networks="127.0.0.0/8", **STEADY)


@pytest.fixture
def receiver():
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def aimed(ctl, daemon):
    ctl.aim(daemon)
    return ctl


def members(text):
    """The table of one webhook."""
    rows = [re.split(r" {2,}", line, maxsplit=1) for line in text.splitlines()[1:]]
    return dict(rows)


def test_webhook_from_add_to_remove(aimed, daemon, receiver):
    assert aimed.rows("webhooks list") == []
    done = aimed(f"webhooks add erp {receiver.url} --type order.accepted --type order.paid"
                 " --sku demo --batch 5 --concurrency 2")
    shown = members(done.stdout)
    secret = shown["secret"]
    assert "only now" in done.stderr and secret.startswith("whsec_")
    assert (shown["types"], shown["skus"]) == ("order.accepted order.paid", "demo")
    assert (shown["batch"], shown["concurrency"], shown["state"]) == ("5", "2", "active")
    assert "secret" not in aimed.json("webhooks show erp")
    assert members(aimed("webhooks test erp").stdout)["result"] == "ok"
    assert receiver.deliveries[-1].signed_by(secret)
    daemon.reset("demo", 10, 2)
    assert daemon.order().status == 201
    receiver.has(1)
    wait_until(lambda: aimed.json("webhooks show erp")["delivered"] == 1, "the delivery")
    row, = aimed.rows("webhooks list")
    assert (row["webhook"], row["url"], row["last status"]) == ("erp", receiver.url, "204")
    assert aimed.json("webhooks pause erp")["state"] == "paused"
    assert aimed.json("webhooks resume erp")["state"] == "active"
    aimed("webhooks remove erp", USAGE)
    assert aimed.json("webhooks remove erp --yes")["name"] == "erp"
    assert aimed.json("webhooks list") == {"webhooks": []}
    assert "unknown_webhook" in aimed("webhooks show erp", NOINPUT).stderr


def test_rotation_keeps_the_settings(aimed, daemon, receiver):
    """Each of them: none is as a new webhook has it."""
    given = {"url": receiver.url + "/erp", "types": ["order.paid"], "skus": ["demo"], "batch": 7,
             "concurrency": 2, "timeout_s": 9, "retry_max_s": 60, "give_up_s": 600,
             "content_type": "application/cloudevents+json", "headers": {"X-Key": "k"}}
    assert given.keys() == SETTINGS
    aimed(f"webhooks add new {receiver.url}")
    assert daemon.admin("PUT", "/admin/webhooks/erp", given).status == 201
    new, before = (aimed.json(f"webhooks show {name}") for name in ("new", "erp"))
    for name in SETTINGS - {"headers"} | {"header_names"}:
        assert new[name] != before[name], name
    done = aimed("webhooks rotate erp --json")
    after = json.loads(done.stdout)
    secret = after.pop("secret")
    assert "within a day" in done.stderr and before == after
    aimed("webhooks test erp")
    assert receiver.deliveries[-1].signed_by(secret)


def test_settings_of_a_webhook_are_replaced_after_a_question(aimed, receiver):
    aimed(f"webhooks add erp {receiver.url} --sku demo")
    line = f"webhooks add erp {receiver.url}/more"
    aimed(line, USAGE)
    status, shown = aimed.type(line, ("[y/N]", "n\n"))
    assert status == REFUSED and f"sends to {receiver.url}" in shown
    found = aimed.json(line + " --yes")
    assert (found["url"], found["skus"]) == (receiver.url + "/more", [])
    assert "secret" not in found


def test_replay_sends_again(aimed, daemon, receiver):
    daemon.reset("demo", 10, 2)
    assert daemon.order().status == 201
    aimed(f"webhooks add erp {receiver.url}")
    published(daemon)
    aimed("webhooks replay erp --after 0")
    receiver.has(2)
    aimed("webhooks replay erp", USAGE)
    assert "invalid_request" in aimed("webhooks replay erp --after 99", DATAERR).stderr
    daemon.stack.ledger.run("DELETE FROM event_batch; UPDATE event_feed SET oldest = next")
    assert re.search(r"--after \d+", aimed("webhooks replay erp --after 0", DATAERR).stderr)


def test_what_a_receiver_refuses_is_retried_or_discarded(aimed, daemon, receiver):
    receiver.answer = lambda delivery: (422, {})
    put = daemon.admin("PUT", "/admin/webhooks/erp", {
        "url": receiver.url, "give_up_s": 1, "types": ["order.accepted"]})
    assert put.status == 201
    assert aimed.rows("webhooks undelivered erp") == []
    daemon.reset("demo", 10, 2)
    order = daemon.order().json()["order_id"]

    def given_up():
        return [row for row in aimed.rows("webhooks undelivered erp") if row["given up at"] != "-"]
    wait_until(given_up, "a request to be given up")
    row = given_up()[0]
    line = f"erp {row['id']}"
    assert row["last answer"].startswith("422") and row["events"] == "1"
    shown, = [entry for entry in aimed.json("webhooks undelivered erp")["undelivered"]
              if entry["id"] == row["id"]]
    assert shown["body"]["subject"] == order
    sent = len(receiver.deliveries)
    assert aimed.json(f"webhooks retry {line}")["name"] == "erp"
    wait_until(lambda: row["id"] in [one.id for one in receiver.deliveries[sent:]], "the retry")
    wait_until(lambda: row["id"] in [one["id"] for one in given_up()], "it to be given up again")
    status, asked = aimed.type(f"webhooks discard {line}", ("[y/N]", "n\n"))
    assert status == REFUSED and row["id"] in asked and "erp has not got" in asked
    aimed(f"webhooks discard {line}", USAGE)
    assert aimed.json(f"webhooks discard {line} --yes")["name"] == "erp"
    for action in ("retry", "discard --yes"):
        refused = aimed(f"webhooks {action} {line}", NOINPUT).stderr
        assert "unknown_undelivered" in refused and "first try" not in refused
    assert "unknown_webhook" in aimed("webhooks undelivered other", NOINPUT).stderr
    assert "invalid_request" in aimed("webhooks retry erp a/b", DATAERR).stderr


@pytest.mark.parametrize("action", ["retry", "discard --yes"])
def test_lost_answer_may_have_settled_a_request(ctl, action):
    seen = []

    def answer(head):
        seen.append(head.split()[0])
        return None if len(seen) == 1 else (404, b'{"code": "unknown_undelivered"}')
    with impostor(ctl, answer):
        assert "the first try" in ctl(f"webhooks {action} erp evt_0_1").stderr
    assert seen == ["POST", "POST"]


def test_test_that_fails_has_a_status_of_its_own(aimed, receiver):
    receiver.answer = lambda delivery: (500, {})
    aimed(f"webhooks add erp {receiver.url}")
    assert members(aimed("webhooks test erp", REFUSED).stdout)["status"] == "500"


@pytest.mark.parametrize("line", [
    "webhooks", "webhooks fly", "webhooks list erp", "webhooks show", "webhooks add erp",
    "webhooks show a/b", "webhooks show erp https://x/", "webhooks show erp --type order.paid",
    "webhooks add erp https://x/ --batch 1001", "webhooks add erp https://x/ --concurrency 0",
    "webhooks replay erp --after x", "webhooks pause erp --yes", "webhooks retry erp",
    "webhooks discard erp --yes", "webhooks undelivered", "webhooks undelivered erp evt_0_1",
    "webhooks add erp https://x/" + " --sku s" * 129])
def test_wrong_usage(ctl, line):
    ctl(line, USAGE)


def test_what_the_service_refuses(aimed):
    for line in ("add erp ftp://x/", "add erp http://192.0.2.1/", "add erp https://x/ --sku a/b",
                 "add erp https://x/ --type order.odd"):
        assert "invalid_request" in aimed("webhooks " + line, DATAERR).stderr, line


def test_secret_that_was_lost_is_told(ctl):
    """The first try made the webhook, and its answer was lost; a repeat shows no secret."""
    seen = []

    def answer(head):
        seen.append(head.split()[0])
        if seen[-1] == "GET":
            return 404, b'{"code": "unknown_webhook"}'
        return None if seen.count("PUT") == 1 else b'{"name": "erp"}'
    with impostor(ctl, answer):
        assert "webhooks rotate erp" in ctl("webhooks add erp https://x/").stderr
    assert seen == ["GET", "PUT", "PUT"]
    with impostor(ctl, lambda head: b'{"webhooks": 1}'):
        ctl("webhooks list", PROTOCOL)


def test_pod_must_be_named(ctl):
    ctl.env["SECKILLCTL_ADMIN"] = "127.0.0.1:1;127.0.0.1:2"
    assert "--pod" in ctl("webhooks pause erp", USAGE).stderr


def test_completion_knows_every_type():
    types = re.findall(r"X\(\w+, '.', \"([a-z]+\.[a-z_]+)\"\)", NAMES.read_text())
    assert len(types) == 12
    for shell in ("bash", "zsh"):
        assert " ".join(types) in (ROOT / "ctl" / "completion" / shell).read_text()
