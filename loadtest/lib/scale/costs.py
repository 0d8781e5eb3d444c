"""The costs of an order and a batch, from the results of campaigns: input of the model of scale.

A cost per answer is a + b / batch. Runs with batches of several sizes tell a and b apart."""

from harness.processes import HarnessError
from lib.results import measured

PARTS = ("server", "mariadb", "redis", "proxy", "wrk", "interrupts")
SOLD_OUT = "sold out"


def fit(points):
    """(a, b) of cost = a + b / batch, from (batch, cost), by least squares of the relative errors.
    Neither is below 0."""
    rows = [(1 / cost, 1 / (batch * cost)) for batch, cost in points if cost > 0]
    if not rows:
        return 0.0, 0.0
    xx, xy, yy = (sum(row[i] * row[j] for row in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    x, y = (sum(row[i] for row in rows) for i in (0, 1))
    determinant = xx * yy - xy * xy
    if determinant > 1e-12 * xx * yy:
        a, b = (x * yy - y * xy) / determinant, (y * xx - x * xy) / determinant
        if a >= 0 and b >= 0:
            return a, b
    # One of the two explains the points alone: the one that leaves the smaller errors.
    return min(((x / xx, 0.0), (0.0, y / yy)),
               key=lambda ab: sum((ab[0] * p + ab[1] * q - 1) ** 2 for p, q in rows))


def mean(run, name):
    """The mean of one of the service's histograms over a run, in milliseconds."""
    return 1e3 * run["metrics"][f"{name}_sum"] / run["metrics"][f"{name}_count"]


def batch_of(run):
    return run["metrics"]["seckill_batch_orders_sum"] / run["metrics"]["seckill_batch_orders_count"]


def calls_a_batch(run, name):
    return run["metrics"][f"{name}_count"] / run["metrics"]["seckill_batch_orders_count"]


def idle_share(run):
    return run["cpu_shares"]["idle"]


def from_campaign(result):
    """The costs in the result of the campaign "costs"."""
    runs = measured(result)
    selling = [run for run in runs if run["settings"]["counts"] == "accepted"]
    refusing = [run for run in runs if run["label"] == SOLD_OUT]
    if len(selling) < 2 or not refusing:
        raise HarnessError("the campaign costs wants batches of several sizes and \"sold out\"")
    pairs = {part: fit([(batch_of(run), run["cpu_us"][part]) for run in selling
                        if part in run["cpu_us"]]) for part in PARTS}
    largest = max(selling, key=batch_of)
    return {
        "time": result["time"], "revision": result["revision"], "machine": result["machine"],
        "cpu_us": {part: {"order": a, "batch": b} for part, (a, b) in pairs.items() if a or b},
        "ledger_ms": dict(zip(("batch", "order"), fit_line(
            [(batch_of(run), mean(run, "seckill_ledger_seconds")) for run in selling]))),
        "redis_ms": mean(largest, "seckill_redis_seconds"),
        "redis_trips": calls_a_batch(largest, "seckill_redis_seconds"),
        "http_us": refusing[0]["cpu_us"]["server"],
        "batch": batch_of(largest), "idle": idle_share(largest),
        "connections": largest["settings"]["connections"],
        "order_workers": 2,
        "seen": [{"batch": batch_of(run), "per_s": run["per_s"], "cpu_us": run["cpu_us"]}
                 for run in selling],
    }


def fit_line(points):
    """(a, b) of time = a + b × batch; neither is below 0."""
    turned = fit([(1 / batch, time) for batch, time in points])
    return turned
