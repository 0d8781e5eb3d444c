"""Fixtures of the lock library's tests."""

import pytest

from installation import install, installed_flags
from locks import DRIVER, LOOP_DRIVER, Driver


@pytest.fixture(params=[DRIVER, LOOP_DRIVER], ids=["waits", "loop"])
def form(request, monkeypatch):
    """The drivers of a test are of both forms: calls that wait, and the form for event loops."""
    monkeypatch.setattr(Driver, "program", request.param)


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """The folder under which `make install-lock` has put the library."""
    return install(tmp_path_factory.mktemp("installed"))


@pytest.fixture
def flags(installed):
    """What pkg-config says of the installed library."""
    return installed_flags(installed)
