"""Makes the tables of figures in Markdown files anew, between two marks."""

import statistics

from lib.page import ordered, ratio
from lib.results import measured
from lib.story import checks

TABLE_CAMPAIGNS = ("steady", "soldout", "rush", "mixed", "strategies", "latency")
# Campaign, label of the run, and what the short table calls it.
SHORT_ROWS = (
    ("steady", "", "orders accepted, ample stock"),
    ("soldout", "", "orders refused, nothing left"),
    ("mixed", "", "orders among look-ups, payments and cancels"),
    ("strategies", "strategy=segment_lock, max_batch=1", "an order at a time: the classic scheme"),
)
BEGIN = "<!-- made by loadtest/report: begin -->\n"
END = "<!-- made by loadtest/report: end -->\n"


def machine_line(results):
    machine = ordered(results)[0]["machine"]
    return (f"{machine['processor']}, {machine['cores']} cores, everything on it: load generator, "
            "service, Redis, MariaDB with fsync at commit.")


def bare_per_s(results):
    return statistics.median(one["bare_per_s"] for result in results.values()
                             for run in measured(result) for one in run["rounds"])


def short_lines(results):
    """What somebody who has never seen the service wants to know."""
    yield machine_line(results)
    yield ""
    yield "| what | per s | × bare | p99 |"
    yield "|---|---|---|---|"
    yield f"| a bare HTTP server | {bare_per_s(results):,.0f} | 1 | |"
    for name, label, what in SHORT_ROWS:
        for run in measured(results.get(name, {"runs": ()})):
            if run["label"] == label:
                yield (f"| {what} | {run['per_s']:,.0f} | {ratio(run['of_bare'])} | "
                       f"{run['p99_ms']:.1f} ms |")


def table_lines(results):
    yield machine_line(results)
    yield ""
    yield "| campaign | per s | × bare | share of limit | p50 | p99 |"
    yield "|---|---|---|---|---|---|"
    yield f"| bare HTTP server | {bare_per_s(results):,.0f} | 1 | | | |"
    for name in TABLE_CAMPAIGNS:
        for run in measured(results.get(name, {"runs": ()})):
            label = f": {run['label']}" if run["label"] else ""
            yield (f"| {name}{label} | {run['per_s']:,.0f} | {ratio(run['of_bare'])} | "
                   f"{ratio(run['of_limit'])} | {run['p50_ms']:.1f} ms | {run['p99_ms']:.1f} ms |")
    yield ""
    yield "| ratio of × bare | measured | aim |"
    yield "|---|---|---|"
    for what, value, bound, _ in checks(results):
        yield f"| {what} | {value:.2f} | {'' if bound is None else f'≥ {bound}'} |"


def replace_tables(text, lines):
    """The text with the lines in place of what stands between the two marks."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"it has no lines {BEGIN.strip()} and {END.strip()}")
    return before + BEGIN + "\n".join(lines) + "\n" + END + after
