"""Elections among processes that die, stop and have wrong clocks, on servers that start again."""

import itertools
import random
import threading
import time
from contextlib import ExitStack, contextmanager

import pytest

from harness.clock import Clock
from harness.processes import wait_until
from harness.servers import Etcd, RedisAlone, ZooKeeper
from locks import Driver, each_kind, run_seclock, settled

NUMBERS = itertools.count()
LEASE_MS, POLL_MS = 800, 200
PATIENCE_MS = 60000
TERMS = 12  # of a crowd, of which a third ends with the leader's death
REDIS_KINDS = ("simple", "timestamp", "spin", "reentrant", "fair", "read-write")
KINDS = ("simple", "table", "queue", "etcd", *REDIS_KINDS[1:])


pytestmark = pytest.mark.usefixtures("form")


@pytest.fixture
def url(request, stack):
    kind = request.node.callspec.params["kind"]
    if kind in ("queue", "etcd"):
        return request.getfixturevalue({"queue": "zookeeper"}.get(kind, kind)).url
    return stack.mysql_url if kind == "table" else stack.redis_url


@pytest.fixture
def prefix():
    """Each test has keys of its own: a driver that a test kills may hold its lock for longer."""
    return f"{next(NUMBERS)}:"


@pytest.fixture
def voter(url, prefix):
    """voter() gives a driver on the server of the kind."""
    return lambda lease=LEASE_MS: Driver(url, prefix=prefix, lease=lease, poll=POLL_MS)


@pytest.fixture
def voters(voter):
    """voters(n) gives so many drivers on the server of the kind."""
    with ExitStack() as running:
        yield lambda count: [running.enter_context(voter()) for _ in range(count)]


def campaign(driver, kind, value, name="n", **options):
    """A machine that stands still may let a lease of a test end at once: then it tries again."""
    words = [f"{key}={number}" for key, number in {"wait": PATIENCE_MS, **options}.items()]
    answer = settled(driver, "campaign", 1, kind, name, value, *words)
    assert answer["result"] == "ok", answer
    return answer["fence"]


def observed(driver, kind, value, name="n"):
    """The news of it, until there is a leader with this value."""
    seen = []

    def sees():
        answer = driver("observe", kind, name, 5000)
        assert answer["result"] in ("ok", "timeout"), answer
        if answer["result"] == "ok":
            seen.append(answer)
        return seen and seen[-1]["value"] == value
    wait_until(sees, f"news of {value}")
    return seen


@each_kind(KINDS)
def test_leader_is_killed(voters, kind):
    observer, leader, *others = voters(4)
    terms = [campaign(leader, kind, "0")]
    observed(observer, kind, "0")
    for number, candidate in enumerate(others, 1):
        lease = 20000 if candidate is others[-1] else 2 * LEASE_MS  # the last one is not killed
        candidate.send("campaign", 1, kind, "n", number, f"wait={PATIENCE_MS}", f"lease={lease}")
        time.sleep(LEASE_MS / 4000)  # so that the candidate waits, most often
        leader.kill()
        answer = candidate.read()
        assert answer["result"] == "ok", answer
        terms.append(answer["fence"])
        news = observed(observer, kind, str(number))
        assert news[-1]["term"] == terms[-1] > terms[-2]
        leader = candidate
    assert settled(leader, "release", 1)["result"] == "ok"
    assert observed(observer, kind, "")[-1]["led"] == 0


@each_kind(KINDS)
def test_leader_is_stopped_past_its_lease(voters, kind):
    observer, leader, candidate = voters(3)
    old = campaign(leader, kind, "old")
    observed(observer, kind, "old")
    leader.stop()
    new = campaign(candidate, kind, "new", lease=20000)
    assert new > old
    observed(observer, kind, "new")
    leader.resume()
    answer = settled(leader, "proclaim", 1, "late")
    assert (answer["result"], answer["state"]) == ("lost", "lost")
    wait_until(lambda: leader("state", 1)["lost"] == 1, "call of on_lost")
    seen = observer("leader", kind, "n")
    assert (seen["term"], seen["value"]) == (new, "new")
    assert settled(candidate, "proclaim", 1, "newer")["result"] == "ok"
    observed(observer, kind, "newer")


@each_kind(KINDS)
def test_tool_shows_what_a_leader_proclaims(voters, url, prefix, kind):
    leader, = voters(1)
    assert settled(leader, "acquire", 1, kind, "n", "lease=20000")["result"] == "ok"
    words = ("--prefix", prefix, "--kind", kind, "status", "n")
    assert "proclaims" not in run_seclock(*words, server=url).stdout
    assert settled(leader, "proclaim", 1, "10.0.0.7\x1b[1m")["result"] == "ok"
    shown = run_seclock(*words, server=url)
    assert shown.returncode == 0 and "\nproclaims: 10.0.0.7?[1m\n" in shown.stdout
    assert settled(leader, "release", 1)["result"] == "ok"
    assert "proclaims" not in run_seclock(*words, server=url).stdout


class Candidate(threading.Thread):
    """Leads again and again, and at times dies in its term, until the crowd has led enough."""

    def __init__(self, number, voter, kind, crowd):
        super().__init__()
        self.number, self.voter, self.kind, self.crowd = number, voter, kind, crowd
        self.until = time.monotonic() + 60
        self.accepted = []  # (term, value)
        self.error = None

    def goes_on(self):
        terms = {term for candidate in self.crowd for term, _ in list(candidate.accepted)}
        return len(terms) < TERMS and time.monotonic() < self.until

    def lead(self, driver, turn):
        value = f"{self.number}-{turn}"
        answer = driver("campaign", 1, self.kind, "n", value, "wait=2000")
        if answer["result"] != "ok":
            return
        self.accepted.append((answer["fence"], value))
        for change in range(random.randrange(4)):
            said = f"{value}-{change}"
            result = driver("proclaim", 1, said)["result"]
            assert result in ("ok", "lost", "failed", "unknown"), result
            if result == "ok":
                self.accepted.append((answer["fence"], said))
        if random.randrange(3) == 0:
            driver.kill()
        else:
            driver("release", 1)

    def run(self):
        try:
            turn = 0
            while self.goes_on():
                with self.voter() as driver:
                    while self.goes_on() and driver.process.poll() is None:
                        turn += 1
                        self.lead(driver, turn)
                        time.sleep(random.uniform(0, 0.05))
        except BaseException as error:  # pylint: disable=broad-except
            self.error = error


@each_kind(["simple", "table", "timestamp", "fair", "queue", "etcd"], keep=2)
def test_term_has_one_leader(voters, voter, kind):
    """Whoever dies when: a term is of one process, and observers see terms in their order."""
    observer = voters(1)[0]
    crowd = []
    crowd += [Candidate(number, voter, kind, crowd) for number in range(4)]
    for candidate in crowd:
        candidate.start()
    news = []
    while any(candidate.is_alive() for candidate in crowd):
        answer = observer("observe", kind, "n", 500)
        if answer["result"] == "ok" and answer["led"]:
            news.append((answer["term"], answer["value"]))
    for candidate in crowd:
        candidate.join()
        assert candidate.error is None, candidate.error
    leaders = {}
    for candidate in crowd:
        for term, _ in candidate.accepted:
            assert leaders.setdefault(term, candidate.number) == candidate.number
    assert len(leaders) > 3
    assert news and news == sorted(news, key=lambda seen: seen[0])
    for term, value in news:  # a value of who died before the answer came is in no list
        assert leaders.get(term, int(value.partition("-")[0])) == int(value.partition("-")[0])


# ---- clocks ----


@contextmanager
def shifted(monkeypatch, clock):
    """Processes that start in it have that clock."""
    with monkeypatch.context() as around:
        for key, value in clock.environment().items():
            around.setenv(key, value)
        yield


def shifted_leader(voter, monkeypatch, clock):
    with shifted(monkeypatch, clock):
        return voter(lease=20000)


@each_kind(KINDS)
def test_leader_whose_host_slept(voters, voter, kind, tmp_path, monkeypatch):
    """Its clock says that the lease is over: it leads no longer, whoever else does."""
    observer, candidate = voters(2)
    clock = Clock(tmp_path / "clock")
    with shifted_leader(voter, monkeypatch, clock) as leader:
        old = campaign(leader, kind, "asleep")
        observed(observer, kind, "asleep")
        clock.set(boot_s=3600)
        state = leader("state", 1)
        assert state["state"] == "lost"
        assert settled(leader, "proclaim", 1, "awake")["result"] == "lost"
        seen = observer("leader", kind, "n")
        assert seen["value"] in ("asleep", ""), "a value that was refused"
        settled(leader, "release", 1)
        assert campaign(candidate, kind, "next") > old
        observed(observer, kind, "next")


@each_kind(KINDS)
def test_wall_clock_of_a_leader_counts_for_nothing(voters, voter, kind, tmp_path, monkeypatch):
    observer, candidate = voters(2)
    clock = Clock(tmp_path / "clock")
    with shifted_leader(voter, monkeypatch, clock) as leader:
        term = campaign(leader, kind, "0")
        for number, wall_s in enumerate((86400, -86400, 0), 1):
            clock.set(wall_s=wall_s)
            assert settled(leader, "proclaim", 1, number)["result"] == "ok"
            assert candidate("campaign", 1, kind, "n", "usurper")["result"] == "busy"
            seen = observer("leader", kind, "n")
            assert (seen["term"], seen["value"]) == (term, str(number))
        assert settled(leader, "release", 1)["result"] == "ok"


@pytest.fixture
def redis_of_clock(tmp_path, monkeypatch):
    """A Redis, and a function that shifts its clock."""
    clock = Clock(tmp_path / "clock")
    with ExitStack() as running:
        with shifted(monkeypatch, clock):
            server = running.enter_context(RedisAlone())

        def shift(wall_s):
            clock.set(wall_s=wall_s)
            wait_until(lambda: abs(int(server.client("TIME")[0]) - time.time() - wall_s) < 60,
                       "the clock of Redis")
        yield server, shift


def test_clock_of_redis_is_set_back(redis_of_clock):
    """The fence goes on growing, and so do terms."""
    server, shift = redis_of_clock
    with Driver(server.url) as one, Driver(server.url) as two:
        for kind in REDIS_KINDS:
            shift(0)
            first = campaign(one, kind, "first", kind)
            shift(-3600)
            assert settled(one, "proclaim", 1, "second")["result"] == "ok"
            assert two("leader", kind, kind)["value"] == "second"
            assert settled(one, "release", 1)["result"] == "ok"
            assert campaign(two, kind, "third", kind) > first
            seen = one("leader", kind, kind)
            assert seen["term"] > first and seen["value"] == "third"
            assert settled(two, "release", 1)["result"] == "ok"


def test_clock_of_redis_is_set_forward(redis_of_clock):
    """That ends the lease early, and the term with it: the next leader has a greater one."""
    server, shift = redis_of_clock
    with Driver(server.url) as one, Driver(server.url) as two:
        for number, kind in enumerate(REDIS_KINDS, 1):
            first = campaign(one, kind, "first", kind)
            shift(3600 * number)
            assert two("leader", kind, kind)["led"] == 0
            assert campaign(two, kind, "second", kind) > first
            assert settled(one, "proclaim", 1, "late")["result"] == "lost"
            seen = one("leader", kind, kind)
            assert seen["term"] > first and seen["value"] == "second"
            assert settled(two, "release", 1)["result"] == "ok"


# ---- servers that start again ----


def restart(server, kinds, pause=lambda: None):
    with Driver(server.url, lease=45000, timeout=3000) as leader:
        terms = {}
        for hold, kind in enumerate(kinds):
            answer = settled(leader, "campaign", hold, kind, kind, "before")
            assert answer["result"] == "ok"
            terms[kind] = answer["fence"]
        with Driver(server.url, timeout=3000, outage=60000, poll=POLL_MS) as observer:
            observer.send("observe", kinds[0], kinds[0], PATIENCE_MS)
            assert observer.read()["value"] == "before"
            observer.send("observe", kinds[0], kinds[0], PATIENCE_MS)
            pause()
            server.kill()
            server.start()
            yield leader, terms
            assert settled(leader, "proclaim", 0, "after")["result"] == "ok"
            answer = observer.read()
            assert (answer["result"], answer["value"]) == ("ok", "after")


def assert_leads_on(leader, server, terms):
    with Driver(server.url, timeout=3000) as other:
        for kind, term in terms.items():
            seen = settled(other, "leader", kind, kind)
            assert (seen["term"], seen["value"]) == (term, "before"), kind
            assert settled(other, "campaign", 1, kind, kind, "x")["result"] == "busy"


def test_leader_survives_a_restart_of_redis():
    with RedisAlone() as server:
        server.client("CONFIG", "SET", "appendfsync", "always")
        for leader, terms in restart(server, REDIS_KINDS):
            assert_leads_on(leader, server, terms)


@pytest.mark.long
def test_leader_survives_a_restart_of_mysql(private_stack):
    for leader, terms in restart(private_stack.maria_server, ("table",)):
        assert_leads_on(leader, private_stack.maria_server, terms)


@pytest.mark.long(keep=1)
def test_leader_survives_a_restart_of_etcd():
    if not Etcd.PROGRAM:
        pytest.skip("no etcd is installed")
    with Etcd() as server:
        for leader, terms in restart(server, ("etcd",)):
            assert_leads_on(leader, server, terms)


@pytest.mark.long
def test_leader_survives_a_restart_of_zookeeper():
    """The candidate that asks meanwhile may wait for a session."""
    if not ZooKeeper.PROGRAM.exists():
        pytest.skip("no ZooKeeper is installed")
    with ZooKeeper() as server:
        for leader, terms in restart(server, ("queue",)):
            assert settled(leader, "renew", 0)["result"] == "ok"
            assert_leads_on(leader, server, terms)


def test_redis_that_forgot_its_leader_has_a_later_one():
    with RedisAlone() as server:
        with Driver(server.url, lease=2000) as leader, Driver(server.url, poll=POLL_MS) as other:
            old = campaign(leader, "simple", "old")
            server.kill()
            server.forget()
            server.start()
            assert settled(other, "leader", "simple", "n")["led"] == 0
            new = campaign(other, "simple", "new")
            assert new > old
            assert settled(leader, "proclaim", 1, "late")["result"] == "lost"
            seen = other("leader", "simple", "n")
            assert (seen["term"], seen["value"]) == (new, "new")


@each_kind(["simple", "table"], keep=1)
def test_leader_that_redis_keeps_for_long_is_still_seen(voters, kind):
    """Its renewals keep its value as long as its lock, and nothing keeps it longer."""
    observer, leader = voters(2)
    term = campaign(leader, kind, "steady", lease=1500)
    for _ in range(40):
        time.sleep(0.1)
        seen = observer("leader", kind, "n")
        state = leader("state", 1)
        if state["state"] != "held":
            pytest.skip("the machine stood still for a lease")
        assert (seen["led"], seen["term"], seen["value"]) == (1, term, "steady")
    assert leader("stats")["renewals"] > 2
