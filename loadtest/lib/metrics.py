"""The service's /metrics: read, added up over daemons, and quantiles from its histograms."""

import re

from harness.daemon import parse_metrics

ERRORS = ("overloaded", "unavailable", "outcome_unknown")


def read(daemon):
    status, text = daemon.ask("GET", "/metrics")
    return parse_metrics(text) if status == 200 else {}


def add(parts):
    names = {name for part in parts for name in part}
    return {name: sum(part.get(name, 0) for part in parts) for name in names}


def outcome(sample, name):
    return sample.get(f'seckill_orders_total{{outcome="{name}"}}', 0)


def outcomes(sample):
    """How many orders had which outcome."""
    pattern = re.compile(r'^seckill_orders_total\{outcome="(\w+)"\}$')
    found = ((pattern.match(name), count) for name, count in sample.items())
    return {match[1]: int(count) for match, count in found if match}


def quantile(sample, name, share):
    """The value below which that share of a histogram lies, evenly spread within its bucket."""
    pattern = re.compile(name + r'_bucket\{le="([^"]+)"\}$')
    found = ((pattern.match(key), count) for key, count in sample.items())
    buckets = sorted((float(match[1]), count) for match, count in found if match)
    if not buckets or buckets[-1][1] <= 0:
        return 0
    wanted, low, below = share * buckets[-1][1], 0, 0
    for high, count in buckets:
        if count >= wanted:
            return low if high == float("inf") else (
                low + (high - low) * (wanted - below) / max(count - below, 1))
        low, below = high, count
    return low
