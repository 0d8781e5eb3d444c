"""The report as one HTML page that needs nothing beside it: what the template shows."""

import functools
import re
from pathlib import Path

import jinja2
from markupsafe import Markup

from lib import results as results_of
from lib.figures import DISTURBED_SHARE, served_us
from lib.report import answers, export, plots, summary, targets
from lib.report.story import checks
from lib.report.table import bare_rows, ends, ms, of_bare, ordered, ratio
from lib.results import measured, round_rates

HEAD = ("run", "per s", "× bare", "99 % interval", "aim", "p50 ms", "p99 ms", "aim", "max ms",
        "unexpected", "unanswered", "µs", "audit")
MORE_HEAD = ("run", "rounds, per s", "p99.9 ms", "service µs", "MariaDB µs",
             "Redis µs", "CPU idle", "× serial estimate")
WRONG = summary.WRONG


def span(run):
    rates = round_rates(run)
    return f"{min(rates):,.0f}–{max(rates):,.0f}"


def cells(run, interval):
    """The figures that flatter never stand alone."""
    return [f"{run['per_s']:,.0f}", of_bare(run), of_bare(run) and ends(interval),
            targets.bound_text(run, "of_bare"), ms(run["p50_ms"]), ms(run["p99_ms"]),
            targets.bound_text(run, "p99_ms"), ms(run["max_ms"]), f"{run['unexpected']:,}",
            f"{run['unanswered']:,}", f"{served_us(run):.0f}"]


def more_cells(run):
    us = run["cpu_us"]
    return [run["label"] or "all", span(run), ms(run["p999_ms"]),
            f"{us['server']:.1f}", f"{us['mariadb']:.1f}", f"{us['redis']:.1f}",
            f"{run['cpu_shares']['idle']:.0%}",
            ratio(run["of_serial"]) if "of_serial" in run else ""]


def run_row(run, intervals):
    """A run with figures has `cells` and `audit`; any other has a `reason`."""
    row = {"name": run["label"] or "all", "wrong": run["status"] in WRONG, "cells": None,
           "reason": run["reason"]}
    if "per_s" in run:
        consistent = run["audit"]["consistent"]
        row.update(
            wrong=not consistent,
            audit="ok" if consistent else "; ".join(run["audit"]["differences"]),
            cells=cells(run, intervals[run["label"]]))
    return row


def answer_counts(result):
    """The answers to the mixed campaign, with their counts."""
    counts = {}
    for run in measured(result):
        for one in run["rounds"]:
            for answer, count in one.get("answers", {}).items():
                counts[answer] = counts.get(answer, 0) + count
    return sorted(counts.items())


def serial_texts(result):
    """The parts of the serial estimate, for each size of batch."""
    found = {}
    for run in measured(result):
        serial = run.get("serial", {})
        if "batch" in serial:
            found[serial["batch"], serial["clients"]] = serial
    for (batch, clients), serial in sorted(found.items()):
        yield (f"serial estimate with batches of {batch} and {clients} connections: bare HTTP "
               f"{serial['bare_per_s']:,.0f}, Redis {serial['redis_per_s']:,.0f}, inserts "
               f"{serial['insert_per_s']:,.0f} per s; one after the other "
               f"{serial['combined_per_s']:,.0f}")


def bare_texts(result):
    for connections, client, *rates, most, low, high in bare_rows(measured(result)):
        per_s, p50, p99, p999 = rates
        yield (f"bare HTTP server, {connections:,} connections, {client}: {per_s:,.0f} per s "
               f"({low:,.0f}–{high:,.0f}), p50 {ms(p50)} ms, p99 {ms(p99)} ms, p99.9 {ms(p999)} "
               f"ms, max {ms(most)} ms")
    for run in measured(result):
        if "bare_paced" in run:
            bare = run["bare_paced"]
            yield (f"bare HTTP server at {run['rate_wanted']:,.0f} per s: p50 {ms(bare['p50_ms'])}"
                   f" ms, p99 {ms(bare['p99_ms'])} ms, p99.9 {ms(bare['p999_ms'])} ms, max "
                   f"{ms(bare['max_ms'])} ms")


def remarks(result):
    """The bare server, the serial estimate, numbers of order workers tried, who disturbed."""
    yield from bare_texts(result)
    yield from serial_texts(result)
    for run in measured(result):
        if run.get("probes"):
            tried = ", ".join(f"{count}: {rate:,.0f}" for count, rate in run["probes"].items())
            yield f"{run['label']}: orders/s by order workers tried: {tried}"
    disturbed = [f"{run['label'] or 'all'} (up to {run['disturbed']:.0%})"
                 for run in measured(result) if run["disturbed"] > DISTURBED_SHARE]
    if disturbed:
        yield f"rough figures, as others used the processors: {'; '.join(disturbed)}"


def settings_text(result):
    runs = measured(result) or result["runs"]
    first = runs[0]["settings"]
    counts = sorted({len(run.get("rounds", ())) for run in runs})
    return (f"{first['connections']} connections; rounds that count: "
            f"{'–'.join(map(str, counts))} of {first['seconds']} s"
            f"{' at most' if first['load'] == 'rush' else ''}; make campaign "
            f"NAME={result['campaign']}")


def unbroken(text):
    """Keeps a number and its unit on one line."""
    return re.sub(r" (?=(%|×|ms|s|µs)\b|%|×)", "\u00a0", text)


def section(result):
    intervals = results_of.intervals(result)
    return {"campaign": result["campaign"], "title": result["title"], "asks": result["asks"],
            "answer": unbroken(answers.answer(result)), "plot": Markup(plots.plot(result)),
            "runs": [run_row(run, intervals) for run in result["runs"]],
            "more": [more_cells(run) for run in measured(result)],
            "answers": answer_counts(result), "settings": settings_text(result),
            "remarks": list(remarks(result))}


def origin(results):
    """Where and when."""
    first = min(results.values(), key=lambda result: result["time"])
    others = len({result["revision"] for result in results.values()}) - 1
    revision = first["revision"][:12]
    if first["changed_files"]:
        revision += ", with changes"
    if others:
        revision += f" and {others} other revisions"
    return {"machine": first["machine"], "time": first["time"], "revision": revision,
            "versions": "; ".join(filter(None, first["versions"].values())),
            "quick": any(result["quick"] for result in results.values()),
            "took_min": f"{sum(result.get('took_s', 0) for result in results.values()) / 60:.0f}"}


def aims(results):
    names = ("what", "value", "bound", "met")
    rows = [dict(zip(names, row)) for row in checks(results)]
    return {"checks": rows, "aim_count": sum(bool(row["bound"]) for row in rows),
            "aims_met": sum(bool(row["bound"] and row["met"]) for row in rows)}


def figures(results):
    """All figures of the page, for programs."""
    where = origin(results)
    return export.figures({result["campaign"]: result for result in ordered(results)},
                          where["machine"])


@functools.cache
def template():
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
    return environment.get_template("report.html.j2")


def page(results):
    return template().render(
        **origin(results), **summary.audits(results), **aims(results),
        headline=summary.headline(results), tiles=summary.tiles(results),
        overview=Markup(plots.overview(results)), run_head=HEAD, more_head=MORE_HEAD,
        sections=list(map(section, ordered(results))),
        figures=Markup(export.in_page(figures(results))),
        bare_p99_ms_max=targets.BARE_P99_MS_MAX)
