"""Further fixtures, for the browser tests."""

import pytest

from chrome import Chrome


@pytest.fixture(scope="session")
def chrome():
    """The browser of all tests; each opens a page of its own, with nothing stored."""
    with Chrome() as browser:
        yield browser
