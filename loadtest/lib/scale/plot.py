"""The plot of the predicted rates over the number of daemons, for a page of its own."""

import matplotlib

from lib.report import plots

TITLE = ("Predicted orders a second, and tries a batch in one sale, by the number of daemons: a "
         "line for each set of Redis masters and ledgers, and for each number of segments")

# Of the report's page, light and dark.
COLOURS = """<style>svg{--ink:#1f2328;--grid:#d8dee4;--muted:#6e7781;--one:#0969da;--two:#bc4c00;
--three:#1a7f37;--four:#8250df}@media(prefers-color-scheme: dark){svg{--ink:#e6edf3;--grid:#30363d;
--muted:#8b949e;--one:#58a6ff;--two:#f0883e;--three:#3fb950;--four:#bc8cff}}</style>"""


def draw(rows):
    """Two panels: orders a second by daemons, and tries a batch, a line for each set of servers and
    for each number of segments. Returns the SVG."""
    with matplotlib.rc_context({**plots.STYLE, "figure.figsize": (plots.DESKTOP_IN, plots.HEIGHT),
                                "svg.hashsalt": "scale"}):
        figure, (rates, tries) = plots.axes(2)
        lines(rates, rows["plans"], lambda row: f"{row['masters']} and {row['ledgers']}", "per_s")
        lines(tries, rows["contention"], lambda row: f"{row['segments']:,}", "tries")
        rates.set_yscale("log")
        rates.yaxis.set_major_formatter(plots.SHORT)
        rates.set_ylabel("orders / s")
        tries.set_yscale("log")
        tries.yaxis.set_major_formatter(plots.PLAIN)
        tries.set_ylabel("tries a batch, one sale")
        for axis, what in ((rates, "Redis masters and ledgers"), (tries, "segments")):
            plots.x_label(axis, "daemons")
            plots.legend(axis)
            axis.get_legend().set(title=what, alignment="left")
        text = plots.svg(figure)
    head = f' role="img" aria-labelledby="title"><title id="title">{TITLE}</title>{COLOURS}'
    return text.replace(">", head, 1)


def lines(axis, rows, name, figure):
    names = list(dict.fromkeys(map(name, rows)))
    for label, (marker, dashes, colour) in zip(names, plots.LINES):
        mine = [row for row in rows if name(row) == label and row[figure]]
        axis.plot([row["daemons"] for row in mine], [row[figure] for row in mine], marker=marker,
                  linestyle=dashes, color=colour, label=label)
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter(plots.SHORT)
