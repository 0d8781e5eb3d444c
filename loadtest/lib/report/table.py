"""The table that a campaign prints: a row for each run, its bare servers, its targets."""

import statistics

from lib import figures, scenario
from lib.report import targets
from lib.results import client_of

COLUMNS = (  # of a row: head, width
    ("campaign, run", -46), ("per s", 8), ("× bare", 7), ("rounds", 12), ("aim", 7),
    ("p50 ms", 7), ("p99 ms", 7), ("aim", 6), ("p99.9", 7), ("max ms", 7), ("unexp.", 7),
    ("unansw.", 7), ("service", 8), ("MariaDB", 8), ("Redis", 6))
LEGEND = """\
× bare: rate ÷ that of the bare server around each round, which the same client asks; rounds: lowest
to highest of them.
unexp.: answers other than the run wants; unansw.: connections closed without an answer, and answers
later than 2 s; service, MariaDB, Redis: processor time of an answer in µs."""


def line(*cells):
    return " ".join(f"{cell:<{-width}}" if width < 0 else f"{cell:>{width}}"
                    for cell, (_, width) in zip(cells, COLUMNS)).rstrip()


def head():
    return line(*(name for name, _ in COLUMNS)) + "  audit"


def ratio(value):
    return f"{value:.2f}" if value >= 0.095 else f"{value:.3f}"


def ms(value):
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def of_bare(run):
    """'' for a constant rate, which the load chose and not the service."""
    return "" if run["settings"]["load"] == "paced" else ratio(run["of_bare"])


def figure_cells(run):
    low, high = run["of_bare_rounds"]
    us = run["cpu_us"]
    return (f"{run['per_s']:,.0f}", of_bare(run),
            of_bare(run) and f"{ratio(low)}–{ratio(high)}",
            targets.bound_text(run, "of_bare"), ms(run["p50_ms"]), ms(run["p99_ms"]),
            targets.bound_text(run, "p99_ms"), ms(run["p999_ms"]), ms(run["max_ms"]),
            run["unexpected"], run["unanswered"],
            f"{us['server']:.1f}", f"{us['mariadb']:.1f}", f"{us['redis']:.1f}")


def print_run(name, run):
    what = f"{name}: {run['label']}" if run["label"] else name
    if run["status"] == "not available":
        print(line(what) + f"  not available in this build: {run['reason']}", flush=True)
    elif run["status"] == "failed":
        print(line(what) + f"  FAILED: {run['reason']}", flush=True)
    else:
        disturbed = "" if run["disturbed"] <= figures.DISTURBED_SHARE else (
            f" (others used up to {run['disturbed']:.0%} of the processors)")
        print(f"{line(what, *figure_cells(run))}  {figures.audit_text(run)}{disturbed}", flush=True)
        for difference in run["audit"]["differences"]:
            print(f"  AUDIT: {difference}", flush=True)


def bare_rows(runs):
    """(connections, what its client sends, rate, p50, p99, p99.9, max, lowest and highest rate) of
    the bare server."""
    kinds = {}
    for run in runs:
        kind = run["settings"]["connections"], client_of(run["settings"])
        kinds.setdefault(kind, []).extend(one["bare"] for one in run["rounds"])
    for (connections, client), same in sorted(kinds.items()):
        rates = [one["answers_per_s"] for one in same]
        yield (connections, client, statistics.median(rates),
               *(statistics.median(one[name] for one in same)
                 for name in ("p50_ms", "p99_ms", "p999_ms")),
               max(one["max_ms"] for one in same), min(rates), max(rates))


def print_bare(name, runs):
    for connections, client, per_s, p50, p99, p999, most, low, high in bare_rows(runs):
        cells = f"{per_s:,.0f}", "1", "", "", ms(p50), ms(p99), "", ms(p999), ms(most)
        what = f"bare libmicrohttpd, {connections:,}: {client}"
        print(f"{line(what, *cells)}  ({low:,.0f} to {high:,.0f} per s)")
    for run in runs:
        if "bare_paced" in run:
            bare = run["bare_paced"]
            print(line(f"{name}: bare libmicrohttpd, {run['rate_wanted']:,.0f}/s",
                       f"{run['rate_wanted']:,.0f}", "", "", "", ms(bare["p50_ms"]),
                       ms(bare["p99_ms"]), "", ms(bare["p999_ms"]), ms(bare["max_ms"])))


FLOOD = "{:<46} {:>9} {:>8} {:>12} {:>9} {:>9} {:>14} {:>10} {:>14} {:>10} {:>8}".format


def print_flood(name, runs):
    """The probes of the runs that have some."""
    floods = [run for run in runs if "probed" in run]
    if floods:
        print(FLOOD("flood of", "per s", "refused", "orders:", "p99 ms", "p99 ms",
                    "PATCH paused:", "", "/readyz:", "", "refused"))
        print(FLOOD("", "", "", "÷ alone", "alone", "beside", "p50 ms", "max ms", "p50 ms",
                    "max ms", "besides"))
    for run in floods:
        admin, ops = run["probed"]["admin"], run["probed"]["ops"]
        print(FLOOD(f"{name}: {run['label']}", f"{run['flood_per_s']:,.0f}",
                    f"{run['flood_refused']:.0%}", f"{run['of_alone']:.2f}",
                    ms(run["alone_p99_ms"]), ms(run["p99_ms"]),
                    ms(admin["p50_ms"]), ms(admin["max_ms"]),
                    ms(ops["p50_ms"]), ms(ops["max_ms"]), run["refused"]))


def print_checks(name, runs):
    """Returns the number of targets that were missed."""
    rows = list(targets.checks(runs))
    verdicts = {True: "ok", False: "MISSED", None: "not judged: the bare server's p99 is above "
                f"{targets.BARE_P99_MS_MAX} ms"}
    for label, figure, value, bound, met in rows:
        print(f"  {f'{label}: {figure}' if label else f'{name}: {figure}':<72} {value:8.3f}   "
              f"{bound:<7} {verdicts[met]}")
    return sum(met is False for *_, met in rows)


def ends(interval):
    return "" if interval is None else "–".join(map(ratio, interval))


def ordered(results):
    names = [name for name in scenario.NAMES if name in results]
    return [results[name] for name in names + sorted(set(results) - set(names))]
