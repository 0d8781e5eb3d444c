"""The copy of uPlot in service/web/uplot/ is npm's package of the version that is pinned."""

import json
from pathlib import Path

import pytest

from harness.processes import ROOT

PACKAGE = Path(__file__).parent / "node_modules" / "uplot"
COPY = ROOT / "service" / "web" / "uplot"


@pytest.mark.parametrize("name", ["LICENSE", "dist/uPlot.iife.min.js", "dist/uPlot.min.css"])
def test_copy_is_the_package(name):
    assert (COPY / Path(name).name).read_bytes() == (PACKAGE / name).read_bytes()


def test_copy_has_no_other_file():
    assert {path.name for path in COPY.iterdir()} == \
        {"LICENSE", "uPlot.iife.min.js", "uPlot.min.css"}


def test_version_is_the_pinned_one():
    pins = json.loads((Path(__file__).parent / "package.json").read_text(encoding="utf-8"))
    assert json.loads((PACKAGE / "package.json").read_text(encoding="utf-8"))["version"] == \
        pins["dependencies"]["uplot"]
    head = (COPY / "uPlot.iife.min.js").read_text(encoding="utf-8")[:300]
    assert pins["dependencies"]["uplot"] in head
