"""Makes the tables of figures in Markdown files anew, between two marks."""

import re

from lib import results as results_of
from lib.report import targets
from lib.report.page import ends, ordered
from lib.report.story import checks
from lib.report.table import bare_rows, ratio
from lib.results import find, measured

TABLE_CAMPAIGNS = ("around", "steady", "soldout", "rush", "mixed", "strategies", "latency")
# Campaign, label of the run, and what the short table calls it.
SHORT_ROWS = (
    ("around", "a shop's order", "**orders as a shop sends them: key, limit, time to pay**"),
    ("around", "bare order", "bare orders, with none of these"),
    ("soldout", "", "orders refused, nothing left"),
    ("around", "GET /stock", "looking at the stock"),
    ("around", "GET /order", "looking at an order"),
    ("around", "pay", "paying"),
    ("around", "cancel, beside 2,000 orders/s", "cancelling, beside 2,000 orders/s"),
    ("around", "mixed", "orders among look-ups, payments and cancels"),
    ("strategies", "strategy=segment_lock, max_batch=1", "an order at a time: the classic scheme"),
)
HEADLINE = "around", "a shop's order"
CONNECTIONS = 256  # of the bare server that the tables show
BEGIN = "<!-- made by loadtest/report: begin -->\n"
END = "<!-- made by loadtest/report: end -->\n"


def machine_line(results):
    machine = ordered(results)[0]["machine"]
    return (f"{machine['processor']}, {machine['cores']} cores, everything on it: load generator, "
            "service, Redis, MariaDB with fsync at commit.")


def processor_us(run):
    us = run["cpu_us"]
    return f"{us['server']:.0f} + {us['mariadb']:.0f} + {us['redis']:.0f}"


def figures_of(run, interval):
    """The cells that every table has: the figures that flatter never stand alone."""
    return (f"{run['per_s']:,.0f} | {ratio(run['of_bare'])} | {ends(interval)} | "
            f"{targets.bound_text(run, 'of_bare')} | {run['p50_ms']:.1f} | {run['p99_ms']:.1f} | "
            f"{targets.bound_text(run, 'p99_ms')} | {run['max_ms']:.0f} | {run['unexpected']:,} | "
            f"{run['unanswered']:,} | {processor_us(run)}")


def head(first):
    return (f"| {first} | per s | × bare | 99 % interval | aim | p50 ms | p99 ms | aim | max ms | "
            "unexpected | unanswered | µs: service + MariaDB + Redis |",
            "|---" * 12 + "|")


def bare_line(results):
    runs = [run for result in results.values() for run in measured(result)
            if run["settings"]["connections"] == CONNECTIONS]
    for _, per_s, p50, p99, _, most, _, _ in bare_rows(runs):
        yield (f"| a bare HTTP server | {per_s:,.0f} | 1 | | | {p50:.1f} | {p99:.1f} | | "
               f"{most:.0f} | | | |")


def short_lines(results):
    """The short table, for a reader who has never seen the service."""
    yield machine_line(results)
    yield ""
    yield from head("what")
    for name, label, what in SHORT_ROWS:
        run = find(results, name, label=label)
        if run:
            interval = results_of.intervals(results[name])[run["label"]]
            yield f"| {what} | {figures_of(run, interval)} |"
    yield from bare_line(results)


def table_lines(results):
    yield machine_line(results)
    yield ""
    yield from head("campaign")
    for name in TABLE_CAMPAIGNS:
        result = results.get(name, {"runs": ()})
        intervals = results_of.intervals(result)
        for run in measured(result):
            label = f": {run['label']}" if run["label"] else ""
            yield f"| {name}{label} | {figures_of(run, intervals[run['label']])} |"
    yield from bare_line(results)
    yield ""
    yield "| figure | measured | aim |"
    yield "|---|---|---|"
    for what, value, bound, _ in checks(results):
        yield f"| {what} | {value:.2f} | {bound} |"


def replace_headline(text, results):
    """The text with the rate of a shop's orders in the one sentence that names it."""
    run = find(results, *HEADLINE)
    if run is None:
        return text
    rate = f"**{run['per_s'] // 1000 * 1000:,.0f} orders a second**"
    made, count = re.subn(r"\*\*[\d,]+ orders a second\*\*", rate, text)
    if count != 1:
        raise ValueError(f"it has {count} sentences with **N orders a second**, not one")
    return made


def replace_tables(text, lines):
    """The text with the lines in place of what stands between the two marks."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"it has no lines {BEGIN.strip()} and {END.strip()}")
    return before + BEGIN + "\n".join(lines) + "\n" + END + after
