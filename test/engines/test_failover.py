"""seckill-failover: it promotes the right replica, or refuses in words and promotes none."""

import os
import re
import shutil
import signal
import subprocess
import threading
import time
from contextlib import contextmanager

import pytest

from harness.engines_ledger import semi_sync_pair
from harness.processes import ROOT, free_port, spawn, wait_until
from harness.servers import is_mysql
from failover import Selling

TOOL = ROOT / "ctl" / "seckill-failover"
RIGHTS = (ROOT / "ctl" / "seckill-failover.1").read_text().split(".SH PRIVILEGES")[1]
BOUND_S = 25  # of a run that need not wait for a replica, also when servers hang


@pytest.fixture
def trio(template, defaults):
    with semi_sync_pair(replicas=2) as servers:
        ready(servers)
        yield servers


@pytest.fixture(scope="module")
def defaults(tmp_path_factory):
    """An option file of the client program, as an operator has one. Over TLS or without, as MySQL
    takes no password in plain text, and the MariaDB of these tests has no certificate."""
    file = tmp_path_factory.mktemp("client") / "client.cnf"
    file.write_text("[client]\nuser=operator\npassword=pass\n"
                    + ("loose-ssl\n" if is_mysql() else "skip-ssl\n"), encoding="ascii")
    return file


def rights():
    """Those of the manual page."""
    found = re.search("in MySQL: (.*?)[.]" if is_mysql() else "in MariaDB: (.*?);",
                      " ".join(RIGHTS.split()))
    return found[1].replace(" and ", ", ")


@pytest.fixture(scope="module")
def bereft(template, defaults):
    """A trio whose primary was killed, for tests that leave it as it was."""
    with semi_sync_pair(replicas=2) as servers:
        ready(servers)
        servers.kill()
        settled(servers)
        yield servers


def settled(servers):
    """The state, once both replicas look for their primary: the loss takes them a moment."""
    wait_until(lambda: all(named(servers.status_of(node))["Slave_IO_Running"] == "Connecting"
                           for node in servers.replicas), "replicas that look for their primary")
    return state(servers)


def ready(servers):
    servers.primary.run("CREATE USER operator@'127.0.0.1' IDENTIFIED BY 'pass';"
                        f"GRANT {rights()} ON *.* TO operator@'127.0.0.1';"
                        "CREATE TABLE seckill.t (a INT PRIMARY KEY) ENGINE=InnoDB")
    wait_until(lambda: servers.answering(servers.primary) == len(servers.replicas),
               "all replicas acknowledge")
    insert(servers.primary, 1)
    position = servers.primary.run(f"SELECT {servers.POSITION}")[0][0]
    for replica in servers.replicas:
        wait_until(lambda one=replica: servers.has(one, position), "the replica has all")


def insert(node, *numbers, log=True):
    for number in numbers:
        node.run(f"SET sql_log_bin={int(log)}; INSERT INTO seckill.t VALUES ({number})")


def has(node, number):
    return node.run(f"SELECT 1 FROM seckill.t WHERE a = {number}") == [("1",)]


def wait_has(node, number):
    wait_until(lambda: has(node, number), f"{node.place} has {number}")


@pytest.fixture
def tool(defaults):
    def run(servers, *options, replicas=None, **how):
        return Run(start(defaults, servers, *options, replicas=replicas, **how), servers)
    return run


def start(defaults, servers, *options, replicas=None, dead=None, path=None):
    names = [node.place for node in (replicas or servers.replicas)]
    env = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"]}
    return spawn([TOOL, f"--defaults-file={defaults}", *options, "--dead",
                  dead or servers.primary.place, *names], env=env, text=True,
                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class Run:
    """A run of the tool that has ended."""

    def __init__(self, child, servers):
        began = time.monotonic()
        self.out, self.errors = child.communicate(timeout=60)
        self.seconds = time.monotonic() - began
        self.status, self.servers = child.returncode, servers

    def refused(self, *words, changed=False):
        """And has printed the reason."""
        text = " ".join(self.errors.split())
        assert self.status == 1 and "refused: " in text, (self.out, self.errors)
        assert all(word in text for word in words), text
        assert ("nothing was changed" in text) == (not changed), text
        assert self.seconds < BOUND_S and "takes writes." not in self.out
        return text

    def promoted(self, node):
        assert self.status == 0, self.out + self.errors
        assert f"{node.place} takes writes" in self.out
        check_promoted(self.servers, node)


def check_promoted(servers, node):
    """The others follow it as they followed the old one. It is the servers' primary from now on."""
    servers.primary = node
    servers.replicas = [one for one in servers.replicas if one is not node]
    assert node.run("SELECT @@read_only") == [("0",)] and servers.status_of(node) is None
    for replica in servers.replicas:
        status = named(servers.status_of(replica))
        assert (status["Master_Port"], status["Master_User"]) == (node.port, "copy")
        assert status["Slave_IO_Running"] == status["Slave_SQL_Running"] == "Yes"
        assert status["Master_SSL_Allowed"] == ("Yes" if is_mysql() else "No")
        assert takes_no_writes(replica)
    if servers.replicas:
        check_semi_sync(servers)


def named(status):
    """By MariaDB's names of the columns."""
    return {re.sub("^Source_", "Master_", re.sub("^Replica_", "Slave_", name)): value
            for name, value in status.items()}


def takes_no_writes(node):
    return node.run("SELECT @@read_only") == [("1",)]


def check_semi_sync(servers):
    """A commit waits while no replica receives, and goes on when one does."""
    primary = servers.primary
    for replica in servers.replicas:
        replica.run(words("STOP SLAVE IO_THREAD"))
    number = primary.run("SELECT MAX(a) + 1 FROM seckill.t")[0][0]
    writer = threading.Thread(target=insert, args=(primary, number))
    writer.start()
    waiting = servers.variable("Rpl_semi_sync_master_wait_sessions")
    wait_until(lambda: primary.status(waiting) != "0", "a commit that waits")
    for replica in servers.replicas:
        replica.run(words("START SLAVE IO_THREAD"))
    writer.join()
    for replica in servers.replicas:
        wait_has(replica, number)


def state(servers):
    """What the tool may change, and what it may not."""
    seen = []
    for node in servers.replicas:
        status = named(servers.status_of(node) or {})
        seen.append([status.get(name) for name in (
            "Master_Host", "Master_Port", "Slave_IO_Running", "Slave_SQL_Running")]
            + node.run("SELECT @@read_only")
            + node.run(f"SELECT @@{servers.variable('rpl_semi_sync_master_enabled')}"))
    return seen


@contextmanager
def broken(servers, node, sql, mend):
    node.run(sql)
    try:
        yield
    finally:
        node.run(mend)


def words(sql):
    """MariaDB's words, or MySQL's for the same."""
    if not is_mysql():
        return sql
    for old, new in (("rpl_semi_sync_slave", "rpl_semi_sync_replica"), ("SLAVE", "REPLICA"),
                     ("CHANGE MASTER", "CHANGE REPLICATION SOURCE"), ("master_", "source_")):
        sql = sql.replace(old, new)
    return sql


# --- It promotes ----------------------------------------------------------------------------------


def test_replica_that_lags_is_not_promoted_under_load(trio, stack, spawn, load, tool):
    """One replica is cut off in mid-load, and follows again only when the primary is dead. It is
    named first, and it is the one that would lose the orders accepted meanwhile."""
    lagging, better = trio.replicas
    selling = Selling(trio, stack, spawn, load)

    def fail_over():
        lagging.run(words("STOP SLAVE IO_THREAD"))
        selling.wait_accepted()
        trio.kill()
        lagging.run(words("START SLAVE IO_THREAD"))
        began = time.monotonic()
        run = tool(trio)
        print(run.out, f"the tool took {run.seconds:.2f} s")
        selling.wait_accepted()
        print(f"accepted again {time.monotonic() - began:.2f} s after the command")
        run.promoted(better)
    selling.through(fail_over)
    selling.finish()
    assert "event=ledger_not_durable" not in "".join(daemon.log() for daemon in selling.pair)
    count = "SELECT COUNT(*) FROM seckill.orders"
    wait_until(lambda: lagging.run(count) == better.run(count), "the other one has all orders")


def test_single_replica_is_promoted_alone(template, tool):
    with semi_sync_pair() as pair:
        ready(pair)
        insert(pair.primary, 2)
        pair.kill()
        run = tool(pair)
        assert "has no replica; its commits wait for none" in run.out
        run.promoted(pair.replica)
        assert has(pair.primary, 2)
        insert(pair.primary, 3)


def test_run_that_was_interrupted_is_repeated(trio, tool, defaults, tmp_path):
    """It is killed after its first call of the client program, the next run after its second one,
    and so on, until a run comes to its end: each finds what the former ones have left. The late
    calls are polls, as many as the replicas need, and not every one of them ends a run."""
    lagging, better = trio.replicas
    lagging.run(words("STOP SLAVE IO_THREAD"))
    insert(trio.primary, 2, 3)
    trio.kill()
    path = tmp_path / "bin"
    path.mkdir()
    client = path / "mariadb"
    client.write_text(f"""#!/bin/bash
exec 9>"{path}/lock" && flock 9 # some calls come together
{shutil.which("mariadb")} "$@" || exit
echo >>"{path}/calls"
(($(wc -l <"{path}/calls") != $(cat "{path}/last"))) ||
    kill -KILL -- "-$(ps -o sid= --pid $$ | tr -d ' ')"
""", encoding="ascii")
    client.chmod(0o755)
    for last in (*range(1, 30), *range(30, 200, 10)):
        (path / "last").write_text(str(last))
        (path / "calls").write_text("")
        run = tool(trio, path=path)
        if run.status != -signal.SIGKILL or better.run("SELECT @@read_only") == [("0",)]:
            break
        assert takes_no_writes(better) and takes_no_writes(lagging)
    assert last > 10 and "has all that any of them has" in run.out, (last, run.out, run.errors)
    if run.status != 0:  # killed after its very last call
        run.out, run.status = f"{run.out} {better.place} takes writes", 0
    run.promoted(better)
    assert has(better, 3)
    tool(trio, dead=trio.nodes[0].place, replicas=[better, lagging]).refused(
        f"{better.place} takes writes")


@pytest.mark.parametrize("started", [False, True], ids=["reset", "stopped"])
def test_promotion_that_got_half_way_is_finished(trio, tool, started):
    """The other one follows it already; it has stopped, or follows nobody, and takes no writes."""
    other, new = trio.replicas
    insert(trio.primary, 2)
    wait_has(new, 2)
    trio.kill()
    for node in trio.replicas:
        node.run(words("STOP SLAVE IO_THREAD"))
    other.run(words("STOP SLAVE; CHANGE MASTER TO master_host='127.0.0.1', "
                    f"master_port={new.port}; START SLAVE"))
    new.run(words("STOP SLAVE" if started else "STOP SLAVE; RESET SLAVE ALL"))
    tool(trio).promoted(new)
    assert has(new, 2) and has(other, 2)


def test_replica_that_has_not_applied_all_is_waited_for(trio, tool, defaults):
    """It has received most. One run does not wait long enough and one is killed while it waits; the
    third one finds that the replica has gone on."""
    other, new = trio.replicas
    other.run(words("STOP SLAVE IO_THREAD"))
    with new.client.connect("seckill") as connection, connection.cursor() as cursor:
        cursor.execute("LOCK TABLES t READ")
        insert(trio.primary, 2, 3)
        trio.kill()
        tool(trio, "--wait=1").refused(f"{new.place} has not applied all of it within 1 s",
                                       changed=True)
        assert takes_no_writes(new)
        child = start(defaults, trio)
        said = iter(child.stdout.readline, "")
        assert any("wait until it has applied" in line for line in said)
        assert any(f"{new.place} has applied" in line for line in said)
        child.kill()
        child.communicate()
        assert not has(new, 3)
    tool(trio).promoted(new)
    assert has(new, 3)
    wait_has(other, 3)


def steps_by_hand():
    """(where, SQL and names of columns) of each row of the page's table."""
    page = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    table = page.split("\n#### By hand\n")[1].split("\n#### ")[0]
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if cells and cells[0] not in ("where", "---"):
            yield cells[0], re.findall("`(.*?)`", cells[2 if is_mysql() else 1])


def test_steps_by_hand_of_the_page(trio):
    lagging, db3 = trio.replicas
    lagging.run(words("STOP SLAVE IO_THREAD"))
    insert(trio.primary, 2, 3)
    trio.kill()
    nodes = {"every replica": trio.replicas, "`db3`": [db3], "the others": [lagging]}
    received = {}
    steps = list(steps_by_hand())
    for where, (first, *more) in steps:
        for node in nodes[where]:
            if first.startswith("SHOW") and not received.get(node):
                status = trio.status_of(node)
                received[node] = ",".join(status[name] for name in more if name in status)
                assert received[node].strip(",")
            elif first.startswith("SHOW"):
                wait_until(lambda: trio.status_of(lagging)[more[0]] == "Yes", "the other follows")
            elif first.startswith("SELECT"):
                check_most(db3, received[db3], received[lagging])
                gtids = received[db3].replace("\n", "").strip(",")
                assert node.run(first.replace("RECEIVED", gtids)) == [("0",)]
            else:
                node.run(first.replace("db3", "127.0.0.1").replace("3306", str(db3.port)))
    assert len(steps) == 7
    check_promoted(trio, db3)
    assert has(db3, 3)
    wait_has(lagging, 3)


def check_most(node, most, less):
    if is_mysql():
        compare = "SELECT GTID_SUBSET('{}', '{}')"
        assert node.run(compare.format(less.strip(","), most.strip(","))) == [("1",)]
        assert node.run(compare.format(most.strip(","), less.strip(","))) == [("0",)]
    else:
        assert int(most.rsplit("-", 1)[1]) > int(less.rsplit("-", 1)[1])


# --- It refuses -----------------------------------------------------------------------------------


def test_primary_that_has_not_ended(bereft, tool):
    """Whether it answers or hangs, and by whatever name the replicas know it."""
    before = settled(bereft)
    bereft.primary.start()
    tool(bereft).refused(f"the primary {bereft.primary.place} accepts connections",
                         "End its server by kill -9", "SET GLOBAL read_only would wait")
    tool(bereft, dead=f"nowhere.invalid:{bereft.primary.port}").refused(
        f"the primary {bereft.primary.place} accepts connections")
    bereft.primary.signal(signal.SIGSTOP)
    tool(bereft).refused("it has not ended, even if it hangs")
    bereft.primary.signal(signal.SIGCONT)
    bereft.kill()
    assert settled(bereft) == before


@pytest.mark.parametrize("hangs", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("which", [0, pytest.param(1, marks=pytest.mark.long)])
def test_replica_that_cannot_be_reached(bereft, tool, which, hangs):
    gone, other = bereft.replicas[which], bereft.replicas[1 - which]
    before = settled(bereft)
    if hangs:
        gone.signal(signal.SIGSTOP)
    else:
        gone.kill()
    try:
        tool(bereft).refused(f"{gone.place} cannot be reached",
                             "may be the only one that has the last commits")
        assert named(bereft.status_of(other))["Slave_IO_Running"] == "Connecting"
    finally:
        if hangs:
            gone.signal(signal.SIGCONT)
        else:
            gone.start()
    wait_until(lambda: state(bereft) == before, "the replica as it was")


def test_dry_run_changes_nothing(bereft, tool):
    before = settled(bereft)
    run = tool(bereft, "--dry-run")
    assert run.status == 0 and state(bereft) == before
    first, second = (node.place for node in bereft.replicas)
    steps = [words(f"{first}: STOP SLAVE IO_THREAD"), words(f"{second}: STOP SLAVE IO_THREAD"),
             f"{first} has received ", f"{second} has received ", f"{first} has all",
             f"{first}: wait until it has applied",
             f"{first}: SET GLOBAL {bereft.variable('rpl_semi_sync_master_enabled')} = 1",
             words(f"port={bereft.replicas[0].port}, "), f"{first}: wait until they follow",
             words(f"{first}: STOP SLAVE; RESET SLAVE ALL; SET GLOBAL")]
    places = [run.out.find(step) for step in steps]
    assert -1 not in places and places == sorted(places), (steps, run.out)
    assert "takes writes" not in run.out and "a dry run" in run.out


@pytest.mark.parametrize("sql, mend, word", [
    ("STOP SLAVE SQL_THREAD", "START SLAVE SQL_THREAD",
     "the SQL thread of {place} has stopped (no error)"),
    ("SET GLOBAL rpl_semi_sync_slave_enabled=0", "SET GLOBAL rpl_semi_sync_slave_enabled=1",
     "{place} is no semi-synchronous replica"),
    ("SET GLOBAL read_only=0", "SET GLOBAL read_only=1", "{place} takes writes"),
    ("STOP SLAVE; CHANGE MASTER TO master_port=1; START SLAVE",
     "STOP SLAVE; CHANGE MASTER TO master_port={primary}; START SLAVE",
     "{place} follows 127.0.0.1:1, and another one {dead}")],
    ids=["SQL thread", "asynchronous", "writable", "foreign primary"])
def test_replica_that_is_not_as_it_should_be(bereft, tool, sql, mend, word):
    node = bereft.replicas[1]
    before = settled(bereft)
    with broken(bereft, node, words(sql), words(mend).format(primary=bereft.primary.port)):
        changed = state(bereft)
        text = tool(bereft).refused(word.format(place=node.place, dead=bereft.primary.place))
        assert "SQL thread" not in text or "MariaDB deletes what is not applied" in text
        wait_until(lambda: state(bereft) == changed, "nothing has changed")
    wait_until(lambda: state(bereft) == before, "the replica as it was")


def test_another_primary_is_named(bereft, tool):
    port = free_port()
    tool(bereft, dead=f"127.0.0.1:{port}").refused(
        f"the replicas follow {bereft.primary.place}, not 127.0.0.1:{port}")
    run = tool(bereft, "--dry-run", dead=f"localhost:{bereft.primary.port}")
    assert run.status == 0 and "must be another name of localhost" in run.out


def test_servers_of_two_kinds(bereft, tool, tmp_path):
    """The second one's client program speaks of another kind."""
    path = tmp_path / "bin"
    path.mkdir()
    client = path / "mariadb"
    client.write_text(f"""#!/bin/bash
[[ "$*" != *--port={bereft.replicas[1].port}*VERSION* ]] ||
    exec printf '{'10.6.1-MariaDB' if is_mysql() else '8.4.0'}\\t1\\n'
exec {shutil.which("mariadb")} "$@"
""", encoding="ascii")
    client.chmod(0o755)
    kinds = ("MariaDB", "MySQL") if is_mysql() else ("MySQL", "MariaDB")
    tool(bereft, path=path).refused(f"is a {kinds[0]}, and", f"a {kinds[1]}")


def test_replicas_that_have_diverged(trio, tool):
    """Each has what the other one lacks: one a commit of its own, one a later one of the primary's.
    """
    one, other = trio.replicas
    one.run(words("STOP SLAVE IO_THREAD"))
    one.run("SET GLOBAL read_only=0")
    insert(one, 2)
    one.run("SET GLOBAL read_only=1")
    insert(trio.primary, 3)
    wait_has(other, 3)
    trio.kill()
    tool(trio).refused("diverged", changed=is_mysql())
    assert all(map(takes_no_writes, trio.replicas))


@pytest.mark.parametrize("arguments, word", [
    ([], "--dead is missing"), (["--dead", "a"], "no replica is named"),
    (["--dead"], "not HOST"), (["--dead", "a", "a:3306"], "cannot be both"),
    (["--dead", "a", "b", "b:3306"], "named twice"), (["--dead=::1", "b"], "not HOST"),
    (["--dead=[::1]", "b'; DROP"], "not HOST"), (["--force", "--dead=a", "b"], "no option --force"),
    (["--dead=a", "b", "--wait=soon"], "--wait wants seconds"),
    (["--dead=a", "b", "--wait"], "--wait wants seconds"),
    (["--dead=a", "b", "--defaults-file"], "--defaults-file wants a file")])
def test_wrong_usage(arguments, word):
    done = subprocess.run([TOOL, *arguments], capture_output=True, text=True, timeout=BOUND_S,
                          check=False)
    assert done.returncode == 2 and word in done.stderr
    assert "usage: seckill-failover" in done.stderr and not done.stdout


def test_help():
    done = subprocess.run([TOOL, "--help"], capture_output=True, text=True, timeout=BOUND_S,
                          check=True)
    assert done.stdout.startswith("usage: ") and "--dry-run" in done.stdout and not done.stderr
