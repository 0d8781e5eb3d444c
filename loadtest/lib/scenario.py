"""Scenario files: what a campaign measures, and what varies in it."""

import itertools
import re
import tomllib

from harness.processes import ROOT, HarnessError

DIRECTORY = ROOT / "loadtest" / "scenarios"
# In the order in which `make campaigns` runs them.
NAMES = ("steady", "soldout", "rush", "mixed", "strategies", "segments", "batch", "locks",
         "instances", "latency", "growth")

# What a scenario may set, in [settings] or for some of its runs under [[vary]], with the defaults.
# Beside these, daemon.X sets option X of the service; "default" leaves the option alone.
DEFAULTS = {
    "load": "closed",          # closed: every connection sends again once it is answered
                               # rush: closed, to the last unit; paced: rate_share of the peak
    "script": "order",         # of wrk: loadtest/tools/SCRIPT.lua
    "connections": 256,
    "seconds": 2,              # of a round
    "rounds": 3,
    "counts": "accepted",      # what the rate counts: accepted orders, or answers
    "record": False,           # whether every acknowledged order's id is looked for in the ledger
    "rate_share": 0.5,         # of the peak that the campaign's last closed run has found
    "sale.total": "ample",     # units, or more than can be sold
    "sale.segments": 20,
    "sale.sales": 1,           # how many there are
    "sale.spread": False,      # whether all of them are asked for, not only the first
    "sale.qty": "1",           # units of an order, or a range such as "1-5"
    "prefill": 0,              # orders of an earlier sale in the ledger
    "instances": 1,            # daemons
    "proxy": False,            # HAProxy before them
    "tune_order_workers": [],  # numbers to try; the measured rounds use the best
}
QUICK_DIVISORS = {"prefill": 100, "sale.total": 20, "sale.sales": 10}  # of large ones


def flatten(table, prefix=""):
    """{"a": {"b": 1}} as {"a.b": 1}"""
    flat = {}
    for name, value in table.items():
        if isinstance(value, dict):
            flat.update(flatten(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat


def check(name, settings):
    for key in settings:
        if key not in DEFAULTS and not re.fullmatch(r"daemon\.[a-z_]+", key):
            raise HarnessError(f"scenario {name}: there is no setting {key}")


def product(axes):
    """Every combination of what each axis lists."""
    keys = list(axes)
    for values in itertools.product(*axes.values()):
        yield dict(zip(keys, values))


def label(varied, settings):
    """What tells a run from the others of its campaign."""
    return ", ".join(f"{key.rsplit('.', 1)[-1]}={word(settings[key])}" for key in varied
                     if key != "tune_order_workers")


def word(value):
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else value


def quicken(settings):
    settings.update(rounds=1, tune_order_workers=settings["tune_order_workers"][:1])
    if settings["load"] != "rush":  # which ends by itself
        settings["seconds"] = 1
    for key, divisor in QUICK_DIVISORS.items():
        if isinstance(settings[key], int) and settings[key] >= 100:
            settings[key] //= divisor


def expand(name, table, quick=False):
    """A scenario with its runs: [{"label", "varied", "settings"}]."""
    common = flatten(table.get("settings", {}))
    runs = []
    for axes in table.get("vary", [{}]):
        for varied in product(flatten(axes)):
            check(name, {**common, **varied})
            settings = {**DEFAULTS, **common, **varied}
            if quick:
                quicken(settings)
            runs.append({"label": label(varied, settings), "settings": settings})
    return {"campaign": name, "title": table["title"], "asks": table["asks"], "quick": quick,
            "runs": runs}


def read(name, quick=False):
    path = DIRECTORY / f"{name}.toml"
    try:
        with open(path, "rb") as text:
            return expand(name, tomllib.load(text), quick)
    except FileNotFoundError:
        raise HarnessError(f"there is no campaign {name}: {', '.join(NAMES)}") from None
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise HarnessError(f"{path}: {error}") from error
