"""What a bench prints in the end: the table, the required ratios, the raw figures as JSON."""

import json
import os
import platform
import re
import statistics
import subprocess
import time
from pathlib import Path

from harness.processes import ROOT


LINE = "{:<24} {:>5} {:>9} {:>7} {:>8} {:>8} {:>8}  {}".format
HEAD = ("campaign, connections", "workers", "orders/s", "× bare", "p50 ms", "p99 ms",
        "accepted", "audit")
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


def add_ratio(result):
    add_rate(result, "answers" if result["campaign"] == "sold-out" else "accepted")


def add_rate(result, counts):
    """Names the rate of accepted orders, or of answers, and its mean ratio to the bare server
    around each round."""
    rate = f"{counts}_per_s"
    result["per_s"] = result[rate]
    result["of_bare"] = statistics.mean(run[rate] / run["bare_per_s"] for run in result["rounds"])


def option_text(options):
    return " ".join(f"{name}={value}" for name, value in options.items())


def audit_text(result):
    return "ok" if result["audit"]["consistent"] else "FAILED"


def error_text(result):
    """What went wrong besides answers that refuse; '' when nothing did."""
    counts = {name: n for name, n in result["errors"].items() if n and name != "status"}
    expected = {"sold_out"} if result["campaign"] == "sold-out" else {"accepted"}
    counts.update((name, n) for name, n in result["outcomes"].items()
                  if n and name not in expected)
    return ", ".join(f"{n} {name}" for name, n in counts.items())


def print_bare(runs):
    for connections in sorted({run["connections"] for run in runs}):
        same = [run for run in runs if run["connections"] == connections]
        rates = [run["answers_per_s"] for run in same]
        p50_ms, p99_ms = (statistics.median(run[name] for run in same)
                          for name in ("p50_ms", "p99_ms"))
        print(LINE(f"bare server, {connections}", "", f"{statistics.median(rates):.0f}", "1",
                   f"{p50_ms:.2f}", f"{p99_ms:.2f}", "",
                   f"({len(rates)} runs, {min(rates):.0f} to {max(rates):.0f})"))


def print_results(results):
    for result in results:
        workers = result["options"].get("order_workers", "")
        print(LINE(f"{result['campaign']}, {result['connections']}", workers,
                   f"{result['per_s']:.0f}", f"{result['of_bare']:.2f}",
                   f"{result['p50_ms']:.2f}", f"{result['p99_ms']:.2f}",
                   result["accepted_seen"], audit_text(result)))


def print_cpu(results):
    """Prints the processor time of an answer, which is steadier than rates on a shared machine."""
    line = "{:<24} {:>8} {:>8} {:>8} {:>8}   {:>6} {:>6}".format
    cores = len(os.sched_getaffinity(0))
    print("\n" + line("CPU µs an answer", "server", "mariadb", "redis", "wrk", "idle", "others"))
    for result in results:
        shares = result["cpu_shares"]
        us = [f"{shares[name] * cores * 1e6 / result['answers_per_s']:.1f}"
              for name in ("server", "mariadb", "redis", "wrk")]
        print(line(f"{result['campaign']}, {result['connections']}", *us,
                   f"{shares['idle']:.0%}", f"{shares['others']:.0%}"))


def print_disturbance(results):
    """Tells when others had much of the machine, for then no figure means much."""
    disturbed = [result for result in results if result["disturbed"] > DISTURBED_SHARE]
    if disturbed:
        print("\nrough figures, as others used the processors: " + ", ".join(
            f"{result['campaign']} {result['connections']} (up to {result['disturbed']:.0%})"
            for result in disturbed))


def print_notes(results):
    for result in results:
        name = f"{result['campaign']}, {result['connections']}"
        if error_text(result):
            print(f"{name}: besides, {error_text(result)}")
        if "probes" in result:
            tried = ", ".join(f"{workers}: {rate:.0f}"
                              for workers, rate in result["probes"].items())
            print(f"{name}: orders/s by order workers tried: {tried}")
        for difference in result["audit"]["differences"]:
            print(f"{name}: AUDIT: {difference}")


def requirements(results):
    """(what, value, bound, met) for each that these results can answer; results by campaign, the
    one with most connections last."""
    of = {result["campaign"]: result for result in results}
    accepted = of.get("accepted")
    if accepted:
        yield at_least("accepted orders ÷ bare server", accepted["of_bare"], 0.5)
    if "sold-out" in of:
        yield at_least("sold-out answers ÷ bare server", of["sold-out"]["of_bare"], 0.85)
    for name, bound in (("literal", 5), ("single-lock", 15)):
        if accepted and name in of:
            slow = of[name]["per_s"]
            ratio = accepted["per_s"] / slow if slow > 0 else 0  # a rate of 0 is no slow sale
            yield at_least(f"accepted orders ÷ {name}", ratio, bound)
    if accepted:
        p99_ms = accepted["p99_ms"]
        yield ("p99 of accepted orders, ms", p99_ms, "≤ 10", p99_ms <= 10)


def at_least(what, value, bound):
    return what, value, f"≥ {bound}", value >= bound


def print_requirements(rows, connections):
    print(f"\nrequired with {connections} connections")
    for what, value, bound, met in rows:
        print(f"  {what:<32} {value:7.2f}   {bound:<7} {'ok' if met else 'NOT OK'}")


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
    """Where and how the figures were measured."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    git = ("git", "-C", str(ROOT))
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "revision": first_line(*git, "rev-parse", "HEAD"),
        "changed_files": bool(first_line(*git, "status", "--porcelain")),
        "machine": {"processor": processor(), "cores": len(os.sched_getaffinity(0)),
                    "memory_gib": round(memory_gib, 1), "kernel": platform.release(),
                    "data_on": first_line("stat", "-f", "-c", "%T", stack.directory)},
        "versions": {"seckilld": first_line(args.daemon, "--version"),
                     "redis": first_line("redis-server", "--version"),
                     "mariadb": first_line("mariadbd", "--version"),
                     "wrk": first_line("wrk", "-v")},
        "configuration": {name: str(value) if isinstance(value, Path) else value
                          for name, value in vars(args).items()}}


def report(bench, description):
    """Prints everything; the exit status of the bench."""
    results = bench.results
    rows = list(requirements(results))
    machine = description["machine"]
    print(f"{machine['processor']}, {machine['cores']} cores, rounds of {bench.args.seconds} s, "
          f"wrk threads: {bench.args.threads}\n")
    print(LINE(*HEAD))
    print_bare(bench.bare_runs)
    print_results(results)
    print_notes(results)
    print_cpu([{"campaign": "bare server", **run} for run in bench.bare_runs[-1:]] + results)
    print_disturbance(results)
    if rows:
        print_requirements(rows, max(bench.args.connections))
    if bench.args.json:
        names = ("what", "value", "bound", "met")
        bench.args.json.write_text(json.dumps(
            {**description, "bare_runs": bench.bare_runs, "results": results,
             "required": [dict(zip(names, row)) for row in rows]}, indent=1) + "\n")
    audits_failed = not all(result["audit"]["consistent"] for result in results)
    missed = not all(met for *_, met in rows)
    return 1 if audits_failed or (bench.args.strict and missed) else 0
