"""The ratios that the campaigns are to show, each with its bound."""

from lib.results import find


def ratio(one, other):
    """The ratio of two runs, each relative to the bare server around it: noise cancels out."""
    return one["of_bare"] / other["of_bare"] if one and other and other["of_bare"] else None


def strategies(results):
    def run(strategy, batch):
        return find(results, "strategies", daemon_strategy=strategy, daemon_max_batch=batch)
    one, many, full = run("single_lock", 1), run("segment_lock", 1), run("segment_lock", "default")
    yield "20 segments ÷ one lock, an order at a time", ratio(many, one), 1
    yield "20 segments: full batches ÷ an order at a time", ratio(full, many), 1
    yield "20 segments with full batches ÷ one lock", ratio(full, one), 1
    yield ("segment_lock ÷ lock-free atomic, full batches", ratio(full, run("atomic", "default")),
           0.9)


def growth(results):
    def run(**wanted):
        return find(results, "growth", **{"sale_sales": 1, "prefill": 0, "sale_spread": False,
                                          **wanted})
    most = max((run["settings"]["prefill"] for run in results["growth"]["runs"]), default=0)
    sales = max((run["settings"]["sale.sales"] for run in results["growth"]["runs"]), default=1)
    yield f"{most:,} orders in the ledger ÷ none", ratio(run(prefill=most), run()), 0.8
    yield f"{sales:,} sales, one wanted ÷ one sale", ratio(run(sale_sales=sales), run()), 0.9
    yield (f"{sales:,} sales, all wanted ÷ one sale",
           ratio(run(sale_sales=sales, sale_spread=True), run()), None)


def headlines(results):
    for name, what, bound in (("steady", "accepted orders ÷ bare HTTP", 0.65),
                              ("soldout", "sold-out answers ÷ bare HTTP", 0.85)):
        run = find(results, name)
        yield what, run and run["of_bare"], bound


def checks(results):
    """[(what, value, bound or None, whether it is met)] of all that was measured."""
    parts = [headlines(results)]
    if "strategies" in results:
        parts.append(strategies(results))
    if "growth" in results:
        parts.append(growth(results))
    return [(what, value, bound, bound is None or value >= bound)
            for part in parts for what, value, bound in part if value is not None]
