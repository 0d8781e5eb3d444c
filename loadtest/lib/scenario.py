"""Scenario files: what a campaign measures, and what varies in it."""

import itertools
import re
import tomllib

from harness.processes import ROOT, HarnessError

DIRECTORY = ROOT / "loadtest" / "scenarios"
# In the order in which `make campaigns` runs them.
STANDARD = ("around", "steady", "soldout", "rush", "mixed", "strategies", "segments", "batch",
            "locks", "instances", "latency", "growth")
# Those that run only when they are named.
NAMES = (*STANDARD, "bench", "connections", "rules", "fairness", "expiry", "memory",
         "flood", "cluster", "daemons", "pods", "costs")

# A scenario's settings, in [settings] or for some of its runs under [[vary]], with the defaults.
# Beside these, daemon.X sets option X of the service; "default" leaves the option alone.
DEFAULTS = {
    "name": "",                # of the run; by default what varies
    "target": "",              # its entry in targets.toml
    "against": "",             # the run of the campaign whose × bare its own is divided by
    "server": "seckilld",      # or bare_epoll, to see what the HTTP library costs
    "load": "closed",          # closed: every connection sends again once it is answered
                               # rush: closed, to the last unit; paced: at a constant rate
                               # hot, expiring, idle: RUNS in lib/runner.py
    "script": "order",         # of wrk: loadtest/tools/SCRIPT.lua
    "call": "",                # of script "call", or of a flood: look_up, stock, pay, cancel ...
    "connections": 256,
    "seconds": 2,              # of a round
    "rounds": 3,
    "extra_rounds": 1.0,       # at most, as a share of the rounds, when others disturb
    "counts": "accepted",      # what the rate counts: accepted orders, or answers
    "rate_per_s": 0,           # of a paced load; 0: rate_share of the last closed run's rate
    "rate_share": 0.5,
    "flood_connections": 2000,
    "hot_share": 0.9,          # of the connections: those to the hot sale
    "expiring": 100_000,       # orders that expire in a run
    "idle_connections": 5000,
    "beside_per_s": 0,         # orders that others place meanwhile, at a constant rate
    "readers": 0,              # that follow the feed of events meanwhile
    "webhooks": 0,             # that get 1,000 events at a time meanwhile
    "order.keys": False,       # whether orders carry an idempotency key of their own
    "order.users": "10000000",  # how many place orders; "distinct": one for each order
    "sale.total": "ample",     # units, or more than can be sold
    "sale.segments": 20,
    "sale.sales": 1,           # how many there are
    "sale.spread": False,      # whether all of them are asked for, not only the first
    "sale.qty": "1",           # units of an order, or a range such as "1-5"
    "sale.per_user_limit": 0,  # units; 0: no limit
    "sale.pay_within_s": 0,    # 0: orders do not expire
    "sale.hold_max_s": 0,      # 0: reservations are not extended
    "sale.window": False,      # whether the sale has a first and a last moment
    "prefill": 0,              # orders of an earlier sale in the ledger
    "instances": 1,            # daemons
    "proxy": False,            # HAProxy before them
    "pods": 0,                 # of one daemon each, behind the proxy that deploy/ ships
    "redis": "stack",          # or "alone", "cluster": a server of its own, three masters
    "estimate": False,         # whether to measure Redis and the ledger by themselves, too
    "tune_order_workers": [],  # numbers to try, until more do not help; the rounds use the best
}
SHORT_ROUNDS = 3
# Of large ones.
QUICK_DIVISORS = {"prefill": 100, "sale.total": 20, "sale.sales": 10, "expiring": 10}


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
    """Every combination of what each axis lists; what is no list is the same in all of them."""
    keys = list(axes)
    lists = (values if isinstance(values, list) else [values] for values in axes.values())
    for values in itertools.product(*lists):
        yield dict(zip(keys, values))


def label(varied, settings):
    """The label that tells a run from the others of its campaign."""
    return settings["name"] or ", ".join(
        f"{key.rsplit('.', 1)[-1]}={word(settings[key])}" for key in varied
        if key not in ("tune_order_workers", "target"))


def word(value):
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else value


def quicken(settings):
    settings.update(rounds=1, tune_order_workers=settings["tune_order_workers"][:1])
    if settings["load"] == "expiring":
        settings["seconds"] = 4
    elif settings["load"] != "rush":  # which ends by itself
        settings["seconds"] = 1
    for key, divisor in QUICK_DIVISORS.items():
        if isinstance(settings[key], int) and settings[key] >= 100:
            settings[key] //= divisor


def shorten(settings):
    """To compare builds in pairs: rounds of a second fall in the service's first seconds, when its
    rate is higher than it stays."""
    settings["rounds"] = min(settings["rounds"], SHORT_ROUNDS)
    if settings["load"] not in ("rush", "expiring", "idle"):
        settings["seconds"] = min(settings["seconds"], 1)


def expand(name, table, length=None, chosen=None, only=None):
    """A scenario with its runs: [{"label", "varied", "settings"}]."""
    common = flatten(table.get("settings", {}))
    runs = []
    for axes in table.get("vary", [{}]):
        axes = flatten(axes)
        named = [key for key, values in axes.items() if isinstance(values, list)]
        for varied in product(axes):
            settings = {**common, **varied, **(chosen or {})}
            check(name, settings)
            settings = {**DEFAULTS, **settings}
            {"quick": quicken, "short": shorten, None: dict}[length](settings)
            runs.append({"label": label(named, settings), "settings": settings})
    if only:
        runs = [run for run in runs if any(text in run["label"] for text in only)]
    return {"campaign": name, "title": table["title"], "asks": table["asks"],
            "quick": length == "quick",
            "runs": runs}


def parse_setting(text):
    """"rounds=12" as ("rounds", 12), in the syntax of scenario files, but words need no quotes."""
    name, _, value = text.partition("=")
    try:
        value = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        pass
    return name, value


def read(name, length=None, chosen=None, only=None):
    """length: "quick" or "short", else as the scenario says."""
    path = DIRECTORY / f"{name}.toml"
    try:
        with open(path, "rb") as text:
            return expand(name, tomllib.load(text), length, chosen, only)
    except FileNotFoundError:
        raise HarnessError(f"there is no campaign {name}: {', '.join(NAMES)}") from None
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise HarnessError(f"{path}: {error}") from error
