"""The checks of campaigns: each figure that has a bound, and ratios between runs."""

from lib.report import targets
from lib.results import find, measured


def ratio(one, other):
    """The ratio of two runs, each relative to the bare server around it: noise cancels out."""
    return one["of_bare"] / other["of_bare"] if one and other and other["of_bare"] else None


def strategies(results):
    def run(strategy, batch):
        return find(results, "strategies", daemon_strategy=strategy, daemon_max_batch=batch)
    one, many, full = run("single_lock", 1), run("segment_lock", 1), run("segment_lock", "default")
    yield "20 segments ÷ one lock, an order at a time", ratio(many, one), "segments"
    yield "batching: full batches ÷ an order at a time, 20 segments", ratio(full, many), "batching"
    yield ("segments and batching: full batches ÷ one lock, an order at a time",
           ratio(full, one), "segments and batching")
    yield ("segment_lock ÷ lock-free atomic, full batches", ratio(full, run("atomic", "default")),
           "without locks")


def growth(results):
    def run(**wanted):
        return find(results, "growth", **{"sale_sales": 1, "prefill": 0, "sale_spread": False,
                                          **wanted})
    most = max((run["settings"]["prefill"] for run in results["growth"]["runs"]), default=0)
    sales = max((run["settings"]["sale.sales"] for run in results["growth"]["runs"]), default=1)
    yield f"{most:,} orders in the ledger ÷ none", ratio(run(prefill=most), run()), "ledger"
    yield f"{sales:,} sales, one wanted ÷ one sale", ratio(run(sale_sales=sales), run()), "sales"
    yield (f"{sales:,} sales, all wanted ÷ one sale",
           ratio(run(sale_sales=sales, sale_spread=True), run()), "many sales")


def checks(results):
    """[(what, value, bound as text, whether it is met, None when not judged)] of all figures that
    have a bound, and of the ratios above."""
    rows = []
    for name, result in results.items():
        for label, figure, value, bound, met in targets.checks(measured(result)):
            rows.append((f"{name}: {label}: {figure}" if label else f"{name}: {figure}", value,
                         bound, met))
    for part in (strategies, growth):
        for what, value, name in part(results) if part.__name__ in results else ():
            bound = targets.ratio(name)
            if value is not None:
                rows.append((what, value, "" if bound is None else f"≥ {bound:g}",
                             bound is None or value >= bound))
    return rows
