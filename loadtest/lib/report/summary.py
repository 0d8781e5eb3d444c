"""The head of a report: whether the sales were right, and three figures."""

from lib import results as results_of
from lib.figures import served_us
from lib.report.table import ms, ratio
from lib.results import find, measured

HALF = 0.5
SHOP = (("steady", "a shop's order"), ("around", "a shop's order"), ("bench", "a shop's order"))
WRONG = ("failed", "audit failed")


def rounded(count):
    """"33 million" of 33,412,000."""
    if count >= 1e7:
        return f"{count / 1e6:.0f} million"
    return f"{count / 1e6:.1f} million" if count >= 1e6 else f"{count:,}"


def audits(results):
    """How many runs were audited, what they sold, and what the audits found wrong."""
    found = [run["audit"] for result in results.values() for run in measured(result)]
    return {"run_count": len(found), "order_count": sum(audit["orders"] for audit in found),
            "oversold": sum(audit.get("oversold", 0) for audit in found),
            "lost": sum(audit.get("lost", 0) for audit in found),
            "told": sum(audit.get("told", 0) for audit in found),
            "untold": sum(audit.get("untold", 0) for audit in found),
            "wrong": sum(run["status"] in WRONG for result in results.values()
                         for run in result["runs"])}


def headline(results):
    """The headline: (orders that clients were told of, in how many runs; oversold and lost)."""
    found = audits(results)
    runs = f"{found['run_count']} run{'s' if found['run_count'] != 1 else ''}"
    return (f"{rounded(found['told'])} orders in {runs}",
            f"{found['oversold']:,} oversold, {found['lost']:,} lost")


def told_text(results):
    """What became of the orders that clients were told of."""
    found = audits(results)
    return (f"Clients were told of {found['told']:,} orders in {found['run_count']} runs. The "
            f"audits looked for each of their ids in the ledger: {found['lost']:,} are missing. "
            f"{found['untold']:,} other orders were committed whose clients had hung up before "
            "they were told, at the end of a load.")


def shops_order(results):
    """(campaign, run) of a shop's orders at full load; (None, None)."""
    for name, label in SHOP:
        run = find(results, name, label=label)
        if run:
            return name, run
    return None, None


def rate_tile(name, run, interval):
    ends = f" (99 % interval {'–'.join(map(ratio, interval))})" if interval else ""
    return {"name": "orders_per_s", "value": f"{run['per_s']:,.0f}", "unit": "orders a second",
            "what": "as a shop sends them: with a key, a limit for each user and a time to pay",
            "note": f"{ratio(run['of_bare'])} × a bare HTTP server{ends}", "campaign": name,
            "number": run["per_s"]}


def cpu_tile(name, run):
    us = run["cpu_us"]
    return {"name": "processor_us", "value": f"{served_us(run):.0f} µs",
            "unit": "processor time an order",
            "what": "the service, MariaDB and Redis together",
            "note": f"service {us['server']:.0f}, MariaDB {us['mariadb']:.0f}, Redis "
                    f"{us['redis']:.0f}", "campaign": name, "number": served_us(run)}


def wait_tile(run):
    bare = run["bare_paced"]["p99_ms"]
    return {"name": "half_load_p99_ms", "value": f"{ms(run['p99_ms'])} ms",
            "unit": "p99 at half load",
            "what": f"at {run['rate_wanted']:,.0f} orders a second, half of the peak, whatever the "
                    "answers do", "note": f"a bare HTTP server at this rate: {ms(bare)} ms",
            "campaign": "latency", "number": run["p99_ms"]}


def tiles(results):
    """The figures that were measured, of: orders a second, p99 at half load, processor time."""
    name, run = shops_order(results)
    half = find(results, "latency", load="paced", rate_share=HALF)
    found = []
    if run:
        found.append(rate_tile(name, run, results_of.intervals(results[name])[run["label"]]))
    if half and "bare_paced" in half:
        found.append(wait_tile(half))
    if run:
        found.append(cpu_tile(name, run))
    return found
