"""The report's plots, as SVG that takes its colours from the page: series differ in marker and
line, too, for black and white. Each plot is drawn twice, for a desktop and for a phone."""

import io
import re
import textwrap

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot, ticker  # noqa: E402  after the choice of what it draws with

from lib.report import targets  # noqa: E402
from lib.results import find, intervals, measured, option, round_rates  # noqa: E402

# Drawn in these colours, which then become variables of the page's style sheet.
INK, GRID, MUTED, ONE, TWO, THREE, FOUR = (f"#01020{number}" for number in range(7))
VARIABLES = {INK: "--ink", GRID: "--grid", MUTED: "--muted", ONE: "--one", TWO: "--two",
             THREE: "--three", FOUR: "--four"}
LINES = (("o", "-", ONE), ("s", "--", TWO), ("^", "-.", THREE), ("D", ":", FOUR))
STYLE = {
    "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9.5,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": GRID,
    "grid.linewidth": 0.6, "axes.axisbelow": True, "lines.markersize": 6, "lines.linewidth": 1.6,
    "legend.frameon": False, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": MUTED,
    "xtick.color": MUTED, "ytick.color": MUTED, "xtick.labelcolor": INK, "ytick.labelcolor": INK,
    "axes.titlesize": 9.5,
}
HEIGHT = 3.2  # inches, of a panel
NAME_MAX = 20  # characters of a line of a name, on a phone
LABEL_MAX = 34  # of a label of an axis there
PHONE_IN, DESKTOP_IN = 3.7, 7.4
THOUSANDS = ticker.FuncFormatter(lambda value, _: f"{value:,.0f}")
PLAIN = ticker.FuncFormatter(lambda value, _: f"{value:g}")
SHORT = ticker.FuncFormatter(lambda value, _: short(value))


def short(value):
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= size and value % (size / 10) == 0:
            return f"{value / size:g}{unit}"
    return f"{value:,.10g}"


def svg(figure):
    """The figure without what varies from one run to the next, and without ids that nothing names,
    which would not be unique on a page of several plots."""
    text = io.StringIO()
    figure.savefig(text, format="svg", bbox_inches="tight", transparent=True,
                   metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    drawn = re.sub(r"^.*?(?=<svg)", "", text.getvalue(), flags=re.S)
    drawn = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", drawn, flags=re.S)
    drawn = re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", drawn)
    drawn = re.sub(r'^(<svg [^>]*?) width="[^"]*"', r"\1", drawn)
    drawn = re.sub(r'^(<svg [^>]*?) height="[^"]*"', r"\1", drawn)
    drawn = re.sub(r"(\d\.\d\d)\d+", r"\1", drawn)  # a hundredth of a point is fine enough
    for colour, variable in VARIABLES.items():
        drawn = drawn.replace(colour, f"var({variable})")
    return re.sub(r"\n\s*\n", "\n", re.sub(r"[ \t]+$", "", drawn, flags=re.M))


def is_phone():
    return matplotlib.rcParams["figure.figsize"][0] < DESKTOP_IN


def axes(count=1, height=HEIGHT, **options):
    """Panels side by side, or on a phone one below the other."""
    width = matplotlib.rcParams["figure.figsize"][0]
    rows, columns = (count, 1) if is_phone() else (1, count)
    figure, made = pyplot.subplots(rows, columns, figsize=(width, height * rows),
                                   layout="constrained", **options)
    figure.get_layout_engine().set(hspace=0.1)
    return figure, made


def x_label(axis, text):
    axis.set_xlabel(textwrap.fill(text, LABEL_MAX) if is_phone() else text)


def legend(axis, columns=2):
    """Puts the legend above the plot, where it covers nothing."""
    axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=1 if is_phone() else columns)


def spread(run):
    """How far the rates of the rounds lie below and above the rate that counts."""
    rates = round_rates(run)
    return max(0, run["per_s"] - min(rates)), max(0, max(rates) - run["per_s"])


def errors(runs):
    return list(zip(*map(spread, runs)))


def row_names(axis, names):
    lines = [textwrap.fill(name, NAME_MAX) if is_phone() else name for name in names]
    axis.set_yticks(range(len(names)), lines)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="y", visible=False)


def dots(axis, names, rows, number="{:,.0f}".format, line=LINES[0], beyond=None):
    """A row for each name: a dot with its number and, where a row has them, small lines for the
    rounds. rows: (value, values of the rounds). beyond: for each row where its number may begin."""
    marker, _, color = line
    ends = [max([value, *parts, *(beyond[place] if beyond else ())])
            for place, (value, parts) in enumerate(rows)]
    most = max(ends)
    for place, (value, parts) in enumerate(rows):
        axis.plot([0, value], [place, place], "-", color=GRID, linewidth=1)
        axis.plot(parts, [place] * len(parts), "|", color=color, markersize=9)
        axis.plot([value], [place], marker, color=color)
        axis.annotate(number(value), (ends[place], place), (8, 0), textcoords="offset points",
                      va="center", weight="bold")
    row_names(axis, names)
    axis.set_xlim(0, most * (1.45 if is_phone() else 1.18) or 1)
    axis.xaxis.set_major_locator(ticker.MaxNLocator(4 if is_phone() else 7))


def dots_height(names):
    lines = sum(max(1, len(textwrap.wrap(name, NAME_MAX))) if is_phone() else 1 for name in names)
    return 0.9 + 0.27 * len(names) + 0.09 * lines


def rates(names, runs, unit="accepted orders / s", bare=False):
    """Dots for the rate of each run; small lines for its rounds. bare: the first is the server that
    the others are compared with."""
    figure, axis = axes(height=dots_height(names))
    dots(axis, names, [(run["per_s"], round_rates(run)) for run in runs])
    for line in axis.lines[1:3] if bare else ():
        line.set_color(MUTED)
    axis.xaxis.set_major_formatter(SHORT)
    x_label(axis, f"{unit} (small lines: the rounds)")
    return figure


def of_bare(result):
    """Each run's × bare with its 99 % interval, and its aim."""
    runs, found = measured(result), intervals(result)
    names = [run["label"] for run in runs]
    ends = [found[run["label"]] or () for run in runs]
    aims = [[aim] if aim else [] for aim in (targets.bound(run, "of_bare") for run in runs)]
    figure, axis = axes(height=dots_height(names))
    dots(axis, names, [(run["of_bare"], []) for run in runs], "{:.2f}".format,
         beyond=[[*end, *aim] for end, aim in zip(ends, aims)])
    for place, (end, aim) in enumerate(zip(ends, aims)):
        axis.plot(end, [place] * len(end), "-", color=ONE, linewidth=4, alpha=0.4)
        axis.plot(aim, [place] * len(aim), "|", color=TWO, markersize=13, markeredgewidth=2)
    x_label(axis, "× bare: dot and 99 % interval; upright line: aim")
    return figure


def strategies(result):
    """A panel for an order at a time, and one for full batches: their rates are far apart."""
    runs = measured(result)
    names = list(dict.fromkeys(option(run, "strategy") for run in runs))
    batches = list(dict.fromkeys(option(run, "max_batch") for run in runs))
    figure, panels = axes(len(batches), height=0.9 + 0.34 * len(names), squeeze=False)
    for axis, batch, line in zip(panels.flat, batches, LINES):
        mine = {option(run, "strategy"): run for run in runs if option(run, "max_batch") == batch}
        known = [name for name in names if name in mine]
        dots(axis, known, [(mine[name]["per_s"], round_rates(mine[name])) for name in known],
             line=line)
        axis.set_xlim(right=axis.get_xlim()[1] * 1.15)
        axis.xaxis.set_major_locator(ticker.MaxNLocator(4))
        axis.xaxis.set_major_formatter(SHORT)
        axis.set_title("an order at a time" if batch == 1 else "full batches")
        x_label(axis, "accepted orders / s")
    return figure


def by_number(axis, runs, key, line, label):
    marker, dashes, color = line
    runs = sorted(runs, key=lambda run: run["settings"][key])
    axis.errorbar([run["settings"][key] for run in runs], [run["per_s"] for run in runs],
                  yerr=errors(runs), marker=marker, linestyle=dashes, color=color, label=label,
                  capsize=3, elinewidth=1, zorder=3)


def apart(values, factor):
    """Those of the ascending values that have room for their names, the last one for sure."""
    kept = values[-1:]
    for value in reversed(values[:-1]):
        if value * factor <= kept[0]:
            kept.insert(0, value)
    return kept


def ticks(axis, runs, key):
    values = apart(sorted({run["settings"][key] for run in runs}), 3 if is_phone() else 1.5)
    axis.set_xscale("log")
    axis.set_xticks(values, [short(value) for value in values])
    axis.minorticks_off()
    axis.set_ylim(0, 1.06 * axis.get_ylim()[1])
    axis.yaxis.set_major_formatter(SHORT)


def segments(result):
    """A panel for each size of batch: their rates are far apart."""
    runs = measured(result)
    batches = list(dict.fromkeys(option(run, "max_batch") for run in runs))
    figure, panels = axes(len(batches), 2.6, squeeze=False)
    for axis, batch, line in zip(panels.flat, batches, LINES):
        mine = [run for run in runs if option(run, "max_batch") == batch]
        by_number(axis, mine, "sale.segments", line, "")
        ticks(axis, mine, "sale.segments")
        workers = option(mine[0], "order_workers")
        each = "an order at a time" if batch == 1 else "full batches"
        axis.set_title(f"{each}, {workers} order workers")
        x_label(axis, "segments")
        axis.set_ylabel("accepted orders / s")
    return figure


def batch(result):
    runs = measured(result)
    figure, axis = axes()
    by_number(axis, runs, "daemon.max_batch", LINES[0], "service")
    sizes = [run["settings"]["daemon.max_batch"] for run in runs]
    for part, (marker, dashes, color), label in (
            ("combined_per_s", LINES[1], "1 ÷ (1/HTTP + 1/Redis + 1/inserts)"),
            ("bare_per_s", LINES[2], "bare HTTP")):
        axis.plot(sizes, [run["serial"][part] for run in runs], dashes, marker=marker,
                  color=color, label=label)
    ticks(axis, runs, "daemon.max_batch")
    x_label(axis, "max_batch: orders that share a lock and a commit at most")
    axis.set_ylabel("orders / s")
    legend(axis, 3)
    return figure


def percentiles(one):
    """Percentiles that at least ten requests stand for, stretched towards the rare long ones."""
    return [(1 / (1 - share), ms) for share, ms in one["percentiles_ms"]
            if share < 1 - 10 / one["requests"]]


def latency(result):
    """Percentiles of the median round, and of the bare server at the same rate."""
    paced = [run for run in measured(result) if "rate_wanted" in run]
    if not paced:
        return None
    figure, axis = axes(height=3.8)
    for run, (marker, dashes, color) in zip(paced, LINES):
        middle = sorted(run["rounds"], key=lambda one: one["p99_ms"])[len(run["rounds"]) // 2]
        axis.plot(*zip(*percentiles(middle)), dashes, marker=marker, markevery=5, color=color,
                  label=f"{100 * run['settings']['rate_share']:.0f} % of the peak: "
                        f"{run['rate_wanted']:,.0f} orders / s")
        bare = {**middle["bare_paced"], "requests": middle["requests"]}
        axis.plot(*zip(*percentiles(bare)), dashes, color=MUTED, linewidth=1,
                  label="the bare server at these rates" if run is paced[-1] else None)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xticks([2, 10, 100, 1000, 10000], ["50 %", "90 %", "99 %", "99.9 %", "99.99 %"])
    axis.minorticks_off()
    axis.set_yticks([0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100])
    axis.set_ylim(max(axis.get_ylim()[0], 0.04), 1.2 * axis.dataLim.y1)
    axis.yaxis.set_major_formatter(PLAIN)
    x_label(axis, "share of orders answered within that time")
    axis.set_ylabel("ms from due to answered")
    legend(axis, 2)
    return figure


def stock(result):
    """Units left per segment, thin, and their mean."""
    run = measured(result)[0]
    times = [0] + [time for time, _ in run["stock"]]
    full = max(max(left) for _, left in run["stock"])
    total = run["settings"]["sale.total"] / run["settings"]["sale.segments"]
    rows = [[max(total, full)] * len(run["stock"][0][1])] + [left for _, left in run["stock"]]
    figure, axis = axes()
    for place, series in enumerate(zip(*rows)):
        axis.plot(times, series, "-", color=MUTED, linewidth=0.8, alpha=0.7,
                  label="each segment" if place == 0 else None)
    axis.plot(times, [sum(row) / len(row) for row in rows], "o--", color=ONE, markevery=4,
              markersize=4, label="mean of the segments")
    axis.set_ylim(bottom=0)
    axis.set_xlim(left=0)
    axis.yaxis.set_major_formatter(THOUSANDS)
    x_label(axis, "s since the load generator was started")
    axis.set_ylabel("units left in a segment")
    legend(axis)
    return figure


def growth(result):
    """Rates relative to an empty ledger and one sale."""
    base = find({"growth": result}, "growth", prefill=0, sale_sales=1)
    if base is None:
        return None
    figure, (left, right) = axes(2, 2.8)
    runs = [run for run in measured(result) if run["settings"]["sale.sales"] == 1]
    relative(left, runs, base, "prefill", LINES[0], None)
    left.set_xlabel("orders in the ledger")
    for wanted, line, label in ((False, LINES[0], "one of them wanted"),
                                (True, LINES[1], "all of them wanted")):
        runs = [run for run in measured(result) if run["settings"]["sale.spread"] == wanted
                and run["settings"]["prefill"] == 0 and run is not base]
        relative(right, [base] + runs, base, "sale.sales", line, label)
    right.set_xlabel("sales")
    right.legend(loc="best")
    most = max(run["of_bare"] / base["of_bare"] for run in measured(result))
    for axis in (left, right):
        axis.set_ylim(0, 1.1 * most)
        axis.set_xlim(-0.3, axis.get_xlim()[1] + 0.25)
        axis.set_ylabel("rate ÷ that with none and one")
    return figure


def relative(axis, runs, base, key, line, label):
    marker, dashes, color = line
    names = [short(run["settings"][key]) for run in runs]
    axis.plot(names, [run["of_bare"] / base["of_bare"] for run in runs], dashes, marker=marker,
              color=color, label=label)


def connections(result):
    figure, axis = axes()
    for keys, line, label in ((True, LINES[0], "a shop's orders"),
                              (False, LINES[1], "bare orders")):
        runs = [run for run in measured(result) if run["settings"]["order.keys"] == keys]
        if runs:
            by_number(axis, runs, "connections", line, label)
    ticks(axis, measured(result), "connections")
    x_label(axis, "connections")
    axis.set_ylabel("accepted orders / s")
    legend(axis)
    return figure


def flood(result):
    """The rate of orders during each flood, as a share of the rate without it."""
    runs = [run for run in measured(result) if "of_alone" in run]
    if not runs:
        return None
    figure, axis = axes(height=dots_height([run["settings"]["call"] for run in runs]))
    dots(axis, [run["settings"]["call"] for run in runs], [(run["of_alone"], []) for run in runs],
         "{:.2f}".format)
    axis.axvline(1, color=MUTED, linewidth=1)
    x_label(axis, "rate of orders beside the flood ÷ alone")
    return figure


def named(key):
    """A plot of rates by one setting."""
    return lambda result: rates([str(run["settings"].get(key)) for run in measured(result)],
                                measured(result))


def labelled(result):
    runs = measured(result)
    return rates([run["label"] for run in runs], runs)


def instances(result):
    runs = measured(result)
    names = [f"{run['settings']['instances']} behind HAProxy" if run["settings"]["proxy"]
             else f"{run['settings']['instances']} without a proxy" for run in runs]
    return rates(names, runs)


# The plot of a campaign, and what it shows.
BY_CAMPAIGN = {
    "around": (of_bare, "the rate of each call, relative to a bare HTTP server"),
    "bench": (of_bare, "the rate of each run, relative to a bare HTTP server"),
    "strategies": (strategies, "orders a second by strategy"),
    "segments": (segments, "orders a second by number of segments"),
    "batch": (batch, "orders a second by size of batch"),
    "rush": (stock, "units left in each segment over time"),
    "locks": (named("daemon.lock"), "orders a second by kind of lock"),
    "instances": (instances, "orders a second by number of daemons"),
    "latency": (latency, "percentiles of the time to an answer, at three constant rates, and those "
                         "of a bare HTTP server"),
    "growth": (growth, "rates relative to an empty ledger and to one sale"),
    "connections": (connections, "orders a second by number of connections"),
    "rules": (labelled, "orders a second with and without the rules of a sale"),
    "flood": (flood, "what is left of the rate of orders beside each flood"),
}


def drawn(name, shows, make):
    """The plot for a desktop and for a phone, each with its title for those who do not see it."""
    texts = []
    text = f"Plot: {shows}. The table has the figures."
    for kind, width in (("desktop", DESKTOP_IN), ("phone", PHONE_IN)):
        with matplotlib.rc_context({**STYLE, "figure.figsize": (width, HEIGHT),
                                    "svg.hashsalt": f"{name}-{kind}"}):
            figure = make()
            if figure is None:
                return ""
            title = f"{name}-{kind}"
            texts.append(re.sub(r"^<svg ([^>]*)>", lambda found: (
                f'<svg class="{kind}" role="img" aria-labelledby="{title}" {found[1]}>'
                f'<title id="{title}">{text}</title>'), svg(figure)))
    return "".join(texts)


def plot(result):
    """The SVG of a campaign; '' when it has no plot, or nothing was measured."""
    make, shows = BY_CAMPAIGN.get(result["campaign"], (None, ""))
    if make is None or not measured(result):
        return ""
    return drawn(result["campaign"], shows, lambda: make(result))


# Campaign, label of the run, and what the plot calls it.
OVERVIEW = (("around", "a shop's order", "a shop's orders"),
            ("around", "bare order", "bare orders"), ("rush", "", "bare orders, to the last unit"),
            ("soldout", "", "sold-out answers"), ("mixed", "", "accepted, mixed"))


def overview(results):
    """The bare server, and what a whole sale is made of."""
    names, runs = [], []
    for name, label, text in OVERVIEW:
        run = find(results, name, label=label)
        if run:
            names.append(text)
            runs.append(run)
    if not runs:
        return ""
    bare = [one["bare_per_s"] for run in runs for one in run["rounds"]]
    bare = {"per_s": sorted(bare)[len(bare) // 2], "settings": {"counts": "bare"},
            "rounds": [{"bare_per_s": rate} for rate in bare]}
    return drawn("overview", "the rates of a whole sale beside that of a bare HTTP server",
                 lambda: rates(["a bare HTTP server", *names], [bare, *runs],
                               "answers, or accepted orders, / s", bare=True))
