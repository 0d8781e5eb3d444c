"""A private Prometheus with the project's rules, whose times are scaled down for tests."""

import json
import re
import urllib.error
import urllib.parse
import urllib.request

from harness.processes import ROOT, free_port, wait_until
from harness.program import Program

PROGRAM = "/usr/bin/prometheus"
RULES = ROOT / "deploy" / "prometheus" / "seckill.rules.yml"
FOLDER = RULES.parent

# Minutes of a real sale are seconds here; the shape of each expression stays.
SCALED = ((r"\bfor: [1-9]\w*", "for: 1s"), (r"\[1m\]", "[6s]"), (r"\[5m\]", "[60s]"),
          (r"\[10m\]", "[120s]"), (r"\[15m\]", "[60s]"), (r"> 3600\b", "> 2"))

CONFIG = """
global: {scrape_interval: 500ms, scrape_timeout: 400ms, evaluation_interval: 500ms}
rule_files: [seckill.rules.yml]
scrape_configs:
  - job_name: seckill
    file_sd_configs: [{files: [targets.json], refresh_interval: 1s}]
"""


def scaled_rules():
    """The rules with short times. Every replacement must find something to replace."""
    text = RULES.read_text()
    for pattern, short in SCALED:
        text, count = re.subn(pattern, short, text)
        assert count > 0, pattern
    return text


class Prometheus(Program):
    """Context manager: scrapes the daemons every half second."""

    good_statuses = (0, -15)

    def __init__(self, directory, *daemons):
        super().__init__(PROGRAM, directory=directory)
        self.folder = self.directory / "prometheus"
        self.folder.mkdir()
        (self.folder / "seckill.rules.yml").write_text(scaled_rules())
        (self.folder / "prometheus.yml").write_text(CONFIG)
        self.scrape(*daemons)
        self.port = free_port()

    def scrape(self, *daemons):
        """From now on these daemons."""
        targets = ["%s:%d" % daemon.admin_address() for daemon in daemons]
        (self.folder / "new.json").write_text(json.dumps([{"targets": targets}] if targets else []))
        (self.folder / "new.json").rename(self.folder / "targets.json")

    def argv(self):
        return [self.program, f"--config.file={self.folder}/prometheus.yml",
                f"--storage.tsdb.path={self.folder}/data", "--log.level=warn",
                f"--web.listen-address=127.0.0.1:{self.port}"]

    def listening(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5):
                return "127.0.0.1", self.port
        except OSError:
            return None

    def api(self, path, **parameters):
        """(status, what the API says)"""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def query(self, expression):
        """The value of each series, by its labels as a frozenset."""
        status, answer = self.api("query", query=expression)
        assert status == 200, answer
        return {frozenset(one["metric"].items()): float(one["value"][1])
                for one in answer["data"]["result"]}

    def firing(self):
        """[(name, labels)] of the alerts that fire now."""
        alerts = self.api("alerts")[1]["data"]["alerts"]
        return [(alert["labels"]["alertname"], alert["labels"]) for alert in alerts
                if alert["state"] == "firing"]

    def names(self):
        return {name for name, _ in self.firing()}

    def wait_evaluated(self):
        """Until the rules were evaluated with what a scrape from now on has brought."""
        scraped = 'count(up{job="seckill"} == 1)'
        wait_until(lambda: self.query(scraped), "a scrape")
        group = self.api("rules")[1]["data"]["groups"]
        before = {one["name"]: one["lastEvaluation"] for one in group}

        def later():
            now = self.api("rules")[1]["data"]["groups"]
            return all(one["lastEvaluation"] > before[one["name"]] for one in now)
        for _ in range(3):
            wait_until(later, "another evaluation", pause=0.1)
            before = {one["name"]: one["lastEvaluation"]
                      for one in self.api("rules")[1]["data"]["groups"]}

    def wait_firing(self, name):
        """Until the alert fires; gives its labels."""
        return wait_until(lambda: [labels for found, labels in self.firing() if found == name],
                          f"the alert {name}", pause=0.2)[0]
