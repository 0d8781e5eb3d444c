"""The description of the interface by the tools of others: Redocly's lint finds nothing, and a
client that openapi-typescript makes from it carries a whole sale."""

import json
import subprocess
from pathlib import Path

import pytest

from harness.daemon import STEADY, TOKEN
from harness.processes import ROOT, clean_environment

HERE = Path(__file__).parent
DESCRIPTION = ROOT / "service" / "openapi.json"
TOOL_SECONDS = 120  # of a processor, which a busy machine gives to others; each test has an end

# The tests share what is generated, so one worker runs all of them.
pytestmark = pytest.mark.xdist_group("client")


def tool(name, *arguments):
    """Runs a program of node_modules; returns its status, what it printed, and its errors."""
    run = subprocess.run(["prlimit", f"--cpu={TOOL_SECONDS}", HERE / "node_modules/.bin" / name,
                          *arguments], cwd=HERE, check=False, capture_output=True, text=True,
                         env={**clean_environment(), "REDOCLY_TELEMETRY": "off",
                              "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"})
    return run.returncode, run.stdout, run.stderr


@pytest.fixture(scope="module")
def types():
    status, told, error = tool("openapi-typescript", DESCRIPTION, "--output",
                               "generated/schema.ts")
    assert status == 0, told + error


@pytest.fixture(scope="module")
def client(types):
    """The compiled program."""
    status, told, error = tool("tsc", "--project", ".")
    assert status == 0, told + error
    return HERE / "generated" / "js" / "sale.js"


def test_redocly_finds_nothing():
    status, told, error = tool("redocly", "lint", "--format=json", DESCRIPTION)
    assert status == 0, told + error
    assert json.loads(told)["totals"] == {"errors": 0, "warnings": 0, "ignored": 0}, told


def test_misuse_does_not_compile(client):
    assert client.exists()


def test_generated_client_carries_a_whole_sale(client, stack, spawn):
    daemon = spawn(stack, events_retention_h=1, **STEADY)
    host, port = daemon.address
    run = subprocess.run(["node", client, f"http://{host}:{port}", TOKEN], check=False,
                         capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert daemon.metric('seckill_orders_total{outcome="accepted"}') == 5
