"""Many sales, one of which has most of the buyers: what the buyers of the others notice of it."""

import statistics

from lib import generators
from lib.run import Run


class HotSaleRun(Run):
    """In each round first the other sales alone, then with the hot one beside them. `p99_of_alone`
    is their p99 beside it ÷ their p99 alone."""

    def wrk_on(self, skus, connections):
        argv = generators.wrk_argv(self.fleet.door.url("/order"), 1, connections,
                                   self.settings["seconds"])
        return argv, {**self.order_environment(), "ORDER_SKUS": ",".join(skus)}

    def once(self):
        quiet = max(1, round(self.settings["connections"] * (1 - self.settings["hot_share"])))
        others = self.wrk_on(self.skus[1:], quiet)
        alone = generators.generate(*others, self.meter.tick)
        hot = self.wrk_on(self.skus[:1], self.settings["connections"] - quiet)
        with generators.beside(*hot) as found:
            run = generators.measure(*others, self.fleet.pids, self.meter.tick)
        run.update(connections=quiet, alone=alone, hot=found[0])
        self.seen += sum(one["accepted_seen"] for one in (alone, run, found[0]))
        return run

    def loaded(self):
        result = self.rounds(self.once)
        beside, alone = (statistics.median(times) for times in zip(*(
            (run["p99_ms"], run["alone"]["p99_ms"]) for run in result["rounds"])))
        result["p99_of_alone"] = beside / alone
        return result
