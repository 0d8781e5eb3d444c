"""The report's plots, as SVG: series differ in marker, line and hatch, for black and white."""

import io
import math
import re

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot, ticker  # noqa: E402  after the choice of what it draws with

from lib.results import find, measured, option  # noqa: E402

DARK, MIDDLE, LIGHT, PALE = "#12355b", "#4a86b8", "#a9c8e0", "#dfe9f1"
FILLS = ((DARK, ""), (LIGHT, "///"), (MIDDLE, "..."), (PALE, "xx"))
LINES = (("o", "-", DARK), ("s", "--", "#b0413e"), ("^", "-.", "#3a7d44"), ("D", ":", "#7a5195"))
WIDTH, HEIGHT = 7.2, 3.2  # inches
STYLE = {
    "svg.fonttype": "none", "svg.hashsalt": "seckill", "font.family": "sans-serif",
    "font.size": 9.5, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.color": "#cccccc", "grid.linewidth": 0.6, "axes.axisbelow": True, "lines.markersize": 6,
    "lines.linewidth": 1.6, "hatch.linewidth": 0.6, "legend.frameon": False,
}
THOUSANDS = ticker.FuncFormatter(lambda value, _: f"{value:,.0f}")
PLAIN = ticker.FuncFormatter(lambda value, _: f"{value:g}")
SHORT = ticker.FuncFormatter(lambda value, _: short(value))


def short(value):
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def svg(figure):
    text = io.StringIO()
    figure.savefig(text, format="svg", bbox_inches="tight",
                   metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    drawn = re.sub(r"^.*?(?=<svg)", "", text.getvalue(), flags=re.S)
    drawn = re.sub(r"(\d\.\d\d)\d+", r"\1", drawn)  # a hundredth of a point is fine enough
    return re.sub(r"[ \t]+$", "", drawn, flags=re.M)


def axes(count=1, height=HEIGHT, **options):
    figure, made = pyplot.subplots(1, count, figsize=(WIDTH, height), layout="constrained",
                                   **options)
    return figure, made


def legend(axis, columns=2):
    """Puts the legend above the plot, where it covers nothing."""
    axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=columns)


def spread(run):
    """How far the rates of the rounds lie below and above the rate that counts."""
    kind = f"{run['settings']['counts']}_per_s"
    rates = [one[kind] for one in run["rounds"]]
    return max(0, run["per_s"] - min(rates)), max(0, max(rates) - run["per_s"])


def errors(runs):
    return list(zip(*map(spread, runs)))


def bars(names, runs, unit="accepted orders / s"):
    """One horizontal bar each, with its number and the spread of its rounds."""
    figure, axis = axes(height=0.9 + 0.36 * len(runs))
    rates = [run["per_s"] for run in runs]
    axis.barh(names, rates, xerr=errors(runs), height=0.6, color=MIDDLE, edgecolor=DARK,
              error_kw={"elinewidth": 1, "capsize": 3})
    for place, run in enumerate(runs):
        inside = run["per_s"] > 0.2 * max(rates)
        at = 0 if inside else run["per_s"] + spread(run)[1]
        axis.annotate(f"{run['per_s']:,.0f}", (at, place), (6, 0), textcoords="offset points",
                      va="center", color="white" if inside else "black", weight="bold")
    axis.set_ylim(len(runs) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)
    axis.xaxis.set_major_formatter(THOUSANDS)
    axis.set_xlabel(f"{unit} (line: slowest to fastest round)")
    return svg(figure)


def strategies(result):
    """Groups of bars: an order at a time, and full batches. The scale is logarithmic."""
    runs = measured(result)
    names = list(dict.fromkeys(option(run, "strategy") for run in runs))
    batches = list(dict.fromkeys(option(run, "max_batch") for run in runs))
    figure, axis = axes(height=1.2 + 0.6 * len(names))
    for place, (batch, (color, hatch)) in enumerate(zip(batches, FILLS)):
        mine = [run for run in runs if option(run, "max_batch") == batch]
        at = [names.index(option(run, "strategy")) + (place - (len(batches) - 1) / 2) * 0.38
              for run in mine]
        axis.barh(at, [run["per_s"] for run in mine], height=0.36, color=color, hatch=hatch,
                  edgecolor=DARK, label="an order at a time" if batch == 1 else "full batches")
        for y, run in zip(at, mine):
            axis.annotate(f"{run['per_s']:,.0f}", (run["per_s"], y), (4, 0),
                          textcoords="offset points", va="center")
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    axis.grid(axis="y", visible=False)
    axis.set_xscale("log")
    lowest = min(run["per_s"] for run in runs)
    axis.set_xlim(10 ** math.floor(math.log10(max(lowest, 1)) - 0.3), axis.get_xlim()[1] * 2)
    axis.xaxis.set_major_formatter(THOUSANDS)
    axis.set_xlabel("accepted orders / s (logarithmic)")
    legend(axis)
    return svg(figure)


def by_number(axis, runs, key, line, label):
    marker, dashes, color = line
    runs = sorted(runs, key=lambda run: run["settings"][key])
    axis.errorbar([run["settings"][key] for run in runs], [run["per_s"] for run in runs],
                  yerr=errors(runs), marker=marker, linestyle=dashes, color=color, label=label,
                  capsize=3, elinewidth=1, zorder=3)


def ticks(axis, runs, key):
    values = sorted({run["settings"][key] for run in runs})
    axis.set_xscale("log")
    axis.set_xticks(values, [short(value) for value in values])
    axis.minorticks_off()
    axis.set_ylim(bottom=0)
    axis.yaxis.set_major_formatter(SHORT)


def segments(result):
    """A panel for each size of batch: their rates are far apart."""
    runs = measured(result)
    batches = list(dict.fromkeys(option(run, "max_batch") for run in runs))
    figure, panels = axes(len(batches), squeeze=False)
    for axis, batch, line in zip(panels[0], batches, LINES):
        mine = [run for run in runs if option(run, "max_batch") == batch]
        by_number(axis, mine, "sale.segments", line, "")
        ticks(axis, mine, "sale.segments")
        workers = option(mine[0], "order_workers")
        batches = "an order at a time" if batch == 1 else "full batches"
        axis.set_title(f"{batches}, {workers} order workers", fontsize=9.5)
        axis.set_xlabel("segments")
    panels[0][0].set_ylabel("accepted orders / s")
    return svg(figure)


def batch(result):
    runs = measured(result)
    figure, axis = axes()
    by_number(axis, runs, "daemon.max_batch", LINES[0], "service")
    sizes = [run["settings"]["daemon.max_batch"] for run in runs]
    axis.plot(sizes, [run["serial"]["combined_per_s"] for run in runs], "s--", color="#b0413e",
              label="1 ÷ (1/HTTP + 1/Redis + 1/inserts)")
    axis.plot(sizes, [run["serial"]["bare_per_s"] for run in runs], "^:", color="#3a7d44",
              label="bare HTTP")
    ticks(axis, runs, "daemon.max_batch")
    axis.set_xlabel("max_batch: orders that share a lock and a commit at most")
    axis.set_ylabel("orders / s")
    legend(axis, 3)
    return svg(figure)


def latency(result):
    """Percentiles, stretched towards the rare long ones, of the median round."""
    figure, axis = axes(height=3.6)
    paced = [run for run in measured(result) if "percentiles_ms" in run["rounds"][0]]
    for run, (marker, dashes, color) in zip(paced, LINES):
        middle = sorted(run["rounds"], key=lambda one: one["p99_ms"])[len(run["rounds"]) // 2]
        points = [(1 / (1 - share), ms) for share, ms in middle["percentiles_ms"]
                  if share < 1 - 10 / middle["requests"]]
        axis.plot(*zip(*points), dashes, marker=marker, markevery=5, color=color,
                  label=f"{run['settings']['rate_share']:.0%} of the peak: "
                        f"{run['rate_wanted']:,.0f} orders / s")
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xticks([1, 2, 10, 100, 1000, 10000],
                    ["0 %", "50 %", "90 %", "99 %", "99.9 %", "99.99 %"])
    axis.minorticks_off()
    axis.set_yticks([0.2, 0.5, 1, 2, 5, 10, 20, 50, 100])
    axis.yaxis.set_major_formatter(PLAIN)
    axis.set_xlabel("share of orders answered within that time")
    axis.set_ylabel("ms from due to answered")
    legend(axis, 1)
    return svg(figure)


def stock(result):
    """Units left per segment, thin, and their mean."""
    run = measured(result)[0]
    times = [0] + [time for time, _ in run["stock"]]
    full = max(max(left) for _, left in run["stock"])
    total = run["settings"]["sale.total"] / run["settings"]["sale.segments"]
    rows = [[max(total, full)] * len(run["stock"][0][1])] + [left for _, left in run["stock"]]
    figure, axis = axes()
    for place, series in enumerate(zip(*rows)):
        axis.plot(times, series, "-", color="#8a8a8a", linewidth=0.8,
                  label="each segment" if place == 0 else None)
    axis.plot(times, [sum(row) / len(row) for row in rows], "o--", color=DARK, markevery=4,
              markersize=4, label="mean of the segments")
    axis.set_ylim(bottom=0)
    axis.set_xlim(left=0)
    axis.yaxis.set_major_formatter(THOUSANDS)
    axis.set_xlabel("s since the load generator was started")
    axis.set_ylabel("units left in a segment")
    legend(axis)
    return svg(figure)


def growth(result):
    """Rates relative to an empty ledger and one sale."""
    results = {"growth": result}
    base = find(results, "growth", prefill=0, sale_sales=1)
    if base is None:
        return ""
    figure, (left, right) = axes(2, sharey=True)
    runs = [run for run in measured(result) if run["settings"]["sale.sales"] == 1]
    relative(left, runs, base, "prefill", LINES[0], None)
    left.set_xlabel("orders in the ledger")
    for wanted, line, label in ((False, LINES[0], "one of them wanted"),
                                (True, LINES[1], "all of them wanted")):
        runs = [run for run in measured(result) if run["settings"]["sale.spread"] == wanted
                and run["settings"]["prefill"] == 0 and run is not base]
        relative(right, [base] + runs, base, "sale.sales", line, label)
    right.set_xlabel("sales")
    legend(right, 1)
    left.set_ylim(bottom=0)
    left.set_ylabel("rate ÷ that with none and one")
    return svg(figure)


def relative(axis, runs, base, key, line, label):
    marker, dashes, color = line
    names = [short(run["settings"][key]) for run in runs]
    axis.plot(names, [run["of_bare"] / base["of_bare"] for run in runs], dashes, marker=marker,
              color=color, label=label)


def named(key, names=None):
    """A plot of bars by one setting."""
    def plot(result):
        runs = measured(result)
        return bars([str((names or {}).get(run["settings"].get(key), run["settings"].get(key)))
                     for run in runs], runs)
    return plot


def instances(result):
    runs = measured(result)
    names = [f"{run['settings']['instances']} behind HAProxy" if run["settings"]["proxy"]
             else f"{run['settings']['instances']} without a proxy" for run in runs]
    return bars(names, runs)


BY_CAMPAIGN = {"strategies": strategies, "segments": segments, "batch": batch, "rush": stock,
               "locks": named("daemon.lock"), "instances": instances, "latency": latency,
               "growth": growth}


def plot(result):
    """The SVG of a campaign; '' when it has no plot, or nothing was measured."""
    made = BY_CAMPAIGN.get(result["campaign"])
    if made is None or not measured(result):
        return ""
    with matplotlib.rc_context(STYLE):
        return made(result)


# Campaign, label of the run, and what the plot calls it.
OVERVIEW = (("steady", "a shop's order", "a shop's orders"),
            ("steady", "bare order", "bare orders"), ("rush", "", "bare orders, to the last unit"),
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
    bare_per_s = max(one["bare_per_s"] for run in runs for one in run["rounds"])
    bare = {"per_s": bare_per_s, "settings": {"counts": "bare"}, "rounds": [
        {"bare_per_s": one["bare_per_s"]} for run in runs for one in run["rounds"]]}
    with matplotlib.rc_context(STYLE):
        return bars(["bare HTTP", *names], [bare, *runs], "answers, or accepted orders, / s")
