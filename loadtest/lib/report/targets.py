"""Reads the aims in targets.toml, and compares figures with them."""

import tomllib

from harness.processes import ROOT
from lib.figures import served_us

with open(ROOT / "loadtest" / "targets.toml", "rb") as text:
    TARGETS = tomllib.load(text)
BARE_P99_MS_MAX = TARGETS.pop("bare_p99_ms_max")
NAMES = {"of_bare": "× bare", "of_other": "× bare ÷ that of", "gained": "× bare of",
         "p50_ms": "p50, ms", "p99_ms": "p99, ms", "p99_of_bare": "p99 ÷ the bare server's",
         "of_without": "accepted orders while others expire ÷ without",
         "p99_of_alone": "p99 beside the hot sale ÷ alone", "grown": "growth of memory",
         "of_alone": "orders beside the flood ÷ alone", "admin_max_ms": "longest PATCH paused, ms",
         "us_of_other": "µs of an order ÷ that of", "of_each": "orders of a pod ÷ those of",
         "ops_max_ms": "longest /readyz, ms", "refused": "calls of other classes refused"}
# The bounds of the other figures are from above.
LEAST = ("of_bare", "of_other", "of_each", "gained", "of_without", "of_alone")


def ratio(name):
    """The bound of a ratio between runs, None when it has none."""
    return TARGETS.get(name, {}).get("of_other")


def bound(run, figure):
    """The bound of one figure of a run, None when it has none."""
    return TARGETS.get(run["settings"]["target"], {}).get(figure)


def bound_text(run, figure):
    value = bound(run, figure)
    return "" if value is None else f"{'≥' if figure in LEAST else '≤'} {value:g}"


def is_judged(run, figure):
    """Times say little where even the bare server is slow, under as much load."""
    bare_p99_ms = run["bare_paced"]["p99_ms"] if "bare_paced" in run else run["bare_p99_ms"]
    return figure not in ("p50_ms", "p99_ms") or bare_p99_ms <= BARE_P99_MS_MAX


def other_of(run, runs):
    """The run that one is compared with, None when that has no figures."""
    wanted = run["settings"]["against"]
    return next((one for one in runs if wanted and one["label"] == wanted), None)


def per_pod(run):
    """Orders a second of each pod."""
    return run["per_s"] / run["settings"]["pods"]


def value_of(run, figure, runs):
    if figure == "us_of_other":
        other = other_of(run, runs)
        return served_us(run) / served_us(other) if other else None
    if figure == "of_each":
        other = other_of(run, runs)
        return per_pod(run) / per_pod(other) if other else None
    if figure in ("of_other", "gained"):
        ratios = [one["of_bare"] for one in (run, other_of(run, runs)) if one]
        if len(ratios) < 2 or 0 in ratios:
            return None
        return ratios[0] / ratios[1] if figure == "of_other" else ratios[1] / ratios[0]
    if figure == "p99_of_bare":
        return run["p99_ms"] / run["bare_paced"]["p99_ms"]
    return run[figure]


def checks(runs, figures=None):
    """(label, figure, value, bound as text, whether it is met or None) of runs with figures; of
    these figures only, if they are named."""
    for run in runs:
        for figure, limit in TARGETS.get(run["settings"]["target"], {}).items():
            value = None if figures and figure not in figures else value_of(run, figure, runs)
            if value is None:
                continue
            met = value >= limit if figure in LEAST else value <= limit
            name = NAMES[figure]
            if figure in ("of_other", "us_of_other", "of_each"):
                name += f" {run['settings']['against']}"
            if figure == "gained":
                name += f" {run['settings']['against']} ÷ this"
            yield (run["label"], name, value, bound_text(run, figure),
                   met if is_judged(run, figure) else None)
