"""seclock as a newcomer uses it from two shells."""

import os
import re
import signal
import subprocess
import time

import pytest

from harness.processes import ROOT, free_port, wait_until
from locks import SECLOCK, run_seclock, seconds_since

SLACK = 8  # seconds, for a busy machine; the default lease is longer


@pytest.fixture
def shell(stack, tmp_path):
    """shell("seclock …") starts a command line as somebody types it, in an empty directory."""
    shells = []
    environment = {**os.environ, "SECLOCK_SERVER": stack.redis_url,
                   "PATH": f"{SECLOCK.parent}:{os.environ['PATH']}"}

    def start(line):
        shells.append(subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", "sh", "-c", f"exec {line}"], cwd=tmp_path,
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True))
        return shells[-1]
    yield start
    for process in shells:
        process.kill()
        process.communicate()


def ends(process, timeout=30):
    """Its exit status, when it ends."""
    return process.wait(timeout)


def appears(path):
    wait_until(path.exists, f"making of {path.name}")


WORK = "sh -c 'echo start >>log; sleep 0.3; echo end >>log'"


def test_two_shells_take_turns(shell, tmp_path):
    shells = [shell(f"seclock backup -- {WORK}") for _ in range(4)]
    assert [ends(process) for process in shells] == [0] * 4
    assert (tmp_path / "log").read_text().split() == ["start", "end"] * 4


@pytest.mark.parametrize("kind", ["simple", "reentrant", "timestamp", "spin", "fair", "read-write"])
def test_kinds(shell, tmp_path, kind):
    shells = [shell(f"seclock --kind {kind} backup -- {WORK}") for _ in range(2)]
    assert [ends(process) for process in shells] == [0] * 2
    assert (tmp_path / "log").read_text().split() == ["start", "end"] * 2


def test_majority_of_servers(stack, shell, tmp_path):
    base = stack.redis_url.rpartition("/")[0]
    servers = " ".join(f"--server {base}/{db}" for db in (3, 4, 5))
    shells = [shell(f"seclock {servers} backup -- {WORK}") for _ in range(2)]
    assert [ends(process) for process in shells] == [0] * 2
    assert (tmp_path / "log").read_text().split() == ["start", "end"] * 2
    assert ends(shell(f"seclock --kind red --server {base}/3 backup -- true")) == 78


def test_zookeeper(zookeeper, shell, tmp_path):
    line = f"seclock --server {zookeeper.url} {tmp_path.name} -- {WORK}"
    shells = [shell(line) for _ in range(3)]
    assert [ends(process) for process in shells] == [0] * 3
    assert (tmp_path / "log").read_text().split() == ["start", "end"] * 3


def test_etcd(etcd, shell, tmp_path):
    line = f"seclock --server {etcd.url} backup -- {WORK}"
    shells = [shell(line) for _ in range(3)]
    assert [ends(process) for process in shells] == [0] * 3
    assert (tmp_path / "log").read_text().split() == ["start", "end"] * 3


@pytest.mark.parametrize("kind", ["table", "get-lock"])
def test_mysql(stack, shell, tmp_path, kind):
    line = f"seclock --server '{stack.mysql_url}' --kind {kind} backup -- {WORK}"
    shells = [shell(line) for _ in range(2)]
    assert [ends(process) for process in shells] == [0] * 2
    assert (tmp_path / "log").read_text().split() == ["start", "end"] * 2


def test_permits(shell, tmp_path):
    touch = "sh -c 'touch $0; exec sleep 60'"
    for number in range(2):
        shell(f"seclock --permits 2 import -- {touch} {number}")
    for number in range(2):
        appears(tmp_path / str(number))
    assert ends(shell("seclock --permits 2 --nowait import -- true")) == 75


def test_readers_share(shell, tmp_path):
    for number in range(2):
        shell(f"seclock --kind read-write --read file -- sh -c 'touch {number}; exec sleep 60'")
    for number in range(2):
        appears(tmp_path / str(number))
    assert ends(shell("seclock --kind read-write --nowait file -- true")) == 75


@pytest.mark.parametrize("server", ["redis", "mysql", "zookeeper", "etcd"])
def test_holder_is_killed(stack, shell, tmp_path, request, server):
    """Its command is told, and the next one has the lock after the lease at the latest."""
    url = {"redis": lambda: stack.redis_url, "mysql": lambda: stack.mysql_url,
           "zookeeper": lambda: request.getfixturevalue("zookeeper").url,
           "etcd": lambda: request.getfixturevalue("etcd").url}[server]()
    line = f"seclock --server '{url}' --lease 5s {tmp_path.name} --"  # a request has a fifth of it
    first = shell(f"{line} sh -c "
                  "'trap \"touch told; exit\" TERM; touch began; while :; do sleep 0.05; done'")
    appears(tmp_path / "began")
    second = shell(f"{line} touch second")
    time.sleep(0.5)
    start = time.monotonic()
    first.kill()
    assert ends(second) == 0
    assert seconds_since(start) < 5 + 1 + SLACK  # lease, poll cap
    appears(tmp_path / "told")


def test_exit_status_of_the_command(shell):
    assert ends(shell("seclock job -- true")) == 0
    assert ends(shell("seclock job -- sh -c 'exit 3'")) == 3
    assert ends(shell("seclock job -- sh -c 'kill -TERM $$'")) == 128 + signal.SIGTERM
    assert ends(shell("seclock job -- ./not-there")) == 127
    assert ends(shell("seclock job -- /etc/passwd")) == 126
    assert ends(shell("seclock --nowait job -- true")) == 0  # nothing of it stayed locked


@pytest.mark.parametrize("kind", ["simple", "fair", "semaphore"])
def test_who_waits_is_told_for_whom(shell, tmp_path, kind):
    """The process, its host and the rest of the lease."""
    holder = shell(f"seclock --kind {kind} {'--permits 1' if kind == 'semaphore' else ''} job -- "
                   "sh -c 'touch began; exec sleep 60'")
    appears(tmp_path / "began")
    for words in ("--nowait", "--wait 200ms"):
        permits = "--permits 1" if kind == "semaphore" else ""
        other = shell(f"seclock --kind {kind} {permits} {words} job -- true")
        assert ends(other) == 75
        said = other.stderr.read()
        assert re.search(rf"held by process {holder.pid}\b", said), said
        left = float(re.search(r"for ([0-9.]+) s", said).group(1))
        assert 15 < left <= 30
    status = shell(f"seclock --kind {kind} status job")
    assert ends(status) == 0
    assert f"process: {holder.pid}" in status.stdout.read()


def test_status_of_a_lock_of_another_kind(shell, tmp_path):
    """Without a kind, seclock shows the locks of that name of all kinds."""
    assert ends(shell("seclock status job")) == 1
    shell("seclock --permits 2 job -- sh -c 'touch began; exec sleep 60'")
    appears(tmp_path / "began")
    status = shell("seclock status job")
    assert ends(status) == 0
    assert "kind: semaphore\nstate: held" in status.stdout.read()
    assert ends(shell("seclock --kind simple status job")) == 1
    broken = shell("seclock break job")
    assert ends(broken) == 1  # not what it was asked for: the user has to say which
    assert "--kind semaphore" in broken.stderr.read()
    assert ends(shell("seclock --kind semaphore break job")) == 0
    assert ends(shell("seclock status job")) == 1


def test_exit_status_of_its_own(shell, tmp_path):
    assert ends(shell("seclock")) == 64
    assert ends(shell("seclock --no-such-option job -- true")) == 64
    assert ends(shell("seclock --kind no-such-kind job -- true")) == 64
    assert ends(shell("seclock --kind fair --permits 2 job -- true")) == 64
    assert ends(shell("seclock --wait forever job -- true")) == 64
    assert ends(shell("seclock job")) == 64
    assert ends(shell("seclock --server no-url job -- true")) == 78
    nowhere = f"redis://127.0.0.1:{free_port()}"
    assert ends(shell(f"seclock --server {nowhere} --nowait job -- true")) == 69
    shell("seclock job -- sh -c 'touch began; exec sleep 60'")
    appears(tmp_path / "began")
    assert ends(shell("seclock --nowait job -- true")) == 75
    start = time.monotonic()
    assert ends(shell("seclock --wait 300ms job -- true")) == 75
    assert 0.3 <= seconds_since(start) < 0.3 + SLACK


def test_lock_is_lost(shell, tmp_path):
    holder = shell("seclock --lease 4s job -- sh -c 'touch began; exec sleep 20'")
    appears(tmp_path / "began")
    assert ends(shell("seclock break job")) == 0
    start = time.monotonic()
    assert ends(holder) == 74
    assert seconds_since(start) < SLACK
    assert "lost" in holder.stderr.read()


def test_grace_ends_for_all_processes_of_the_command(shell, tmp_path):
    """The command and a child of it take no notice of SIGTERM."""
    holder = shell("seclock --lease 5s --grace 100ms job -- sh -c 'trap \"\" TERM; "
                   "(for i in $(seq 600); do test -e over && echo alive && break; sleep 0.05; done)"
                   " & seclock break job; wait'")
    assert ends(holder) == 74
    (tmp_path / "over").touch()
    assert "alive" not in holder.stdout.read()  # it ends with the last process that has it


def test_loss_that_only_the_release_finds(shell):
    """The command ends before a renewal could tell that the lock is broken."""
    holder = shell("seclock --lease 1h job -- seclock break job")
    assert ends(holder) == 74
    assert "lost while the command ran" in holder.stderr.read()


def test_status_and_break(shell, tmp_path):
    assert ends(shell("seclock status job")) == 1
    assert ends(shell("seclock break job")) == 1
    shell("seclock job -- sh -c 'echo $SECLOCK_FENCE >fence; touch began; exec sleep 60'")
    appears(tmp_path / "began")
    status = shell("seclock status job")
    assert ends(status) == 0
    assert (tmp_path / "fence").read_text().strip() in status.stdout.read()
    assert ends(shell("seclock break job")) == 0
    assert ends(shell("seclock status job")) == 1


def test_fences_grow(shell):
    fences = []
    for _ in range(5):
        process = shell("seclock --fence-env MY_FENCE job -- sh -c 'echo $MY_FENCE'")
        assert ends(process) == 0
        fences.append(int(process.stdout.read()))
    assert fences == sorted(set(fences))


def test_signals_are_passed_on(shell, tmp_path):
    process = shell("seclock job -- sh -c 'trap \"exit 7\" TERM; touch began; "
                    "while :; do sleep 0.05; done'")
    appears(tmp_path / "began")
    process.terminate()
    assert ends(process) == 7
    assert ends(shell("seclock --nowait job -- true")) == 0


def test_waiting_can_be_interrupted(shell, tmp_path):
    shell("seclock job -- sh -c 'touch began; exec sleep 60'")
    appears(tmp_path / "began")
    waiting = shell("seclock job -- true")
    time.sleep(0.5)
    waiting.terminate()
    assert ends(waiting) in (128 + signal.SIGTERM, -signal.SIGTERM)


def test_help(stack):
    done = run_seclock("--help", server=stack.redis_url)
    assert done.returncode == 0 and "seclock" in done.stdout
    page = (ROOT / "lock/tool/seclock.1").read_text(encoding="utf-8").replace("\\-", "-")
    for word in re.findall(r"--[a-z-]+|\b(?:64|69|7[458]|12[567])\b", done.stdout):
        assert word in page, f"{word} is not in the manual"
    done = run_seclock("--version", server=stack.redis_url)
    assert done.returncode == 0 and done.stdout.startswith("seclock ")
