"""seckillctl as an operator uses it, in a shell and in scripts, against a real daemon."""

import contextlib
import csv
import fcntl
import io
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from control import (CANTCREAT, CONFIG, CONTROL, DATAERR, IOERR, NOINPUT, NOPERM, PROTOCOL, REFUSED,
                     SECONDS_MAX, TEMPFAIL, UNAVAILABLE, USAGE, Control, OtherStatus, impostor)
from harness.daemon import STEADY, TOKEN
from harness.processes import ROOT, free_port, wait_until
from harness.proxy import Link
from harness.servers import is_mysql

MANUAL = ROOT / "ctl" / "seckillctl.1"


@pytest.fixture
def ctl(tmp_path):
    return Control(tmp_path)


@pytest.fixture
def aimed(ctl, daemon):
    """It knows where the daemon is."""
    ctl.aim(daemon)
    return ctl


def in_time(holds):
    """What depends on a daemon's readiness does not hold just after its machine stood still."""
    def tried():
        with contextlib.suppress(OtherStatus):
            return holds()
    wait_until(tried, "what the test expects")


def round_of(daemon, sku="demo"):
    return daemon.stock(sku)["round"]


def test_help_and_usage_need_no_daemon(ctl):
    assert "usage: seckillctl COMMAND" in ctl("help").stdout
    assert ctl("--help").stdout == ctl("help").stdout
    assert ctl("reset --help").stdout == ctl("help reset").stdout
    for line in ["", "fly", "stock", "stock a b", "stock --total 3 a", "stock --fly a", "help fly",
                 "restock demo", "token burn file", "completion fish", "stock --timeout x a",
                 "stock --timeout"]:
        assert ctl(line, USAGE).stdout == ""


@pytest.mark.parametrize("line, told", [
    ("create lamp --total 5 --per-user-limit 2", "there is no option --per-user-limit;"),
    ("create lamp --per-user-limit=2", "there is no option --per-user-limit=2;"),
    ("stock lamp --json=1", "--json takes no value"),
    ("stock lamp --fly", "there is no option --fly; seckillctl help lists all"),
    ("stock lamp -x", "there is no option -x"),
    ("stock lamp --timeout", "--timeout needs a value")])
def test_wrong_option_is_named(ctl, line, told):
    assert told in ctl(line, USAGE).stderr


def test_sale_from_create_to_retire(aimed, daemon):
    new = aimed.json("create demo --total 1000 --segments 10 --limit 200 --pay-within 600")
    assert (new["round"], new["total"], new["segments"]) == (1, 1000, 10)
    assert (new["per_user_limit"], new["pay_within_s"]) == (200, 600)
    refused = aimed("create demo --total 5", REFUSED)
    assert "round_mismatch" in refused.stderr and "in round 1" in refused.stderr
    order = daemon.order(qty=3).json()
    assert daemon.order(user_id="u2").status == 201
    assert aimed.rows("sales")[0] == {
        "sku": "demo", "round": "1", "state": "open", "total": "1000", "sold": "4", "left": "996",
        "limit": "200", "pay within": "600 s", "grace": "-", "hold max": "-",
        "late payment": "retake", "starts at": "-", "ends at": "-"}
    assert aimed.json("sales")["sales"][0]["sold"] == 4
    assert aimed.json("stock demo")["available"] == 996
    assert "left of each segment: ██" in aimed("stock demo").stdout
    order = {**order, "version": 1}
    assert aimed.json(f"order {order['order_id']}") == order
    assert order["order_id"] in aimed(f"order {order['order_id']}").stdout
    assert aimed.json("user u1")["orders"] == [order]
    assert [row["qty"] for row in aimed.rows("user u1 --sku demo")] == ["3"]
    assert aimed.json("restock demo 24")["total"] == 1024
    assert aimed.json("limit demo 7")["per_user_limit"] == 7
    assert "per_user_limit" not in aimed.json("limit demo none")
    assert aimed.json("pay-within demo 60")["pay_within_s"] == 60
    assert aimed.json("pause demo --yes")["paused"]
    assert aimed.rows("sales")[0]["state"] == "paused"
    assert not aimed.json("resume demo")["paused"]
    window = aimed.json("window demo --starts 2026-01-01T00:00:00Z --ends +2h")
    assert window["starts_at"] == "2026-01-01T00:00:00.000Z" and window["ends_at"]
    assert aimed.json("window demo --ends now --yes")["ends_at"] and \
        aimed.rows("sales")[0]["state"] == "ended"
    assert "ends_at" not in aimed.json("window demo --starts none --ends none")
    assert aimed.json("reconcile demo")["consistent"]
    assert "0 of 10 segments differed" in aimed("reconcile demo").stdout
    daemon.cancel(order["order_id"])
    assert "1 orders are reserved" in aimed("retire demo --yes", REFUSED).stderr
    assert aimed.json("reset demo --yes --end-round")["round"] == 2
    assert aimed("retire demo --yes").stdout == "demo is retired\n"
    assert aimed("sales").stdout.count("\n") == 1


def test_settings_of_late_money(aimed):
    new = aimed.json("create demo --total 9 --late-payment refund --hold-max 7200 --grace 30")
    assert (new["late_payment"], new["hold_max_s"], new["grace_s"]) == ("refund", 7200, 30)
    row = aimed.rows("sales")[0]
    assert (row["late payment"], row["hold max"], row["grace"]) == ("refund", "7200 s", "30 s")
    assert aimed.json("late-payment demo retake")["late_payment"] == "retake"
    assert aimed.json("hold-max demo 60")["hold_max_s"] == 60
    assert aimed.json("grace demo 86400")["grace_s"] == 86400
    assert not aimed.json("grace demo 0").get("grace_s")
    assert "hold_max_s" not in aimed.json("hold-max demo none")
    assert "grace_s" not in aimed.json("grace demo none")
    again = aimed.json("reset demo --yes --grace 5 --late-payment refund")
    assert (again["late_payment"], again["grace_s"]) == ("refund", 5)
    for line in ["grace demo 86401", "hold-max demo 0", "late-payment demo none",
                 "create other --total 1 --late-payment keep", "reset demo --yes --grace -1"]:
        assert " must be " in aimed(line, USAGE).stderr


def test_what_is_not_there(aimed, daemon):
    daemon.reset()
    for line in ["stock nix", "restock nix 3", "pause nix --yes", "limit nix 3", "reset nix --yes",
                 "retire nix --yes", "reconcile nix", "audit nix"]:
        assert "unknown_sku" in aimed(line, NOINPUT).stderr
    assert "unknown_order" in aimed("order 1", NOINPUT).stderr
    assert aimed.json("user nobody") == {"orders": []}
    for line in ["order x", "stock a/b", "user 'a b'", "limit demo 0", "restock demo -- -1",
                 "window demo", "window demo --ends soon", "create a", "create a --total 0",
                 "export --sku a,b", "create a --total 5 --key 'a b'"]:
        aimed(line, USAGE)
    assert "invalid_request" in aimed("create a --total 1 --segments 2", DATAERR).stderr
    told = aimed("window demo --ends 10:00", USAGE).stderr
    assert "a time with its offset like 2026-11-20T21:30:00+08:00" in told
    told = aimed("window demo --ends 1999-01-01T00:00:00Z --yes", DATAERR).stderr
    assert "ends_at" in told
    window = aimed.json("window demo --ends 2099-11-20T21:30:00+08:00")
    assert window["ends_at"] == "2099-11-20T13:30:00.000Z"


def test_reset_in_a_script_names_what_it_ends(aimed, daemon):
    daemon.reset()
    paid = daemon.order().json()["order_id"]
    daemon.pay(paid)
    daemon.order(user_id="u2")
    asked = aimed("reset demo", USAGE)
    assert "round 1 has sold 2 of 1000 units" in asked.stderr and "--yes" in asked.stderr
    refused = aimed("reset demo --yes", REFUSED)
    assert "ends round 1 with 1 paid orders" in refused.stderr
    assert "1 reserved ones" in refused.stderr and "--end-round" in refused.stderr
    assert "now in round" not in aimed("reset demo --yes --if-round 7", REFUSED).stderr
    assert round_of(daemon) == 1
    done = aimed("reset demo --yes --end-round --total 50 --segments 5")
    assert "ends round 1 with 1 paid orders" in done.stderr
    stock = daemon.stock()
    assert (stock["round"], stock["total"], len(stock["segments"])) == (2, 50, 5)


def test_refunds_are_worked_off_and_the_order_is_held(aimed, daemon):
    daemon.reset("demo", 10, 2, pay_within_s=600, hold_max_s=3600)
    order = daemon.order(qty=3).json()["order_id"]
    for ref in ("pi_1", "pi_2"):
        daemon.pay(order, ref)
    assert [(row["payment"], row["state"], row["order is"]) for row in aimed.rows("payments")] == \
        [("pi_1", "taken", "paid"), ("pi_2", "refund_due", "paid")]
    due = aimed.json("payments demo --state refund_due")["payments"]
    assert [(row["order_id"], row["payment_ref"]) for row in due] == [(order, "pi_2")]
    assert len(aimed.json(f"payments --order {order}")["payments"]) == 2
    assert aimed.json("payments other") == aimed.json("payments --order 1") == {"payments": []}
    refused = aimed("retire demo --yes", REFUSED).stderr
    assert "1 payments" in refused and "payments demo --state refund_due" in refused
    assert aimed(f"refund {order} pi_2 --yes").stdout.endswith("\npi_2 is refunded\n")
    assert "unknown_payment" in aimed(f"refund {order} pi_3 --yes", NOINPUT).stderr
    kept = aimed.json(f"refund {order} pi_1 --keep 1 --restock --yes")
    assert (kept["status"], kept["qty"], kept["ordered_qty"]) == ("paid", 1, 3)
    assert aimed.rows(f"order {order}")[0]["ordered"] == "3"
    assert aimed.json(f"refund {order} pi_1 --yes")["status"] == "refunded"
    assert ids(aimed("export --status refunded").stdout) == [int(order)]
    report = aimed.json("audit")["sales"][0]
    assert report["states"]["refunded"] == report["unreturned"] == report["sold"] == 1
    assert report["payments"] == {"taken": 0, "refund_due": 0, "refunded": 2, "failed": 0}
    assert "payments: 0 taken, 0 refund_due, 2 refunded, 0 failed\n" in aimed("audit").stdout
    bounced = daemon.order(user_id="u3").json()["order_id"]
    daemon.pay(bounced, "pi_5")
    assert aimed(f"unpay {bounced} pi_5 --yes").stdout.endswith("\npi_5 is failed\n")
    assert aimed.json(f"unpay {bounced} pi_5 --yes")["status"] == "reserved"
    assert "unknown_payment" in aimed(f"unpay {bounced} pi_6 --yes", NOINPUT).stderr
    assert aimed.rows("payments --state failed")[0]["order"] == bounced
    daemon.cancel(bounced)
    held = daemon.order(user_id="u2").json()
    longer = aimed.json(f"extend {held['order_id']} +30m")["expires_at"]
    assert longer > held["expires_at"]
    assert "it can be held until 20" in aimed(f"extend {held['order_id']} +2h", REFUSED).stderr
    daemon.cancel(held["order_id"])
    assert "invalid_state" in aimed(f"extend {held['order_id']} +30m", REFUSED).stderr
    daemon.pay(order, "pi_4")
    assert aimed("retire demo --yes --refunds-elsewhere").stdout == "demo is retired\n"
    assert aimed.rows("payments --state refund_due")[0]["payment"] == "pi_4"


def test_terminal_asks_before_it_ends_anything(aimed, daemon):
    daemon.reset()
    daemon.order()
    status, shown = aimed.type("reset demo", ("Go on?", "n\n"))
    assert status == REFUSED and "round 1 has sold 1 of 1000" in shown
    status, shown = aimed.type("reset demo", ("Go on?", "y\n"), ("reserved ones", "no\n"))
    assert status == REFUSED and "ends round 1 with 0 paid orders" in shown
    assert round_of(daemon) == 1
    status, shown = aimed.type("reset demo", ("Go on?", "y\n"), ("reserved ones", "y\n"))
    assert status == 0 and round_of(daemon) == 2
    status, shown = aimed.type("pause demo", ("Go on?", "\n"))
    assert status == REFUSED and not daemon.stock()["paused"]
    assert aimed.type("pause demo", ("pauses demo, which is open", "y\n"))[0] == 0
    assert daemon.stock()["paused"]
    assert aimed.type("pause demo")[0] == 0  # it was paused: nothing to ask about


@pytest.mark.parametrize("window", ["--ends now", "--starts +1h", "--starts +1h --ends +2h"])
def test_window_that_closes_an_open_sale_is_asked_about(aimed, daemon, window):
    daemon.reset()
    daemon.order()
    asked = aimed(f"window demo {window}", USAGE)
    assert "closes demo, which is open: round 1, 1 of 1000 units sold" in asked.stderr
    assert daemon.order(user_id="u2").status == 201
    assert aimed.type(f"window demo {window}", ("Go on?", "n\n"))[0] == REFUSED
    assert daemon.order(user_id="u3").status == 201
    aimed(f"window demo {window} --yes")
    assert daemon.order(user_id="u4").status == 409
    aimed("window demo --starts none --ends +1h")  # it closes nothing


@pytest.mark.parametrize("away", [0, 1])
def test_exit_status_is_that_of_the_worst_pod(ctl, away):
    with impostor(ctl, lambda head: b'{"sales": []}'):
        pods = [ctl.env["SECKILLCTL_ADMIN"]] * 2
        pods[away] = f"127.0.0.1:{free_port()}"
        ctl.env["SECKILLCTL_ADMIN"] = ";".join(pods)
        done = ctl("sales", UNAVAILABLE)
    assert pods[away] in done.stderr and "pod 0" in done.stdout and "pod 1" in done.stdout


def test_pod_is_asked_though_a_daemon_of_the_one_before_is_away(ctl):
    with impostor(ctl, lambda head: b'{"sales": []}'):
        there = ctl.env["SECKILLCTL_ADMIN"]
        ctl.env["SECKILLCTL_ADMIN"] = f"127.0.0.1:{free_port()} {there}; {there}"
        done = ctl("sales")
    assert "pod 0" in done.stdout and "pod 1" in done.stdout


def test_wrong_token_daemon_away_and_wrong_place(ctl, daemon):
    ctl.aim(daemon, token="guess-guess")
    for line in ["sales", "stock demo", "create demo --total 3", "export", "audit", "reconcile a"]:
        done = ctl(line, NOPERM)
        assert "unauthorized" in done.stderr and "guess" not in done.stderr + done.stdout
    ctl.env["SECKILLCTL_ADMIN"] = f"127.0.0.1:{free_port()}"
    lines = ["status", "sales", "create demo --total 3", "export", "audit", "order 1", "user u",
             "top"]
    with ThreadPoolExecutor(len(lines)) as pool:  # they try again for a while
        for done in pool.map(lambda line: ctl(line, UNAVAILABLE), lines):
            assert "127.0.0.1" in done.stderr
    assert ctl.json("status", UNAVAILABLE)["daemons"][0]["status"] == "away"
    for address in ["ftp://a", "http://u:p@host", "http://host/path", "a b://"]:
        ctl.env["SECKILLCTL_ADMIN"] = address
        ctl("sales", CONFIG)


def test_what_is_no_service_is_called_so(ctl):
    with socket.create_server(("127.0.0.1", 0)) as server:
        def serve():
            for body in (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
                         b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"):
                client, _ = server.accept()
                with client:
                    client.recv(65536)
                    client.sendall(body)
        threading.Thread(target=serve, daemon=True).start()
        ctl.env["SECKILLCTL_ADMIN"] = "127.0.0.1:%d" % server.getsockname()[1]
        assert "not a JSON" in ctl("sales", PROTOCOL).stderr
        assert "HTTP status 403" in ctl("sales", PROTOCOL).stderr


ORDER = {"order_id": "7", "sku": "s", "user_id": "u", "qty": 1, "segment": 0, "status": "paid",
         "created_at": "2026-11-20T21:30:00.123Z", "round": 1}


@pytest.mark.parametrize("page", [
    "hello", {}, {"orders": [1]}, {"orders": [{**ORDER, "order_id": 7}]},
    {"orders": [ORDER, {**ORDER, "user_id": "\x1b[2Ju"}]},
    {"orders": [{**ORDER, "status": "\x9b2J"}]},
], ids=["text", "no_orders", "number", "id", "escape", "c1"])
def test_listing_that_is_none_is_no_export(ctl, tmp_path, page):
    body = page if isinstance(page, str) else json.dumps(page, ensure_ascii=False)
    with impostor(ctl, lambda head: body.encode()):
        done = ctl("export --output orders.csv", PROTOCOL)
    assert "not of the form" in done.stderr or "not a JSON object" in done.stderr
    assert not (tmp_path / "orders.csv").exists()


PAYMENT = {"order_id": "7", "payment_ref": "pi/1", "sku": "s", "round": 1, "user_id": "u",
           "order_status": "expired", "state": "refund_due", "outcome": "too_late",
           "told_at": "2026-11-20T21:30:00.123Z"}


def test_payments_come_page_by_page(ctl):
    asked = []

    def answer(head):
        asked.append(head.split()[1])
        return json.dumps({"payments": [PAYMENT], **({} if "after" in head else {
            "next": "9223372036854775807 " + "/" * 128})}).encode()
    with impostor(ctl, answer):
        assert ctl.json("payments") == {"payments": [PAYMENT] * 2}
        assert ctl.rows("payments s --state refund_due --order 7")[1] == {
            "order": "7", "payment": "pi/1", "state": "refund_due", "outcome": "too_late",
            "sku": "s", "round": "1", "user": "u", "order is": "expired",
            "told at": PAYMENT["told_at"], "refunded at": "-"}
    after = "&after=9223372036854775807%20" + "%2F" * 128
    first = ["/admin/payments?limit=1000",
             "/admin/payments?limit=1000&sku=s&state=refund_due&order_id=7"]
    assert asked == [path + end for path in first for end in ("", after)]
    with impostor(ctl, lambda head: b"{}"):
        assert "not of the form" in ctl("payments", PROTOCOL).stderr
    for line in ["payments a/b", "payments --order x", "payments --state a&b", "payments a b"]:
        ctl(line, USAGE)


@contextlib.contextmanager
def tail(ctl, line):
    """Follows events; gives a function that waits for the next line."""
    with subprocess.Popen([CONTROL, "events", "tail", *shlex.split(line)], env=ctl.env,
                          cwd=ctl.home, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline
        finally:
            process.terminate()  # a shell's background job ignores SIGINT
            process.wait(SECONDS_MAX)
    assert process.returncode == -signal.SIGTERM


def test_events_are_followed(ctl, stack, spawn):
    daemon = spawn(stack, shop_token="shop-secret", events_retention_h=1, **STEADY)
    ctl.aim(daemon)
    ctl("events tail", NOPERM)
    ctl.env["SECKILLCTL_SHOP_TOKEN"] = "shop-secret"
    daemon.reset("other", 10, 2)
    daemon.reset("lamp", 10, 2)
    order = daemon.order("lamp", user_id="ada", qty=2).json()["order_id"]
    shop = {"Authorization": "Bearer shop-secret"}
    for ref in "pi_1", "pi_2":
        daemon.request("POST", f"/order/{order}/pay", {"payment_ref": ref}, shop)
    daemon.change("lamp", paused=True)
    with tail(ctl, "lamp --from-oldest --json") as read:
        seen = []
        while not seen or not seen[-1]["data"].get("paused"):
            seen.append(json.loads(read()))
    assert {event["sku"] for event in seen} == {"lamp"}
    with tail(ctl, "lamp --after 0") as read:
        lines = [read().split() for _ in seen]
    assert [line[:3] for line in lines] == [
        [event["time"], event["type"], event["subject"]] for event in seen]
    of_order = {line[1]: line[3:] for line in lines if line[2] == order}
    assert of_order == {"order.accepted": ["v1", "ada", "2", "lamp"],
                        "order.paid": ["v2", "ada", "2", "lamp", "pi_1"],
                        "payment.refund_due": ["-", "ada", "2", "lamp", "pi_2"]}
    assert " ".join(lines[-1][3:]) == "round 1: 8 of 10 left, paused"
    cursor = daemon.request("GET", "/events?after=end", headers=shop).json()["next"]
    with tail(ctl, f"--after {cursor}") as read:
        assert daemon.admin("DELETE", "/admin/sale/other").status == 200
        while (line := read().split()[1:]) != ["sale.changed", "other", "retired"]:
            assert line[:2] == ["sale.changed", "other"]


def test_events_that_cannot_be_followed_say_why(ctl, aimed):
    assert "events_off" in aimed("events tail", REFUSED).stderr
    for line in ["events tail a/b", "events", "events head",
                 "events tail --after 1 --from-oldest", "events tail a b"]:
        ctl(line, USAGE)
    asked = []

    def answer(head):
        asked.append(head.split()[1])
        if len(asked) == 1:
            return json.dumps({"events": [{"type": "order.new", "subject": "7\x1b[2J"}],
                               "next": "1"}).encode()
        return 410, b'{"code": "cursor_expired", "detail": "gone"}'
    with impostor(ctl, answer):
        done = ctl("events tail --timeout 4", DATAERR)
    assert "gone" in done.stderr and "7?[2J" in done.stdout
    path = "/events?limit=1000&wait_s=2&after="
    assert asked == [path + "end", path + "1"]
    for body in b"{}", b'{"events": []}', b'{"events": [1], "next": "1"}':
        with impostor(ctl, lambda head, body=body: body):
            assert "not of the form" in ctl("events tail", PROTOCOL).stderr


def test_refund_and_extension_are_calls_of_the_shop(ctl):
    ctl.env["SECKILLCTL_SHOP_TOKEN"] = "shop-secret"
    asked = []

    def answer(head):
        asked.append(head)
        if "extend" in head:
            return 409, json.dumps({"code": "hold_limit_reached", "detail": "no",
                                    "latest": "2026-11-20T22:00:00.000Z"}).encode()
        return json.dumps({**ORDER, "payment_ref": "pi", "payment_state": "refunded"}).encode()
    with impostor(ctl, answer):
        told = ctl("refund 7 pi", USAGE).stderr
        assert "keeps 0 of its units, and the others stay sold" in told and not asked
        done = ctl("refund 7 pi --keep 2 --restock --yes")
        assert "in part" in done.stderr and "keeps 2" in done.stderr and "again" in done.stderr
        assert done.stdout.endswith("\npi is refunded\n")
        assert ctl.json("refund 7 pi --yes")["payment_state"] == "refunded"
        assert "until 2026-11-20T22:00:00.000Z" in ctl("extend 7 +30m", REFUSED).stderr
    assert [head.split()[1] for head in asked] == ["/order/7/refund"] * 2 + ["/order/7/extend"]
    assert all("Authorization: Bearer shop-secret" in head for head in asked)
    for line in ["refund x pi", "refund 7 pi --keep 0", "extend 7 none", "extend 7 soon"]:
        ctl(line, USAGE)


def test_terminal_obeys_no_text_of_the_service(ctl):
    evil = "\x1b[2J\x9b2J\x7f"
    segment = {"segment": 0, "capacity": 1, "sold": 0, "available": 1, "state": evil}
    stock = {"sku": evil, "segment_count": 1, "round": 1, "total": 1, "sold": 0, "available": 1,
             "starts_at": evil, "segments": [segment], "consistent": True, "repaired": 1,
             "reason": evil, "differences": [{"segment": 0, "reason": evil, "ledger_available": 1}]}

    body = json.dumps({**stock, "sales": [stock], "code": evil}, ensure_ascii=False).encode()
    with impostor(ctl, lambda head: body):
        for line in ("sales", "stock s", "sales --json", "reconcile s", "audit s --reconcile",
                     "restock s 1"):
            shown = ctl(line).stdout
            assert not set("\x1b\x9b") & set(shown), shown


def test_first_daemon_away_the_next_one_is_asked(ctl, pair):
    pair[0].reset()
    ctl.aim(*pair)
    in_time(lambda: [row["state"] for row in ctl.rows("status")] == ["ready", "ready"])
    pair[0].stop()
    assert ctl.json("stock demo")["total"] == 1000
    in_time(lambda: [state["status"] for state in ctl.json("status", UNAVAILABLE)["daemons"]]
            == ["away", "ready"])


def test_unknown_outcome_is_called_so_and_repeated_by_its_key(ctl, daemon, proxies):
    daemon.reset("demo", 1000, 20)
    daemon.order()
    proxy = proxies(daemon.address[1])
    ctl.env.update(SECKILLCTL_ADMIN=f"127.0.0.1:{proxy.port}", SECKILLCTL_ADMIN_TOKEN=TOKEN)

    def lose(pattern, line):
        """The answers to all tries get lost; the printed repeat then gets one."""
        traps = [proxy.once(pattern, after=Link.cut) for _ in range(3)]
        done = ctl(line, TEMPFAIL)
        assert all(trap.sprung.is_set() for trap in traps)
        assert "outcome is unknown" in done.stderr
        repeat = re.search(r"seckillctl: to find out, .*: seckillctl (.*)", done.stderr)[1]
        return ctl(repeat)

    lose(rb"POST /admin/stock/add", "restock demo 100")
    assert daemon.stock()["total"] == 1100  # once
    lose(rb"end_round", "reset demo --yes --end-round --ends +1h")
    assert round_of(daemon) == 2
    lose(rb"PATCH", "limit demo 3")
    assert daemon.stock()["per_user_limit"] == 3
    lose(rb"reset", "create other --total 10")
    assert round_of(daemon, "other") == 1
    proxy.once(rb"DELETE", after=Link.cut)  # its repeat finds no sale
    assert ctl("retire other --yes").stdout == "other is retired\n"
    # Neither a long line nor quotes in it keep the key from the repeat.
    folder = ctl.home / "/".join(["it's" + "x" * 196] * 7)
    folder.mkdir(parents=True)
    (folder / "conf").touch()
    lose(rb"POST /admin/stock/add", "restock demo 100 --config " + shlex.quote(f"{folder}/conf"))
    assert daemon.stock()["total"] == 1200
    proxy.deaf = True
    assert "unknown" in ctl("restock demo 5 --timeout 1", TEMPFAIL).stderr
    assert daemon.stock()["total"] == 1205


def problem(status, code):
    return status, json.dumps({"code": code, "detail": "said so"}).encode()


@pytest.mark.parametrize("answers", [
    [problem(503, "outcome_unknown")], [(502, b"<html>")], [(504, b"")],
    [None, problem(503, "unavailable")], [None, problem(401, "unauthorized")],
    [None, problem(404, "not_found")], [None, (403, b"<html>")],
], ids=["daemon", "proxy", "slow proxy", "then unavailable", "then unauthorized",
        "then not found", "then a proxy"])
def test_reset_in_doubt_is_called_unknown(ctl, answers):
    """Whatever comes of the repeats: it says nothing of a first try that had no answer."""
    stock = json.dumps({"sku": "s", "round": 1, "total": 10, "sold": 0, "segments": [{}]}).encode()
    left = list(answers)

    def answer(head):
        if head.startswith("GET"):
            return stock
        return left.pop(0) if len(left) > 1 else left[0]

    with impostor(ctl, answer):
        told = ctl("reset s --yes", TEMPFAIL).stderr
    assert "the outcome is unknown" in told and "nothing was done" not in told
    assert re.search(r"to find out, repeat the call.*: seckillctl .*reset s .*--key ctl-", told)


def test_repeat_ends_the_round_as_it_was_confirmed(ctl, daemon, proxies):
    """The operator has said so on the terminal, not on the command line."""
    daemon.reset()
    daemon.order()
    proxy = proxies(daemon.address[1])
    ctl.env.update(SECKILLCTL_ADMIN=f"127.0.0.1:{proxy.port}", SECKILLCTL_ADMIN_TOKEN=TOKEN)
    for _ in range(3):
        proxy.once(rb"end_round", before=Link.cut)
    status, shown = ctl.type("reset demo", ("Go on?", "y\n"), ("reserved ones", "y\n"))
    assert status == TEMPFAIL and round_of(daemon) == 1
    repeat = re.search(r"to find out, .*: seckillctl ([^\r\n]*)", shown)[1]
    ctl(repeat + " --yes")
    assert round_of(daemon) == 2


def fill(daemon, count):
    daemon.reset("bulk", 10, 1)
    daemon.stack.ledger.run(
        "INSERT INTO orders(order_id, sku, round, user_id, qty, segment, created_at)"
        " WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)"
        " SELECT (a.i - 1) * 1000 + b.i, 'bulk', 1, CONCAT('u', b.i), 1, 0,"
        f" '2026-11-20 21:30:00.123' FROM n a, n b WHERE (a.i - 1) * 1000 + b.i <= {count}")


def ids(text):
    rows = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
    return [int(row["order_id"]) for row in rows]


def test_export_goes_on_where_it_broke(ctl, daemon, proxies, tmp_path):
    fill(daemon, 5000)
    proxy = proxies(daemon.address[1])
    ctl.env.update(SECKILLCTL_ADMIN=f"127.0.0.1:{proxy.port}", SECKILLCTL_ADMIN_TOKEN=TOKEN)
    whole = ctl("export").stdout
    assert ids(whole) == list(range(1, 5001))
    proxy.once(rb"after=2000", before=Link.cut)
    done = ctl("export --output orders.csv")
    assert "5000 orders in orders.csv" in done.stderr
    assert (tmp_path / "orders.csv").read_bytes().decode() == whole
    assert ids(ctl("export --after 4990").stdout) == list(range(4991, 5001))
    assert ids(ctl("export --sku nix").stdout) == ids(ctl("export --status paid").stdout) == []
    rows = [json.loads(line) for line in ctl("export --json --after 4998").stdout.splitlines()]
    assert [row["order_id"] for row in rows] == ["4999", "5000"] and rows[0]["qty"] == 1
    proxy.once(rb"after=2000", before=lambda _: proxy.refuse())
    failed = ctl("export --output other.csv --timeout 1", UNAVAILABLE)
    assert "all orders up to 2000 were read; --after 2000 goes on" in failed.stderr
    assert "other.csv.part has what" in failed.stderr and not (tmp_path / "other.csv").exists()


def test_user_ids_of_any_signs(aimed, daemon):
    daemon.reset("demo", 100, 1)
    names = ["a@b.org", '=1,"x"', "'", "u/1?&%2F#", "a,b", '"a",""b"', '-,"', "+1", "@x"]
    for name in names:
        assert daemon.order(user_id=name).status == 201
        if not name.startswith("-"):  # which would be an option
            assert aimed.json("user " + shlex.quote(name))["orders"][0]["user_id"] == name
    rows = [json.loads(line) for line in aimed("export --json").stdout.splitlines()]
    assert [row["user_id"] for row in rows] == names
    text = io.StringIO(aimed("export").stdout, newline="")
    fields = [row["user_id"] for row in csv.DictReader(text, strict=True)]
    assert not any(field[0] in "=+-@" for field in fields)  # a spreadsheet runs no formula
    assert [field.removeprefix("'") for field in fields] == names
    assert aimed.json("audit demo")["sales"][0]["orders"] == len(names)


def test_export_for_spreadsheets(aimed, daemon):
    """Each id is a formula whose value is a text, and no part of it is run."""
    daemon.reset("1e5", 100, 1)
    names = ["00123", "1e5", "=1+1", "a,b", '"a",""b"', "2026-11-20", "250361722030784512"]
    for name in names:
        assert daemon.order("1e5", user_id=name).status == 201
    rows = [json.loads(line) for line in aimed("export --json").stdout.splitlines()]
    text = io.StringIO(aimed("export --spreadsheet").stdout, newline="")
    for row, told in zip(rows, csv.DictReader(text, strict=True), strict=True):
        for field in ("order_id", "sku", "user_id"):
            formula = re.fullmatch(r'="((?:[^"]|"")*)"', told[field])
            assert formula[1].replace('""', '"') == row[field]
        assert (told["qty"], told["created_at"]) == (str(row["qty"]), row["created_at"])
    assert [row["user_id"] for row in rows] == names


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("soffice"), reason="no LibreOffice is installed")
def test_export_survives_a_spreadsheet(aimed, daemon, tmp_path):
    daemon.reset("demo", 100, 1)
    for name in ("00123", "1e5", "=1+1", "a,b", '"a"'):
        assert daemon.order(user_id=name).status == 201
    plain = [row[:3] for row in csv.reader(io.StringIO(aimed("export").stdout, newline=""))]
    aimed("export --spreadsheet --output orders.csv")
    for source, form in (("orders.csv", "ods"), ("saved/orders.ods", "csv")):
        subprocess.run(["soffice", f"-env:UserInstallation=file://{tmp_path}/profile", "--headless",
                        "--convert-to", form, "--outdir", "saved", source], cwd=tmp_path,
                       check=True, capture_output=True, timeout=120)
    saved = (tmp_path / "saved" / "orders.csv").read_text(encoding="utf-8")
    told = [row[:3] for row in csv.reader(io.StringIO(saved, newline=""))]
    assert told == [[field.removeprefix("'") for field in row] for row in plain]
    assert aimed.json("audit demo --acked saved/orders.csv")["acked"] == 5


def test_output_that_cannot_be_written(aimed, daemon):
    fill(daemon, 5000)
    with open("/dev/full", "wb") as full:
        assert "cannot write" in aimed("export", IOERR, stdout=full).stderr
        assert "cannot write" in aimed("sales --json", IOERR, stdout=full).stderr
    aimed("export --output nowhere/orders.csv", CANTCREAT)
    read, write = os.pipe()
    os.close(read)  # the reader, say head, is gone: quietly
    with os.fdopen(write, "wb") as pipe:
        assert aimed("export", -signal.SIGPIPE, stdout=pipe).stderr == ""


def test_audit_compares_what_clients_cannot(aimed, daemon, tmp_path):
    daemon.reset("demo", 100, 10)
    daemon.reset("other", 100, 5)
    orders = [daemon.order(user_id=f"u{n}", qty=n).json() for n in range(1, 14)]
    daemon.cancel(orders[12]["order_id"])
    daemon.pay(orders[1]["order_id"])
    acked = tmp_path / "acked"
    acked.write_text("".join(f"{order['order_id']}\n" for order in orders))
    aimed("audit --settled")  # it repeats until the last worker has told Redis
    report = aimed.json("audit --acked acked --reconcile")
    assert report["consistent"] and report["differences"] == report["awaiting"] == []
    assert report["acked"] == 13 and [sale["sku"] for sale in report["sales"]] == ["demo", "other"]
    demo = report["sales"][0]
    assert demo["sold"] == demo["ordered"] == sum(range(1, 13))
    assert demo["states"] == {"reserved": 11, "paid": 1, "cancelled": 1, "expired": 0,
                              "refunded": 0}
    assert sum(segment["sold"] for segment in demo["segments"]) == demo["sold"]
    assert aimed("audit demo").stdout.endswith("verdict: consistent\n")
    row = aimed.rows("audit demo")[0]
    assert (row["sold"], row["in orders"], row["left"], row["in Redis"]) == ("78", "78", "22", "22")
    whole, first = acked.read_text(), orders[0]["order_id"]
    acked.write_text(f"{whole}4711\n")
    done = aimed("audit demo --acked acked", REFUSED).stdout
    assert "1 orders that clients saw accepted are missing, such as 4711" in done
    acked.write_text(f"{whole}{first}\n")
    assert f"accepted more than once, as clients saw it, such as {first}" in aimed(
        "audit demo --acked acked", REFUSED).stdout
    report = aimed.json("audit demo --acked acked", REFUSED)
    assert (report["acked"], report["repeated"], len(report["differences"])) == (13, 1, 1)
    acked.write_text("x\n")
    assert "acked:1: not the id of an order" in aimed("audit demo --acked acked", NOINPUT).stderr
    acked.write_text("\ufeff" + aimed("export --sku demo").stdout, encoding="utf-8")
    assert aimed.json("audit demo --acked acked")["acked"] == 13


def test_audit_compares_payments_with_the_export(aimed, daemon, tmp_path):
    daemon.reset("demo", 10, 2)
    daemon.reset("other", 10, 2)
    one, two, other = (daemon.order(sku, user_id=user).json()["order_id"]
                       for sku, user in (("demo", "u1"), ("demo", "u2"), ("other", "u1")))
    for order, ref in ((one, "pi_1"), (one, "pi_1b"), (two, 'pi,"2'), (other, "pi_3")):
        daemon.pay(order, ref)
    lines = ["payment_ref,order_id", f"pi_1,{one}", f"pi_1b,{one}", f'"pi,""2",{two}',
             f"pi_3,{other}"]
    file = tmp_path / "payments.csv"

    def told(*lines, line="audit"):
        file.write_text("\r\n".join(lines))
        return differences(aimed, line + " --payments payments.csv")
    file.write_text("\n".join(lines))
    assert "payments that agree with the file: 4\n" in aimed("audit --payments payments.csv").stdout
    assert aimed.json("audit demo --payments payments.csv")["payments_agreed"] == 4
    assert told(*lines, "", "pi_9,17", "pi_1,7") == [
        "line 7: the service does not know pi_9 of order 17",
        "line 8: the service does not know pi_1 of order 7"]
    assert told(*lines, f"pi_1,{one}") == [f"line 6: pi_1 of order {one} is in line 2 already"]
    assert told(*lines[2:], f"pi_1,{two}") == [
        f"pi_1 of order {one}, which is taken, is not in the file",
        f"line 4: the service does not know pi_1 of order {two}"]
    assert told(lines[1], lines[3]) == [
        f"pi_1b of order {one}, which is refund_due, is not in the file",
        f"pi_3 of order {other}, which is taken, is not in the file"]
    assert told(lines[1], line="audit other") == [
        f"pi_3 of order {other}, which is taken, is not in the file"]
    assert "nowhere: No such file" in aimed("audit --payments nowhere", NOINPUT).stderr
    file.write_text("\r\n".join([*lines, "x", "y"]))
    done = aimed("audit --payments payments.csv", NOINPUT)
    assert done.stderr == "seckillctl: payments.csv:6: not a payment_ref and an order id\n"
    assert done.stdout == ""
    both = [daemon.order(sku, user_id="u4").json()["order_id"] for sku in ("demo", "other")]
    for order in both:  # one payment of a basket of two skus
        assert daemon.pay(order, "pi_5").status == 200
    file.write_text("\n".join(lines + [f"pi_5,{order}" for order in both]))
    assert aimed.json("audit --payments payments.csv")["payments_agreed"] == 6
    assert daemon.unpay(both[0], "pi_5").status == 200  # the provider may not list it
    file.write_text("\n".join([*lines, f"pi_5,{both[1]}"]))
    assert aimed.json("audit --payments payments.csv")["payments_agreed"] == 5
    file.write_text("\n".join(lines))
    daemon.stack.ledger.run(f"UPDATE orders SET status = 'refunded' WHERE order_id = {two}")
    found = differences(aimed, "audit demo --payments payments.csv")
    assert "demo: 1 orders whose payments contradict their status" in found


def differences(aimed, line="audit demo"):
    report = aimed.json(line, REFUSED)
    assert not report["consistent"]
    return report["differences"]


def test_audit_names_each_difference_of_the_ledger(aimed, daemon):
    daemon.reset("demo", 100, 10, per_user_limit=20, pay_within_s=3600)
    single = daemon.order(user_id="u1", key="k1").json()
    assert daemon.order(user_id="u2", qty=15).status == 201
    assert aimed.json("audit demo")["consistent"]
    ledger, order, segment = daemon.stack.ledger, single["order_id"], single["segment"]
    row = f"WHERE sku = 'demo' AND segment = {segment}"
    sold = int(ledger.run(f"SELECT sold FROM stock_segment {row}")[0][0])

    unchecked = ("ALTER TABLE stock_segment ALTER CHECK never_oversold NOT ENFORCED;"
                 "ALTER TABLE user_quota ALTER CHECK never_above_limit NOT ENFORCED"
                 if is_mysql() else "SET check_constraint_checks = 0")

    def broken(breaks, mends):
        ledger.run(f"{unchecked}; {breaks}")
        found = differences(aimed)
        ledger.run(f"{unchecked}; {mends}")
        assert aimed.json("audit demo")["consistent"]
        return found

    found = broken(f"UPDATE stock_segment SET sold = sold - 1 {row}",
                   f"UPDATE stock_segment SET sold = sold + 1 {row}")
    assert f"demo: segment {segment}: Redis has {10 - sold} left, the ledger {11 - sold}" in found
    assert "demo: 15 sold, 16 in orders" in found
    found = broken(f"UPDATE orders SET qty = 9, user_id = 'u1' WHERE order_id = {order}",
                   f"UPDATE orders SET qty = 1 WHERE order_id = {order}")
    assert "demo: 16 units are counted for users, 24 in orders" in found
    found = broken(f"UPDATE stock_segment SET capacity = 0 {row}",
                   f"UPDATE stock_segment SET capacity = 10 {row}")
    assert f"demo: segment {segment}: oversold, {sold} of 0" in found
    assert "demo: 100 units in all, 90 in its segments" in found
    found = broken("UPDATE stock_segment SET segment = 10 WHERE sku = 'demo' AND segment = 0",
                   "UPDATE stock_segment SET segment = 0 WHERE sku = 'demo' AND segment = 10")
    assert "demo: segment 0 is missing" in found
    found = broken(f"UPDATE orders SET user_id = 'u3' WHERE order_id = {order}",
                   f"UPDATE orders SET user_id = 'u1' WHERE order_id = {order}")
    assert "demo: the users whose units are counted are not the users of the orders" in found
    assert "demo: 1 orders whose idempotency key does not lead to them" in found
    found = broken("UPDATE user_quota SET allowed = 0 WHERE user_id = 'u1'",
                   "UPDATE user_quota SET allowed = 20 WHERE user_id = 'u1'")
    assert found == ["demo: 1 users have more than their limit"]
    found = broken(f"UPDATE order_key SET order_id = 17 WHERE order_id = {order}",
                   f"UPDATE order_key SET order_id = {order} WHERE order_id = 17")
    assert found == ["demo: 1 orders whose idempotency key does not lead to them"]
    found = broken(f"UPDATE orders SET status = 'expired' WHERE order_id = {order}",
                   f"UPDATE orders SET status = 'reserved' WHERE order_id = {order}")
    assert "demo: 16 sold, 15 in orders" in found
    ledger.run("DELETE FROM order_expiry")
    assert differences(aimed) == ["demo: 2 reserved orders that would never expire"]


def test_audit_names_what_redis_has_lost(aimed, daemon):
    daemon.reset("demo", 100, 4)
    orders = [daemon.order(user_id=f"u{n}").json() for n in range(4)]
    segment = orders[0]["segment"]
    assert aimed.json("audit demo --settled")["consistent"]
    redis, key = daemon.stack.redis, f"seckill:{{demo:{segment}}}:segment"
    whole = redis.hash(key)

    def awaiting():
        report = aimed.json("audit demo")
        assert report["consistent"] and differences(aimed, "audit demo --settled") == \
            report["awaiting"]
        return report["awaiting"]

    for field, value, state in (("open", "x", "dirty"), ("settled", "1", "stale"),
                                ("round", "7", "round")):
        redis("HSET", key, field, value)
        assert awaiting() == [f"demo: segment {segment}: {state} in Redis"]
        redis("HSET", key, field, whole[field])
    redis("HSET", key, "available", "99")
    left = whole["available"]
    assert differences(aimed) == [
        f"demo: segment {segment}: Redis has 99 left, the ledger {left}"]
    redis("DEL", key)
    assert awaiting() == [f"demo: segment {segment}: missing in Redis"]
    report = aimed.json("audit demo --reconcile")
    assert report["recovered"] and report["consistent"]
    assert aimed.json("audit demo --settled")["consistent"]


def test_audit_goes_through_pages(aimed, daemon):
    fill(daemon, 12_000)
    daemon.stack.ledger.run(
        "UPDATE sale SET per_user_limit = 20 WHERE sku = 'bulk';"
        "INSERT INTO user_quota(sku, round, user_id, units, allowed, order_ids)"
        " WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)"
        " SELECT 'bulk', 1, CONCAT('v&', (a.i - 1) * 1000 + b.i), 1, 20, '' FROM n a, n b"
        " WHERE (a.i - 1) * 1000 + b.i <= 11000")
    found = differences(aimed, "audit bulk --wait 0")
    assert "bulk: 11000 units are counted for users, 12000 in orders" in found
    first = daemon.admin("GET", "/admin/audit?sku=bulk").json()
    assert first["next"] == "10000" and first["sales"][0]["units"] == 10_000
    rest = daemon.admin("GET", "/admin/audit?after=10000").json()
    assert "next" not in rest and rest["sales"][0]["states"]["reserved"] == 2000
    assert daemon.admin("GET", "/admin/audit?sku=other").json()["sales"] == []
    page = daemon.admin("GET", "/admin/audit/bulk").json()
    assert page["users"]["units"] == 10_000 and page["next"].startswith("v&")
    for query in ("after=x", "sku=a b", "fly=1", "sku=a&sku=b", "after=1&after=2"):
        answer = daemon.admin("GET", "/admin/audit?" + query.replace(" ", "%20"))
        assert answer.answer == "400 invalid_request", query
    for query in ("after=", "after=a%20b", "sku=bulk"):
        answer = daemon.admin("GET", f"/admin/audit/bulk?{query}")
        assert answer.answer == "400 invalid_request", query
    assert daemon.admin("GET", "/admin/audit/nix").answer == "404 unknown_sku"


def test_audit_of_a_sale_that_moves_is_unclear(ctl, daemon, proxies):
    daemon.reset("demo", 100, 1)
    daemon.order()
    proxy = proxies(daemon.address[1])
    ctl.env.update(SECKILLCTL_ADMIN=f"127.0.0.1:{proxy.port}", SECKILLCTL_ADMIN_TOKEN=TOKEN)
    # The order comes when the orders are read, and the sale not yet for the second time.
    proxy.once(rb"audit\?sku=demo&after", after=lambda link: daemon.order(user_id="u2"))
    unclear = ctl("audit demo --wait 0", TEMPFAIL)
    assert "unclear" in unclear.stdout and "pause it" in unclear.stderr
    proxy.once(rb"audit\?sku=demo&after", after=lambda link: daemon.order(user_id="u3"))
    assert ctl.json("audit demo")["sales"][0]["orders"] == 3


def test_interrupted_change_says_how_to_repeat_it(ctl, daemon, proxies):
    daemon.reset("demo", 1000)
    proxy = proxies(daemon.address[1])
    ctl.env.update(SECKILLCTL_ADMIN=f"127.0.0.1:{proxy.port}", SECKILLCTL_ADMIN_TOKEN=TOKEN)
    for number, name in enumerate((signal.SIGINT, signal.SIGTERM), 1):
        proxy.deaf = True  # no answer comes
        # Tests in the background of a shell would pass on that SIGINT is ignored.
        process = subprocess.Popen([CONTROL, "restock", "demo", "100"], env=ctl.env, cwd=ctl.home,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
                                   stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: daemon.stock()["total"] == 1000 + 100 * number, "the restock")
        process.send_signal(name)
        _, told = process.communicate(timeout=SECONDS_MAX)
        assert process.returncode == TEMPFAIL and "unknown" in told
        proxy.deaf = False
        repeat = re.search(r"seckillctl: to find out, .*: seckillctl (.*)", told)[1]
        assert " --key ctl-" in repeat
        ctl(repeat)
        assert daemon.stock()["total"] == 1000 + 100 * number  # once


def test_sockets_and_listeners_of_their_own(ctl, stack, spawn, tmp_path):
    path = tmp_path / "admin.sock"
    daemon = spawn(stack, admin_listen=f"unix:{path}", shop_token="shop-secret", **STEADY)
    ctl.env.update(SECKILLCTL_ADMIN=f"unix:{path}", SECKILLCTL_ADMIN_TOKEN=TOKEN)
    assert ctl.json("create demo --total 10")["round"] == 1
    order = {**daemon.order().json(), "version": 1}
    assert ctl.json(f"order {order['order_id']}") == order  # by the operators' listing
    assert "unknown_order" in ctl("order 17", NOINPUT).stderr
    assert "admin and shop" in ctl("user u1", CONFIG).stderr
    ctl.env["SECKILLCTL_SHOP"] = daemon.url()
    assert "unauthorized" in ctl("user u1", NOPERM).stderr
    ctl.env["SECKILLCTL_SHOP_TOKEN"] = "shop-secret"
    assert ctl.json("user u1")["orders"] == [order]
    in_time(lambda: ctl.rows("status")[0]["daemon"] == f"unix:{path}")
    ctl.env["SECKILLCTL_ADMIN"] = "%s:%d" % daemon.address
    assert "admin and shop" in ctl("sales", CONFIG).stderr


def test_configuration_file(ctl, daemon, tmp_path):
    daemon.reset()
    (tmp_path / ".config").mkdir()
    file = tmp_path / ".config" / "seckillctl"
    file.write_text(f"# ours\nadmin = {daemon.url()}/\nadmin_token_file = {tmp_path}/token\n")
    assert "token: No such file" in ctl("sales", CONFIG).stderr
    (tmp_path / "token").write_text(f"\n{TOKEN}\nolder\n")
    (tmp_path / "token").chmod(0o644)
    assert "everybody can read" in ctl("sales", CONFIG).stderr
    (tmp_path / "token").chmod(0o640)
    assert len(ctl.json("sales")["sales"]) == 1
    other = tmp_path / "other"
    other.write_text(f"admin={daemon.url()}\nadmin_token={TOKEN}\n")
    other.chmod(0o644)
    assert "everybody can read" in ctl(f"sales --config {other}", CONFIG).stderr
    other.chmod(0o600)
    assert len(ctl.json(f"sales --config {other}")["sales"]) == 1
    ctl.env["SECKILLCTL_ADMIN_TOKEN"] = "guess"  # the environment wins
    ctl("sales", NOPERM)
    for text in ["fly = 1\n", "admin\n", "admin = ,\n", "admin_token = a b\n"]:
        other.write_text(text)
        ctl.env.pop("SECKILLCTL_ADMIN_TOKEN", None)
        ctl(f"sales --config {other}", CONFIG)
    ctl("sales --config nowhere", CONFIG)


def test_tokens_are_rotated_without_a_gap(ctl, stack, spawn, tmp_path):
    file = tmp_path / "admin.tokens"
    file.write_text(TOKEN + "\n")
    file.chmod(0o640)
    daemon = spawn(stack, env={"SECKILL_ADMIN_TOKEN": ""}, admin_token_file=file, **STEADY)
    ctl.env.update(SECKILLCTL_ADMIN="%s:%d" % daemon.address,
                   SECKILLCTL_ADMIN_TOKEN_FILE=str(file))
    done = ctl(f"token rotate {file}")
    old, new = file.read_text().split()
    assert old == TOKEN and len(new) == 48 and new not in done.stdout + done.stderr
    assert "SIGHUP" in done.stdout and file.stat().st_mode & 0o777 == 0o640
    ctl("sales")  # the first line is still good, before SIGHUP and after
    daemon.signal(signal.SIGHUP)
    ctl.env["SECKILLCTL_ADMIN_TOKEN"] = new
    wait_until(lambda: daemon.request("GET", "/admin/sales", headers={
        "Authorization": f"Bearer {new}"}).status == 200, "the new token")
    ctl.env.pop("SECKILLCTL_ADMIN_TOKEN")
    ctl(f"token prune {file}", USAGE)
    assert "takes 1 older tokens" in ctl(f"token prune {file} --yes").stderr
    assert file.read_text().split() == [new]
    daemon.signal(signal.SIGHUP)
    wait_until(lambda: daemon.ask("GET", "/admin/sales")[0] == 401, "the end of the old token")
    ctl("sales")
    ctl(f"token prune {file} --yes", REFUSED)
    for _ in range(7):
        ctl(f"token rotate {file}")
    ctl(f"token rotate {file}", REFUSED)
    ctl("token rotate new.tokens")
    assert (tmp_path / "new.tokens").stat().st_mode & 0o777 == 0o600
    ctl("token rotate .", NOINPUT)


def test_tokens_are_changed_by_one_command_at_a_time(ctl, tmp_path):
    file = tmp_path / "admin.tokens"
    file.write_text("first\n")
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    for what in ("rotate", "prune --yes"):
        assert "nothing was done" in ctl(f"token {what} {file}", UNAVAILABLE).stderr
    os.close(folder)
    assert file.read_text() == "first\n"
    several = [subprocess.Popen([CONTROL, "token", "rotate", file], env=ctl.env, cwd=ctl.home,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
               for _ in range(6)]
    ended = [process.wait(SECONDS_MAX) for process in several]
    assert set(ended) <= {0, UNAVAILABLE}
    assert len(set(file.read_text().split())) == 1 + ended.count(0)


def test_status_tells_which_server_is_away(ctl, private_stack, spawn):
    daemon = spawn(private_stack)
    ctl.aim(daemon)
    daemon.reset()
    private_stack.redis_server.kill()
    wait_until(lambda: daemon.get("/readyz").status == 503, "the daemon's notice")
    status = {}

    def told():
        status.update(ctl.json("status", UNAVAILABLE))
        return (status["daemons"][0]["redis"], status["daemons"][0]["ledger"]) == ("down", "ok")
    in_time(told)
    assert status["sales"][0]["sku"] == "demo"  # the ledger knows them
    assert "nothing was done" in ctl("reset demo --yes", UNAVAILABLE).stderr


@pytest.mark.parametrize("metrics, due", [("# x\nseckill_refunds_due 3\n", "3"), ("x 1\n", "-")],
                         ids=["due", "older"])
def test_status_and_top_show_refunds_due(ctl, metrics, due):
    def answer(head):
        if "/metrics" in head:
            return metrics.encode()
        return b'{"status": "ready", "redis": "ok", "ledger": "ok"}'
    with impostor(ctl, answer):
        assert [ctl.rows(line)[0]["refunds due"] for line in ("status", "top")] == [due] * 2


def test_top(aimed, daemon):
    daemon.reset()
    frames = []

    def told():
        frames[:] = map(json.loads, aimed("top --json --count 2").stdout.splitlines())
        return len(frames) == 2 and frames[1]["daemons"][0]["status"] == "ready"
    in_time(told)
    assert frames[1]["daemons"][0]["accepted_per_s"] == 0
    assert frames[0]["sales"][0]["sku"] == "demo"

    def told_of_servers():
        row = aimed.rows("top demo")[0]
        return (row["redis"], row["ledger"], row["accepted/s"]) == ("ok", "ok", "0")
    in_time(told_of_servers)
    status, shown = aimed.type("top", ("left of each segment", "q"))
    assert status == 0 and "accepted/s" in shown
    assert shown.startswith("\033[?1049h") and shown.rstrip().endswith("\033[?1049l")


def test_level_of_the_log_of_every_daemon(ctl, pair):
    ctl.aim(*pair)
    assert [(row["level"], row["for"]) for row in ctl.rows("log-level")] == [("info", "-")] * 2
    assert [row["level"] for row in ctl.rows("log-level error --for 600")] == ["error"] * 2
    assert [answer["log"]["level"] for answer in ctl.json("log-level")] == ["error"] * 2
    for daemon in pair:
        assert daemon.admin("GET", "/admin/log-level").json()["for_s"] > 500
    ctl("log-level loud", status=65)
    ctl("log-level --for 5", status=64)


def test_drain_names_its_daemon_and_is_taken_back(ctl, pair):
    first, second = pair
    ctl.aim(first, second)
    assert "name the one" in ctl("drain --yes", status=64).stderr
    address = "%s:%d" % second.address
    ctl("drain nonsense:", status=64)
    assert "draining" in ctl(f"drain {address} --stay --yes").stdout
    in_time(lambda: [one.get("/readyz").status for one in pair] == [200, 503])
    ctl(f"drain {address} --undo --stay", status=64)
    assert "serving" in ctl(f"drain {address} --undo").stdout
    second.wait_ready()
    assert ctl.json(f"drain {address} --for 0 --yes")["status"] == "draining"
    assert second.wait() == 0
    first.wait_ready()


def commands(ctl):
    return re.findall(r"^  ([a-z-]+) ", ctl("help").stdout.split("\nOptions")[0], re.M)


def ask_shell(argv, lines):
    """What a shell, which reads lines of words, answers to each; one shell for all."""
    done = subprocess.run(argv, input="".join(" ".join(words) + "\n" for words in lines),
                          capture_output=True, text=True, check=True)
    assert done.stderr == ""
    answers = [answer.splitlines() for answer in done.stdout.split("\0")[:-1]]
    assert len(answers) == len(lines)
    return answers


def options_of(ctl, names):
    return [set(re.findall(r"^  (--[a-z-]+)", ctl(f"help {name}").stdout, re.M)) for name in names]


BASH = r"""
source "$1"
compopt() { :; }
while read -r line; do
    read -ra words <<<"$line"
    COMP_WORDS=("$2" "${words[@]//__/}") COMP_CWORD=${#words[@]} COMPREPLY=()
    _seckillctl "$2" "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
    printf '%s\n' "${COMPREPLY[@]}"
    printf '\0'
done
"""
ZSH = r"""
script=$1 program=$2
compdef() { :; }
_describe() { print -l $commands; }
_arguments() { print -l -- "$@"; }
source $script
answer() {
    words=("$program" "${(@)${(@s: :)1}//__/}") CURRENT=${#words}
    _seckillctl
    print -n '\0'
}
while read -r line; do answer "$line"; done
"""


def test_completion_knows_every_command_and_option(ctl, tmp_path):
    names = commands(ctl)
    assert {"status", "top", "reset", "audit", "export", "token"} < set(names)
    script = tmp_path / "completion"
    script.write_text(ctl("completion bash").stdout)
    completed = {  # "__" is the empty word
        "__": names, "re": [name for name in names if name.startswith("re")],
        "token r": ["rotate"], "events t": ["tail"],
        "webhooks re": ["replay", "resume", "retry", "remove"],
        "webhooks add --type sale.s": ["sale.sold_out"],
        "export --status r": ["reserved", "refunded"],
        "payments --state r": ["refund_due", "refunded"],
        "reset --late-payment __": ["retake", "refund"],
        "late-payment demo ref": ["refund"],
        "export --output __": [],  # files: the shell's own
        "--json stock --j": ["--json"]}
    told = ask_shell(["bash", "-c", BASH, "bash", script, CONTROL],
                     [*(line.split() for line in completed), *([name, "__"] for name in names)])
    told = [list(filter(None, words)) for words in told]
    assert dict(zip(completed, told)) == completed
    assert options_of(ctl, names) == [{word for word in words if word[0] == "-"}
                                      for words in told[len(completed):]]


@pytest.mark.skipif(not shutil.which("zsh"), reason="zsh is not installed")
def test_completion_of_zsh_knows_every_command_and_option(ctl, tmp_path):
    script, names = tmp_path / "_seckillctl", commands(ctl)
    script.write_text(ctl("completion zsh").stdout)
    first, *told = ask_shell(["zsh", "-fc", ZSH, "zsh", script, CONTROL],
                             [["__"], *([name, "__"] for name in names)])
    assert [line.split(":")[0] for line in first] == names
    described = dict(zip(names, told))
    assert options_of(ctl, names) == [
        {word.lstrip("*").split("[")[0] for word in words if word.lstrip("*")[0] == "-"}
        for words in told]
    assert "1:what:(rotate prune)" in described["token"]
    assert "1:what:(tail)" in described["events"]
    assert ("1:what:(list show add rotate test replay pause resume undelivered retry discard"
            " remove)") in described["webhooks"]
    assert "2:what:(retake refund)" in described["late-payment"]
    assert "--output[write to this file]:file:_files" in described["export"]
    assert "--json[print JSON for scripts]" in described["stock"]


def test_manual_names_every_command_option_and_status(ctl):
    page = MANUAL.read_text().replace("\\-", "-")
    for name in commands(ctl):
        assert re.search(rf"^\.B[IR]? .*\b{name}\b", page, re.M), name
        for option in re.findall(r"^  (--[a-z-]+)", ctl(f"help {name}").stdout, re.M):
            assert option in page, option
    for variable in re.findall(r"SECKILLCTL_\w+", ctl("help").stdout):
        assert variable in page
    for status in (0, 1, 64, 65, 66, 69, 73, 74, 75, 76, 77, 78):
        assert re.search(rf"^\.B {status}$", page, re.M), status
    if shutil.which("mandoc"):
        subprocess.run(["mandoc", "-Tlint", "-W", "warning", MANUAL], check=True)
