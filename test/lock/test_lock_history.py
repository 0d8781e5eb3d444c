"""Random concurrent runs of the locks by many processes, and whether what they saw is possible.

Meanwhile processes are stopped past their leases, killed and replaced, connections cut, answers
lost, scripts forgotten. The checker is itself checked: by locks that are broken on purpose, and by
histories. With HISTORY_SECONDS each run goes on for so long, which `make history` asks for.
"""

import os
import random
import signal
import subprocess
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import history_check
from harness.clock import TEST_SECONDS_MAX
from harness.proxy import FaultProxy
from harness.redis import Redis
from locks import HISTORY, LOOP_HISTORY

PROCESSES = 8
SECONDS_MIN = int(os.environ.get("HISTORY_SECONDS", "0"))
SECONDS_MAX = SECONDS_MIN + 120  # for what a slow machine takes a while to do
LEASE_MS = 250  # of history.c


@pytest.fixture(params=[HISTORY, LOOP_HISTORY], ids=["waits", "loop"])
def form(request, monkeypatch):
    """Tests are of both forms: calls that wait, and the form for event loops."""
    monkeypatch.setattr(Run, "program", request.param)


class Run:
    """Eight processes on one lock, and what is done to them."""

    program = HISTORY  # or LOOP_HISTORY

    def __init__(self, model, kind, servers, directory, seed):
        self.argv = [self.program, model, kind, f"{Path(directory).name}-{model}-{kind}"]
        self.servers, self.directory = servers, Path(directory)
        self.random = random.Random(seed)
        self.started, self.processes = 0, []

    def __enter__(self):
        for _ in range(PROCESSES):
            self.start()
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()

    def start(self):
        self.started += 1
        with open(self.directory / str(self.started), "wb") as output:
            self.processes.append(subprocess.Popen(
                [*map(str, self.argv), str(self.random.randrange(1 << 30)), *self.servers],
                stdout=output))

    def pause(self):
        victims = self.random.sample(self.processes, 2)
        for process in victims:
            process.send_signal(signal.SIGSTOP)
        time.sleep(LEASE_MS / 1000 * self.random.uniform(0.5, 2))
        for process in victims:
            process.send_signal(signal.SIGCONT)

    def replace(self):
        process = self.random.choice(self.processes)
        process.kill()
        process.wait()
        self.processes.remove(process)
        self.start()

    def trouble(self, enough, *more):
        """Every trouble there is, in any order, and again until the holds are enough. After each
        round is a second of peace, and more on a machine on which they should be enough by now."""
        troubles = [self.pause, self.replace, self.pause, self.replace, *more]
        start, seconds, peace = time.monotonic(), 0, 1
        while seconds < SECONDS_MAX:
            self.random.shuffle(troubles)
            for trouble in troubles:
                trouble()
                time.sleep(self.random.uniform(0.05, 0.2))
            time.sleep(peace)
            seconds = time.monotonic() - start
            if seconds >= SECONDS_MIN:
                peace += 1
                if enough(self.holds()):
                    return

    def holds(self):
        lines = []
        for path in self.directory.iterdir():
            with open(path, encoding="ascii") as file:
                lines += file
        return history_check.read(lines)

    def finish(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            # a replacement may have been told before it had begun
            assert process.wait(60) in (0, -signal.SIGTERM)
        return self.holds()


def run(model, kind, servers, directory, enough, *more):
    """The holds of a run; the seed is in the report of a test that fails."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    signal.alarm(TEST_SECONDS_MAX + SECONDS_MIN)
    with Run(model, kind, servers, directory, seed) as crowd:
        crowd.trouble(enough, *more)
        return crowd.finish()


def at_least(count):
    """Enough holds to be worth looking at, of every process."""
    def enough(holds):
        owners = [hold.owner for hold in holds if hold.acquired]
        return len(owners) >= count and len(set(owners)) >= PROCESSES
    return enough


def forgetting(url):
    """Faults that a Redis server makes itself, without the loss of a lock."""
    redis = Redis(url)
    return (lambda: redis("SCRIPT", "FLUSH"),
            lambda: redis("CLIENT", "KILL", "TYPE", "pubsub"),
            lambda: redis("CLIENT", "KILL", "TYPE", "normal"))


def assert_possible(model, kind, servers, directory, least, *more, check=None):
    holds = run(model, kind, servers, directory, at_least(least), *more)
    assert history_check.check(check or model, holds) == []
    assert at_least(least)(holds), f"only {len(holds)} holds in {SECONDS_MAX} s"
    print(f"{len(holds)} holds")


def assert_possible_when_cut(model, kind, url, directory, least, *more, check=None):
    """The connections are cut, some after a lost answer. Not for get-lock, as the server frees a
    lock whose connection is cut, and its holder hears of it at its next renewal; nor for red,
    whose holds are shorter than three answers by way of a busy proxy."""
    with FaultProxy(urlsplit(url).port) as proxy:
        def lose_answers():
            proxy.deaf = True
            time.sleep(0.1)
            proxy.cut()
            proxy.deaf = False

        assert_possible(model, kind, [proxy.url(url)], directory, least, proxy.cut, lose_answers,
                        *more, check=check)


@pytest.mark.long(keep=2)
@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("model, kind", [
    ("mutex", "simple"), ("read-write", "read-write"), ("mutex", "timestamp"), ("mutex", "spin"),
    ("mutex", "fair"), ("reentrant", "reentrant"), ("reentrant", "fair"),
    ("semaphore", "semaphore"), ("semaphore", "permit")])
def test_redis(stack, tmp_path, model, kind):
    # In a fair queue the others wait for a killed owner once its turn comes; owners re-enter.
    least = 15 if kind == "fair" else 25 if model == "reentrant" else 60
    assert_possible_when_cut(model, kind, stack.redis_url, tmp_path, least,
                             *forgetting(stack.redis_url))


@pytest.mark.long
@pytest.mark.usefixtures("form")
def test_red(stack, tmp_path):
    servers = [stack.redis_url.rpartition("/")[0] + f"/{db}" for db in (3, 4, 5)]
    assert_possible("mutex", "red", servers, tmp_path, 40, *forgetting(stack.redis_url))


@pytest.mark.long(keep=1)
@pytest.mark.usefixtures("form")
def test_mysql_table(stack, tmp_path):
    """With cuts an owner may enter again the hold of a try that was not answered, sent again, and
    answered "busy" before its first sending arrived: so its fence is looked at as re-entry."""
    assert_possible_when_cut("reentrant", "table", stack.mysql_url, tmp_path, 40)


@pytest.mark.long
@pytest.mark.usefixtures("form")
def test_mysql_table_without_cuts(stack, tmp_path):
    assert_possible("mutex", "table", [stack.mysql_url], tmp_path, 40)


@pytest.mark.long
@pytest.mark.usefixtures("form")
def test_mysql_get_lock(stack, tmp_path):
    assert_possible("mutex", "get-lock", [stack.mysql_url], tmp_path, 40)


# Of the other servers' locks one case a form.
EACH_FORM = [("mutex", HISTORY), ("reentrant", LOOP_HISTORY)]


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("model, form", EACH_FORM, indirect=["form"], ids=["waits", "loop"])
def test_zookeeper(zookeeper, tmp_path, model, form):
    assert_possible_when_cut(model, "queue", zookeeper.url, tmp_path, 20)


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("model, form", [*EACH_FORM[:1], ("read-write", LOOP_HISTORY)],
                         indirect=["form"], ids=["waits", "loop"])
def test_etcd(etcd, tmp_path, model, form):
    assert_possible_when_cut(model, "etcd", etcd.url, tmp_path, 20)


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("kind", ["simple", "fair", "timestamp"])
def test_fences_grow_on_a_server_that_forgets(stack, tmp_path, kind):
    """Two may then hold the lock at once; the fence still tells who came later."""
    assert_possible_when_cut("mutex", kind, stack.redis_url, tmp_path,
                             15 if kind == "fair" else 60,
                             lambda: stack.redis("FLUSHALL"), check="fenced")


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("model", ["careless", "forgetful"])
def test_broken_lock_is_found_out(stack, tmp_path, model):
    def found_out(holds):
        return any("valid at once" in found for found in history_check.check("mutex", holds))
    assert found_out(run(model, "simple", [stack.redis_url], tmp_path, found_out))


def hold(name, owner, begin, until, left_behind=False, **more):
    """A hold acquired from `begin` to `begin` + 1."""
    event = {"hold": name, "result": "ok", "owner": owner, "mode": "write", "permits": 1,
             "held": True, "begin": begin, "end": begin + 1, "fence": begin + 1, **more}
    made = history_check.Hold(event)
    made.until, made.left_behind = until, left_behind or not made.acquired
    return made


@pytest.mark.parametrize("model, holds, violation", [
    ("mutex", [hold("a", "A", 1, 5), hold("b", "B", 5, 9)], None),
    ("mutex", [hold("a", "A", 1, 9), hold("b", "B", 5, 9)], "valid at once"),
    ("mutex", [hold("a", "A", 1, 9), hold("b", "A", 5, 9)], "valid at once"),
    ("mutex", [hold("a", "A", 1, 9), hold("b", "B", 2, 3, held=False)], None),
    ("mutex", [hold("a", "A", 1, 3), hold("b", "B", 5, 9, fence=2)], "did not grow"),
    ("mutex", [hold("a", "A", 1, 3), hold("b", "B", 5, 9, fence=1)], "did not grow"),
    ("mutex", [hold("a", "A", 1, 3), hold("b", "A", 5, 9, fence=2)], "did not grow"),
    ("mutex", [hold("a", "A", 1, 3, True), hold("b", "A", 5, 9, fence=2)], None),
    ("mutex", [hold("a", "A", 1, 3, True), hold("b", "B", 5, 9, fence=2)], "did not grow"),
    ("mutex", [hold("a", "A", 1, 2, result="unknown"), hold("b", "A", 3, 5),
               hold("c", "A", 6, 9, fence=4)], None),
    ("mutex", [hold("a", "A", 1, 2, True), hold("b", "A", 3, 5),
               hold("c", "A", 6, 9, fence=4)], "did not grow"),
    ("fenced", [hold("a", "A", 1, 9), hold("b", "B", 5, 9)], None),
    ("fenced", [hold("a", "A", 1, 9), hold("b", "B", 5, 9, fence=1)], "did not grow"),
    ("reentrant", [hold("a", "A", 1, 9), hold("b", "A", 5, 9, fence=2)], None),
    ("reentrant", [hold("a", "A", 1, 9), hold("b", "A", 5, 9)], "another fence"),
    ("reentrant", [hold("a", "A", 1, 9), hold("b", "B", 5, 9)], "valid at once"),
    ("reentrant", [hold("a", "A", 1, 3), hold("b", "B", 5, 9, fence=2)], "did not grow"),
    ("read-write", [hold("a", "A", 1, 9, mode="read", fence=7),
                    hold("b", "B", 5, 9, mode="read", fence=7)], None),
    ("read-write", [hold("a", "A", 1, 9, mode="read"), hold("b", "B", 5, 9)], "valid at once"),
    ("read-write", [hold("a", "A", 1, 3), hold("b", "B", 5, 9, mode="read", fence=1)],
     "did not grow"),
    ("semaphore", [hold("a", "A", 1, 9, permits=2), hold("b", "B", 5, 9)], None),
    ("semaphore", [hold("a", "A", 1, 9, permits=2), hold("b", "B", 5, 9, permits=2)], "permits"),
])
def test_checker(model, holds, violation):
    found = history_check.check(model, holds)
    assert [violation in text for text in found][:1] == ([True] if violation else [])
