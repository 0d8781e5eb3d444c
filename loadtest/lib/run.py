"""One run of a scenario against one fleet: its sales, its load, what it is compared with."""

import contextlib
import json
import os
import random
import time
from array import array
from pathlib import Path

from harness.audit import audit_until_settled, of_pods
from harness.processes import HarnessError
from lib import figures, generators, ledger, limits, metrics, told
from lib.fleet import described
from lib.pool import Pool
from lib.progress import Meter
from lib.watch import Watch

BARE_S, LONG_BARE_S = 1, 2  # the latter beside rounds of at least LONG_S
LONG_S = 5
WARM_UP_S = 1
TOTAL_MAX = 10_000_000
ORDERS_PER_S_MAX = 300_000  # more than any machine sells, so that stock stays ample
PAY_WITHIN_S = 2            # of every second sale of the mixed load
WINDOW = {"starts_at": "2020-01-01T00:00:00Z", "ends_at": "2099-01-01T00:00:00Z"}
STOCK_EVERY_S = 0.05
AFTER_SOLD_OUT_S = 0.3
BESIDE_CONNECTIONS = 64
WEBHOOK_BATCH = 1000
SETTLE_S = 60               # at most, for rounds under way when the load ended
AUDIT_SEGMENTS_MAX = 20     # kept in a result
NO_AUDIT = {"consistent": True, "orders": 0, "oversold": 0, "lost": 0, "told": 0, "untold": 0,
            "states": {}, "differences": []}
BARE_IDS = 300_000          # of orders that the bare server is asked for: as many as there are
# The state that a call gives an order, for the calls that use each order once.
STATE_OF = {"pay": "paid", "pay_ref": "paid", "pay_late": "paid", "cancel": "cancelled",
            "refund": "refunded", "keep": "reserved", "extend": "reserved"}
# These strategies leave the counters in Redis alone, which a reconcile sets right.
WITHOUT_COUNTERS = ("single_lock", "database")
RECONCILES_MAX = 3          # orders that were under way when the load ended undo the first


class StockWatch(Watch):
    """Context manager: samples the stock of a sale, per segment, until it is sold out by `total`
    orders of one unit each; the load is over soon after all of them have been answered."""

    def __init__(self, fleet, sku, total):
        self.fleet, self.sku, self.total = fleet, sku, total
        self.samples = []
        self.start = self.sold_out_at = self.answered_at = None

    def __enter__(self):
        self.total += self.accepted()
        self.start = time.monotonic()
        return super().__enter__()

    def accepted(self):
        return metrics.outcome(self.fleet.metrics(), "accepted")

    def watch(self):
        while not self.ended.wait(STOCK_EVERY_S):
            stock = self.fleet.stock(self.sku)
            if stock is None:
                continue
            now = time.monotonic()
            left = [segment["available"] for segment in stock["segments"]]
            self.samples.append([round(now - self.start, 3), left])
            if sum(left) == 0:
                self.sold_out_at = now
                break
        while not self.ended.wait(STOCK_EVERY_S):
            if self.accepted() >= self.total:
                self.answered_at = time.monotonic()
                return

    def over(self):
        return (self.answered_at is not None
                and time.monotonic() - self.answered_at > AFTER_SOLD_OUT_S)


def bare_seconds(settings):
    return LONG_BARE_S if settings["seconds"] >= LONG_S else BARE_S


class Run:
    """One run of a scenario against one fleet."""

    def __init__(self, shop, fleet, settings, peak_per_s=0):
        self.shop, self.fleet, self.settings = shop, fleet, settings
        self.peak_per_s = peak_per_s
        self.meter = Meter(shop.progress, fleet.daemons)
        self.skus = [f"sale-{number}" for number in range(settings["sale.sales"])]
        self.asked = self.skus if settings["sale.spread"] else self.skus[:1]
        self.seen = 0      # orders answered 201
        self.called = 0    # pays or cancels answered 200
        self.by_hand = array("Q")  # ids of orders that no load generator placed
        self.record = Path(f"{shop.stack.directory}/told-{time.monotonic_ns()}")
        self.pool = Pool(shop.stack.ledger, self.skus[0], self.place, settings["call"])

    # Sales.

    def total(self):
        if self.settings["sale.total"] != "ample":
            return self.settings["sale.total"]
        round_s = self.settings["seconds"] + LONG_BARE_S
        seconds = round_s * self.settings["rounds"] * 2 + 2 * WARM_UP_S
        return min(TOTAL_MAX, seconds * ORDERS_PER_S_MAX)

    def rules(self, number):
        """The settings of a sale, by its number."""
        chosen = {name: self.settings[f"sale.{name}"] for name in
                  ("per_user_limit", "pay_within_s", "hold_max_s") if self.settings[f"sale.{name}"]}
        if self.settings["script"] == "mixed" and number % 2 and self.fleet.sales_expire():
            chosen["pay_within_s"] = PAY_WITHIN_S
        return {**chosen, **(WINDOW if self.settings["sale.window"] else {})}

    def open_sales(self):
        for number, sku in enumerate(self.skus):
            self.fleet.reset(sku, self.total(), self.settings["sale.segments"],
                             **self.rules(number))
        self.make_webhooks()
        if self.settings["prefill"]:
            self.shop.progress.say(f"{self.settings['prefill']:,} orders into the ledger")
            ledger.fill(self.shop.stack, self.fleet, self.settings["prefill"],
                        self.settings["sale.segments"], self.shop.progress.tick)

    def make_webhooks(self):
        """The bare server answers every request 201, and so takes whatever webhooks bring."""
        url = "http://%s:%d/" % self.shop.bare.address
        for number in range(self.settings["webhooks"]):
            status, text = self.fleet.ask("PUT", f"/admin/webhooks/load-{number}",
                                          {"url": url, "batch": WEBHOOK_BATCH})
            if status != 201:
                raise HarnessError(f"PUT /admin/webhooks/load-{number}: {status} {text}")

    def sell_out(self):
        order = {"sku": self.skus[0], "user_id": "first", "qty": 1}
        status, text = 201, ""
        while status == 201:
            status, text = self.fleet.ask("POST", "/order", order)
            if status == 201:
                self.by_hand.append(int(json.loads(text)["order_id"]))
        if status != 409:
            raise HarnessError(f"selling out {self.skus[0]}: {status} {text}")
        self.seen += self.total()

    # Loads.

    def order_environment(self):
        env = {"ORDER_SKUS": ",".join(self.asked), "ORDER_QTY": self.settings["sale.qty"],
               "ORDER_USERS": str(self.settings["order.users"]), "ORDER_RECORD": str(self.record)}
        return {**env, "ORDER_KEYS": "1"} if self.settings["order.keys"] else env

    def environment(self):
        if self.settings["script"] == "call":
            return self.call_environment()
        env = self.order_environment()
        if self.settings["script"] == "mixed":
            calls = [name for name in ("cancel", "pay") if self.fleet.offers(name)]
            env["ORDER_CALLS"] = ",".join(calls)
        return env

    def call_environment(self):
        return {"CALL": self.settings["call"], "CALL_SKU": self.skus[0],
                "CALL_TOKEN": self.fleet.token, "CALL_IDS": self.ids_prefix()}

    def ids_prefix(self):
        return f"{self.shop.stack.directory}/ids"

    def place(self, seconds):
        """Lets buyers place orders, as fast as they can."""
        argv = generators.wrk_argv(self.fleet.door.url("/order"), self.shop.args.threads, 256,
                                   seconds)
        run = generators.measure(argv, self.order_environment(), self.fleet.pids, self.meter.tick)
        self.seen += run["accepted_seen"]

    def wrk(self, seconds, until=None, warm_up=False):
        threads = min(self.shop.args.threads, self.settings["connections"])
        argv = generators.wrk_argv(
            self.fleet.door.url("/order"), threads, self.settings["connections"], seconds,
            self.settings["script"])
        uses_ids = self.settings["call"] in ("look_up", *STATE_OF)
        if uses_ids:
            self.shop.progress.say("placing orders")
            self.pool.fill(seconds if self.settings["call"] in STATE_OF else 0)
            self.pool.write(self.ids_prefix(), threads)
        with self.others(seconds) as others, self.readers(seconds) as readers:
            run = self.measure(argv, until)
        if readers:
            run["events_per_s"] = readers[0]["events"] / readers[0]["duration_s"]
        if others:
            run["beside"] = others[0]
            self.seen += others[0]["accepted_seen"]
        if self.settings["call"] in STATE_OF:
            self.after_calls(run, seconds, threads, warm_up)
        return run

    def after_calls(self, run, seconds, threads, warm_up):
        if run["ran_out"] and not warm_up:
            raise HarnessError(f"a load used all {len(self.pool.ids)} orders that were placed")
        self.pool.used(run["requests"], seconds, threads)
        self.called += run["requests"] - run["errors"]["status"]

    @contextlib.contextmanager
    def others(self, seconds):
        """Others place orders meanwhile, at a constant rate. Yields a list, which holds their
        figures in the end."""
        rate = self.settings["beside_per_s"]
        if not rate:
            yield []
            return
        argv = self.pace_argv(rate, seconds, BESIDE_CONNECTIONS, self.fleet.door)
        env = {"ORDER_SKUS": self.skus[0], "ORDER_RECORD": str(self.record)}
        with generators.beside(argv, env) as found:
            yield found

    @contextlib.contextmanager
    def readers(self, seconds):
        """Readers follow the feed of events meanwhile; yields as others()."""
        count = self.settings["readers"]
        if not count:
            yield []
            return
        argv = [generators.HERE / "tools/follow", count, seconds, "%s:%d" % self.fleet.door.address]
        with generators.beside(argv, {"CALL_TOKEN": self.fleet.token}) as found:
            yield found

    def pace_argv(self, rate, seconds, connections, server):
        return generators.pace_argv(self.shop.args.build / "pace", server, rate, seconds,
                                    connections)

    def rate(self):
        rate = self.settings["rate_per_s"] or self.peak_per_s * self.settings["rate_share"]
        if not rate:
            raise HarnessError("a paced run wants a closed one before it, for the peak")
        return rate

    def pace(self):
        """The service at a constant rate and then, to compare its times, the bare server."""
        settings, rate = self.settings, self.rate()
        run = self.measure(self.pace_argv(rate, settings["seconds"], settings["connections"],
                                          self.fleet.door))
        bare = generators.generate(
            self.pace_argv(rate, settings["seconds"], settings["connections"], self.shop.bare),
            {**self.order_environment(), "ORDER_RECORD": os.devnull}, self.shop.progress.tick)
        run["bare_paced"] = {name: bare[name] for name in
                             ("p50_ms", "p99_ms", "p999_ms", "max_ms", "percentiles_ms")}
        return run

    def measure(self, argv, until=None):
        run = generators.measure(argv, self.environment(), self.fleet.pids, self.meter.tick, until)
        run["connections"] = self.settings["connections"]
        if self.settings["script"] != "call":
            self.seen += run["accepted_seen"]
        return run

    def bare(self):
        """The bare server, asked by the client that asks the service: the same script, requests
        and recording."""
        env = self.environment()
        if "ORDER_RECORD" in env:
            env["ORDER_RECORD"] = os.devnull
        if self.settings["script"] == "call":
            env.update(CALL_IDS=self.bare_ids_prefix(), CALL_REPEAT="1")
        return self.shop.measure_bare(self.settings, env)

    def bare_ids_prefix(self):
        prefix = f"{self.shop.stack.directory}/bare-ids"
        dice = random.Random(1)
        for number in range(self.shop.args.threads):
            path = Path(f"{prefix}.{number}")
            if not path.exists():
                path.write_text("".join(f"{dice.getrandbits(62)}\n" for _ in range(BARE_IDS)),
                                encoding="ascii")
        return prefix

    def rounds(self, once):
        count = self.settings["rounds"]
        measured = generators.measure_rounds(once, self.bare, count, figures.count_calm,
                                             self.settings["extra_rounds"])
        return figures.merge(measured, count)

    # Kinds of load. A subclass has one of its own.

    def loaded(self):
        return {"closed": self.closed, "paced": self.paced, "rush": self.rush}[
            self.settings["load"]]()

    def closed(self):
        if not self.shop.args.quick:
            self.wrk(WARM_UP_S, warm_up=True)
        return self.rounds(lambda: self.wrk(self.settings["seconds"]))

    def paced(self):
        if not self.shop.args.quick:
            self.pace()
        result = self.rounds(self.pace)
        result["rate_wanted"] = result["rounds"][0]["rate_wanted"]
        return result

    def rush(self):
        """Sells to the last unit, again and again, with an audit after each time."""
        reports, stock = [], []

        def once():
            self.fleet.reset(self.skus[0], self.total(), self.settings["sale.segments"])
            with StockWatch(self.fleet, self.skus[0], self.total()) as watch:
                run = self.wrk(self.settings["seconds"], watch.over)
            if watch.sold_out_at is None:
                raise HarnessError(f"not sold out within {self.settings['seconds']} s")
            if watch.answered_at is None:
                raise HarnessError("sold out, but fewer orders were answered 201 than it has units")
            run["sale_s"] = ledger.sale_seconds(self.shop.stack, self.skus[0])
            run["accepted_per_s"] = self.total() / run["sale_s"]
            stock.append(watch.samples)
            reports.append(self.audit())
            return run

        result = self.rounds(once)
        result["stock"] = stock[0]
        result["audit"] = next((one for one in reports if not one["consistent"]), reports[-1])
        return result

    def run(self):
        """The figures, with the audit and the limits."""
        if self.settings["sale.total"] != "ample" and self.settings["counts"] == "answers":
            self.sell_out()
        before = self.fleet.metrics()
        result = self.loaded()
        result["deferred"] = ledger.deferred(self.shop.stack.ledger)
        after = self.fleet.metrics()
        result["metrics"] = {name: value - before.get(name, 0) for name, value in after.items()
                             if value != before.get(name, 0)}
        result["options"] = described(self.fleet.options)
        figures.complete(result, self.settings)
        self.add_estimate(result)
        result.setdefault("audit", None)
        result["audit"] = result["audit"] or self.audit()
        return result

    # What it is compared with.

    def add_estimate(self, result):
        """The rate if an order needed HTTP, Redis and the ledger one after the other."""
        bare_per_s = sum(run["bare_per_s"] for run in result["rounds"]) / len(result["rounds"])
        result["serial"] = {"bare_per_s": bare_per_s}
        if not self.settings["estimate"]:
            return
        self.shop.progress.say("Redis and the ledger by themselves")
        options = self.fleet.options
        found = self.shop.limits_of(
            int(options.get("max_batch", self.shop.build.defaults["max_batch"])),
            int(options.get("order_workers", 1)))
        result["serial"].update(found, combined_per_s=limits.combined(
            bare_per_s, found["redis_per_s"], found["insert_per_s"]))
        result["of_serial"] = result["per_s"] / result["serial"]["combined_per_s"]

    def audit(self):
        self.shop.progress.say("audit")
        options = {}
        if self.called:
            options["states_min"] = [(STATE_OF[self.settings["call"]], self.called)]
        skus = self.skus + ([ledger.PAST_SKU] if self.settings["prefill"] else [])
        try:
            return shortened(self.compare_told(self.compare(skus, options)))
        except HarnessError as error:
            raise HarnessError(f"audit of {', '.join(skus[:5])}: {error}") from error

    def compare_told(self, report):
        """Adds what became of each order that a client was told of."""
        ids = told.read(self.record) + self.by_hand
        if len(ids) < self.seen:
            raise HarnessError(f"{self.seen} orders were accepted, {len(ids)} were recorded")
        for pod, stack in enumerate(self.fleet.stacks):
            skus = [sku for sku in self.skus if self.fleet.pod_of(sku) == pod]
            mine = ids if len(self.fleet.stacks) == 1 else told.of_pod(ids, pod)
            told.add(report, told.compare(mine, stack.mysql_url, skus))
        return report

    def compare(self, skus, options):
        """By SQL and Redis commands, and not by way of a daemon, which might misread its tables."""
        urls = self.shop.stack.mysql_url, self.fleet.redis_url
        if self.settings["pods"] > 1:
            return self.compare_pods(skus, options)
        if self.fleet.options.get("strategy") not in WITHOUT_COUNTERS:
            return audit_until_settled(SETTLE_S, urls, skus, **options)
        report = audit_until_settled(SETTLE_S, urls, skus, **options, allow_dirty=True)
        for _ in range(RECONCILES_MAX if report["consistent"] else 0):
            for sku in skus:
                self.fleet.reconcile(sku)
            report = audit_until_settled(SETTLE_S, urls, skus, **options)
            if report["consistent"]:
                break
        return report

    def compare_pods(self, skus, options):
        if "states_min" in options:
            raise HarnessError("orders of several pods are not paid or cancelled")
        reports = [audit_until_settled(SETTLE_S, (stack.mysql_url, stack.redis_url),
                                       [sku for sku in skus if self.fleet.pod_of(sku) == pod])
                   for pod, stack in enumerate(self.fleet.stacks)]
        return of_pods(reports)


BARE_ENV = {"ORDER_SKUS": "demo", "ORDER_RECORD": os.devnull}


class BareRun:
    """A run of the smallest server instead of the service."""

    def __init__(self, shop, server, settings):
        self.shop, self.server, self.settings = shop, server, settings

    def once(self):
        argv = generators.wrk_argv(self.server.url("/order"), self.shop.args.threads,
                                   self.settings["connections"], self.settings["seconds"])
        run = generators.measure(argv, BARE_ENV, {
            "server": [self.server.process.pid], **self.shop.stack.pids()},
            self.shop.progress.tick)
        run["connections"] = self.settings["connections"]
        return run

    def run(self):
        result = figures.merge(generators.measure_rounds(
            self.once, lambda: self.shop.measure_bare(self.settings, BARE_ENV),
            self.settings["rounds"], figures.count_calm, self.settings["extra_rounds"]),
            self.settings["rounds"])
        result.update(options={}, metrics={}, deferred={}, audit=dict(NO_AUDIT))
        figures.complete(result, self.settings)
        return result


def shortened(report):
    """A report without the segments when these are too many to be read."""
    sales = report.get("sales", [report])
    if sum(len(sale["segments"]) for sale in sales) > AUDIT_SEGMENTS_MAX:
        for sale in sales:
            del sale["segments"]
        report.pop("sales", None)
    return report
