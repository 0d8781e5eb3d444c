"""Further fixtures, for the browser tests."""

from pathlib import Path

import pytest

from chrome import Chrome


HERE = Path(__file__).parent
BROWSERS = 2  # at a time: each is busy


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items):
    mine = [item for item in items if item.path.parent == HERE]
    for number, item in enumerate(mine):
        item.add_marker(pytest.mark.xdist_group(f"browser {number % BROWSERS}"))


@pytest.fixture(scope="session")
def shared_chrome():
    """The browser of all tests of a worker."""
    with Chrome() as browser:
        yield browser


@pytest.fixture
def chrome(shared_chrome):
    """The browser; each test opens pages of its own, with nothing stored. A page left open would go
    on asking a daemon that is gone."""
    yield shared_chrome
    shared_chrome.close_pages()
