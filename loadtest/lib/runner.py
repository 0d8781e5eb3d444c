"""Runs a scenario: for each of its runs an empty ledger, daemons, load, limits and the audit."""

import threading
import time
from pathlib import Path

from harness.processes import HarnessError
from lib import figures, generators, ledger, limits
from lib.fleet import Fleet, described
from lib.progress import Meter

BARE_S, WARM_UP_S, PROBE_S = 1, 1, 1
TOTAL_MAX = 10_000_000
ORDERS_PER_S_MAX = 300_000  # more than any machine sells, so that stock stays ample
PAY_WITHIN_S = 2
STOCK_EVERY_S = 0.05
AFTER_SOLD_OUT_S = 0.3
AUDIT_SEGMENTS_MAX = 20  # kept in a result
FILL_PER_S = 150_000  # to guess how long filling takes, with the audit
# These strategies leave the counters in Redis alone, which a reconcile sets right.
WITHOUT_COUNTERS = ("single_lock", "database")


class Shop:
    """What all runs share."""

    def __init__(self, args, stack, bare, build, progress):
        self.args, self.stack, self.bare = args, stack, bare
        self.build, self.progress = build, progress
        self.limits = {}

    def limits_of(self, batch, clients):
        key = (batch, clients)
        if key not in self.limits:
            self.limits[key] = limits.measure(self.stack, self.args.build / "insert_limit", batch,
                                              clients)
        return self.limits[key]


def options_of(settings):
    return {key.removeprefix("daemon."): value for key, value in settings.items()
            if key.startswith("daemon.") and value != "default"}


def guess_seconds(settings):
    """A guess how long a run will take."""
    tuning = len(settings["tune_order_workers"]) * (PROBE_S + 1)
    return (6 + settings["rounds"] * (min(settings["seconds"], 6) + BARE_S) + tuning
            + settings["prefill"] / FILL_PER_S)


class StockWatch:
    """Context manager: samples the stock of a sale, per segment, until it is sold out."""

    def __init__(self, fleet, sku):
        self.fleet, self.sku = fleet, sku
        self.samples = []
        self.sold_out_at = None
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._watch)

    def __enter__(self):
        self.start = time.monotonic()
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def _watch(self):
        while not self.ended.wait(STOCK_EVERY_S):
            stock = self.fleet.stock(self.sku)
            if stock is None:
                continue
            now = time.monotonic()
            left = [segment["available"] for segment in stock["segments"]]
            self.samples.append([round(now - self.start, 3), left])
            if sum(left) == 0:
                self.sold_out_at = now
                return

    def over(self):
        return (self.sold_out_at is not None
                and time.monotonic() - self.sold_out_at > AFTER_SOLD_OUT_S)


class Run:
    """One run of a scenario against one fleet."""

    def __init__(self, shop, fleet, settings, peak_per_s=0):
        self.shop, self.fleet, self.settings = shop, fleet, settings
        self.peak_per_s = peak_per_s
        self.meter = Meter(shop.progress, fleet.daemons)
        self.skus = [f"sale-{number}" for number in range(settings["sale.sales"])]
        self.asked = self.skus if settings["sale.spread"] else self.skus[:1]
        self.seen = 0
        self.recorded = []

    # Sales.

    def total(self):
        if self.settings["sale.total"] != "ample":
            return self.settings["sale.total"]
        seconds = self.settings["seconds"] * self.settings["rounds"] * 2 + 2 * WARM_UP_S
        return min(TOTAL_MAX, seconds * ORDERS_PER_S_MAX)

    def open_sales(self):
        expiring = self.settings["script"] == "mixed" and self.fleet.sales_expire()
        for number, sku in enumerate(self.skus):
            options = {"pay_within_s": PAY_WITHIN_S} if expiring and number % 2 else {}
            self.fleet.reset(sku, self.total(), self.settings["sale.segments"], **options)
        if self.settings["prefill"]:
            self.shop.progress.say(f"{self.settings['prefill']:,} orders into the ledger")
            ledger.fill(self.shop.stack, self.fleet, self.settings["prefill"],
                        self.settings["sale.segments"], self.shop.progress.tick)

    def sell_out(self):
        order = {"sku": self.skus[0], "user_id": "first", "qty": 1}
        status, text = 201, ""
        while status == 201:
            status, text = self.fleet.ask("POST", "/order", order)
        if status != 409:
            raise HarnessError(f"selling out {self.skus[0]}: {status} {text}")
        self.seen += self.total()

    # Loads.

    def environment(self):
        env = {"ORDER_SKUS": ",".join(self.asked), "ORDER_QTY": self.settings["sale.qty"]}
        if self.settings["script"] == "mixed":
            calls = [name for name in ("cancel", "pay") if self.fleet.offers(name)]
            env["ORDER_CALLS"] = ",".join(calls)
        if self.settings["record"]:
            env["ORDER_RECORD"] = f"{self.shop.stack.directory}/acked-{time.monotonic_ns()}"
            self.recorded.append(Path(env["ORDER_RECORD"]))
        return env

    def wrk(self, seconds, until=None):
        argv = generators.wrk_argv(
            self.fleet.door.url("/order"), self.shop.args.threads, self.settings["connections"],
            seconds, self.settings["script"])
        return self.measure(argv, until)

    def pace(self):
        argv = generators.pace_argv(
            self.shop.args.build / "pace", self.fleet.door,
            self.peak_per_s * self.settings["rate_share"], self.settings["seconds"],
            self.settings["connections"])
        return self.measure(argv)

    def measure(self, argv, until=None):
        run = generators.measure(argv, self.environment(), self.fleet.pids, self.meter.tick, until)
        run["connections"] = self.settings["connections"]
        self.seen += run["accepted_seen"]
        return run

    def bare(self):
        shop, bare = self.shop, self.shop.bare
        argv = generators.wrk_argv(bare.url("/order"), shop.args.threads,
                                   self.settings["connections"], BARE_S)
        return generators.measure(argv, {"ORDER_SKUS": "demo"}, {
            "server": [bare.process.pid], **shop.stack.pids()}, shop.progress.tick)

    def rounds(self, once):
        count = self.settings["rounds"]
        measured = generators.measure_rounds(once, self.bare, count, figures.count_calm)
        return figures.merge(measured, count)

    # A kind of load each.

    def closed(self):
        self.wrk(WARM_UP_S)
        return self.rounds(lambda: self.wrk(self.settings["seconds"]))

    def paced(self):
        if not self.peak_per_s:
            raise HarnessError("a paced run wants a closed one before it, for the peak")
        self.pace()
        result = self.rounds(self.pace)
        result["rate_wanted"] = result["rounds"][0]["rate_wanted"]
        return result

    def rush(self):
        """Sells to the last unit, again and again, with an audit after each time."""
        audits, stock = [], []

        def once():
            self.fleet.reset(self.skus[0], self.total(), self.settings["sale.segments"])
            with StockWatch(self.fleet, self.skus[0]) as watch:
                run = self.wrk(self.settings["seconds"], watch.over)
            if watch.sold_out_at is None:
                raise HarnessError(f"not sold out within {self.settings['seconds']} s")
            run["sale_s"] = ledger.sale_seconds(self.shop.stack, self.skus[0])
            run["accepted_per_s"] = self.total() / run["sale_s"]
            stock.append(watch.samples)
            audits.append(self.audit())
            return run

        result = self.rounds(once)
        result["stock"] = stock[0]
        result["audit"] = next((audit for audit in audits if not audit["consistent"]), audits[-1])
        return result

    def run(self):
        """The figures, with the audit and the limits."""
        if self.settings["counts"] == "answers":
            self.sell_out()
        before = self.fleet.metrics()
        result = {"closed": self.closed, "paced": self.paced, "rush": self.rush}[
            self.settings["load"]]()
        after = self.fleet.metrics()
        result["metrics"] = {name: value - before.get(name, 0) for name, value in after.items()
                             if value != before.get(name, 0)}
        result["options"] = described(self.fleet.options)
        figures.add_rate(result, self.settings["counts"])
        self.add_limits(result)
        result.setdefault("audit", None)
        result["audit"] = result["audit"] or self.audit()
        return result

    # What it is compared with.

    def add_limits(self, result):
        bare_per_s = sum(run["bare_per_s"] for run in result["rounds"]) / len(result["rounds"])
        result["limits"] = {"bare_per_s": bare_per_s, "combined_per_s": bare_per_s}
        if self.settings["counts"] == "accepted":
            self.shop.progress.say("limits of Redis and the ledger")
            options = self.fleet.options
            found = self.shop.limits_of(
                int(options.get("max_batch", self.shop.build.defaults["max_batch"])),
                int(options.get("order_workers", 1)))
            result["limits"].update(found, combined_per_s=limits.combined(
                bare_per_s, found["redis_per_s"], found["insert_per_s"]))
        result["of_limit"] = result["per_s"] / result["limits"]["combined_per_s"]

    def audit(self):
        self.shop.progress.say("audit")
        if self.settings["record"]:
            parts = [path for prefix in self.recorded
                     for path in prefix.parent.glob(f"{prefix.name}*")]
            options = ["--acked", *map(str, parts), "--wait=60"]
        else:
            options = [f"--acked-min={self.seen}"]
        skus = self.skus + ([ledger.PAST_SKU] if self.settings["prefill"] else [])
        if self.fleet.options.get("strategy") in WITHOUT_COUNTERS:
            report = generators.audit(self.shop.stack, skus, [*options, "--allow-dirty"])
            if not report["consistent"]:
                return shortened(report)
            for sku in skus:
                self.fleet.reconcile(sku)
        return shortened(generators.audit(self.shop.stack, skus, options))


def shortened(report):
    """A report without the segments when these are too many to be read."""
    sales = report.get("sales", [report])
    if sum(len(sale["segments"]) for sale in sales) > AUDIT_SEGMENTS_MAX:
        for sale in sales:
            del sale["segments"]
        report.pop("sales", None)
    return report


def best_order_workers(shop, settings, options, candidates):
    """The number of order workers that short runs find best, and the rates of all numbers."""
    rates = {}
    for workers in candidates:
        shop.stack.clean()
        with Fleet(shop.args.daemon, shop.stack, {**options, "order_workers": workers}) as fleet:
            run = Run(shop, fleet, settings)
            run.open_sales()
            rates[workers] = run.wrk(PROBE_S)["accepted_per_s"]
    return max(rates, key=rates.get), rates


def one(shop, settings, peak_per_s):
    options = options_of(settings)
    probes = None
    if settings["tune_order_workers"]:
        options["order_workers"], probes = best_order_workers(
            shop, settings, options, settings["tune_order_workers"])
    shop.stack.clean()
    with Fleet(shop.args.daemon, shop.stack, options, settings["instances"],
               settings["proxy"]) as fleet:
        run = Run(shop, fleet, settings, peak_per_s)
        run.open_sales()
        result = run.run()
    for prefix in run.recorded:
        for path in prefix.parent.glob(f"{prefix.name}*"):
            path.unlink()
    return {**result, "probes": probes} if probes else result


def run_scenario(shop, scenario, tell):
    """Adds its figures, or why there are none, to each run of a scenario; tell(run) after each."""
    peak_per_s = 0
    shop.limits.clear()  # limits are to be measured in the same minutes
    for number, run in enumerate(scenario["runs"], 1):
        where = f"{scenario['campaign']} {number}/{len(scenario['runs'])} {run['label']}"
        shop.progress.begin(where.strip())
        lacking = shop.build.lacks(options_of(run["settings"]))
        if lacking:
            run.update(status="not available", reason=lacking)
        else:
            try:
                run.update(one(shop, run["settings"], peak_per_s), status="ok", reason="")
                if not run["audit"]["consistent"]:
                    run.update(status="audit failed", reason="; ".join(run["audit"]["differences"]))
                if run["settings"]["load"] == "closed":
                    peak_per_s = run["per_s"]
            except HarnessError as error:
                run.update(status="failed", reason=str(error))
        tell(run)
    return scenario
