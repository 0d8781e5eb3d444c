"""Makes the tables of figures in Markdown files anew, between two marks."""

from lib import results as results_of
from lib import targets
from lib.page import ends, ordered
from lib.results import find, measured
from lib.story import checks
from lib.table import bare_rows, ratio

TABLE_CAMPAIGNS = ("around", "steady", "soldout", "rush", "mixed", "strategies", "latency")
# Campaign, label of the run, and what the short table calls it.
SHORT_ROWS = (
    ("steady", "a shop's order", "**orders as a shop sends them: key, limit, time to pay**"),
    ("steady", "bare order", "bare orders, with none of these"),
    ("soldout", "", "orders refused, nothing left"),
    ("around", "GET /stock", "looking at the stock"),
    ("around", "GET /order", "looking at an order"),
    ("around", "pay", "paying"),
    ("around", "cancel, beside 2,000 orders/s", "cancelling, beside 2,000 orders/s"),
    ("mixed", "", "orders among look-ups, payments and cancels"),
    ("strategies", "strategy=segment_lock, max_batch=1", "an order at a time: the classic scheme"),
)
CONNECTIONS = 256  # of the bare server that the tables show
BEGIN = "<!-- made by loadtest/report: begin -->\n"
END = "<!-- made by loadtest/report: end -->\n"


def machine_line(results):
    machine = ordered(results)[0]["machine"]
    return (f"{machine['processor']}, {machine['cores']} cores, everything on it: load generator, "
            "service, Redis, MariaDB with fsync at commit.")


def figures_of(run, interval):
    """The cells that every table has: the figures that flatter never stand alone."""
    us = run["cpu_us"]
    return (f"{run['per_s']:,.0f} | {ratio(run['of_bare'])} | {ends(interval)} | "
            f"{targets.bound_text(run, 'of_bare')} | {run['p50_ms']:.1f} | {run['p99_ms']:.1f} | "
            f"{targets.bound_text(run, 'p99_ms')} | {run['max_ms']:.0f} | {run['unexpected']:,} | "
            f"{run['unanswered']:,} | {run['deferred'].get('unindexed', 0):,} | "
            f"{us['server']:.0f} + {us['mariadb']:.0f} + {us['redis']:.0f}")


def head(first):
    return (f"| {first} | per s | × bare | 99 % interval | aim | p50 ms | p99 ms | aim | max ms | "
            "unexpected | unanswered | unindexed | µs: service + MariaDB + Redis |",
            "|---|---|---|---|---|---|---|---|---|---|---|---|---|")


def bare_line(results):
    runs = [run for result in results.values() for run in measured(result)
            if run["settings"]["connections"] == CONNECTIONS]
    _, per_s, p50, p99, _, most, _, _ = next(bare_rows(runs))
    return (f"| a bare HTTP server | {per_s:,.0f} | 1 | | | {p50:.1f} | {p99:.1f} | | {most:.0f} "
            "| | | | |")


def short_lines(results):
    """What somebody who has never seen the service wants to know."""
    yield machine_line(results)
    yield ""
    yield "| what | per s | × bare | aim | p99 ms | aim | max ms | unanswered |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, label, what in SHORT_ROWS:
        run = find(results, name, label=label)
        if run:
            yield (f"| {what} | {run['per_s']:,.0f} | {ratio(run['of_bare'])} | "
                   f"{targets.bound_text(run, 'of_bare')} | {run['p99_ms']:.1f} | "
                   f"{targets.bound_text(run, 'p99_ms')} | {run['max_ms']:.0f} | "
                   f"{run['unanswered']:,} |")
    _, per_s, _, p99, _, most, _, _ = next(bare_rows(
        [run for result in results.values() for run in measured(result)
         if run["settings"]["connections"] == CONNECTIONS]))
    yield f"| a bare HTTP server | {per_s:,.0f} | 1 | | {p99:.1f} | | {most:.0f} | |"


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
    yield bare_line(results)
    yield ""
    yield "| figure | measured | aim |"
    yield "|---|---|---|"
    for what, value, bound, _ in checks(results):
        yield f"| {what} | {value:.2f} | {bound} |"


def replace_tables(text, lines):
    """The text with the lines in place of what stands between the two marks."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"it has no lines {BEGIN.strip()} and {END.strip()}")
    return before + BEGIN + "\n".join(lines) + "\n" + END + after
