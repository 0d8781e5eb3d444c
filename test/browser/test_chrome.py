"""The browser of these tests itself: it starts, sees errors, and finds what axe-core objects to."""

import pytest

from harness.processes import HarnessError

BAD = "data:text/html,<title>x</title><img src='data:,'><script>console.error('seen')</script>"


def test_browser_sees_errors_and_bad_markup(chrome):
    page = chrome.open(BAD)
    page.wait("document.readyState === 'complete'")
    assert any("seen" in error for error in page.errors())
    assert any(finding.startswith("image-alt") for finding in page.axe())


def test_condition_that_never_holds_is_an_error(chrome):
    page = chrome.open("about:blank")
    with pytest.raises(HarnessError, match="Timeout"):
        page.wait("false", seconds=1)
