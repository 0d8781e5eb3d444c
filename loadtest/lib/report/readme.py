"""Makes the tables of figures in Markdown files anew, between two marks."""

import textwrap

from lib import results as results_of
from lib.report import cited, summary, targets
from lib.report.story import checks
from lib.report.table import bare_rows, ends, of_bare, ordered
from lib.results import find, measured

TABLE_CAMPAIGNS = ("around", "steady", "soldout", "rush", "mixed", "strategies", "latency")
# Campaign, label of the run, and what the short table calls it.
SHORT_ROWS = (
    ("steady", "a shop's order", "**orders as a shop sends them, in long rounds**"),
    ("around", "a shop's order", "orders as a shop sends them: key, limit, time to pay"),
    ("around", "bare order", "bare orders, with none of these"),
    ("soldout", "", "orders refused, nothing left"),
    ("around", "GET /stock", "looking at the stock"),
    ("around", "GET /order", "looking at an order"),
    ("around", "pay", "paying"),
    ("around", "cancel, beside 2,000 orders/s", "cancelling, beside 2,000 orders/s"),
    ("around", "mixed", "orders among look-ups, payments and cancels"),
    ("strategies", "strategy=segment_lock, max_batch=1", "an order at a time: the classic scheme"),
)
# Of every row that these tables show: rates fall in the first seconds of a load.
ROUNDS_MIN, SECONDS_MIN = 5, 5
FIGURE_CELLS = {"per_s": 0, "of_bare": 1, "p50_ms": 4, "p99_ms": 5}  # of a row, after its name
VERDICTS = {True: "met", False: "**missed**", None: "not judged"}
COLUMNS = 100
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


def wrapped(text):
    return textwrap.wrap(text, COLUMNS, break_long_words=False, break_on_hyphens=False)


def figures_of(run, interval):
    """The cells that every table has: the figures that flatter never stand alone."""
    return (f"{run['per_s']:,.0f} | {of_bare(run)} | {of_bare(run) and ends(interval)} | "
            f"{targets.bound_text(run, 'of_bare')} | {run['p50_ms']:.1f} | {run['p99_ms']:.1f} | "
            f"{targets.bound_text(run, 'p99_ms')} | {run['max_ms']:.0f} | {run['unexpected']:,} | "
            f"{run['unanswered']:,} | {processor_us(run)}")


def head(first):
    return (f"| {first} | per s | × bare | 99 % interval | aim | p50 ms | p99 ms | aim | max ms | "
            "unexpected | unanswered | µs: service + MariaDB + Redis |",
            "|---" * 12 + "|")


def bare_lines(results, clients=None):
    """The bare server, by what its client sends; None: all of them."""
    runs = [run for result in results.values() for run in measured(result)
            if run["settings"]["connections"] == CONNECTIONS]
    for _, client, per_s, p50, p99, _, most, _, _ in bare_rows(runs):
        if clients is None or client in clients:
            yield (f"| a bare HTTP server, asked by the client of: {client} | {per_s:,.0f} | 1 | | "
                   f"| {p50:.1f} | {p99:.1f} | | {most:.0f} | | | |")


def check_rounds(name, run):
    settings, rounds = run["settings"], len(run["rounds"])
    if rounds < ROUNDS_MIN or settings["seconds"] < SECONDS_MIN:
        raise ValueError(f"{name}: {run['label']}: {rounds} rounds of {settings['seconds']} s; a "
                         f"table wants {ROUNDS_MIN} of {SECONDS_MIN} s")


def short_runs(results):
    """(campaign, run, what the short table calls it)"""
    for name, label, what in SHORT_ROWS:
        run = find(results, name, label=label)
        if run:
            check_rounds(name, run)
            yield name, run, what


def missed_text(rows):
    """rows: (what, value, bound as text, whether it is met, None when it is not judged)."""
    judged = [row for row in rows if row[2] and row[3] is not None]
    missed = [f"{what} ({value:.2f}, aim {bound})" for what, value, bound, met in judged if not met]
    text = (f"The run missed {len(missed) or 'none'} of {len(judged)} aims"
            f"{': ' if missed else ''}{'; '.join(missed)}.")
    unjudged = sum(bool(bound) and met is None for _, _, bound, met in rows)
    if unjudged:
        text += (f" It says nothing of {unjudged} aims for times, as the bare server's own p99 was "
                 f"above {targets.BARE_P99_MS_MAX} ms.")
    return text


def short_checks(results):
    """The aims of the figures that the short table shows."""
    for name, run, what in short_runs(results):
        for figure in ("of_bare", "p99_ms"):
            for _, text, value, bound, met in targets.checks([run], (figure,)):
                yield f"{what.strip('*').split(':')[0]}: {text}", value, bound, met


def short_lines(results):
    """The short table, for a reader who has never seen the service."""
    yield machine_line(results)
    yield ""
    yield from head("what")
    for name, run, what in short_runs(results):
        interval = results_of.intervals(results[name])[run["label"]]
        yield f"| {what} | {figures_of(run, interval)} |"
    yield from bare_lines(results, ("a shop's order", "bare order"))
    yield ""
    yield from wrapped(missed_text(list(short_checks(results))))
    yield ""
    yield from wrapped(summary.told_text(results))


def table_lines(results):
    yield machine_line(results)
    yield ""
    yield from head("campaign")
    for name in TABLE_CAMPAIGNS:
        result = results.get(name, {"runs": ()})
        intervals = results_of.intervals(result)
        for run in measured(result):
            check_rounds(name, run)
            label = f": {run['label']}" if run["label"] else ""
            yield f"| {name}{label} | {figures_of(run, intervals[run['label']])} |"
    yield from bare_lines(results)
    yield ""
    rows = checks(results)
    yield "| figure | measured | aim | |"
    yield "|---|---|---|---|"
    for what, value, bound, met in rows:
        yield f"| {what} | {value:.2f} | {bound} | {VERDICTS[met]} |"
    yield ""
    yield from wrapped(missed_text(rows))
    yield ""
    yield from wrapped(summary.told_text(results))


def replace_tables(text, lines):
    """The text with the lines in place of what stands between the two marks."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"it has no lines {BEGIN.strip()} and {END.strip()}")
    return before + BEGIN + "\n".join(lines) + "\n" + END + after


def rows_in(text):
    """(line, campaign, label, cells after the first) of the runs in the tables between the marks.
    Lines of aims have fewer cells."""
    within, short = False, {what: (name, label) for name, label, what in SHORT_ROWS}
    for number, line in enumerate(text.split("\n"), 1):
        within = (within or line + "\n" == BEGIN) and line + "\n" != END
        first, *cells = (cell.strip() for cell in line.removeprefix("|").split("|"))
        name, _, label = first.partition(": ")
        if within and first in short:
            yield number, *short[first], cells
        elif within and name in TABLE_CAMPAIGNS and len(cells) > max(FIGURE_CELLS.values()):
            yield number, name, label, cells


def same(cell, wanted):
    """The sample has fewer digits, so that the last one shown may be rounded in another way."""
    one, other = (int("".join(filter(str.isdigit, text)) or "-9") for text in (cell, wanted))
    return abs(one - other) <= 1 and len(cell) == len(wanted)


def findings(text, sample):
    """(line, what is wrong) of each rate, ratio and time in the tables that is not the sample's."""
    for number, name, label, cells in rows_in(text):
        for figure, at in FIGURE_CELLS.items():
            cell = cells[at]
            try:
                wanted = cited.shown(figure, cited.find(sample, name, label, figure))
            except cited.UnknownFigure as error:
                yield number, str(error)
                continue
            if cell and not same(cell, wanted):
                yield number, f"{cell} is {wanted} in the sample"
