"""The documentation: its commands and programs do what the pages say, on real daemons."""

import contextlib
import json
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import xml.etree.ElementTree

import pytest

from harness.audit import audit_after_faults
from harness.client import send
from harness.daemon import STEADY, TOKEN
from harness.feed import published
from harness.processes import ROOT, clean_environment, free_port, spawn, wait_until
from docs_pages import Reader, blocks

EXAMPLES = ROOT / "docs" / "examples"
# Each program that goes through a whole sale, and what it needs beside this project's packages.
PROGRAMS = {
    "python": (["python3", EXAMPLES / "sale.py"], "python3"),
    "curl": (["bash", EXAMPLES / "sale.sh"], "jq"),
    "javascript": (["node", EXAMPLES / "sale.mjs"], "node"),
    "java": (["java", EXAMPLES / "Sale.java"], "java"),
}
EXCERPTS = {"bash": "*.sh", "python": "*.py", "javascript": "*.mjs", "java": "*.java"}
# Blocks that no test runs, by their first lines: each with the reason, and who runs it instead.
MAKE = ("make test is this very run, CI runs make chaos, and make test-debian13 the others in a new"
        " Debian; the other blocks of the page run beside the script of make run, deploy/run")
NOT_RUN = {page: {"apt install make git": MAKE} for page in ("README.md", "README.zh-CN.md")}
SECONDS_MAX = 120
# What a JVM makes ready for hours takes longer than the whole sale.
JAVA_FOR_SECONDS = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
# make test-extra runs the one that wants node, which make test does not install.
RUN = [name for name in PROGRAMS if name != "javascript" or shutil.which("node")]
# The others' sales from start to end are those in which answers get lost.
SELL = [name for name in RUN if name in ("curl", "javascript")]


def program(name):
    command, needs = PROGRAMS[name]
    if not shutil.which(needs):
        pytest.skip(f"no {needs} is installed")
    return command


def environment(port, directory):
    token = directory / "token"
    token.write_text(TOKEN + "\n")
    return {**clean_environment(), "SALE_URL": f"http://127.0.0.1:{port}", **JAVA_FOR_SECONDS,
            "SALE_ADMIN_TOKEN_FILE": str(token), "SALE_DATABASE": str(directory / "shop.sqlite")}


def start(name, sku, buyers, port, directory):
    return spawn([*program(name), sku, buyers], env=environment(port, directory), cwd=directory,
                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(child):
    out, errors = child.communicate(timeout=SECONDS_MAX)
    assert child.returncode == 0, (out, errors)
    return out.decode()


def check(daemon, sku, buyers, out):
    """The ledger has what the program says: one order of each buyer, one paid, one cancelled, whose
    late payment was paid back."""
    rows = daemon.stack.ledger.run("SELECT user_id, order_id, status FROM orders"
                                   f" WHERE sku = '{sku}' ORDER BY order_id")
    assert sorted(user for user, _, _ in rows) == sorted(
        f"buyer-{i}@example.com" for i in range(buyers))
    by_user = {user: (str(order_id), status) for user, order_id, status in rows}
    told = re.search(r"^orders (.*)$", out, re.MULTILINE)[1].split()
    assert told == [by_user[f"buyer-{i}@example.com"][0] for i in range(buyers)]
    assert by_user["buyer-0@example.com"][1] == "paid"
    assert by_user["buyer-1@example.com"][1] == "cancelled"
    payments = daemon.get(f"/payments?sku={sku}").json()["payments"]
    assert {one["payment_ref"]: (one["order_id"], one["state"], one["outcome"])
            for one in payments} == {f"pi-{sku}-0": (told[0], "taken", "in_time"),
                                     f"pi-{sku}-1": (told[1], "refunded", "too_late")}
    for line in ("paid true", "cancelled true", "paid after the cancel false", "paid back 1",
                 f"order {told[0]} is paid", "buyer-0 has 1 order", f"sold {buyers - 1} as of",
                 f"exported {buyers} orders", "round 2 waits for the operator",
                 f"expired {buyers - 2} orders"):
        assert line in out.lower(), out
    stock = daemon.stock(sku)
    assert (stock["round"], stock["available"], stock["paused"]) == (2, buyers, True)
    audit_after_faults(daemon, sku)


@pytest.fixture
def daemon(stack, spawn):
    return spawn(stack, events_retention_h=1, **STEADY)


@pytest.mark.parametrize("name", SELL)
def test_example_sells_from_start_to_end(daemon, tmp_path, name):
    child = start(name, "lamp", 5, daemon.address[1], tmp_path)
    check(daemon, "lamp", 5, finish(child))


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("name", RUN)
def test_example_gives_each_buyer_one_order_whatever_gets_lost(stack, spawn, proxies, tmp_path,
                                                               name):
    """Answers get lost of each kind of call, and the daemon dies in the middle of the sale."""
    buyers, sku = 8, "lamp"
    daemon = spawn(stack, listen=f"127.0.0.1:{free_port()}", events_retention_h=1)
    proxy = proxies(daemon.address[1])
    # Each is in the last packet of its request, whether the client sends its body apart or not.
    lost = [proxy.once(pattern, after=lambda link: link.cut()) for pattern in (
        rb'"if_round": ?0', rb'"buyer-3@', rb'"payment_ref": ?"pi-lamp-0"',
        rb"POST /order/\d+/cancel", rb'"payment_ref": ?"pi-lamp-1"', rb'"restock": ?false',
        rb'"end_round": ?true', rb"GET /events")]
    died = threading.Event()

    def die(link):
        daemon.kill()
        link.cut()
        died.set()
    killed = proxy.once(rb'"buyer-7@', after=die)
    child = start(name, sku, buyers, proxy.port, tmp_path)
    wait_until(lambda: died.is_set() or child.poll() is not None, "the daemon's death", SECONDS_MAX)
    daemon.start()
    out = finish(child)
    assert all(trap.sprung.is_set() for trap in (killed, *lost))
    check(daemon, sku, buyers, out)


@pytest.mark.long
def test_shop_that_dies_goes_on_where_it_was(daemon, proxies, tmp_path):
    """The shop's own table suffices: killed in the middle, the next run orders nothing twice."""
    proxy = proxies(daemon.address[1])
    reached = proxy.once(rb'"buyer-3@', before=lambda link: proxy.fail("hold"))
    child = start("python", "lamp", 6, proxy.port, tmp_path)
    reached.wait(SECONDS_MAX)
    child.kill()
    child.communicate()
    proxy.heal()
    check(daemon, "lamp", 6, finish(start("python", "lamp", 6, proxy.port, tmp_path)))


def test_shop_that_has_missed_events_takes_the_lists(daemon, tmp_path):
    """Its cursor is one that the feed does not know."""
    with contextlib.closing(sqlite3.connect(tmp_path / "shop.sqlite")) as database:
        with database:
            database.execute("CREATE TABLE feed (one INTEGER PRIMARY KEY, cursor TEXT)")
            database.execute("INSERT INTO feed VALUES (1, '99999')")
    check(daemon, "lamp", 4, finish(start("python", "lamp", 4, daemon.address[1], tmp_path)))


@pytest.mark.long
def test_stream_has_each_event_once_in_its_place(daemon):
    """Two programs copy at a time, and one of them is killed again and again."""
    daemon.reset("demo", 1000, 4)
    env = {**clean_environment(), "EVENTS_URL": "http://%s:%d" % daemon.address,
           "EVENTS_REDIS_URL": daemon.stack.redis_url}

    def copy():
        return spawn([sys.executable, EXAMPLES / "events_to_redis.py", "shop:events"], env=env)

    def stream():
        return [(entry_id.decode(), json.loads(fields[1])) for entry_id, fields in
                daemon.stack.redis("XRANGE", "shop:events", "-", "+")]
    steady, killed = copy(), copy()
    try:
        for turn in range(2):
            seen = len(stream())
            for user in range(10):
                assert daemon.order(user_id=f"u{turn}-{user}").status == 201
            wait_until(lambda: len(stream()) > seen, "further entries")
            killed.kill()
            killed.wait()
            killed = copy()
        published(daemon)
        wait_until(lambda: stream() == [(f"{event['id']}-0", event) for event in
                                        daemon.get("/events").json()["events"]], "all events")
        steady.kill()
        steady.wait()
        order = daemon.order(user_id="last").json()["order_id"]
        wait_until(lambda: order in {event["subject"] for _, event in stream()}, "the last event")
    finally:
        for child in (steady, killed):
            child.kill()
            child.wait()


def start_receiver(port, directory):
    return spawn([EXAMPLES / "receiver.py"], env={
        **clean_environment(), "RECEIVER_LISTEN": f"127.0.0.1:{port}",
        "RECEIVER_SECRET_FILE": str(directory / "secret"),
        "RECEIVER_DATABASE": str(directory / "database")})


def test_receiver_has_each_event_once(stack, spawn, tmp_path):
    """Whatever comes twice, in batches, and with either secret of a rotation."""
    daemon = spawn(stack, events_retention_h=1, webhook_networks="127.0.0.0/8", **STEADY)
    port = free_port()

    def put(**more):
        body = {"url": f"http://127.0.0.1:{port}/", "batch": 3, **more}
        return daemon.admin("PUT", "/admin/webhooks/w", body).json()["secret"]

    def has_all():
        published(daemon)
        with contextlib.closing(sqlite3.connect(tmp_path / "database")) as database:
            found = [json.loads(row[0]) for row in database.execute(
                "SELECT event FROM event WHERE event LIKE '%order.accepted%'")]
        sent = [event for event in daemon.get("/events").json()["events"]
                if event["type"] == "order.accepted"]
        return sorted(found, key=lambda event: int(event["id"])) == sent

    daemon.reset("demo", 100, 4)
    (tmp_path / "secret").write_text(put() + "\n")
    child = start_receiver(port, tmp_path)
    try:
        wait_until(lambda: daemon.admin("POST", "/admin/webhooks/w/test").json()["result"] == "ok",
                   "the receiver")
        for user in range(10):
            assert daemon.order(user_id=f"u{user}").status == 201
        wait_until(has_all, "all events")
        assert put(rotate_secret=True)
        daemon.admin("POST", "/admin/webhooks/w/replay", {"after": "0"})
        wait_until(lambda: daemon.admin("GET", "/admin/webhooks/w").json()["lag"] == 0,
                   "all of them again")
        assert has_all()
        forged = send(("127.0.0.1", port), "POST", "/", {"id": "1"}, {
            "webhook-id": "1", "webhook-timestamp": "1", "webhook-signature": "v1,AAAA"})
        assert forged.status == send(("127.0.0.1", port), "POST", "/", {}).status == 401
    finally:
        child.kill()
        child.wait()


def pages():
    return sorted(str(path.relative_to(ROOT)) for path in
                  [*ROOT.glob("README*.md"), *(ROOT / "docs").glob("*.md")])


def test_programs_in_the_page_are_those_of_the_examples():
    shown = [block for block in blocks("docs/integration.md") if block.language in EXCERPTS]
    for block in shown:
        assert any(block.text in file.read_text(encoding="utf-8")
                   for file in EXAMPLES.glob(EXCERPTS[block.language])), \
            f"line {block.line}: not an excerpt of an example"
    assert {block.language for block in shown} == set(EXCERPTS)


class Served(Reader):
    """A reader who has started `make run` in another terminal."""

    def __enter__(self):
        env = {**self.env, "SECKILL_LISTEN": f"127.0.0.1:{self.port('8080')}"}
        self.env["SECKILLCTL_ADMIN"] = env["SECKILL_LISTEN"]
        with open(self.directory / "make-run.log", "wb") as log:
            self.service = spawn(["deploy/run"], cwd=self.directory, env=env, stdout=log,
                                 stderr=log)
        try:
            wait_until(self.serves, "make run", SECONDS_MAX)
        except BaseException:
            self.__exit__()
            raise
        return self

    def serves(self):
        log = (self.directory / "make-run.log").read_text()
        assert self.service.poll() is None, log
        return "Ctrl-C" in log

    def __exit__(self, *_):
        self.service.send_signal(signal.SIGTERM)
        status = self.service.wait(SECONDS_MAX)
        super().__exit__()
        assert status == 0, (self.directory / "make-run.log").read_text()


# How a page is read.
READ_BY_CI = ("README.zh-CN.md", "docs/handbook.md")  # seckillctl's tests run the same commands
READERS = {"README.md": Served, "README.zh-CN.md": Served,
           "docs/integration.md": Served, "docs/handbook.md": Reader}


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("changes", [True, False], ids=["two tokens", "one token"])
def test_make_run_starts_with_the_tokens_that_are_there(tmp_path, changes):
    """The handbook's line ends without a line feed. `seckillctl token rotate` leaves the former
    token in the file, on a line of its own."""
    reader = Served(tmp_path, {})
    token = reader.directory / "run" / "admin.token"
    token.parent.mkdir()
    token.write_text("former")
    token.chmod(0o600)
    if changes:
        subprocess.run([reader.directory / "build" / "seckillctl", "token", "rotate", token],
                       check=True, capture_output=True, timeout=SECONDS_MAX)
    tokens = token.read_text().splitlines()
    assert len(tokens) == 1 + changes and "former" in tokens
    with reader:
        for line in tokens:
            answer = send(("127.0.0.1", reader.port("8080")), "GET", "/admin/sales",
                          headers={"Authorization": f"Bearer {line}"})
            assert answer.status == 200


@pytest.mark.parametrize("page", [
    pytest.param(page, marks=pytest.mark.long) if page in READ_BY_CI else page
    for page in READERS])
def test_commands_of_a_page_do_what_it_says(tmp_path, page):
    for needs in ("jq", "mariadb-dump"):
        if not shutil.which(needs):
            pytest.skip(f"no {needs} is installed")
    with READERS[page](tmp_path, {}) as reader:
        reader.run(page, NOT_RUN.get(page, ()))


# Pages whose commands other tests run, or that quote commands for a machine that is in trouble.
RUN_ELSEWHERE = {
    "docs/alerts.md": "make test-alerts breaks what each alert tells of",
    "docs/installation.md": "they install and purge packages as root: make test-deb does",
    "docs/messages.md": "it quotes commands for servers that are in trouble",
    "docs/metrics.md": "test_metrics.py compares it with what a daemon says",
}


@pytest.mark.parametrize("page", pages())
def test_every_command_is_run_by_a_test_or_said_not_to_be(page):
    written = {block.first_line() for block in blocks(page) if block.language in ("sh", "console")}
    assert set(NOT_RUN.get(page, ())) <= written, "no such block any more"
    assert page in READERS or page in RUN_ELSEWHERE or written <= set(NOT_RUN.get(page, ()))


@pytest.mark.parametrize("name", sorted(path.name for path in ROOT.glob("docs/images/*.svg")))
def test_drawing_is_for_readers_who_hear_it_too(name):
    """Text stays text, and a title tells what the drawing shows."""
    drawing = xml.etree.ElementTree.parse(ROOT / "docs" / "images" / name).getroot()
    space = "{http://www.w3.org/2000/svg}"
    title = drawing.find(space + "title")
    assert drawing.get("role") == "img" and drawing.get("aria-labelledby") == title.get("id")
    assert len(title.text) > 80 and drawing.iter(space + "text")
    assert "prefers-color-scheme: dark" in drawing.find(space + "style").text
