"""The report as one HTML page that needs nothing beside it: what the template shows."""

from pathlib import Path

import jinja2
from markupsafe import Markup

from lib import plots, scenario
from lib.figures import DISTURBED_SHARE
from lib.results import measured, round_rates
from lib.story import checks

HEAD = ("run", "per s", "rounds", "× bare", "share of limit", "p50 ms", "p99 ms", "p99.9 ms",
        "CPU idle", "audit")
WRONG = ("failed", "audit failed")


def span(run):
    rates = round_rates(run)
    return f"{min(rates):,.0f}–{max(rates):,.0f}"


def ratio(value):
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def run_row(run):
    """A run with figures has `cells` and `audit`; any other has a `reason`."""
    row = {"name": run["label"] or "all", "wrong": run["status"] in WRONG, "cells": None,
           "reason": run["reason"]}
    if "per_s" in run:
        consistent = run["audit"]["consistent"]
        row.update(
            wrong=not consistent,
            audit="ok" if consistent else "; ".join(run["audit"]["differences"]),
            cells=[f"{run['per_s']:,.0f}", span(run), ratio(run["of_bare"]),
                   ratio(run["of_limit"]), f"{run['p50_ms']:.2f}", f"{run['p99_ms']:.2f}",
                   f"{run['p999_ms']:.2f}", f"{run['cpu_shares']['idle']:.0%}"])
    return row


def answers(result):
    """What the mixed campaign was answered, and how often."""
    counts = {}
    for run in measured(result):
        for one in run["rounds"]:
            for answer, count in one.get("answers", {}).items():
                counts[answer] = counts.get(answer, 0) + count
    return sorted(counts.items())


def limit_texts(result):
    """What the runs with each size of batch were compared with."""
    found = {}
    for run in measured(result):
        limits = run["limits"]
        if "batch" in limits:
            found[limits["batch"], limits["clients"]] = limits
    for (batch, clients), limits in sorted(found.items()):
        yield (f"limits with batches of {batch} and {clients} connections: bare HTTP "
               f"{limits['bare_per_s']:,.0f}, Redis {limits['redis_per_s']:,.0f}, inserts "
               f"{limits['insert_per_s']:,.0f} per s; together {limits['combined_per_s']:,.0f}")


def remarks(result):
    """The limits, the numbers of order workers that were tried, and who disturbed."""
    yield from limit_texts(result)
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


def section(result):
    return {"campaign": result["campaign"], "title": result["title"], "asks": result["asks"],
            "plot": Markup(plots.plot(result)), "runs": list(map(run_row, result["runs"])),
            "answers": answers(result), "settings": settings_text(result),
            "remarks": list(remarks(result))}


def audits(results):
    runs = [run for result in results.values() for run in measured(result)]
    return {"run_count": len(runs), "order_count": sum(run["audit"]["orders"] for run in runs),
            "wrong": sum(run["status"] in WRONG for result in results.values()
                         for run in result["runs"])}


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


def ordered(results):
    names = [name for name in scenario.NAMES if name in results]
    return [results[name] for name in names + sorted(set(results) - set(names))]


def page(results):
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
    names = ("what", "value", "bound", "met")
    return environment.get_template("report.html.j2").render(
        **origin(results), **audits(results), overview=Markup(plots.overview(results)),
        checks=[dict(zip(names, row)) for row in checks(results)], run_head=HEAD,
        sections=list(map(section, ordered(results))))
