"""The report as one HTML page that needs nothing beside it, and the README's table."""

import html
import statistics

from lib import plots, scenario
from lib.figures import DISTURBED_SHARE
from lib.results import measured
from lib.story import checks

STYLE = """
body { font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; color: #1a1a1a; max-width: 64rem;
       margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; border-top: 1px solid #bbb;
       padding-top: 1rem; }
p.asks { font-style: italic; } svg { max-width: 100%; height: auto; display: block; }
svg text { font-family: "DejaVu Sans", system-ui, sans-serif; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 0.87rem; }
th, td { padding: 0.2rem 0.6rem; border-bottom: 1px solid #ddd; text-align: right; }
th { border-bottom: 2px solid #666; vertical-align: bottom; }
th:first-child, td:first-child, td.text { text-align: left; }
td:not(:last-child) { white-space: nowrap; }
.bad { font-weight: bold; color: #a3000b; } .note { color: #555; font-size: 0.87rem; }
@media print { body { max-width: none; margin: 0; font-size: 10pt; }
  section { break-inside: avoid; } h2 { break-after: avoid; } }
"""
HEAD = ("run", "per s", "rounds", "× bare", "share of limit", "p50 ms", "p99 ms", "p99.9 ms",
        "CPU idle", "audit")
NOTES = (
    "<b>per s</b> counts accepted orders, each committed with an fsync before its answer; in the "
    "sold-out campaign it counts answers. <b>rounds</b>: the slowest and the fastest.",
    "<b>× bare</b>: the mean over the rounds of the ratio to a bare libmicrohttpd server, measured "
    "before and after each round. On a shared machine rates wander; these ratios much less.",
    "<b>share of limit</b>: of x in 1/x = 1/a + 1/b + 1/c, where a is the bare server, b a script "
    "that checks a lock and takes a unit, pipelined by the size of a batch, and c inserts of such "
    "rows, a batch in each fsynced transaction, each measured alone on this machine. Parts that "
    "overlap on several cores can exceed it. A refusal needs a alone.",
    "<b>p50, p99</b>: in closed loops, where each of the connections sends again once it is "
    "answered, they follow from the rate: connections ÷ rate. In the latency campaign requests are "
    "due at a constant rate whatever the answers do, and their time counts from when they were "
    "due, so that a stall is charged to all who came during it (no coordinated omission).",
    "<b>audit</b>, after every run: units in orders = units sold = capacity − what Redis says is "
    "left, per segment; nothing over capacity; no idempotency key twice; no order lost that a "
    "client was told of (by number; in rush and mixed each by its id).")


def escape(value):
    return html.escape(str(value))


def row(cells, tag="td", kinds=()):
    kinds = list(kinds) + [""] * len(cells)
    return "<tr>" + "".join(
        f"<{tag}{f' class={kind}' if kind else ''}>{cell}</{tag}>"
        for cell, kind in zip(cells, kinds)) + "</tr>"


def table(head, rows):
    return f"<table>{row(head, 'th')}{''.join(rows)}</table>"


def span(run):
    kind = f"{run['settings']['counts']}_per_s"
    rates = [one[kind] for one in run["rounds"]]
    return f"{min(rates):,.0f}–{max(rates):,.0f}"


def ratio(value):
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def run_row(run):
    name = escape(run["label"] or "all")
    if "per_s" not in run:
        words = "not available in this build" if run["status"] == "not available" else "FAILED"
        kind = "" if run["status"] == "not available" else " bad"
        return (f"<tr><td>{name}</td><td class='text{kind}' colspan={len(HEAD) - 1}>{words}: "
                f"{escape(run['reason'])}</td></tr>")
    good = run["audit"]["consistent"]
    cells = (name, f"{run['per_s']:,.0f}", span(run), ratio(run["of_bare"]),
             ratio(run["of_limit"]), f"{run['p50_ms']:.2f}", f"{run['p99_ms']:.2f}",
             f"{run['p999_ms']:.2f}", f"{run['cpu_shares']['idle']:.0%}",
             "ok" if good else escape("; ".join(run["audit"]["differences"])))
    return row(cells, kinds=[""] * (len(cells) - 1) + ["" if good else "bad"])


def answers(result):
    """What the mixed campaign was answered."""
    counts = {}
    for run in measured(result):
        for one in run["rounds"]:
            for answer, count in one.get("answers", {}).items():
                counts[answer] = counts.get(answer, 0) + count
    if not counts:
        return ""
    return table(("answer", "times"), (row((escape(answer), f"{count:,}"))
                                       for answer, count in sorted(counts.items())))


def limit_texts(result):
    """What the runs with each size of batch were compared with."""
    found = {}
    for run in measured(result):
        limits = run["limits"]
        if "batch" in limits:
            found[limits["batch"], limits["clients"]] = limits
    for (batch, lanes), limits in sorted(found.items()):
        yield (f"limits with batches of {batch} and {lanes} connections: bare HTTP "
               f"{limits['bare_per_s']:,.0f}, Redis {limits['redis_per_s']:,.0f}, inserts "
               f"{limits['insert_per_s']:,.0f} per s; together {limits['combined_per_s']:,.0f}")


def remarks(result):
    """The limits, numbers of lanes that were tried, and who disturbed."""
    yield from limit_texts(result)
    for run in measured(result):
        if run.get("probes"):
            tried = ", ".join(f"{lanes}: {rate:,.0f}" for lanes, rate in run["probes"].items())
            yield f"{run['label']}: orders/s by lanes tried: {tried}"
    disturbed = [f"{run['label'] or 'all'} (up to {run['disturbed']:.0%})"
                 for run in measured(result) if run["disturbed"] > DISTURBED_SHARE]
    if disturbed:
        yield f"rough figures, as others used the processors: {'; '.join(disturbed)}"


def section(result):
    notes = "".join(f"<br>{escape(text)}" for text in remarks(result))
    return (f"<section><h2 id={result['campaign']}>{escape(result['title'])}</h2>"
            f"<p class=asks>{escape(result['asks'])}</p>{plots.plot(result)}"
            f"{table(HEAD, map(run_row, result['runs']))}{answers(result)}"
            f"<p class=note>{escape(settings_text(result))}{notes}</p></section>")


def settings_text(result):
    runs = measured(result) or result["runs"]
    first = runs[0]["settings"]
    counts = sorted({len(run.get("rounds", ())) for run in runs})
    return (f"{first['connections']} connections; rounds that count: "
            f"{'–'.join(map(str, counts))} of {first['seconds']} s"
            f"{' at most' if first['load'] == 'rush' else ''}; make campaign "
            f"NAME={result['campaign']}")


def check_rows(results):
    for what, value, bound, met in checks(results):
        yield row((escape(what), f"{value:.2f}", "" if bound is None else f"≥ {bound}",
                   "" if bound is None else "yes" if met else "no"))


def audits(results):
    runs = [run for result in results.values() for run in measured(result)]
    wrong = [run for result in results.values() for run in result["runs"]
             if run["status"] in ("failed", "audit failed")]
    orders = sum(run["audit"]["orders"] for run in runs)
    if wrong:
        return f"<p class=bad>{len(wrong)} of {len(runs)} runs FAILED; see below.</p>"
    return (f"<p>{len(runs)} runs, {orders:,} orders in their ledgers, every audit consistent."
            "</p>")


def origin(results):
    """Where and when."""
    first = min(results.values(), key=lambda result: result["time"])
    machine = first["machine"]
    changed = ", with changes" if first["changed_files"] else ""
    revisions = {result["revision"] for result in results.values()}
    several = "" if len(revisions) == 1 else f" and {len(revisions) - 1} other revisions"
    versions = "; ".join(filter(None, first["versions"].values()))
    quick = ("<p class=bad>Made with --quick: it shows that everything works, not how fast.</p>"
             if any(result["quick"] for result in results.values()) else "")
    took_s = sum(result.get("took_s", 0) for result in results.values())
    return (f"<p>{escape(machine['processor'])}, {machine['cores']} cores, "
            f"{machine['memory_gib']} GiB, Linux {escape(machine['kernel'])}, data on "
            f"{escape(machine['data_on'])}; load generator, service and servers share it.<br>"
            f"{escape(first['time'])}, took {took_s / 60:.0f} min; revision "
            f"{escape(first['revision'][:12])}{changed}{several}.<br>"
            f"<span class=note>{escape(versions)}</span></p>{quick}")


def ordered(results):
    names = [name for name in scenario.NAMES if name in results]
    return [results[name] for name in names + sorted(set(results) - set(names))]


def page(results):
    notes = "".join(f"<li>{note}</li>" for note in NOTES)
    return (
        "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width'><title>seckill: load campaigns</title>"
        f"<style>{STYLE}</style></head><body><h1>seckill: load campaigns</h1>{origin(results)}"
        f"{audits(results)}{plots.overview(results)}"
        f"{table(('in one line each', 'measured', 'bound', 'met'), check_rows(results))}"
        f"<p class=note>Ratios are those of × bare.</p>"
        f"{''.join(map(section, ordered(results)))}"
        f"<section><h2>How to read it</h2><ul class=note>{notes}</ul></section></body></html>\n")


# --- The README's part ----------------------------------------------------------------------------

README_CAMPAIGNS = ("steady", "soldout", "rush", "mixed", "strategies", "latency")
BEGIN = "<!-- made by loadtest/report: begin -->\n"
END = "<!-- made by loadtest/report: end -->\n"


def markdown_lines(results):
    machine = ordered(results)[0]["machine"]
    yield (f"{machine['processor']}, {machine['cores']} cores, everything on it: load generator, "
           "service, Redis, MariaDB with fsync at commit.")
    yield ""
    yield "| campaign | per s | × bare | share of limit | p50 | p99 |"
    yield "|---|---|---|---|---|---|"
    bare = [one["bare_per_s"] for result in results.values() for run in measured(result)
            for one in run["rounds"]]
    yield f"| bare HTTP server | {statistics.median(bare):,.0f} | 1 | | | |"
    for name in README_CAMPAIGNS:
        for run in measured(results.get(name, {"runs": ()})):
            label = f": {run['label']}" if run["label"] else ""
            yield (f"| {name}{label} | {run['per_s']:,.0f} | {ratio(run['of_bare'])} | "
                   f"{ratio(run['of_limit'])} | {run['p50_ms']:.1f} ms | {run['p99_ms']:.1f} ms |")
    yield ""
    yield "| ratio of × bare | measured | aim |"
    yield "|---|---|---|"
    for what, value, bound, _ in checks(results):
        yield f"| {what} | {value:.2f} | {'' if bound is None else f'≥ {bound}'} |"


def into_readme(text, results):
    """The text with what stands between the two marks made anew."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"it has no lines {BEGIN.strip()} and {END.strip()}")
    return before + BEGIN + "\n".join(markdown_lines(results)) + "\n" + END + after
