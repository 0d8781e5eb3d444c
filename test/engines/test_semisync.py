"""A ledger with a semi-synchronous replica: its primary dies or changes, and no order is lost."""

import re
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.audit import answered, audit_after_faults
from harness.engines_ledger import semi_sync_pair
from harness.feed import published
from harness.processes import free_port, wait_until
from harness.proxy import COMMIT
from failover import Selling, sells_out

ADDRESS = r'address="?[^ ]*"? '
DAY_MS = 24 * 3600 * 1000
TIMEOUT_MS = 60_000  # the longest one
SESSIONS_MAX = 24  # of one daemon: 8, and those that were under way with them


@pytest.fixture
def engine(template):
    with semi_sync_pair() as servers:
        yield servers


@pytest.fixture(scope="module")
def whole_engine(template):
    """One whose settings alone are changed, and changed back."""
    with semi_sync_pair() as servers:
        yield servers


def said(daemon, event):
    """The lines of the log with the event."""
    return [line for line in daemon.log().splitlines() if f" event={event} " in line]


def wait_said(daemon, event, words=""):
    return wait_until(lambda: [line for line in said(daemon, event) if words in line],
                      f"{event} {words} in the log")


def test_primary_killed_and_replica_promoted_in_mid_load(engine, stack, spawn, load):
    selling = Selling(engine, stack, spawn, load)
    assert not said(selling.pair[0], "ledger_not_durable")

    def fail_over():
        engine.kill()
        engine.promote()
    selling.through(fail_over)
    wait_said(selling.pair[0], "ledger_moved", engine.primary.place)
    # The new primary has no replica, so it sells without one, and the log says so.
    wait_said(selling.pair[0], "ledger_not_durable",
              engine.variable("rpl_semi_sync_master_enabled=OFF"))
    selling.finish()


@pytest.mark.long
def test_planned_switch_in_mid_load(engine, stack, spawn, load):
    selling = Selling(engine, stack, spawn, load)
    selling.through(engine.switch)
    selling.through(engine.switch)
    for daemon in selling.pair:
        daemon.wait_ready()
    selling.finish()
    assert not said(selling.pair[0], "ledger_not_durable")


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("when", ["after", "before"])
def test_primary_dies_in_a_commit(engine, stack, spawn, proxies, when):
    """The commit is on its way, or was answered and the answer is lost. The question what became of
    it goes to the new primary, which tells the truth."""
    proxy = proxies(engine.primary.port)
    url = engine.url.replace(f":{engine.primary.port},", f":{proxy.port},")
    both = engine.stack(stack.redis_url)
    daemon = spawn(both, mysql_url=url)
    daemon.reset("demo", 6, 2)
    assert daemon.order(key="first").status == 201
    promoted = threading.Event()

    def die(link):
        engine.kill()
        link.cut()
        engine.promote()
        promoted.set()
    proxy.once(COMMIT, **{when: die})
    answer = daemon.order(user_id="u2", key="k")
    assert promoted.wait(60)
    both.mysql_url, both.ledger = engine.primary.url, engine.primary.client
    assert answer.status == 201 or answer.answer in ("503 unavailable", "503 outcome_unknown")
    repeat = answered(lambda: daemon.order(user_id="u2", key="k"))
    assert repeat.status in (200, 201), repeat
    if answer.status == 201:
        assert repeat.json()["order_id"] == answer.json()["order_id"]
    assert both.ledger.number("SELECT COUNT(*) FROM orders WHERE user_id = 'u2'") == 1
    sells_out(daemon, 6)


@pytest.mark.long
def test_commit_that_the_replica_never_got_is_answered_to_nobody(engine, stack, spawn):
    """The primary has it on its disk and waits for the replica, which is then promoted."""
    both = engine.stack(stack.redis_url)
    daemon = spawn(both, mysql_url=engine.url, deadline_ms=30_000)
    daemon.reset("demo", 6, 2)
    assert daemon.order(key="first").status == 201
    engine.replica.run("STOP REPLICA IO_THREAD")
    answers = []
    buyer = threading.Thread(target=lambda: answers.append(daemon.order(user_id="u2", key="k",
                                                                        timeout=60)))
    buyer.start()
    waiting = engine.variable("Rpl_semi_sync_master_wait_sessions")
    wait_until(lambda: engine.primary.status(waiting) != "0", "a commit that waits for the replica")
    assert not answers
    engine.kill()
    engine.promote()
    both.mysql_url, both.ledger = engine.primary.url, engine.primary.client
    buyer.join()
    orders = both.ledger.number("SELECT COUNT(*) FROM orders WHERE user_id = 'u2'")
    assert answers[0].status == 201 or orders == 0, answers[0]
    assert orders <= 1
    repeat = wait_until(lambda: [r for r in [daemon.order(user_id="u2", key="k")]
                                 if r.code != "unavailable"], "an answer to the repeat")[0]
    assert repeat.status == (200 if orders else 201), repeat
    sells_out(daemon, 6)


@pytest.mark.xdist_group("semisync")  # one pair for all
@pytest.mark.parametrize("name, value, shown", [
    ("rpl_semi_sync_master_timeout", DAY_MS - 1, DAY_MS - 1),
    ("rpl_semi_sync_master_wait_point", "AFTER_COMMIT", "AFTER_COMMIT"),
    ("rpl_semi_sync_master_wait_no_slave", 0, "OFF"),
    ("rpl_semi_sync_master_enabled", 0, "OFF"),
    ("sync_binlog", 0, 0)])
def test_primary_that_may_forget_is_told_of(whole_engine, stack, spawn, name, value, shown):
    engine, name = whole_engine, whole_engine.variable(name)
    before = engine.primary.run(f"SELECT @@GLOBAL.{name}")[0][0]
    engine.primary.run(f"SET GLOBAL {name} = {value}")
    try:
        check_told_of(spawn(engine.stack(stack.redis_url), mysql_url=engine.url), name, shown)
    finally:
        engine.primary.run(f"SET GLOBAL {name} = '{before}'" if not before.isdigit() else
                           f"SET GLOBAL {name} = {before}")


def check_told_of(daemon, name, shown):
    wait_said(daemon, "ledger_not_durable", f'setting="{name}={shown}"')

    def answer():
        response = daemon.get("/readyz")
        return response.status, response.json().get("ledger_durable")
    wait_until(lambda: answer() == (200, False), "readiness with a ledger that may forget")
    assert daemon.metric("seckill_ledger_durable") == 0


def test_primary_that_may_forget_is_told_of_again_when_it_comes_back(engine, stack, spawn):
    """The daemon looks at the settings of another primary at once, and those are well."""
    engine.primary.run("SET GLOBAL sync_binlog = 0")
    daemon = spawn(engine.stack(stack.redis_url), mysql_url=engine.url)
    wait_said(daemon, "ledger_not_durable", 'setting="sync_binlog=0"')
    engine.switch()
    wait_until(lambda: daemon.metric("seckill_ledger_durable") == 1, "a ledger that keeps all")
    engine.switch()
    wait_until(lambda: daemon.metric("seckill_ledger_durable") == 0, "a ledger that may forget")
    wait_until(lambda: len(wait_said(daemon, "ledger_not_durable", "sync_binlog=0")) == 2,
               "a second warning")


def cut_off(engine):
    """The primary has no replica any more, and its commits wait for one."""
    engine.replica.run("STOP REPLICA IO_THREAD")
    clients = engine.variable("Rpl_semi_sync_master_clients")
    wait_until(lambda: engine.primary.status(clients) == "0", "a primary without a replica")


def waiting(engine):
    """Sessions of the primary that wait for a replica."""
    return sum("semi-sync ACK" in (state or "") for *_, state in engine.primary.run(
        "SELECT id, state FROM information_schema.processlist"))


def test_primary_without_its_replica_is_not_ready_and_keeps_few_sessions(engine, stack, spawn):
    both = engine.stack(stack.redis_url)
    daemon = spawn(both, mysql_url=engine.url, mysql_timeout_ms=1000, deadline_ms=1000)
    daemon.reset("demo", 200, 2)
    assert answered(lambda: daemon.order(key="first")).status in (200, 201)

    def ready():
        response = daemon.get("/readyz")
        return response.status, response.json()["ledger"]

    def told():
        """A slow disk may have been taken for a ledger that is down, before the cut."""
        return (len(said(daemon, "ledger_up")),
                len([line for line in said(daemon, "ledger_down") if "reason=down" in line]))
    cut_off(engine)
    wait_until(lambda: ready() == (503, "commits_wait"), "no readiness")
    before = told()
    line = wait_said(daemon, "ledger_down", "Waiting for semi-sync ACK")[0]
    assert "reason=commits_wait" in line, line
    wait_until(lambda: daemon.metric("seckill_ledger_unanswered_write_seconds") >= 1, "its age")
    assert daemon.metric("seckill_ledger_up") == 0

    # Whatever is asked of it, the daemon leaves few sessions behind, and it does not flap.
    hurry(daemon)
    wait_until(lambda: daemon.order(user_id="late", key="late").answer
               in ("503 unavailable", "503 no_order_id"), "an order that is refused")
    assert waiting(engine) <= SESSIONS_MAX
    wait_until(lambda: ready() == (503, "commits_wait"), "no readiness, still")
    assert told() == before

    engine.replica.run("START REPLICA IO_THREAD")
    daemon.wait_ready()
    wait_until(lambda: waiting(engine) == 0, "no session that waits")
    wait_until(lambda: daemon.order(user_id="u9", key="k9").status in (200, 201), "an order")
    wait_until(lambda: daemon.metric("seckill_ledger_unanswered_write_seconds") == 0, "no wait")
    audit_after_faults(daemon)


def only(place):
    """The URL of a daemon that can reach one of two servers."""
    return f"mysql://shop@{place},127.0.0.1:{free_port()}/seckill"


def test_daemon_beside_a_left_primary_tells_nothing_of_orders(engine, stack, spawn):
    """The network is split, and the operator has promoted the replica on the other side."""
    old = engine.primary
    wrong = spawn(engine.stack(stack.redis_url), mysql_url=only(old.place), events_retention_h=24,
                  mysql_timeout_ms=1000, deadline_ms=1000)
    wrong.reset("demo", 20, 2)
    first = answered(lambda: wrong.order(key="first")).json()["order_id"]
    assert answered(lambda: wrong.get(f"/order/{first}")).json()["status"] == "reserved"
    assert answered(lambda: wrong.get("/order/12345")).status == 404
    assert answered(lambda: wrong.get("/events?after=999.1"), 410).status == 410

    cut_off(engine)
    engine.promote()
    other_redis = stack.redis_url.removesuffix("0") + "1"  # that side elects a publisher, too
    right = spawn(engine.stack(other_redis), mysql_url=only(engine.primary.place),
                  events_retention_h=24)
    second = right.order(user_id="u2", key="second").json()["order_id"]
    assert right.pay(first).status == 200
    published(right)
    cursor = right.get("/events").json()["next"]
    for path in (f"/order/{second}", f"/order/{first}", "/user/u2/orders", "/payments",
                 f"/events?after={cursor}"):
        assert right.get(path).status == 200, path
        assert wrong.get(path).answer == "503 unavailable", path
    for answer in (wrong.pay(second), wrong.cancel(second), wrong.refund(second, "p1")):
        assert answer.answer in ("503 unavailable", "503 outcome_unknown"), answer
    wrong.kill()
    old.kill()
    sells_out(right, 20)


def hurry(daemon):
    """Orders side by side, that leave a commit without an answer each."""
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda n: daemon.order(user_id=f"h{n}", key=f"h{n}"), range(16)))


def test_two_primaries_are_refused(engine, stack, spawn):
    daemon = spawn(engine.stack(stack.redis_url), mysql_url=engine.url)
    daemon.reset("demo", 5, 1)
    assert daemon.order().status == 201
    engine.replica.run("SET GLOBAL read_only = 0")
    line = wait_said(daemon, "ledger_split")[0]
    assert engine.primary.place in line and engine.replica.place in line
    wait_until(lambda: daemon.get("/readyz").json()["ledger"] == "split", "the split in /readyz")
    wait_until(lambda: daemon.order(user_id="u2").answer == "503 unavailable", "a refused order")
    engine.replica.run("SET GLOBAL read_only = 1")
    daemon.wait_ready()
    sells_out(daemon, 5)


def test_statement_at_a_primary_that_was_left_is_given_up(engine, stack, spawn):
    """However long the time-out is."""
    both = engine.stack(stack.redis_url)
    daemon = spawn(both, mysql_url=engine.url, order_workers=1, mysql_timeout_ms=TIMEOUT_MS,
                   deadline_ms=TIMEOUT_MS)
    daemon.reset("demo", 6, 2)
    assert daemon.order(key="first").status == 201
    downs = len(said(daemon, "ledger_down"))
    engine.primary.signal(signal.SIGSTOP)
    answers = []
    buyer = threading.Thread(target=lambda: answers.append(daemon.order(user_id="u2", key="k",
                                                                        timeout=90)))
    buyer.start()
    wait_until(lambda: len(said(daemon, "ledger_down")) > downs, "a ledger that is down")
    engine.promote()
    pattern = re.compile(r"event=(?:retried|unavailable|commit_in_doubt|ping_failed) "
                         r".*no answer in (\d+) ms")
    waited = wait_until(lambda: pattern.findall(daemon.log()), "a statement that was given up")
    assert all(int(one) < TIMEOUT_MS for one in waited)
    buyer.join()
    engine.replica.kill()
    both.mysql_url, both.ledger = engine.primary.url, engine.primary.client
    assert answers[0].status == 201 or answers[0].answer == "503 outcome_unknown", answers
    sells_out(daemon, 6)


@pytest.mark.long
def test_primary_that_hangs_is_left_and_refused_when_it_is_back(engine, stack, spawn):
    """By an account with no more rights than serving needs. The old primary keeps its sockets open,
    and is writable when it wakes up: an order that it may have must not count."""
    both = engine.stack(stack.redis_url)
    spawn(both, mysql_url=engine.url).stop()  # makes the tables
    engine.primary.run("CREATE USER least@'127.0.0.1'; "
                       "GRANT SELECT, INSERT, UPDATE, DELETE ON seckill.* TO least@'127.0.0.1'")
    daemon = spawn(both, mysql_url=engine.url.replace("shop@", "least@"), update_tables="off",
                   mysql_timeout_ms=3000, deadline_ms=3000)
    daemon.reset("demo", 6, 2)
    assert daemon.order(key="first").status == 201
    assert not said(daemon, "ledger_not_durable")
    engine.primary.signal(signal.SIGSTOP)
    answer = daemon.order(user_id="u2", key="k")
    assert answer.answer in ("503 unavailable", "503 outcome_unknown")
    engine.promote()
    both.mysql_url, both.ledger = engine.primary.url, engine.primary.client
    repeat = answered(lambda: daemon.order(user_id="u2", key="k"))
    assert repeat.status in (200, 201), repeat
    wait_said(daemon, "ledger_not_durable", engine.variable("rpl_semi_sync_master_enabled=OFF"))
    old = engine.replica
    old.signal(signal.SIGCONT)
    wait_said(daemon, "ledger_split")
    wait_until(lambda: daemon.order(user_id="u3").answer == "503 unavailable", "a refused order")
    old.kill()
    daemon.wait_ready()
    assert both.ledger.number("SELECT COUNT(*) FROM orders WHERE user_id = 'u2'") == 1
    sells_out(daemon, 6)
