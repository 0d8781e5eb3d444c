"""The question of each campaign, answered in a sentence by its figures."""

import statistics

from lib.figures import served_us
from lib.report import targets
from lib.report.table import ms, ratio
from lib.results import find, measured, option

NEAR = 0.95  # of the best rate: as good as it


def rate(run):
    return f"{run['per_s']:,.0f}"


def percent(share, digits=0):
    return f"{100 * share:.{digits}f} %"


def listed(parts, last="and"):
    parts = list(parts)
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {last} {parts[-1]}"


def by_label(result):
    return {run["label"]: run for run in measured(result)}


AROUND = (("GET /stock", "looking at the stock"), ("GET /order", "looking at an order"),
          ("pay", "paying"), ("cancel, beside 2,000 orders/s", "cancelling"),
          ("mixed", "the mix of all"))


def around(result):
    runs = by_label(result)
    order = runs.get("a shop's order")
    others = [(f"{what} ({ratio(runs[label]['per_s'] / order['per_s'])} ×)",
               runs[label]["per_s"] >= order["per_s"])
              for label, what in AROUND if order and label in runs]
    faster = [text for text, fast in others if fast]
    slower = [text for text, fast in others if not fast]
    if not faster:
        return f"It is slower than a shop's orders: {listed(slower)}." if slower else ""
    text = f"Faster than a shop's orders: {listed(faster)}"
    return f"{text}; slower: {listed(slower)}." if slower else f"{text}. Nothing is slower."


def steady(result):
    runs = by_label(result)
    shop, bare = runs.get("a shop's order"), runs.get("bare order")
    if not shop:
        return ""
    beside = f" ({rate(bare)} without key, limit and time to pay)" if bare else ""
    return (f"It accepts {rate(shop)} orders a second as a shop sends them{beside}; with "
            f"{shop['settings']['connections']} customers who never pause, half of the answers "
            f"come within {ms(shop['p50_ms'])} ms, 99 % within {ms(shop['p99_ms'])} ms.")


def soldout(result):
    run = measured(result)[0]
    yes = "Yes" if run["of_bare"] >= NEAR else "Nearly" if run["of_bare"] >= 0.8 else "No"
    return (f"{yes}: it refuses {rate(run)} orders a second, {ratio(run['of_bare'])} × what a bare "
            "HTTP server answers.")


def rush(result):
    run = measured(result)[0]
    seconds = statistics.median(one["sale_s"] for one in run["rounds"])
    total = run["settings"]["sale.total"]
    exact = ("and every sale sells exactly those" if run["audit"]["consistent"]
             else "but an audit FAILED")
    return f"{total:,} units last {seconds:.1f} s, {exact}."


def mixed(result):
    run = measured(result)[0]
    us = served_us(run)
    right = "Yes, the audit is consistent" if run["audit"]["consistent"] else "No, the audit FAILED"
    return (f"{right}; {rate(run)} orders a second are accepted among everything else, and an "
            f"answer costs {us:.0f} µs of the processors.")


def extremes(runs, batch):
    mine = [run for run in runs if option(run, "max_batch") == batch]
    if not mine:
        return ""
    best, worst = (choose(mine, key=lambda run: run["per_s"]) for choose in (max, min))
    return (f"from {rate(worst)} orders a second ({option(worst, 'strategy')}) to {rate(best)} "
            f"({option(best, 'strategy')})")


def strategies(result):
    parts = [f"{what} {found}" for what, found in (
        ("An order at a time, the ways go", extremes(measured(result), 1)),
        ("with full batches,", extremes(measured(result), "default"))) if found]
    return "; ".join(parts) + "."


def segments(result):
    texts = []
    for batch, what in (("default", "with full batches"), (1, "an order at a time")):
        mine = {run["settings"]["sale.segments"]: run["per_s"] for run in measured(result)
                if option(run, "max_batch") == batch}
        if len(mine) > 1 and 1 in mine:
            enough = min(count for count in mine if mine[count] >= NEAR * max(mine.values()))
            gain = mine[enough] / mine[1]
            texts.append(f"{what}, {enough} {'is' if enough == 1 else 'are'} enough"
                         + (f" ({gain:.1f} × the rate of one)" if enough > 1 else ""))
    return f"{'; '.join(texts)}.".capitalize() if texts else ""


def batch(result):
    rates = {run["settings"]["daemon.max_batch"]: run["per_s"] for run in measured(result)}
    enough = min(size for size in rates if rates[size] >= NEAR * max(rates.values()))
    if enough == 1:
        return "An order at a time is as fast as any batch."
    if 1 not in rates:
        return f"Batches of {enough} are enough."
    return (f"Batches of {enough} accept {rates[enough] / rates[1]:.0f} × what an order at a time "
            "does; larger ones bring no twentieth more.")


LOCKS = {"redlock": "RedLock over three Redis", "mysql": "MySQL", "zookeeper": "ZooKeeper"}


def locks(result):
    runs = {option(run, "lock"): run["of_bare"] for run in measured(result)}
    others = [f"{LOCKS.get(name, name)} leaves {ratio(value / runs['redis'])}"
              for name, value in runs.items() if name != "redis" and "redis" in runs]
    return f"Of the rate with a lock in one Redis, {listed(others)}." if others else ""


def instances(result):
    alone = next((run for run in measured(result) if not run["settings"]["proxy"]), None)
    behind = {run["settings"]["instances"]: run for run in measured(result)
              if run["settings"]["proxy"]}
    if not alone or 1 not in behind:
        return ""
    more = [f"{count} bring {ratio(run['per_s'] / behind[1]['per_s'])} ×"
            for count, run in behind.items() if count > 1]
    kept = percent(behind[1]["per_s"] / alone["per_s"])
    text = f"One daemon behind the proxy keeps {kept} of its rate"
    return f"{text}; of that, {listed(more)} on this machine." if more else f"{text}."


def pair_ratios(result, value):
    """value of each run ÷ that of the one that it is compared with, in the same minute."""
    runs = measured(result)
    both = [(run, targets.other_of(run, runs)) for run in runs]
    return [value(run) / value(other) for run, other in both if other and value(other)]


def cluster(result):
    ratios = pair_ratios(result, lambda run: run["of_bare"])
    return (f"Three masters sell {ratio(statistics.median(ratios))} × of what one Redis sells on "
            "the same cores." if ratios else "")


def daemons(result):
    ratios = pair_ratios(result, served_us)
    return (f"An order costs {ratio(statistics.median(ratios))} × of what it costs with one daemon."
            if ratios else "")


def pods(result):
    ratios = pair_ratios(result, targets.per_pod)
    return (f"Each of two pods takes {ratio(statistics.median(ratios))} × of what one pod takes by "
            "itself." if ratios else "")


def costs(result):
    runs = [run for run in measured(result) if run["settings"]["counts"] == "accepted"]
    first, last = (served_us(choose(runs, key=lambda run: run["settings"]["daemon.max_batch"]))
                   for choose in (min, max)) if runs else (0, 0)
    if not runs:
        return ""
    return f"An order costs {first:.0f} µs by itself, {last:.0f} µs in a large batch."


def latency(result):
    paced = [run for run in measured(result) if "rate_wanted" in run]
    if not paced:
        return ""
    text = (f"At {listed(percent(run['settings']['rate_share']) for run in paced)} of the peak, "
            f"99 % of the orders are answered within {listed(ms(run['p99_ms']) for run in paced)} "
            "ms")
    bare = [ms(run["bare_paced"]["p99_ms"]) for run in paced if "bare_paced" in run]
    return f"{text}; the bare server takes {listed(bare)} ms." if bare else f"{text}."


def growth(result):
    results = {"growth": result}
    most = max((run["settings"]["prefill"] for run in measured(result)), default=0)
    sales = max((run["settings"]["sale.sales"] for run in measured(result)), default=1)
    base = find(results, "growth", prefill=0, sale_sales=1)
    if base is None:
        return ""
    cases = (
        (f"{most:,} orders in the ledger", find(results, "growth", prefill=most, sale_sales=1)),
        (f"{sales:,} sales with one of them wanted",
         find(results, "growth", sale_sales=sales, sale_spread=False)),
        (f"{sales:,} with all of them wanted",
         find(results, "growth", sale_sales=sales, sale_spread=True)))
    parts = [f"{what} leave {ratio(run['of_bare'] / base['of_bare'])}"
             for what, run in cases if run and run is not base]
    return f"Of the rate of the first day, {listed(parts)}." if parts else ""


def bench(result):
    run = by_label(result).get("a shop's order")
    return (f"A shop's orders run at {ratio(run['of_bare'])} × a bare server; loadtest/compare "
            "tells whether that differs from yesterday's result." if run else "")


def connections(result):
    texts = []
    for keys, what in ((True, "a shop's orders"), (False, "bare orders")):
        rates = {run["settings"]["connections"]: run["per_s"] for run in measured(result)
                 if run["settings"]["order.keys"] == keys}
        if rates:
            reached = min(count for count in rates if rates[count] >= 0.9 * max(rates.values()))
            texts.append(f"{what} reach nine tenths of their best rate from {reached:,} "
                         f"connections on, and {max(rates):,} keep "
                         f"{percent(rates[max(rates)] / max(rates.values()))} of it")
    text = "; ".join(texts)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def rules(result):
    runs = measured(result)
    parts = [f"{ratio(run['of_bare'] / other['of_bare'])} of the rate of “{other['label']}”"
             for run in runs for other in [targets.other_of(run, runs)] if other]
    return f"All rules together leave {listed(parts)}." if parts else ""


def fairness(result):
    run = measured(result)[0]
    return (f"Their p99 beside the hot sale is {ratio(run['p99_of_alone'])} × that without it: "
            f"{ms(run['p99_ms'])} ms.")


def expiry(result):
    parts = [f"{ratio(run['of_without'])} ({run['label'].split(': ')[-1]})"
             for run in measured(result) if "of_without" in run]
    return f"Of its rate the sale keeps {listed(parts)} while they expire." if parts else ""


def memory(result):
    run = measured(result)[0]
    return (f"It grows by {percent(run['grown'], 1)} in {run['settings']['seconds']} s, with "
            f"{run['settings']['idle_connections']:,} idle connections open.")


def flood(result):
    runs = [run for run in measured(result) if "of_alone" in run]
    if not runs:
        return ""
    worst = min(runs, key=lambda run: run["of_alone"])
    slowest = {name: max(run[f"{name}_max_ms"] for run in runs if f"{name}_max_ms" in run)
               for name in ("admin", "ops") if any(f"{name}_max_ms" in run for run in runs)}
    text = (f"Buyers keep between {ratio(worst['of_alone'])} (beside {worst['settings']['call']}) "
            f"and {ratio(max(run['of_alone'] for run in runs))} of their rate")
    if len(slowest) == 2:
        text += (f"; the operator waits {slowest['admin']:.0f} ms at most, the load balancer "
                 f"{slowest['ops']:.0f} ms")
    return f"{text}."


BY_CAMPAIGN = {function.__name__: function for function in (
    around, steady, soldout, rush, mixed, strategies, segments, batch, locks, instances, latency,
    growth, bench, connections, rules, fairness, expiry, memory, flood, cluster, daemons, pods,
    costs)}


def answer(result):
    """A sentence; '' where too little was measured to answer."""
    make = BY_CAMPAIGN.get(result["campaign"])
    return make(result) if make and measured(result) else ""
