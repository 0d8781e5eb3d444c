"""The figures of a report as JSON, for programs: in the page, and in a file beside it."""

import json

from lib import results as results_of
from lib.report import answers, summary
from lib.report.story import checks

AUDIT = ("consistent", "orders", "oversold", "lost", "told", "untold")
FIGURES = ("per_s", "of_bare", "p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms", "unexpected",
           "unanswered", "cpu_us", "rate_wanted", "of_alone", "of_without", "p99_of_alone", "grown")
DIGITS = 6  # significant ones; no figure is known that well


def shortened(value):
    """Any JSON with its numbers cut to a length that can be read."""
    if isinstance(value, dict):
        return {name: shortened(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [shortened(one) for one in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def run_figures(run, intervals):
    found = {"run": run["label"], "status": run["status"]}
    if "per_s" not in run:
        return {**found, "reason": run["reason"]}
    audit = run["audit"]
    return {**found, **{name: run[name] for name in FIGURES if name in run},
            "of_bare_interval": intervals[run["label"]], "rounds": results_of.round_rates(run),
            "round_s": run["settings"]["seconds"],
            "client": results_of.client_of(run["settings"]),
            "bare_p99_ms": run.get("bare_paced", {}).get("p99_ms", run["bare_p99_ms"]),
            "audit": {name: audit[name] for name in AUDIT if name in audit}}


def campaign_figures(result):
    intervals = results_of.intervals(result)
    return {"campaign": result["campaign"], "title": result["title"], "asks": result["asks"],
            "answer": answers.answer(result), "time": result["time"],
            "revision": result["revision"],
            "runs": [run_figures(run, intervals) for run in result["runs"]]}


def figures(results, machine):
    """results: in the order of the report."""
    names = ("what", "value", "bound", "met")
    return shortened({
        "headline": ": ".join(summary.headline(results)), **summary.audits(results),
        "machine": machine,
        "tiles": {tile["name"]: tile["number"] for tile in summary.tiles(results)},
        "aims": [dict(zip(names, row)) for row in checks(results)],
        "campaigns": [campaign_figures(result) for result in results.values()]})


def in_page(value):
    """As text of a <script>, which no text of a result can end."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
