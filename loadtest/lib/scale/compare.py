"""The model beside what was measured with several daemons on one machine."""

from lib.results import measured
from lib.scale import model
from lib.scale.costs import batch_of


def compared_runs(found):
    """Runs behind a proxy, by campaign and label."""
    for result in found.values():
        for run in measured(result):
            if run["settings"]["proxy"] and "seckill_batch_orders_count" in run["metrics"]:
                yield result, run


def rows(costs, found):
    """For each such run the rate predicted twice: with batches as if each daemon got its share of
    one daemon's (what is known before), and with those that were measured (what is left of the
    error is the costs'). Proxy, kernel and idle time are those of the first run with one daemon,
    which is therefore right in part by construction."""
    runs = list(compared_runs(found))
    first = next((run for _, run in runs if run["settings"]["instances"] == 1), None)
    if first is None:
        return []
    alone = batch_of(first)
    # Costs of the proxy and the kernel are of a request, and known only by that run.
    given = {name: us for name, us in first["cpu_us"].items()
             if name in ("proxy", "wrk", "interrupts")}
    mine = {part: cost for part, cost in costs["cpu_us"].items() if part not in given}
    mine.update({name: {"order": us, "batch": 0} for name, us in given.items()})
    made = []
    for result, run in runs:
        cores, count = result["machine"]["cores"], run["settings"]["instances"]
        batch = batch_of(run)
        usable = 1 - first["cpu_shares"]["idle"] - run["cpu_shares"]["others"]
        rates = [model.on_one_machine({"cpu_us": mine}, cores, size, 1 - usable)
                 for size in (max(1, alone / count), batch)]
        made.append({"campaign": result["campaign"], "label": run["label"], "daemons": count,
                     "per_s": run["per_s"], "batch": batch, "batch_expected": alone / count,
                     "predicted": rates[0], "predicted_by_batch": rates[1],
                     "error": rates[0] / run["per_s"] - 1,
                     "error_by_batch": rates[1] / run["per_s"] - 1})
    return made


def show(made):
    print("\nPredicted and measured, all on one machine behind a proxy\n\n"
          "| campaign, run | daemons | measured/s | batch | predicted/s, batches shared | error |"
          " predicted/s, batch as measured | error |\n" + "|---" * 8 + "|")
    for row in made:
        print(f"| {row['campaign']}: {row['label']} | {row['daemons']} | {row['per_s']:,.0f} |"
              f" {row['batch']:.1f} | {row['predicted']:,.0f} | {row['error']:+.0%} |"
              f" {row['predicted_by_batch']:,.0f} | {row['error_by_batch']:+.0%} |")
