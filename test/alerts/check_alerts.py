"""Every alert fires when the thing it tells of is broken, and not before."""

import json
import re
import subprocess
import time

import pytest

from cases import BREAKS_SERVERS, CASES, Scene
from harness.processes import ROOT, wait_until
from harness.stack import PrivateStack
from prometheus import FOLDER, RULES, Prometheus

TEXT = RULES.read_text()
ALERTS = re.findall(r"- alert: (\w+)", TEXT)
PAGE = (ROOT / "docs" / "alerts.md").read_text()


@pytest.fixture
def servers(request, alert, clock):
    if alert not in BREAKS_SERVERS:
        yield request.getfixturevalue("stack")
        return
    with PrivateStack(maria_clock=clock) as private:
        yield private


@pytest.fixture
def scene(servers, spawn, proxies, clock):
    made = Scene(servers, spawn, proxies, clock)
    yield made
    made.end()


@pytest.mark.parametrize("alert", CASES)
def test_alert_fires_when_it_is_broken(scene, tmp_path, alert):
    break_it = CASES[alert](scene)
    with Prometheus(tmp_path, *scene.daemons) as prometheus:
        scene.prometheus = prometheus
        prometheus.wait_evaluated()
        wait_until(lambda: alert not in prometheus.names(), f"silence of {alert}")
        break_it()
        labels = prometheus.wait_firing(alert)
        assert labels["severity"] in ("critical", "warning", "info")
        scene.end()


def test_nothing_fires_while_a_sale_goes_well(stack, spawn, load, tmp_path):
    """But for a moment: a machine with other work may stand still for longer than a rule's short
    time."""
    daemons = [spawn(stack, lease_ms=10_000, events_retention_h=1) for _ in range(2)]
    daemons[0].reset("demo", 100_000, 20)
    with Prometheus(tmp_path, *daemons) as prometheus:
        prometheus.wait_evaluated()
        running = load(daemons[0], connections=8, seconds=250, stop_after=10**9, delay_ms=100)
        running.wait_answered()
        quiet = 0
        until = time.monotonic() + 200
        while quiet < 3:
            assert time.monotonic() < until, prometheus.firing()
            prometheus.wait_evaluated()  # three evaluations
            quiet = 0 if prometheus.names() else quiet + 1
        running.stop()
        wait_until(lambda: prometheus.query("seckill:orders:rate1m"), "a recorded rate")
        for record in re.findall(r"- record: (\S+)", TEXT):
            assert prometheus.query(record), record


# the files

def test_every_alert_is_broken_by_a_case():
    assert sorted(ALERTS) == sorted(CASES)
    assert len(set(ALERTS)) == len(ALERTS)


def test_every_alert_says_what_to_do():
    rules = re.split(r"\n +- alert: ", TEXT)[1:]
    for name, rule in zip(ALERTS, rules):
        for word in ("summary:", "description:"):
            assert word in rule, (name, word)
        assert re.search(r"severity: (critical|warning|info)\n", rule), name
        assert re.search(r"runbook: (\S+)", rule)[1] == f"docs/alerts.md#{name.lower()}"


def test_the_page_has_a_section_for_every_alert():
    sections = {text.split("\n", 1)[0]: text
                for text in re.split(r"^### ", PAGE, flags=re.M)[1:]}
    assert sorted(sections) == sorted(ALERTS)
    for name, text in sections.items():
        for part in ("Means:", "Buyers:", "Look:", "Do:"):
            assert f"**{part}**" in text, (name, part)
        severity = re.search(rf"alert: {name}\n(?:.*\n)*?.*severity: (\w+)", TEXT)[1]
        assert f"({severity})" in text, name


@pytest.mark.parametrize("words", [("check", "rules", RULES),
                                   ("check", "config", FOLDER / "prometheus.yml"),
                                   ("test", "rules", ROOT / "test" / "alerts" / "timing.yml")],
                         ids=lambda words: " ".join(words[:2]))
def test_promtool_agrees(words):
    done = subprocess.run(["promtool", *map(str, words)], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# the dashboard

BOARD = json.loads((ROOT / "deploy" / "grafana" / "seckill.json").read_text())
ROWS = ["Sale", "Orders", "Latency", "Stages", "Servers", "Events", "Process"]


def test_dashboard_is_one_that_grafana_reads():
    variables = {one["name"]: one for one in BOARD["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert [panel["title"] for panel in BOARD["panels"] if panel["type"] == "row"] == ROWS
    numbers = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(numbers)) == len(numbers)
    places = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in places, panel["title"]
                places.add((x, y))
        for target in panel.get("targets", []):
            assert target["datasource"]["uid"] == "${datasource}"
            assert set(re.findall(r"\$(\w+)", target["expr"])) <= {"__rate_interval", *variables}


def test_dashboard_shows_metrics_that_there_are(stack, spawn, tmp_path):
    daemon = spawn(stack, lease_ms=10_000, events_retention_h=1)
    daemon.reset("demo", 100, 2, ends_at="2999-01-01T00:00:00Z")
    daemon.admin("PUT", "/admin/webhooks/erp", {"url": "https://localhost.invalid/"})
    expressions = {target["expr"] for panel in BOARD["panels"]
                   for target in panel.get("targets", [])}
    expressions |= {re.search(r"\((.*), \w+\)", one["definition"])[1]
                    for one in BOARD["templating"]["list"] if "definition" in one}
    wait_until(lambda: daemon.metric('seckill_sale_units{sku="demo"}') == 100, "the sale's figures")
    wait_until(lambda: "seckill_webhook_lag_events{" in daemon.get("/metrics").body.decode(),
               "the webhook's figures")
    named = {re.sub(r"_(bucket|sum|count)$", "", name)
             for name in re.findall(r"\b(?:seckill|process)_\w+", " ".join(expressions))}
    typed = set(re.findall(r"^# TYPE (\w+)", daemon.get("/metrics").body.decode(), re.M))
    assert named <= typed, named - typed
    with Prometheus(tmp_path, daemon) as prometheus:
        prometheus.wait_evaluated()
        for expression in expressions:
            plain = re.sub(r"\$(instance|sku)", ".*", expression)

            def found(query=plain.replace("$__rate_interval", "6s")):
                """A scrape that comes late takes the values away until the next one."""
                status, answer = prometheus.api("query", query=query)
                assert status == 200, (query, answer)
                return answer["data"]["result"] or "state!=" in query
            wait_until(found, expression)


def test_promtool_finds_nothing_wrong_in_the_metrics(daemon):
    daemon.reset()
    wait_until(lambda: daemon.metric('seckill_sale_units{sku="demo"}') > 0, "the sale's figures")
    checked = subprocess.run(["promtool", "check", "metrics"], input=daemon.get("/metrics").body,
                             capture_output=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")
