"""Runs a load generator against a server and accounts for the processors' time."""

import contextlib
import json
import signal
import statistics
import subprocess

from harness.processes import ROOT, HarnessError, clean_environment, spawn
from lib import cpu

HERE = ROOT / "loadtest"
LOOK_S = 0.25  # between calls of tick
RECORDER = None  # the library that writes down the ids that wrk is told
STOP_LOOK_S = 0.02  # between checks whether the load has served its purpose


def start(argv, env):
    if argv[0] == "wrk" and env.get("ORDER_RECORD") and RECORDER:
        env = {**env, "LD_PRELOAD": str(RECORDER)}
    return spawn(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                 env={**clean_environment(), "LOAD_TOOLS": f"{HERE}/tools", **env})


def figures_in(argv, process, text):
    """The line of JSON that a load generator has printed."""
    lines = [line for line in text.splitlines() if line.startswith("{")]
    if process.returncode != 0 or not lines:
        raise HarnessError(f"{argv[0]}: exit status {process.returncode}\n{text}")
    run = json.loads(lines[0])
    run["answers_per_s"] = run["requests"] / run["duration_s"]
    run["accepted_seen"] = run.get("accepted", run["requests"] - run["errors"]["status"])
    run["accepted_per_s"] = run["accepted_seen"] / run["duration_s"]
    return run


@contextlib.contextmanager
def beside(argv, env):
    """Runs a load generator beside what the caller does. Yields a list, which holds its figures in
    the end."""
    found, process = [], start(argv, env)
    try:
        yield found
        text, _ = process.communicate()
    finally:
        process.kill()
        process.wait()
    found.append(figures_in(argv, process, text))


def generate(argv, env, tick, until=None):
    """The figures of a load generator. Once until() is true it is interrupted, and says what it has
    so far."""
    process = start(argv, env)
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                text, _ = process.communicate(timeout=STOP_LOOK_S if until else LOOK_S)
                break
            tick()
            if until and until():
                process.send_signal(signal.SIGINT)
                until = None
    finally:
        process.kill()
        process.wait()
    return figures_in(argv, process, text)


def wrk_argv(url, threads, connections, seconds, script="order"):
    return ["wrk", f"--threads={min(threads, connections)}", f"--connections={connections}",
            f"--duration={seconds}s", f"--script={HERE / 'tools' / script}.lua", url]


def pace_argv(program, server, rate, seconds, connections):
    return [program, f"{rate:.1f}", seconds, connections, "%s:%d" % server.address]


def measure(argv, env, pids, tick, until=None):
    """The figures of one run; see order.lua for their names. pids: lists of them by name."""
    with cpu.Account(pids) as account:
        run = generate(argv, env, tick, until)
    run["cpu_shares"] = account.shares
    return run


def measure_rounds(load_once, bare_once, rounds, count_calm, extra):
    """Measures rounds, and the bare server with as many connections between them. While other work
    on the machine has disturbed too many rounds it measures more: at most `extra`, a share."""
    measured = []
    most = rounds + round(extra * rounds)
    before = bare_once()
    while len(measured) < rounds or (len(measured) < most and count_calm(measured) < rounds):
        run = load_once()
        after = bare_once()
        run["bare_per_s"] = (before["answers_per_s"] + after["answers_per_s"]) / 2
        run["bare"] = {name: statistics.mean((before[name], after[name])) for name in
                       ("answers_per_s", "p50_ms", "p99_ms", "p999_ms", "max_ms")}
        run["disturbed"] = max(part["cpu_shares"]["others"] for part in (before, run, after))
        measured.append(run)
        before = after
    return measured
