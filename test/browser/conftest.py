"""Fixtures of the browser tests, beside those of test/conftest.py."""

import pytest

from chrome import Chrome


@pytest.fixture(scope="session")
def chrome():
    """The browser of all tests; each opens a page of its own, with nothing stored."""
    with Chrome() as browser:
        yield browser
