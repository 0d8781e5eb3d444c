"""The figures of a run's rounds, and the machine that gave them."""

import os
import platform
import re
import statistics
import subprocess
import time
from pathlib import Path

from harness.servers import MYSQLD
from lib import metrics


DISTURBED_SHARE = 0.1


def count_calm(rounds):
    return sum(run["disturbed"] <= DISTURBED_SHARE for run in rounds)


def merge(measured, count):
    """One campaign's figures from its `count` least disturbed rounds."""
    runs = sorted(measured, key=lambda run: run["disturbed"])[:count]
    duration_s = sum(run["duration_s"] for run in runs)
    merged = {name: statistics.median(run[name] for run in runs)
              for name in ("p50_ms", "p90_ms", "p99_ms", "p999_ms")}
    for name in ("requests", "accepted_seen"):
        merged[name] = sum(run[name] for run in measured)
    for name in ("answers_per_s", "accepted_per_s"):
        merged[name] = sum(run[name] * run["duration_s"] for run in runs) / duration_s
    merged["errors"] = {kind: sum(run["errors"][kind] for run in measured)
                        for kind in runs[0]["errors"]}
    merged["cpu_shares"] = {who: statistics.mean(run["cpu_shares"][who] for run in runs)
                            for who in runs[0]["cpu_shares"]}
    merged.update(connections=runs[0]["connections"], max_ms=max(run["max_ms"] for run in runs),
                  disturbed=max(run["disturbed"] for run in runs), rounds=runs,
                  rounds_measured=len(measured))
    return merged


def complete(result, settings):
    """Adds what follows from the rounds: the rate that counts, its mean ratio to the bare server
    around each round, what went wrong, the processor time of an answer."""
    rate = f"{settings['counts']}_per_s"
    ratios = [run[rate] / run["bare_per_s"] for run in result["rounds"]]
    result["per_s"] = result[rate]
    result["of_bare"] = statistics.mean(ratios)
    result["of_bare_rounds"] = [min(ratios), max(ratios)]
    result["bare_p99_ms"] = statistics.median(run["bare"]["p99_ms"] for run in result["rounds"])
    result["unexpected"] = unexpected(result, settings)
    result["unanswered"] = sum(count for kind, count in result["errors"].items()
                               if kind != "status")
    result["cpu_us"] = cpu_us(result)
    if "bare_paced" in result["rounds"][0]:
        result["bare_paced"] = {
            name: statistics.median(run["bare_paced"][name] for run in result["rounds"])
            for name in ("p50_ms", "p99_ms", "p999_ms", "max_ms")}


def outcomes_but(result, *expected):
    return sum(count for name, count in metrics.outcomes(result["metrics"]).items()
               if name not in expected)


def unexpected(result, settings):
    """How many answers were others than the load asks for. A mixed load provokes refusals."""
    if settings["script"] == "mixed":
        return sum(count for run in result["rounds"] for answer, count in run["answers"].items()
                   if answer >= "500")
    if settings["load"] in ("rush", "expiring"):  # both come to the last unit
        return outcomes_but(result, "accepted", "sold_out")
    if settings["script"] == "order" and settings["counts"] == "answers":
        return outcomes_but(result, "sold_out")
    return result["errors"]["status"]


def cpu_us(result):
    """Microseconds of processor time of each of our processes for an answer, those to other loads
    beside this one included."""
    cores = len(os.sched_getaffinity(0))
    beside = [run[other]["answers_per_s"] for run in result["rounds"]
              for other in ("beside", "hot", "flood") if other in run]
    per_s = result["answers_per_s"] + sum(beside) / len(result["rounds"])
    return {name: share * cores * 1e6 / max(per_s, 1)
            for name, share in result["cpu_shares"].items() if name != "others"}


def served_us(run):
    """Microseconds of the service and its servers for an answer, without load and idle time."""
    return sum(run["cpu_us"][name] for name in ("server", "mariadb", "redis"))


def audit_text(result):
    return "ok" if result["audit"]["consistent"] else "FAILED"


def first_line(*argv):
    try:
        done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except OSError:
        return ""
    return (done.stdout or done.stderr).strip().split("\n")[0]


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        found = re.search(r"^model name\s*: (.*)$", lines.read(), re.M)
    return found[1] if found else platform.machine()


def describe(args, stack):
    """Where and how the figures were measured. The revision is that of the tree which the service
    was built in."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    git = ("git", "-C", str(Path(args.daemon).resolve().parent))
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "revision": first_line(*git, "rev-parse", "HEAD"),
        "changed_files": bool(first_line(*git, "status", "--porcelain")),
        "machine": {"processor": processor(), "cores": len(os.sched_getaffinity(0)),
                    "memory_gib": round(memory_gib, 1), "kernel": platform.release(),
                    "data_on": first_line("stat", "-f", "-c", "%T", stack.directory)},
        "versions": {"seckilld": first_line(args.daemon, "--version"),
                     "redis": first_line("redis-server", "--version"),
                     "mariadb": first_line(MYSQLD, "--version"),
                     "wrk": first_line("wrk", "-v")},
        "configuration": {name: str(value) if isinstance(value, Path) else value
                          for name, value in vars(args).items()}}
