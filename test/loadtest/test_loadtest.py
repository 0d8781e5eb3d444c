"""The load campaigns: their arithmetic and their report, and one short campaign from end to end."""

import contextlib
import json
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from array import array

import pytest

from harness import audit
from harness.daemon import parse_metrics
from harness.engines_cluster import RedisCluster
from harness.processes import BUILD, PROGRAM, ROOT, HarnessError, wait_until

LOADTEST = ROOT / "loadtest"
sys.path.append(str(LOADTEST))

from lib import fleet, generators, limits, metrics, pool, results  # noqa: E402  now found
from lib import run as load_run, runner, scenario, told  # noqa: E402
from lib.report import answers, cited, page, readme, stats, story, summary, targets  # noqa: E402
from lib.scale import costs as scale_costs, model  # noqa: E402
from lib.programs import BareServer  # noqa: E402
from lib.progress import Progress  # noqa: E402

# Each worker would compute the same tables, and draw with a library that takes seconds to begin.
pytestmark = pytest.mark.xdist_group("loadtest")


def noisy(middle, count, seed):
    """Rates within two percent of the middle."""
    dice = random.Random(seed)
    return [middle * dice.uniform(0.98, 1.02) for _ in range(count)]


TIMES = {"p50_ms": 1, "p99_ms": 2, "p999_ms": 3, "max_ms": 4}


def make_round(rate, bare=100_000):
    return {"accepted_per_s": rate, "answers_per_s": rate, "bare_per_s": bare,
            "bare": {"answers_per_s": bare, **TIMES}}


def make_run(rates, **varied):
    """A run as the runner leaves it, with one round for each rate."""
    settings = {**scenario.DEFAULTS, "seconds": 5, **varied}
    middle = sorted(rates)[len(rates) // 2]
    return {"label": scenario.label(varied, settings),
            "settings": settings, "status": "ok", "reason": "", "per_s": middle,
            "of_bare": middle / 100_000, "of_serial": 0.5, "bare_p99_ms": 2, **TIMES,
            "disturbed": 0, "cpu_shares": {"idle": 0.1}, "rounds": [make_round(r) for r in rates],
            "serial": {"bare_per_s": 100_000, "combined_per_s": 2 * middle},
            "cpu_us": {"server": 14, "mariadb": 7, "redis": 1},
            "unexpected": 0, "unanswered": 0, "deferred": {"overdue": 5},
            "audit": {"consistent": True, "orders": 10, "oversold": 0, "lost": 0, "told": 10,
                      "differences": []}}


def make_result(campaign, *runs):
    return {"campaign": campaign, "title": "A title", "asks": "A question?", "quick": False,
            "time": "2026-01-01T00:00:00Z", "revision": "0123456789abcdef", "changed_files": False,
            "machine": {"processor": "CPU", "cores": 2, "memory_gib": 4, "kernel": "6",
                        "data_on": "ext4"},
            "versions": {"wrk": "wrk 4"}, "runs": list(runs)}


def missing_run(reason):
    run = make_run([1], **{"daemon.strategy": "atomic", "daemon.max_batch": 1})
    return {"label": run["label"], "settings": run["settings"], "status": "not available",
            "reason": reason}


@pytest.fixture
def strategies():
    return make_result(
        "strategies",
        make_run(noisy(1000, 5, 1), **{"daemon.strategy": "single_lock", "daemon.max_batch": 1}),
        make_run(noisy(3000, 5, 2), **{"daemon.strategy": "segment_lock", "daemon.max_batch": 1}),
        make_run(noisy(60_000, 5, 3),
                 **{"daemon.strategy": "segment_lock", "daemon.max_batch": "default"}),
        missing_run("no <choice> of that name"))


# arithmetic

def test_parts_in_turn_share_the_time():
    assert limits.combined(100, 100) == pytest.approx(50)
    assert limits.combined(130_000, 500_000, 200_000) == pytest.approx(68_061, rel=1e-3)


def test_noise_is_told_from_change():
    before, same, faster = noisy(1000, 4, 1), noisy(1000, 4, 2), noisy(1200, 4, 3)
    pool = stats.deviations([before, same, faster])
    for after, expected in ((same, "within the noise"), (faster, "faster")):
        ratio, low, high = stats.interval(before, after, pool)
        assert low < ratio < high
        assert stats.verdict(low, high) == expected
    assert stats.verdict(*stats.interval(faster, before, pool)[1:]) == "SLOWER"
    assert stats.interval(before, same, pool) == stats.interval(before, same, pool)


def test_single_rounds_are_not_judged():
    ratio, low, high = stats.interval([100], [200], stats.deviations([[100], [200]]))
    assert (ratio, low, high) == (2, None, None)
    assert "no judgement" in stats.verdict(low, high)


def test_quantiles_of_a_histogram():
    buckets = {"0.001": 0, "0.002": 50, "0.005": 100, "+Inf": 100}
    sample = parse_metrics("".join(f'seconds_bucket{{le="{le}"}} {count}\n'
                                   for le, count in buckets.items()))
    assert metrics.quantile(sample, "seconds", 0.5) == pytest.approx(0.002)
    assert metrics.quantile(sample, "seconds", 0.75) == pytest.approx(0.0035)
    assert metrics.quantile({}, "seconds", 0.5) == 0


# the model of scale

def scale_costs_sample():
    """Round figures, as scale_costs.from_campaign gives them."""
    return {"cpu_us": {"server": {"order": 10, "batch": 100},
                       "mariadb": {"order": 10, "batch": 200},
                       "redis": {"order": 0.5, "batch": 50}},
            "ledger_ms": {"batch": 1, "order": 0.01}, "redis_ms": 0.2, "redis_trips": 2,
            "http_us": 6, "batch": 50, "connections": 256, "order_workers": 2,
            "idle_traffic": {"redis": {"each": 20, "each_pair": 2, "us": 20, "pair_us": 2},
                             "ledger": {"each": 10, "us": 100}}}


def tries_by_trial(segments, held, seed=1, rounds=4000):
    """Holders come to a random segment and go on from there, in turn; then so does one more."""
    dice, total = random.Random(seed), 0
    for _ in range(rounds):
        taken = set()
        for count in range(held + 1):
            start, tried = dice.randrange(segments), 1
            while (start + tried - 1) % segments in taken:
                tried += 1
            taken.add((start + tried - 1) % segments)
        total += tried
    return total / rounds


@pytest.mark.parametrize("segments, held", ((20, 0), (20, 3), (20, 15), (20, 19), (100, 50)))
def test_tries_are_those_of_a_trial(segments, held):
    assert model.tries(segments, held) == pytest.approx(
        tries_by_trial(segments, held), rel=0.06)


def test_tries_end_where_all_segments_are_held():
    assert model.tries(20, 0) == 1
    assert model.tries(20, 20) is None
    assert model.shares_missed(20, 5) == 0.25
    assert model.shares_missed(20, 50) == 1


def test_costs_are_told_apart_by_the_size_of_batches():
    points = [(batch, 10 + 200 / batch) for batch in (1, 4, 16, 64)]
    assert scale_costs.fit(points) == pytest.approx((10, 200))
    order, batch = scale_costs.fit([(1, 10), (100, 12)])  # no cost is below 0
    assert order > 0 and batch == 0


def test_one_daemon_is_predicted_as_measured():
    costs = scale_costs_sample()
    us = 10 + 100 / 50 + 10 + 200 / 50 + 0.5 + 50 / 50
    assert model.on_one_machine(costs, 2, 50) == pytest.approx(2e6 / us)
    assert model.on_one_machine(costs, 2, 50, 0.5) == pytest.approx(1e6 / us)


def test_more_never_sells_less_until_daemons_only_talk():
    costs, plan = scale_costs_sample(), model.Plan

    def rates(plans):
        return [model.predict(costs, one)["per_s"] for one in plans]

    for plans in ([plan(count) for count in (1, 2, 4, 10, 30)],
                  [plan(100, masters=count) for count in (3, 10, 100)],
                  [plan(100, ledgers=count) for count in (1, 3, 16)],
                  [plan(30, ledgers=1, sales=1, segments=count) for count in (1, 20, 500, 2000)]):
        found = rates(plans)
        assert found == sorted(found)
    talk = [model.predict(costs, plan(count))["idle_share_of_redis"]
            for count in (1, 10, 100)]
    assert talk[1] > 10 * talk[0] and talk[2] > 10 * talk[1]


def test_every_limit_can_be_the_one():
    costs, plan = scale_costs_sample(), model.Plan
    cases = {"order workers": plan(1, ledgers=1),
             "daemon's cores": plan(1, ledgers=16, daemon_cores=0.5),
             "HTTP thread": plan(1, ledgers=16, daemon_cores=64),
             "Redis": plan(300, masters=1, ledgers=16, ledger_cores=1000),
             "ledger": plan(100, ledgers=1, ledger_cores=1),
             "segments": plan(100, ledgers=1, sales=1, segments=1, ledger_cores=64)}
    for name, one in cases.items():
        found = model.predict(costs, one)
        assert found["limit"] == name, (name, found)
        assert found["per_s"] <= min(found["limits"].values()) * (1 + 1e-6)


def test_the_numbers_of_daemons_and_ledgers_end():
    costs = scale_costs_sample()
    assert model.predict(costs, model.Plan(1000, ledgers=16))["possible"]
    assert not model.predict(costs, model.Plan(1025, ledgers=16))["possible"]
    assert not model.predict(costs, model.Plan(10, ledgers=17))["possible"]


def test_a_cluster_is_audited_by_any_of_its_nodes():
    with RedisCluster(3, 0) as cluster:
        for number in range(4):
            cluster("HSET", f"seckill:{{demo:{number}}}:segment", "available", number, "round", 1,
                    "settled", 5)
        found = audit.read_redis(cluster.url, [("demo", number) for number in range(5)])
    assert [found["demo", number]["available"] for number in range(4)] == ["0", "1", "2", "3"]
    assert found["demo", 4] is None


def test_pods_are_audited_as_one():
    sale = {"total": 10, "orders": 4, "ordered": 4, "sold": 4, "oversold": 0,
            "awaiting_recovery": 0, "states": {"reserved": 4}, "differences": []}
    reports = [{**sale, "sku": "a"}, {**sale, "sku": "b"}]
    whole = audit.of_pods(reports)
    assert whole["consistent"] and (whole["orders"], whole["lost"]) == (8, 0)
    wrong = [{**sale, "sku": "a", "differences": ["oversold"]}, {**sale, "sku": "b"}]
    assert not audit.of_pods(wrong)["consistent"]


# scenarios

@pytest.mark.parametrize("length", (None, "short", "quick"))
def test_every_scenario_can_be_read(length):
    assert set(scenario.NAMES) == {path.stem for path in scenario.DIRECTORY.glob("*.toml")}
    for name in scenario.NAMES:
        runs = scenario.read(name, length)["runs"]
        assert len({run["label"] for run in runs}) == len(runs), name
        for run in runs:
            assert run["settings"]["load"] in ("closed", "rush", "paced", *runner.RUNS)
            assert run["settings"]["target"] in ("", *targets.TARGETS), name
            assert run["settings"]["against"] in ("", *(other["label"] for other in runs)), name


def test_what_the_tables_show_is_measured_for_long():
    for name in {*readme.TABLE_CAMPAIGNS, *(campaign for campaign, _, _ in readme.SHORT_ROWS)}:
        for run in scenario.read(name)["runs"]:
            assert run["settings"]["rounds"] >= readme.ROUNDS_MIN, (name, run["label"])
            assert run["settings"]["seconds"] >= readme.SECONDS_MIN, (name, run["label"])
    short = scenario.read("around", "short")["runs"][0]["settings"]
    assert (short["rounds"], short["seconds"]) == (3, 1)


def test_what_varies_is_multiplied():
    table = {"title": "t", "asks": "a", "settings": {"sale": {"segments": 5}}, "vary": [
        {"daemon.order_workers": [1, 2], "daemon.max_batch": [1, "default"]}, {"prefill": [10]}]}
    runs = scenario.expand("x", table)["runs"]
    assert [run["label"] for run in runs] == [
        "order_workers=1, max_batch=1", "order_workers=1, max_batch=default",
        "order_workers=2, max_batch=1", "order_workers=2, max_batch=default", "prefill=10"]
    assert all(run["settings"]["sale.segments"] == 5 for run in runs)
    assert runner.options_of(runs[1]["settings"]) == {"order_workers": 1}


def test_an_unknown_setting_is_refused():
    with pytest.raises(HarnessError, match="conections"):
        scenario.expand("x", {"title": "t", "asks": "a", "settings": {"conections": 1}})


def test_a_build_says_what_it_lacks():
    build = fleet.Build(PROGRAM)
    assert build.lacks({"order_workers": 2, "strategy": "segment_lock"}) == ""
    assert "no_such" in build.lacks({"strategy": "no_such"})
    assert "no option" in build.lacks({"no_such": 1})
    assert int(build.defaults["max_batch"]) > 1


def test_a_failed_audit_or_daemon_is_a_failed_run(monkeypatch):
    wrong = {"consistent": False, "differences": ["2 units sold, 1 in orders"]}

    def one(_, settings, __):
        if settings["prefill"] == 1:
            raise HarnessError("it died")
        run = make_run([1])
        return {"per_s": 1, "audit": wrong if settings["prefill"] == 2 else run["audit"]}

    class Shop:
        build, progress, limits = fleet.Build(PROGRAM), Progress(), {}

    monkeypatch.setattr(runner, "one", one)
    told = []
    table = {"title": "t", "asks": "a", "vary": [{"prefill": [0, 1, 2]},
                                                 {"daemon.strategy": ["no_such"]}]}
    runner.run_scenario(Shop, scenario.expand("x", table), lambda run: told.append(run["status"]))
    assert told == ["ok", "failed", "audit failed", "not available"]


def test_orders_are_handed_out_once():
    class Ledger:
        made = 0

        def run(self, sql):
            last = int(sql.split("order_id > ")[1].split()[0])
            return [(str(one),) for one in range(last + 1, self.made + 1)]

        def number(self, _):
            return self.made

    ledger = Ledger()

    def place(_):
        ledger.made += 30_000

    orders = pool.Pool(ledger, "demo", place, "pay")
    orders.fill(1)
    assert ledger.made == 90_000 and sorted(orders.ids) == list(range(1, 90_001))
    orders.used(1000, 1, 1)
    assert orders.per_s == 5000 and len(orders.ids) == 90_000 - 1200 - 2000
    orders.fill(1)
    assert ledger.made == 90_000 and len(set(orders.ids)) == len(orders.ids)


# reports

def test_every_figure_has_its_aim():
    fast = make_run([60_000] * 3, name="bare order", target="order")
    slow = make_run([10_000] * 3, name="one lock", target="one lock", against="bare order")
    rules = make_run([54_000] * 3, name="rules", target="rules", against="bare order")
    found = {(label, figure): (value, met) for label, figure, value, _, met
             in targets.checks([fast, slow, rules])}
    assert found["bare order", "× bare"] == (0.6, False)
    assert found["bare order", "p99, ms"] == (2, True)
    assert found["one lock", "× bare of bare order ÷ this"] == (pytest.approx(6), False)
    assert found["rules", "× bare ÷ that of bare order"] == (pytest.approx(0.9), True)
    fast["bare_p99_ms"] = targets.BARE_P99_MS_MAX + 1  # so slow a machine says nothing
    assert [met for *_, figure, _, _, met in targets.checks([fast])
            if figure == "p99, ms"] == [None]


def test_the_story_compares_ratios_to_bare(strategies):
    found = {what: value for what, value, *_ in story.checks({"strategies": strategies})}
    assert found["20 segments ÷ one lock, an order at a time"] == pytest.approx(3, rel=0.05)
    both = "segments and batching: full batches ÷ one lock, an order at a time"
    assert found[both] == pytest.approx(60, rel=0.05)
    assert not any("atomic" in what for what in found)


def check_page(text):
    """A page that needs nothing beside it, and in which each reference leads to one element."""
    assert text.endswith("</html>\n")
    assert not any(word in text for word in ("src=", "<link", "@import", "#01020"))
    assert re.findall(r"<script[^>]*>", text) == ['<script type="application/json" id="figures">']
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(set(ids)) == len(ids)
    named = re.findall(r'(?:href="|url\()#([^")]+)', text)
    assert set(named) <= set(ids)
    assert not re.search(r'href="[^#"]|url\([^#]', text)
    for plot in re.findall(r"<svg [^>]*>\s*<title[^>]*>", text):
        title, = re.findall(r'aria-labelledby="([^"]+)"', plot)
        assert 'role="img"' in plot and f'<title id="{title}">' in plot
    assert text.count("<svg") == text.count('role="img"')
    return json.loads(text.split('id="figures">')[1].split("</script>")[0])


def test_the_report_needs_nothing_beside_it(strategies, tmp_path):
    (tmp_path / "strategies.json").write_text(json.dumps(strategies))
    for _ in range(2):  # the figures beside the page are no result of a campaign
        done = subprocess.run([LOADTEST / "report", tmp_path, "-o", tmp_path / "page.html"],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    text = (tmp_path / "page.html").read_text()
    figures = check_page(text)
    assert figures == json.loads((tmp_path / "page.json").read_text())
    assert text.count("<svg") == 2  # one for a desktop, one for a phone
    assert "no &lt;choice&gt; of that name" in text and "var(--one)" in text
    assert "prefers-color-scheme: dark" in text
    assert "Every audit was consistent" in text and "30 orders in 3 runs" in text
    run = figures["campaigns"][0]["runs"][1]
    assert (run["run"], run["audit"]["lost"]) == ("strategy=segment_lock, max_batch=1", 0)
    assert run["of_bare_interval"][0] < run["of_bare"] < run["of_bare_interval"][1]
    strategies["runs"][0]["status"] = "audit failed"
    assert "1 of 3 runs FAILED" in page.page({"strategies": strategies})


def test_what_the_audits_found_stands_first(strategies):
    first, second = strategies["runs"][:2]
    first["audit"].update(orders=43_512_345, told=33_412_345, oversold=2, consistent=False)
    second["audit"].update(lost=3, consistent=False)
    found = {"strategies": strategies}
    assert summary.headline(found) == ("33 million orders in 3 runs", "2 oversold, 3 lost")
    assert re.search(r"<h1>33 million orders in 3 runs: .*2 oversold, 3 lost", page.page(found))
    assert [summary.rounded(count) for count in (10, 9_999, 1_250_000)] == [
        "10", "9,999", "1.2 million"]


def full_run(run):
    """A run of a scenario, with every figure that any load has."""
    settings = run["settings"]
    made = make_run([1000, 1010], **settings)
    curve = [[share, ms] for share, ms in ((0, 0.1), (0.5, 1), (0.9, 2), (0.99, 4))]
    paced = {**TIMES, "percentiles_ms": curve}
    for one in made["rounds"]:
        one.update(paced, requests=10_000, bare_paced=paced, sale_s=2, answers={"201": 5})
    made.update(label=run["label"], rounds_measured=2, stock=[[0.1, [50, 40]], [0.2, [0, 0]]],
                of_alone=0.8, of_without=0.9, p99_of_alone=1.5, grown=0.01, admin_max_ms=20,
                ops_max_ms=10, flood_per_s=10, refused=0)
    made["serial"].update(batch=8, clients=1, redis_per_s=10, insert_per_s=10)
    if settings["load"] == "paced":
        made.update(rate_wanted=500, bare_paced=TIMES)
    return made


def test_every_campaign_answers_its_question():
    found = {}
    for name in scenario.NAMES:
        table = scenario.read(name)
        found[name] = {**make_result(name, *map(full_run, table["runs"])), "title": table["title"],
                       "asks": table["asks"]}
    text = page.page(found)
    figures = check_page(text)
    assert set(answers.BY_CAMPAIGN) == set(scenario.NAMES)
    for campaign in figures["campaigns"]:
        assert re.fullmatch(r"[A-Z0-9].*\.", campaign["answer"]), campaign["campaign"]
        assert f'href="#{campaign["campaign"]}"' in text
    assert set(figures["tiles"]) == {"orders_per_s", "half_load_p99_ms", "processor_us"}
    assert figures["tiles"]["half_load_p99_ms"] == 2 and figures["tiles"]["processor_us"] == 22
    for result in found.values():  # of few runs, or of none, there is little to say
        result["runs"] = result["runs"][:1]
        check_page(page.page({"one": result}))
        result["runs"] = [missing_run("no such option")]
        check_page(page.page({"one": result}))


def test_answers_say_what_the_figures_show():
    ways = [make_run([rate], **{"daemon.strategy": way, "daemon.max_batch": 1})
            for rate, way in ((1000, "single_lock"), (3000, "segment_lock"), (2000, "atomic"))]
    assert answers.answer(make_result("strategies", *ways)) == (
        "An order at a time, the ways go from 1,000 orders a second (single_lock) to 3,000 "
        "(segment_lock).")
    runs = [make_run([1000]), *(make_run([rate], load="paced", rate_share=share)
                                for rate, share in ((250, 0.25), (500, 0.5)))]
    for run, wait in zip(runs[1:], (3, 5)):
        run.update(p99_ms=wait, rate_wanted=run["per_s"], bare_paced=TIMES)
    assert answers.answer(make_result("latency", *runs)) == (
        "At 25 % and 50 % of the peak, 99 % of the orders are answered within 3.00 and 5.00 ms; "
        "the bare server takes 2.00 and 2.00 ms.")


def test_the_readme_part_is_made_anew(strategies):
    text = "before\n" + readme.BEGIN + "stale\n" + readme.END + "after\n"
    found = {"strategies": strategies}
    made = readme.replace_tables(text, readme.table_lines(found))
    assert made.startswith("before\n") and made.endswith("after\n")
    assert "stale" not in made
    assert "| strategies: strategy=single_lock, max_batch=1 |" in made
    assert readme.replace_tables(made, readme.table_lines(found)) == made
    with pytest.raises(ValueError):
        readme.replace_tables("no marks", readme.table_lines(found))


def test_no_short_round_comes_into_a_readme(strategies):
    strategies["runs"][0]["settings"]["seconds"] = 1
    with pytest.raises(ValueError, match="5 rounds of 1 s; a table wants 5 of 5 s"):
        list(readme.table_lines({"strategies": strategies}))
    run = make_run([1000] * 3, name="a shop's order")
    with pytest.raises(ValueError, match="3 rounds of 5 s"):
        list(readme.short_lines({"steady": make_result("steady", run)}))


def test_the_tables_say_which_aims_are_missed():
    shop = make_run([41_234] * 5, name="a shop's order", target="shop order")
    shop["audit"].update(told=400_000, untold=7)
    found = {"steady": make_result("steady", shop)}
    for lines in (readme.short_lines(found), readme.table_lines(found)):
        text = " ".join(lines)
        assert "The run missed 1 of 2 aims: " in text and "× bare (0.41, aim ≥ 0.5)." in text
        assert "Clients were told of 400,000 orders in 1 runs." in text
        assert "0 are missing. 7 other orders were committed" in text
    assert "| steady: a shop's order: × bare | 0.41 | ≥ 0.5 | **missed** |" in "\n".join(
        readme.table_lines(found))
    shop["of_bare"] = 0.6
    assert "The run missed none of 2 aims." in list(readme.short_lines(found))
    shop["bare_p99_ms"] = 100
    assert ("The run missed none of 1 aims. It says nothing of 1 aims for times, as the bare "
            "server's own p99 was above 3 ms.") in " ".join(readme.short_lines(found))


def test_a_constant_rate_has_no_ratio():
    paced = make_run([500] * 5, load="paced", rate_share=0.5)
    line = next(line for line in readme.table_lines({"latency": make_result("latency", paced)})
                if line.startswith("| latency"))
    assert line.split(" | ")[1:5] == ["500", "", "", ""]


def sample_of(**figures):
    """As the file beside a report."""
    return {"campaigns": [{"campaign": "steady", "runs": [
        {"run": "a shop's order", "per_s": 41_234.4, "of_bare": 0.412, "p50_ms": 1.04,
         "p99_ms": 9.06, "cpu_us": {"server": 12.6}, **figures}]}]}


def test_pages_cite_the_sample():
    def cite(figure, number="1"):
        return f"It takes {number}<!-- steady; a shop's order; {figure} --> here.\n"

    for figure, wanted in (("per_s", "41,234"), ("per_s ~000", "41,000"), ("per_s ~万", "4.1"),
                           ("of_bare", "0.41"), ("p99_ms", "9.1"), ("cpu_us.server", "13"),
                           ("cpu_us.server ~@50000", "0.63")):
        made = cited.replace(cite(figure), sample_of())
        assert made == cite(figure, wanted)
        assert not list(cited.findings(made, sample_of()))
        (line, what), = cited.findings("\n" + cite(figure, "2"), sample_of())
        assert (line, what) == (2, f"2 is {wanted} in the sample")
    for wrong in (cite("no_such"), cite("cpu_us"), cite("per_s", "much "),
                  "4<!-- steady; no such run; per_s -->"):
        assert len(list(cited.findings(wrong, sample_of()))) == 1, wrong
    with pytest.raises(cited.UnknownFigure):
        cited.replace(cite("no_such"), sample_of())


def test_tables_are_compared_with_the_sample(tmp_path):
    shop = make_run([41_234] * 5, name="a shop's order", target="shop order")  # with lines of aims
    found = {"steady": make_result("steady", shop)}
    for lines in (readme.table_lines, readme.short_lines):
        text = readme.replace_tables(readme.BEGIN + readme.END, lines(found))
        assert not list(readme.findings(text, sample_of(p99_ms=2, p50_ms=1)))
        wrong = [what for _, what in readme.findings(text, sample_of(per_s=51_234, p99_ms=2))]
        assert wrong == ["41,234 is 51,234 in the sample"]
        unknown = list(readme.findings(text, {"campaigns": []}))
        assert len(unknown) == len(readme.FIGURE_CELLS)
    page_file, sample = tmp_path / "page.md", tmp_path / "report.json"
    page_file.write_text("5<!-- steady; a shop's order; per_s -->\n")
    sample.write_text(json.dumps(sample_of()))
    argv = [LOADTEST / "cite", "--sample", sample, page_file]
    done = subprocess.run([*argv, "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, f"{page_file}:1: 5 is 41,234 in the sample\n")
    assert subprocess.run(argv).returncode == 0
    assert subprocess.run([*argv, "--check"]).returncode == 0


def test_compare_says_what_changed(strategies, tmp_path):
    for place, factor in (("before", 1), ("after", 0.5)):
        (tmp_path / place).mkdir()
        for run in strategies["runs"][:1]:
            run["rounds"] = [make_round(rate * factor) for rate in noisy(1000, 3, 7)]
        (tmp_path / place / "strategies.json").write_text(json.dumps(strategies))
    argv = [LOADTEST / "compare", "--strict", tmp_path / "before", tmp_path / "after"]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    verdicts = {line.split("  ")[0]: line.split("  ")[-1] for line in done.stdout.splitlines()}
    assert verdicts["strategies: strategy=single_lock, max_batch=1"].strip() == "SLOWER"
    assert verdicts["strategies: strategy=segment_lock, max_batch=1"].strip() == "within the noise"


# programs

# For campaigns whose every answer counts, on a machine that may stand still.
PATIENCE = [word for option in ("deadline_ms=20000", "lease_ms=30000", "redis_timeout_ms=15000",
                                "mysql_timeout_ms=15000") for word in ("--set", f"daemon.{option}")]


class Staller:
    """Context manager: answers 201 at once, but stalls for some time after the first requests, and
    never answers the one to be forgotten."""

    answer = b"HTTP/1.1 201 Created\r\nContent-Length: 18\r\n\r\n{\"order_id\":\"1234\"}"

    def __init__(self, stall_s, after, forget=None, seen=None):
        self.stall_s, self.after, self.forget, self.served = stall_s, after, forget, 0
        self.seen = seen
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self.accept, daemon=True)

    def __enter__(self):
        self.thread.start()
        return "127.0.0.1:%d" % self.listener.getsockname()[1]

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with client:
            while request := client.recv(4096):
                if self.seen is not None:
                    self.seen.append(request)
                with self.lock:
                    self.served += 1
                    if self.served == self.after:
                        time.sleep(self.stall_s)
                    forgotten = self.served == self.forget
                if not forgotten:
                    client.sendall(self.answer)


def test_pace_charges_a_stall_to_all_who_were_due(tmp_path):
    """A stall of 1 s concerns half of 400 requests in 2 s; a closed loop would see 4 slow ones."""
    record = tmp_path / "acked"
    with Staller(1, 100) as address:
        done = subprocess.run([BUILD / "pace", "200", "2", "4", address], capture_output=True,
                              text=True, env={"ORDER_RECORD": str(record)})
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    assert (run["requests"], run["errors"]["status"], run["errors"]["read"]) == (400, 0, 0)
    slow = [share for share, ms in run["percentiles_ms"] if ms > 100]
    assert slow and slow[0] <= 0.65
    assert run["max_ms"] >= 900
    assert told.read(record) == array("Q", [1234] * 400)


def test_pace_gives_each_order_a_key_and_a_user_of_its_own(tmp_path):
    seen = []
    with Staller(0, 0, seen=seen) as address:
        done = subprocess.run([BUILD / "pace", "10000", "1", "1", address], capture_output=True,
                              text=True, env={"ORDER_KEYS": "1"})
    run = json.loads(done.stdout)
    assert run["errors"]["status"] == 0 and len(seen) == run["requests"] > 4096
    bodies = [re.fullmatch(rb".*\r\n\r\n(.*)", request, re.S)[1] for request in seen]
    keys = {re.search(rb"\r\nIdempotency-Key: ([0-9a-f]{12}\.\d{8})\r\n", request)[1]
            for request in seen}
    assert len(keys) == len(seen)
    assert all(re.fullmatch(r"u\d{8}", json.loads(body)["user_id"]) for body in bodies)
    assert all(f"Content-Length: {len(body)}\r\n".encode() in request
               for request, body in zip(seen, bodies))


def test_pace_counts_requests_without_an_answer():
    with Staller(0, 0, forget=10) as address:
        done = subprocess.run([BUILD / "pace", "100", "0.5", "4", address], capture_output=True,
                              text=True)
    run = json.loads(done.stdout)
    assert (run["requests"], run["errors"]["timeout"], run["errors"]["read"]) == (49, 1, 0)


def test_the_epoll_server_reads_whole_requests(tmp_path):
    """One that comes in pieces is answered once; two that come together are answered twice."""
    request = b"POST /order HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody"
    server = BareServer(BUILD / "bare_epoll", SimpleNamespace(directory=tmp_path))
    with server, socket.create_connection(server.address, 10) as client:
        for piece in (request[:20], request[20:-2]):
            client.sendall(piece)
            client.settimeout(0.2)
            with pytest.raises(TimeoutError):
                client.recv(4096)
        client.settimeout(10)
        client.sendall(request[-2:])
        answer = client.recv(4096)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 201 ") and json.loads(body)["qty"] == 1
        assert f"Content-Length: {len(body)}".encode() in head
        client.sendall(request * 2)
        answers = b""
        while len(answers) < 2 * len(answer):
            answers += client.recv(4096)
        assert answers == answer * 2


def test_the_audit_knows_the_states_of_orders(daemon):
    daemon.reset(total=10, segments=1)
    first, second = (daemon.order(user_id=user).json()["order_id"] for user in ("a", "b"))
    assert daemon.pay(first).status == 200
    urls = daemon.stack.mysql_url, daemon.stack.redis_url
    report = audit.audit_until_settled(5, urls, ["demo"], states_min=[("paid", 1)])
    assert report["consistent"], report["differences"]
    assert report["states"] == {"paid": 1, "reserved": 1}
    lost, = audit.audit_sales(urls, ["demo"], states_min=[("paid", 2)])["differences"]
    assert lost == "2 orders were answered as paid, 1 are"
    other, = audit.audit_sales(urls, ["demo"], acked=[(first, 1), (second, 2)])["differences"]
    assert "another quantity" in other and second in other
    daemon.stack.ledger.run(f"UPDATE orders SET status = 'cancelled' WHERE order_id = {second}")
    leaked = audit.audit_sales(urls, ["demo"])["differences"]
    assert "2 units sold, 1 held by orders" in leaked


def test_the_audit_counts_what_is_lost_and_oversold(daemon):
    daemon.reset(total=2, segments=1)
    order = daemon.order(qty=2).json()["order_id"]
    urls = daemon.stack.mysql_url, daemon.stack.redis_url
    report = audit.audit_until_settled(5, urls, ["demo"], acked=[(order, 2)])
    assert report["consistent"] and report["lost"] == report["oversold"] == 0
    assert audit.audit_sales(urls, ["demo"], acked=[(order, 2), ("17", 1), ("18", 1)])["lost"] == 2
    daemon.stack.ledger.run(f"UPDATE orders SET qty = 5 WHERE order_id = {order}")
    report = audit.audit_sales(urls, ["demo"])
    assert report["oversold"] == 3 and not report["consistent"]


# the orders that clients were told of

@pytest.fixture
def placed(daemon):
    """Three orders of one sale, one of another."""
    daemon.reset(total=10, segments=1)
    daemon.reset("other", 10, 1)
    return [int(daemon.order(sku, user_id=user).json()["order_id"])
            for sku, user in (("demo", "a"), ("demo", "b"), ("demo", "c"), ("other", "d"))]


def test_every_order_that_clients_were_told_of_is_looked_for(daemon, placed):
    def compare(*ids, skus=("demo",)):
        return told.compare(array("Q", ids), daemon.stack.mysql_url, skus)

    first, second, third, other = placed
    whole = compare(first, second, third)
    assert whole == {"told": 3, "lost": 0, "other_sales": 0, "twice": 0, "untold": 0,
                     "differences": []}
    assert compare(*placed, skus=("demo", "other")) == {**whole, "told": 4}
    assert compare(first, third) == {**whole, "told": 2, "untold": 1}
    lost = compare(first, second, third, (1 << 60) + 1)
    assert (lost["lost"], lost["untold"]) == (1, 0)
    assert lost["differences"] == [
        f"1 orders that clients were told of are not in the ledger: {(1 << 60) + 1}"]
    twice = compare(first, second, second, third, third, third)
    assert (twice["told"], twice["twice"], twice["untold"]) == (3, 2, 0)
    assert "told of twice, as new" in twice["differences"][0]
    wrong = compare(first, other, third)
    assert (wrong["lost"], wrong["other_sales"], wrong["untold"]) == (0, 1, 1)
    assert wrong["differences"] == [
        f"1 orders that clients were told of are in the ledger of another sale: {other}"]


def test_orders_that_nobody_was_told_of_are_no_fault(daemon, placed):
    url = daemon.stack.mysql_url
    report = {"consistent": True, "lost": 0, "differences": []}
    told.add(report, told.compare(array("Q", placed[:1]), url, ["demo"]))
    assert report["consistent"] and report["untold"] == 2
    told.add(report, told.compare(array("Q", [7]), url, ["demo"]))
    assert not report["consistent"] and report["lost"] == 1 and report["untold"] == 5


def test_a_file_of_ids_is_read_whole(tmp_path):
    path = tmp_path / "told"
    assert len(told.read(path)) == 0
    path.write_bytes((1 << 62).to_bytes(8, "little") + (3 << 8).to_bytes(8, "little"))
    assert list(told.read(path)) == [1 << 62, 3 << 8]
    assert list(told.of_pod(told.read(path), 3)) == [3 << 8]
    path.write_bytes(b"1234")
    with pytest.raises(HarnessError, match="no list of ids"):
        told.read(path)


def test_a_run_must_have_recorded_what_was_accepted(tmp_path):
    run = SimpleNamespace(record=tmp_path / "told", by_hand=array("Q", [1]), seen=2)
    with pytest.raises(HarnessError, match="2 orders were accepted, 1 were recorded"):
        load_run.Run.compare_told(run, {})


class Pieces(Staller):
    """Answers each request in pieces, cut where the id is, and some with another status."""

    def __init__(self):
        super().__init__(0, 0)
        self.ids = []

    def serve(self, client):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(ConnectionError), client, self.lock:
            while client.recv(4096):
                number = len(self.ids) + (1 << 60)
                body = b'{"order_id":"%d"}' % number
                status = b"200 OK" if number % 3 == 0 else b"201 Created"
                answer = b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (
                    status, len(body), body)
                self.ids.append(number)
                cut = number % len(answer)
                client.sendall(answer[:cut])
                time.sleep(0.002)
                client.sendall(answer[cut:])


def test_wrk_is_overheard(tmp_path):
    """Each id of a 201 is recorded once, however its answer came, and no other."""
    record, server = tmp_path / "told", Pieces()
    with server as address:
        argv = ["wrk", "-t1", "-c1", "-d60s", "-s", LOADTEST / "tools/order.lua",
                f"http://{address}/order"]
        env = {**generators.clean_environment(), "LD_PRELOAD": str(BUILD / "record_ids.so"),
               "LOAD_TOOLS": str(LOADTEST / "tools"), "ORDER_RECORD": str(record)}
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env) as wrk:
            wait_until(lambda: len(server.ids) > 200, "answers to wrk")
            wrk.send_signal(signal.SIGINT)
            told_at_its_end = wrk.communicate(timeout=60)[0]
    run = json.loads(told_at_its_end.splitlines()[-1])
    accepted = [one for one in server.ids[:run["requests"]] if one % 3]
    assert list(told.read(record))[:len(accepted)] == accepted and len(accepted) > 100


def test_the_bare_server_is_asked_by_the_same_client(tmp_path):
    """The same script with the same environment, but for the record and the ids."""
    asked = []
    settings = {**scenario.DEFAULTS, "script": "call", "call": "pay", "order.keys": True,
                "sale.per_user_limit": 5}
    shop = SimpleNamespace(stack=SimpleNamespace(directory=tmp_path, ledger=None),
                           args=SimpleNamespace(threads=1), progress=Progress(),
                           measure_bare=lambda *words: asked.append(words))
    one = load_run.Run(shop, SimpleNamespace(daemons=[], token="t"), settings)
    one.bare()
    (_, env), = asked
    assert env.pop("CALL_REPEAT") and "ORDER_RECORD" not in env
    assert env.pop("CALL_IDS") != one.ids_prefix()
    assert env.items() <= one.environment().items()
    assert len((tmp_path / "bare-ids.0").read_text().split()) == load_run.BARE_IDS
    one.settings = {**settings, "script": "order"}
    one.bare()
    assert asked[1][1] == {**one.environment(), "ORDER_RECORD": "/dev/null"}
    kinds = [results.client_of({**scenario.DEFAULTS, **chosen}) for chosen in (
        {}, {"order.keys": True}, {"script": "mixed"}, {"script": "call", "call": "look_up"})]
    assert len(set(kinds)) == 4


def test_orders_to_pay_are_paid_once(tmp_path):
    """A short run of pays: every order that it was given is paid by one answer at most."""
    done = subprocess.run(
        [LOADTEST / "campaign", "around", "--only", "pay", "--quick", "--no-report", "--build",
         BUILD, "--out", tmp_path, *PATIENCE], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    runs = json.loads((tmp_path / "around.json").read_text())["runs"]
    assert {run["label"] for run in runs} == {"pay", "pay with a payment_ref", "late payment"}
    for run in runs:
        assert run["unexpected"] == 0 and run["unanswered"] == 0 and run["per_s"] > 0
        assert run["audit"]["states"]["paid"] >= run["requests"] > 0
    assert "pay: × bare" in done.stdout


def test_a_flood_is_probed_from_every_class(tmp_path):
    done = subprocess.run(
        [LOADTEST / "campaign", "flood", "--only", "user_orders", "--set", "flood_connections=50",
         "--quick", "--no-report", "--build", BUILD, "--out", tmp_path, *PATIENCE],
        capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    run, = json.loads((tmp_path / "flood.json").read_text())["runs"]
    assert run["flood_per_s"] > 0 and run["of_alone"] > 0
    probed = run["rounds"][0]["probed"]
    assert set(probed) == {"shop", "admin", "ops"}
    assert all(found["asked"] > 0 for found in probed.values())
    assert "call=user_orders: longest PATCH paused, ms" in done.stdout


def test_a_short_campaign_with_its_audit_and_report(tmp_path):
    done = subprocess.run(
        [LOADTEST / "campaign", "rush", "--quick", "--build", BUILD, "--out", tmp_path, *PATIENCE],
        capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""  # no progress where there is no terminal
    run, = json.loads((tmp_path / "rush.json").read_text())["runs"]
    total = run["settings"]["sale.total"]
    assert run["audit"]["consistent"] and run["audit"]["sold"] == total
    assert run["audit"]["told"] >= total and run["audit"]["untold"] == 0
    assert sum(run["stock"][-1][1]) == 0
    assert run["serial"]["redis_per_s"] > 0 and run["serial"]["insert_per_s"] > 0
    check_page((tmp_path / "report.html").read_text())
