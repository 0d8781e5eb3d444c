"""Runs a scenario: for each of its runs an empty ledger, daemons, load, limits and the audit."""

from harness.processes import HarnessError
from lib import generators, limits
from lib.expiring import ExpiringRun
from lib.fleet import Fleet
from lib.flood import FloodRun
from lib.hot_sale import HotSaleRun
from lib.memory import MemoryRun
from lib.programs import BareServer
from lib.results import client_of
from lib.run import WARM_UP_S, BareRun, Run, bare_seconds

# By kind of load; Run knows the others.
RUNS = {"hot": HotSaleRun, "expiring": ExpiringRun, "idle": MemoryRun, "flood": FloodRun}
PROBE_S = 1
FILL_PER_S = 150_000  # to guess how long filling takes, with the audit
OVERHEAD_S = 3        # of a run: fresh daemons, an empty ledger, the audit


class Shop:
    """The servers and settings that all runs share."""

    def __init__(self, args, stack, bare, build, progress):
        self.args, self.stack, self.bare = args, stack, bare
        self.build, self.progress = build, progress
        self.limits = {}
        self.bare_runs = {}  # by client and connections: the last one
        generators.RECORDER = args.build / "record_ids.so"

    def measure_bare(self, settings, env):
        """The figures of the bare server, asked by the client of these settings, which the
        environment tells what to send. When only quick looks are wanted, one for all like it."""
        which = client_of(settings), settings["connections"]
        if not self.args.quick or which not in self.bare_runs:
            argv = generators.wrk_argv(self.bare.url("/order"), self.args.threads,
                                       settings["connections"], bare_seconds(settings),
                                       settings["script"])
            self.bare_runs[which] = generators.measure(argv, env, {
                "server": [self.bare.process.pid], **self.stack.pids()}, self.progress.tick)
        return self.bare_runs[which]

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
    bare_s = bare_seconds(settings)
    round_s = (6 if settings["load"] == "rush" else settings["seconds"]) + bare_s
    return (OVERHEAD_S + WARM_UP_S + bare_s + settings["rounds"] * round_s + tuning
            + settings["prefill"] / FILL_PER_S)


def still_rising(rates):
    """False once the last two numbers of order workers were no better than an earlier one."""
    return len(rates) < 3 or max(rates[-2:]) > max(rates[:-2])


def best_order_workers(shop, settings, options, candidates):
    """The number of order workers that short runs find best, and the rates of all numbers."""
    rates = {}
    for workers in candidates:
        if not still_rising(list(rates.values())):
            break
        shop.stack.clean()
        with Fleet(shop.args.daemon, shop.stack, {**options, "order_workers": workers}) as fleet:
            run = Run(shop, fleet, settings)
            run.open_sales()
            rates[workers] = run.wrk(PROBE_S)["accepted_per_s"]
    return max(rates, key=rates.get), rates


def one(shop, settings, peak_per_s):
    if settings["server"] != "seckilld":
        with BareServer(shop.args.build / settings["server"], shop.stack) as server:
            return BareRun(shop, server, settings).run()
    options = options_of(settings)
    probes = None
    if settings["tune_order_workers"]:
        options["order_workers"], probes = best_order_workers(
            shop, settings, options, settings["tune_order_workers"])
    shop.stack.clean()
    with Fleet(shop.args.daemon, shop.stack, options, settings["instances"],
               settings["proxy"], settings["redis"], settings["pods"]) as fleet:
        run = RUNS.get(settings["load"], Run)(shop, fleet, settings, peak_per_s)
        run.open_sales()
        result = run.run()
    run.record.unlink(missing_ok=True)
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
