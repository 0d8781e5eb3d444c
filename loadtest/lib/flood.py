"""One call is asked for by thousands at once: what everybody else notices of it."""

import http.client
import json
import statistics
import time

from lib import generators
from lib.run import Run
from lib.watch import Watch

SETTLE_S = 0.5         # until every connection of the flood has its request under way
PROBE_EVERY_S = 0.05
PROBE_TIMEOUT_S = 10
WASTES = ("blank_lines", "slow_headers", "slow_readers")  # of connections, by tools/waste
OTHER_SKU = "paused"   # the sale that the operator pauses and resumes
# Calls that probe each class but the buyers', whose orders are measured by rate.
PROBES = {"shop": ("GET", "/user/u1/orders"), "admin": ("PATCH", f"/admin/sale/{OTHER_SKU}"),
          "ops": ("GET", "/readyz")}
CLASSES = {"pay": "shop", "cancel": "shop", "user_orders": "shop", "listing": "admin",
           "metrics": "ops"}  # any other call is a buyer's


class Prober(Watch):
    """Context manager: asks one call again and again. `answers` are (milliseconds, status), with
    status 0 when there was no answer."""

    def __init__(self, daemon, method, path):
        self.daemon, self.method, self.path = daemon, method, path
        self.answers = []

    def watch(self):
        connection, paused = None, False
        while not self.ended.wait(PROBE_EVERY_S):
            start, paused = time.monotonic(), not paused
            body = json.dumps({"paused": paused}) if self.method == "PATCH" else None
            try:
                if connection is None:
                    connection = http.client.HTTPConnection(*self.daemon.address,
                                                            timeout=PROBE_TIMEOUT_S)
                status = self._ask(connection, body)
            except (OSError, http.client.HTTPException):
                connection, status = None, 0
            self.answers.append((1000 * (time.monotonic() - start), status))

    def _ask(self, connection, body):
        connection.request(self.method, self.path, body, {
            "Authorization": f"Bearer {self.daemon.token}", "Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        return response.status

    def summary(self):
        times = [ms for ms, _ in self.answers] or [0]
        return {"asked": len(self.answers), "p50_ms": statistics.median(times),
                "max_ms": max(times),
                "refused": sum(status != 200 for _, status in self.answers)}


class FloodRun(Run):
    """In each round orders alone, then the same beside a flood of one call. `of_alone` is the ratio
    of their rates; the others are the longest time of each class's probe, and how many probes of
    the other classes were refused or not answered."""

    def open_sales(self):
        super().open_sales()
        self.fleet.reset(OTHER_SKU, 1000, 1)

    def orders(self):
        argv = generators.wrk_argv(self.fleet.door.url("/order"), 1, self.settings["connections"],
                                   self.settings["seconds"])
        return argv, self.order_environment()

    def flood(self):
        """The load generator's command and environment."""
        if self.settings["call"] in WASTES:
            return [generators.HERE / "tools" / "waste", self.settings["call"],
                    self.settings["flood_connections"], self.settings["seconds"] + 1,
                    "%s:%d" % self.fleet.door.address], {}
        script = "order" if self.settings["call"] == "order" else "call"
        argv = generators.wrk_argv(
            self.fleet.door.url("/order"), 1, self.settings["flood_connections"],
            self.settings["seconds"] + 1, script)
        return argv, {**self.order_environment(), **self.call_environment(), "CALL_REPEAT": "1"}

    def once(self):
        alone = generators.generate(*self.orders(), self.meter.tick)
        self.pool.fill(0)
        self.pool.write(self.ids_prefix(), 1)
        probers = {name: Prober(self.fleet.door, *call) for name, call in PROBES.items()}
        with generators.beside(*self.flood()) as flood:
            time.sleep(SETTLE_S)
            with probers["shop"], probers["admin"], probers["ops"]:
                run = generators.measure(*self.orders(), self.fleet.pids, self.meter.tick)
        self.seen += alone["accepted_seen"] + run["accepted_seen"]
        run.update(connections=self.settings["connections"], alone=alone, flood=flood[0],
                   probed={name: prober.summary() for name, prober in probers.items()})
        return run

    def loaded(self):
        result = self.rounds(self.once)
        rounds, flooded = result["rounds"], CLASSES.get(self.settings["call"], "buyer")
        result["of_alone"] = statistics.median(
            run["accepted_per_s"] / max(run["alone"]["accepted_per_s"], 1) for run in rounds)
        result["alone_p99_ms"] = statistics.median(run["alone"]["p99_ms"] for run in rounds)
        result["flood_per_s"] = statistics.median(run["flood"]["answers_per_s"] for run in rounds)
        result["flood_refused"] = statistics.median(
            run["flood"]["errors"]["status"] / max(run["flood"]["requests"], 1) for run in rounds)
        result["probed"] = {name: {
            "p50_ms": statistics.median(run["probed"][name]["p50_ms"] for run in rounds),
            "max_ms": max(run["probed"][name]["max_ms"] for run in rounds),
            "refused": sum(run["probed"][name]["refused"] for run in rounds)} for name in PROBES}
        for name in ("admin", "ops"):
            result[f"{name}_max_ms"] = result["probed"][name]["max_ms"]
        result["refused"] = sum(found["refused"] for name, found in result["probed"].items()
                                if name != flooded)
        return result
