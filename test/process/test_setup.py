"""What an installation does before the daemon serves: the configuration's check, the tables made by
an account of their own, and the rights of both accounts."""

import re
import subprocess
import time
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

import pymysql
import pytest

from harness.audit import audit
from harness.daemon import STEADY
from harness.engines_sentinel import Certificates
from harness.processes import PROGRAM, clean_environment, spawn as start_process, wait_until
from harness.proxy import Link
from harness.standstill import timed

TABLES = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema='seckill'"


def run(*flags, **env):
    return subprocess.run([PROGRAM, *flags], env={**clean_environment(), **env}, text=True,
                          capture_output=True, timeout=60)


# --check-config

def test_check_config_tells_all_mistakes_with_their_lines(tmp_path):
    empty, good = tmp_path / "empty.token", tmp_path / "good.token"
    empty.write_text("")
    good.write_text("secret-1\n")
    path = tmp_path / "seckill.conf"
    path.write_text(f"# comment\nlisten = here\nqueu_max = 5\nmax_batch = 1000\n"
                    f"admin_token_file = {empty}\nshop_token_file = {good}\n")
    done = run("--config", str(path), "--check-config")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{path}:3: unknown option queu_max; --help lists all" in done.stderr

    path.write_text(path.read_text().replace("queu_max", "queue_max"))
    done = run("--config", str(path), "--check-config")
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert [re.search(r"conf:(\d+)", line)[1] for line in lines] == ["2", "4", "5"]
    assert "cannot read the file" in lines[2]
    assert "secret" not in done.stderr

    empty.write_text("secret-2\n")
    path.write_text(f"admin_token_file = {empty}\norder_workers = 1\n")
    done = run("--config", str(path), "--check-config")
    assert (done.returncode, done.stdout) == (0, "seckilld: the configuration is good\n")
    assert done.stderr == ""


def test_check_config_connects_nowhere_and_changes_nothing(unmigrated):
    before = unmigrated.ledger.number(TABLES)
    done = run("--check-config", f"--redis-url={unmigrated.redis_url}",
               f"--mysql-url={unmigrated.mysql_url}")
    assert done.returncode == 0 and unmigrated.ledger.number(TABLES) == before == 0
    assert run("--check-config", "--redis-url=redis://192.0.2.1").returncode == 0


def test_check_config_reads_the_files_of_tls(tmp_path):
    good, other = Certificates(tmp_path), tmp_path / "other"
    url = f"rediss+cluster://h?ca={good.ca}&cert={good.cert}&key="
    assert run("--check-config", f"--redis-url={url}{good.key}").returncode == 0
    assert run("--check-config", "--redis-url=rediss://h").returncode == 0
    other.write_text("no certificate\n")
    locked = tmp_path / "locked.key"
    subprocess.run(["openssl", "ec", "-aes128", "-passout", "pass:x", "-in", good.key, "-out",
                    locked], check=True, capture_output=True)
    for option, value, words in [
            ("redis-url", "rediss://h?ca=/none", "the file of ca, /none: No such file"),
            ("redis-url", f"rediss://h?ca={other}", f"the file of ca, {other}: it has no cert"),
            ("redis-url", f"rediss://h?cert=/no&key={good.key}", "the file of cert, /no: No such"),
            ("redis-url", f"{url}/no", "the file of key, /no: No such file"),
            ("redis-url", f"{url}{good.ca_key}", "a passphrase that is cert's"),
            ("redis-url", f"{url}{locked}", "a passphrase that is cert's"),
            ("mysql-url", "mysqls://u@h/d?ca=/none", "the file of ca, /none: No such file"),
            ("lock-servers", "redis://a rediss://b?ca=/none redis://c", "the file of ca, /none"),
            ("lock-servers", "mysqls://u@h/d?ca=/none", "the file of ca, /none")]:
        done = run("--check-config", f"--{option}={value}")
        assert (done.returncode, done.stdout) == (2, ""), value
        assert done.stderr.startswith(f"seckilld: {option.replace('-', '_')}: the file of ")
        assert words in done.stderr


def test_ways_of_starting_exclude_each_other():
    done = run("--check-config", "--migrate")
    assert done.returncode == 2
    assert "--check-config and --migrate exclude each other" in done.stderr
    assert "--migrate takes no value" in run("--migrate=now").stderr


# --migrate

def test_migrate_makes_the_tables_and_ends(unmigrated, spawn):
    url = f"--mysql-url={unmigrated.mysql_url}"
    first, second = run("--migrate", url), run("--migrate", url)
    assert first.returncode == second.returncode == 0
    told = re.search(r"up to date: (\d+) of (\d+) changes were made now", first.stdout)
    assert told[1] == told[2]
    assert "up to date: 0 of" in second.stdout
    daemon = spawn(unmigrated, update_tables="off", **STEADY)
    daemon.reset()
    assert daemon.order().status == 201


def test_many_may_migrate_at_once(unmigrated):
    argv = [PROGRAM, "--migrate", f"--mysql-url={unmigrated.mysql_url}"]
    running = [start_process(argv, stdout=subprocess.PIPE, text=True, env=clean_environment())
               for _ in range(6)]
    told = [process.communicate(timeout=120)[0] for process in running]
    assert [process.returncode for process in running] == [0] * 6
    assert all("up to date" in text for text in told)


def test_migrate_without_a_ledger_says_why(private_stack):
    private_stack.maria_server.kill()
    done = run("--migrate", f"--mysql-url={private_stack.mysql_url}")
    assert done.returncode == 1
    assert "cannot update the tables at 127.0.0.1:" in done.stderr


def test_daemon_that_may_not_update_says_what_to_do(unmigrated, spawn):
    daemon = spawn(unmigrated, ready=False, update_tables="off", **STEADY)
    daemon.wait_until(lambda: "event=tables_outdated" in daemon.log(), "a line about the tables")
    assert "first=0001_ledger" in daemon.log() and "seckilld --migrate" in daemon.log()
    assert daemon.order().status == 503
    assert unmigrated.ledger.number(TABLES) == 0
    assert run("--migrate", f"--mysql-url={unmigrated.mysql_url}").returncode == 0
    daemon.wait_ready()
    daemon.reset()
    assert daemon.order().status == 201


@contextmanager
def open_reader(ledger):
    """Somebody reads the orders, and forgets to end the transaction."""
    connection = pymysql.connect(host=ledger.host, port=ledger.port, user=ledger.user,
                                 password=ledger.password, database=ledger.database)
    with connection, connection.cursor() as cursor:
        cursor.execute("START TRANSACTION")
        cursor.execute("SELECT COUNT(*) FROM orders")
        yield


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("cut", [False, True], ids=["connected", "connected anew"])
def test_orders_go_on_while_a_migration_waits_for_an_open_reader(private_stack, proxies, spawn,
                                                                 cut):
    """Its connection may be lost between two tries."""
    daemon = spawn(private_stack, **STEADY)
    line = proxies(private_stack.ledger.port)
    if cut:
        line.once(rb"FROM information_schema.innodb_trx", before=Link.cut)
    daemon.reset(total=1_000_000)
    private_stack.ledger.run("DELETE FROM schema_version WHERE name='0007_user_id'")
    with open_reader(private_stack.ledger):
        second = spawn(private_stack, ready=False, mysql_url=line.url(private_stack.mysql_url),
                       **STEADY)
        longest_s, n = 0, 0
        while "event=migrating" not in second.log():
            n += 1
            answer, passed = timed(lambda: daemon.order(user_id=f"u{n}"))
            assert answer.status == 201
            longest_s = max(longest_s, passed.running)
            time.sleep(0.02)
    assert longest_s < 4, "an order waited behind the change of its table"
    assert "file=0007_user_id" in second.log()
    assert cut or 'waits_for="connection ' in second.log()
    second.wait_ready()
    assert second.order(user_id="last").status == 201


# --print-grants

def as_user(url, user):
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{user}:pw-{user}@{parts.hostname}:{parts.port}"))


@pytest.fixture
def granted(private_stack):
    """A database of which two accounts have what --print-grants says, and nothing else: the stack,
    and the addresses for both."""
    ledger = private_stack.ledger
    url = as_user(private_stack.mysql_url, "clerk").replace("/seckill", "/my_seckill")
    ledger.run("CREATE DATABASE my_seckill; CREATE DATABASE myxseckill", database="")
    done = run("--print-grants", f"--mysql-url={url}")
    assert done.returncode == 0 and "pw-clerk" not in done.stdout
    made = [line[3:].replace("a password", f"pw-{user}") for line, user in
            zip([line for line in done.stdout.splitlines() if "CREATE USER" in line],
                ["clerk", "clerk_migrate"])]
    assert len(made) == 2
    ledger.run("\n".join(made) + done.stdout, database="")
    private_stack.mysql_url = private_stack.mysql_url.replace("/seckill", "/my_seckill")
    private_stack.ledger.database = "my_seckill"
    return private_stack, url, url.replace("clerk:pw-clerk", "clerk_migrate:pw-clerk_migrate")


def test_grants_offer_to_name_who_holds_a_row(granted):
    stack, clerk, _ = granted
    offered = [line for line in run("--print-grants", f"--mysql-url={clerk}").stdout.splitlines()
               if line.startswith("-- GRANT")]
    stack.ledger.run("\n".join(line.removeprefix("-- ") for line in offered), database="")
    for user in ("clerk", "clerk_migrate"):
        shown = stack.ledger.run(f"SHOW GRANTS FOR {user}", database="")
        assert any("GRANT PROCESS ON *.*" in row[0] for row in shown)


def test_grants_end_at_the_database(granted):
    stack, clerk, migrator = granted
    elsewhere = migrator.replace("/my_seckill", "/myxseckill")
    assert "denied" in run("--migrate", f"--mysql-url={elsewhere}").stderr
    done = run("--migrate", f"--mysql-url={clerk}")
    assert done.returncode == 1 and "denied" in done.stderr
    assert run("--migrate", f"--mysql-url={migrator}").returncode == 0
    assert run("--migrate", f"--mysql-url={clerk}").returncode == 0, "nothing is left to change"
    shown = stack.ledger.run("SHOW GRANTS FOR clerk", database="")
    assert any("SELECT, INSERT, UPDATE, DELETE ON" in row[0] for row in shown)


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("lock", ["redis", "mysql"])
def test_daemon_lives_a_whole_sale_under_the_grants(granted, spawn, lock):
    """Sells, pays, cancels, lets expire, restocks, limits, resets, exports, retires and purges."""
    stack, clerk, migrator = granted
    assert run("--migrate", f"--mysql-url={migrator}").returncode == 0
    daemon = spawn(stack, mysql_url=clerk, retention_days=2, lock=lock, **STEADY)
    daemon.reset("demo", 40, 4, per_user_limit=5, pay_within_s=600)

    def order(n):
        return daemon.order(user_id=f"u{n}", key=f"k{n}").json()["order_id"]
    orders = [order(0), order(1)]
    assert daemon.pay(orders[0]).status == daemon.cancel(orders[1]).status == 200
    assert daemon.order(user_id="u0", key="k0").status == 200
    assert daemon.add(4, key="more").status == 200
    daemon.change(pay_within_s=1)
    orders += [order(2), order(3)]
    wait_until(lambda: daemon.get(f"/order/{orders[3]}").json()["status"] == "expired", "expiry")
    daemon.change(per_user_limit=2, pay_within_s=None)
    assert daemon.order(user_id="wide", qty=2, key="wide").status == 201
    daemon.reconcile()
    assert len(daemon.admin("GET", "/admin/orders").json()["orders"]) >= 4
    listed = daemon.request("GET", "/user/u0/orders?sku=demo")
    assert [order["order_id"] for order in listed.json()["orders"]] == [orders[0]]
    daemon.reset("demo", 10, 2)
    daemon.change(paused=True)
    assert audit(daemon) == 0
    assert daemon.admin("DELETE", "/admin/sale/demo").status == 200
    stack.ledger.run("UPDATE sale_round SET ended_at = NOW() - INTERVAL 3 DAY")
    wait_until(lambda: daemon.log().count("event=round_purged") >= 2, "the purge")
    assert "denied" not in daemon.log()
    assert stack.ledger.number("SELECT COUNT(*) FROM orders") == 5


def test_grants_need_a_user():
    done = run("--print-grants", "--mysql-url=mysql://127.0.0.1/seckill")
    assert done.returncode == 2 and "names no user" in done.stderr
    local = run("--print-grants", "--mysql-url=mysql://u'x@h/a%60b?socket=/s").stdout
    assert "ON `a``b`.*" in local and "TO 'u\\'x'@'localhost'" in local
    over_tls = run("--print-grants", "--mysql-url=mysqls://u@h/d").stdout
    assert over_tls.count("REQUIRE SSL;") == 2 and "REQUIRE" not in local
