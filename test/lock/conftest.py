"""Fixtures of the lock library's tests."""

import pytest

from installation import install


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """The folder under which `make install-lock` has put the library."""
    return install(tmp_path_factory.mktemp("installed"))
