"""A Redis that lets the service's account do only some things."""

import re
import subprocess

import pytest

from harness.audit import audit
from harness.daemon import STEADY
from harness.processes import ROOT, wait_until
from harness.servers import RedisAlone
from harness.stack import Stack
from process.test_setup import run

SCRIPTS = ROOT / "lua" / "scripts"


@pytest.fixture
def guarded(stack):
    """guard(*rules): a stack whose account at Redis has these, and a client that may do all."""
    with RedisAlone() as server:
        def guard(*rules):
            server.client("ACL", "SETUSER", "clerk", "reset", "on", ">pw", *rules)
            url = server.url.replace("://", "://clerk:pw@")
            return Stack(url, stack.mysql_url), server.client
        yield guard


def printed_rules():
    """What --print-grants says of Redis."""
    done = run("--print-grants", "--mysql-url=mysql://clerk@127.0.0.1/seckill",
               "--redis-url=redis://clerk:pw@127.0.0.1/0")
    assert "pw" not in done.stdout.replace("password", "")
    line = re.search(r"^-- ACL SETUSER clerk reset on '>a password' (.*)$", done.stdout, re.M)[1]
    return line.split()


def live(daemon, other, admin):
    """Sells, expires and elects at one daemon, and tells the other one of it."""
    daemon.reset("demo", 8, 2, pay_within_s=600)
    late = [daemon.order(user_id=f"u{n}", qty=4, key=f"k{n}").json()["order_id"] for n in range(2)]
    assert daemon.order().answer == other.order().answer == "409 sold_out"
    daemon.stack.ledger.run("UPDATE orders SET expires_at = '2020-01-01';"
                            "UPDATE order_expiry SET expires_at = '2020-01-01'")
    for order in late:
        wait_until(lambda order=order: daemon.get(f"/order/{order}").json()["status"] == "expired",
                   "expiry")
    back = wait_until(lambda: (answer := other.order(user_id="next")).status == 201 and answer,
                      "units that came back")
    assert other.pay(back.json()["order_id"]).status == 200
    daemon.change(paused=True)
    wait_until(lambda: other.order().answer == "409 sale_paused", "the other daemon's news")
    wait_until(lambda: daemon.admin("GET", "/events").json()["events"], "the feed")
    daemon.change(paused=False, pay_within_s=None)
    sold = daemon.stock()["sold"]
    assert daemon.order(user_id="last").status == 201
    assert daemon.stock()["sold"] == sold + 1


def test_account_has_what_print_grants_says(guarded, spawn):
    stack, admin = guarded(*printed_rules())
    daemon, other = (spawn(stack, events_retention_h=1, rate_user_per_min=6000, **STEADY)
                     for _ in range(2))
    live(daemon, other, admin)
    assert daemon.get("/readyz").json() == {"status": "ready", "redis": "ok", "ledger": "ok"}
    assert admin("PUBSUB", "NUMSUB", "seckill:changed")[1] == 2
    for one in (daemon, other):
        assert "NOPERM" not in one.log() and "permission" not in one.log()
    assert not re.search(r"cmdstat_.*rejected_calls=[1-9]", admin("INFO", "commandstats").decode())


def test_account_without_channels_sells_and_expires(guarded, spawn):
    """As Redis 7 makes accounts: what other daemons do is seen later, and nothing else."""
    stack, admin = guarded("~*", "+@all")
    daemon, other = (spawn(stack, events_retention_h=1, **STEADY) for _ in range(2))
    live(daemon, other, admin)
    body = daemon.get("/readyz").json()
    assert body == {"status": "ready", "redis": "ok", "redis_news": False, "ledger": "ok"}
    assert "event=redis_news_refused" in daemon.log() and "NOPERM" in daemon.log()
    admin("ACL", "SETUSER", "clerk", "allchannels")
    wait_until(lambda: "redis_news" not in daemon.get("/readyz").json(), "news")


REFUSED = ["-@scripting", "-eval", "-time", "-hset", "-hmget", "-set", "-pexpire", "-rename",
           "-hincrby"]


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("rule", [*REFUSED, "resetkeys"])
def test_account_that_cannot_sell_is_not_ready(guarded, spawn, rule):
    stack, admin = guarded("~*", "&*", "+@all", rule)
    daemon = spawn(stack, ready=False, **STEADY)
    wait_until(lambda: "event=prepared" in daemon.log(), "the start")
    wait_until(lambda: daemon.get("/readyz").json()["redis"] == "no_permission", "the reason")
    answer = daemon.get("/readyz")
    assert (answer.status, answer.json()["status"]) == (503, "unavailable")
    down = re.search(r"event=redis_down reason=no_permission .*", daemon.log())[0]
    assert (rule[1:] if rule in REFUSED[1:] else "") in down.lower()
    assert "there is no hold" not in daemon.log()
    admin("ACL", "SETUSER", "clerk", "~*", "+@all")
    wait_until(daemon.ready, "readiness")
    daemon.reset()
    assert daemon.order().status == 201
    assert audit(daemon, changed=True) == 1


def commands(*names):
    """Those that scripts of the daemon call."""
    text = "".join(subprocess.run(["awk", "-f", SCRIPTS / "include.awk", SCRIPTS / name],
                                  capture_output=True, text=True, check=True).stdout
                   for name in names)
    return set(re.findall(r"(?:call\(|\{)'([A-Z]+)'", text))


def test_probe_tries_every_command_of_the_scripts():
    of_orders = [path.name for path in SCRIPTS.glob("*.lua") if path.name.startswith("stock_")]
    used = commands(*of_orders, "rate_limit.lua", "fence_raise.lua", "lock_acquire.lua",
                    "lock_renew.lua", "lock_release.lua", "lock_proclaim.lua", "lock_red.lua",
                    "lock_timestamp.lua") - {"PUBLISH", "SPUBLISH"}
    assert commands("health_probe.lua") == used
    allowed = {rule[1:].upper() for rule in printed_rules() if rule[0] == "+"}
    assert used <= allowed
