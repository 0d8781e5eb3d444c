"""Further fixtures, for the browser tests."""

from pathlib import Path

import pytest

from chrome import Chrome


HERE = Path(__file__).parent
BROWSERS = 2  # at a time: each is busy


def pytest_collection_modifyitems(items):
    mine = [item for item in items if item.path.parent == HERE]
    for number, item in enumerate(mine):
        item.add_marker(pytest.mark.xdist_group(f"browser {number * BROWSERS // len(mine)}"))


@pytest.fixture(scope="session")
def chrome():
    """The browser of all tests; each opens a page of its own, with nothing stored."""
    with Chrome() as browser:
        yield browser
