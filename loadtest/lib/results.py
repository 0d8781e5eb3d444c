"""Reads the results of campaigns, and answers the questions that reports ask of them."""

import json
from pathlib import Path

from harness.processes import HarnessError
from lib.report import stats


def files_in(directory):
    """The results in a directory; not the figures beside a report."""
    return sorted(file for file in directory.glob("*.json")
                  if not file.with_suffix(".html").exists())


def read(paths):
    """{campaign: result} of files, or of all in directories."""
    found = {}
    for path in map(Path, paths):
        for file in files_in(path) if path.is_dir() else [path]:
            try:
                result = json.loads(file.read_text())
                found[result["campaign"]] = result
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise HarnessError(f"{file}: not a campaign's result: {error!r}") from error
    if not found:
        raise HarnessError(f"no results in {' '.join(map(str, paths))}")
    return found


def client_of(settings):
    """What asks in a run, and in the same way the bare server beside it."""
    if settings["script"] == "call":
        return {"look_up": "GET /order", "stock": "GET /stock"}.get(
            settings["call"], settings["call"])
    if settings["script"] == "mixed":
        return "mixed"
    if settings["order.keys"]:
        return "a shop's order"
    return "bare order" + (", each user once" if settings["order.users"] == "distinct" else "")


def measured(result):
    """The runs that have figures, whatever the result of their audit."""
    return [run for run in result["runs"] if "per_s" in run]


def intervals(result):
    """For each run with figures, by its label, the interval of its × bare (see stats.py). The
    rounds of all its runs say how much a round deviates."""
    runs = measured(result)
    pool = stats.deviations([[max(rate, 1e-9) for rate in round_rates(run, "of_bare")]
                             for run in runs])
    return {run["label"]: stats.around(run["of_bare"], len(run["rounds"]), pool) for run in runs}


def option(run, name):
    """A run's value of an option of the service; "default" when the run left it alone."""
    return run["settings"].get(f"daemon.{name}", "default")


def find(results, campaign, label=None, **wanted):
    """The one run of a campaign with this label, if one is named, and these settings (sale_sales
    for sale.sales, and so on; options of the service as daemon_lock), or None."""
    for run in measured(results.get(campaign, {"runs": []})):
        if label is not None and run["label"] != label:
            continue
        if all(run["settings"].get(name.replace("_", ".", 1) if name.startswith(
                ("sale_", "daemon_")) else name) == value for name, value in wanted.items()):
            return run
    return None


def round_rates(run, name="per_s"):
    """The rate of each round that counts; relative to the bare server around it if so named."""
    kind = f"{run['settings']['counts']}_per_s"
    rates = [one[kind] for one in run["rounds"]]
    if name == "of_bare":
        return [rate / one["bare_per_s"] for rate, one in zip(rates, run["rounds"])]
    return rates
