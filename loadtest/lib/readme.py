"""Makes the README's tables of figures anew, between two marks."""

import statistics

from lib.page import ordered, ratio
from lib.results import measured
from lib.story import checks

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
