"""A headless Chromium that tests drive: class Chrome starts it, class Page is one page of it."""

import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path

from harness.processes import HarnessError, clean_environment

DRIVER = Path(__file__).with_name("driver.mjs")
WAIT_S = 100  # for a condition on a page: a bound for hangs, as wait_until has it
DESKTOP, PHONE = (1440, 900), (360, 740)


class Chrome:
    """Context manager: one browser, with a profile of its own that is thrown away."""

    def __enter__(self):
        # In a group of its own, which ends with it; the browser ends when its driver does.
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", "node", str(DRIVER)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, start_new_session=True, env=clean_environment())
        self.rest = b""
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process.stdout.close()

    def command(self, what, *, within_s=2 * WAIT_S, **how):
        """The driver's answer; an error of the page or the browser is an error here."""
        self.process.stdin.write(json.dumps({"do": what, **how}).encode() + b"\n")
        self.process.stdin.flush()
        answer = json.loads(self._line(time.monotonic() + within_s, what))
        if "error" in answer:
            raise HarnessError(f"{what} {how}: {answer['error']}")
        return answer["value"]

    def _line(self, until, what):
        while b"\n" not in self.rest:
            if not select.select([self.process.stdout], [], [], until - time.monotonic())[0]:
                raise HarnessError(f"the browser did not answer in time: {what}")
            piece = os.read(self.process.stdout.fileno(), 1 << 20)
            if not piece:
                raise HarnessError(f"the browser's driver has ended: {what}")
            self.rest += piece
        line, self.rest = self.rest.split(b"\n", 1)
        return line

    def close_pages(self):
        self.command("close_all")

    def open(self, url, size=DESKTOP, name="page", **options):
        """A new page with nothing stored, in place of the one of this name. options are those of
        Playwright's newContext, such as colorScheme="dark"."""
        self.command("open", name=name, url=url, width=size[0], height=size[1], options=options)
        return Page(self, name)


class Page:
    """What a user does with a page and sees of it. A selector is one of Playwright: CSS, or
    `role=button[name="Pause"]`, or `text=…`."""

    def __init__(self, chrome, name):
        self.chrome, self.name = chrome, name

    def _locator(self, selector, method, *args):
        return self.chrome.command("locator", name=self.name, selector=selector, method=method,
                                   args=args)

    def click(self, selector):
        self._locator(selector, "click")

    def fill(self, selector, text):
        self._locator(selector, "fill", text)

    def text(self, selector):
        return self._locator(selector, "innerText")

    def count(self, selector):
        return self._locator(selector, "count")

    def wait_for(self, selector):
        """Until it is there and can be seen."""
        self._locator(selector, "waitFor", {"timeout": WAIT_S * 1000})

    def press(self, key):
        self.chrome.command("page", name=self.name, method="keyboard.press", args=[key])

    def type(self, text):
        self.chrome.command("page", name=self.name, method="keyboard.type", args=[text])

    def eval(self, code):
        """The value of a JavaScript expression in the page."""
        return self.chrome.command("page", name=self.name, method="evaluate", args=[code])

    def wait(self, code, seconds=WAIT_S):
        """Until a JavaScript expression is true in the page."""
        self.chrome.command("wait", name=self.name, code=code, timeout=seconds * 1000,
                            within_s=seconds + WAIT_S)

    def media(self, **features):
        """Such as colorScheme="dark", reducedMotion="reduce"."""
        self.chrome.command("page", name=self.name, method="emulateMedia", args=[features])

    def size(self, width, height):
        self.chrome.command("page", name=self.name, method="setViewportSize",
                            args=[{"width": width, "height": height}])

    def reload(self):
        self.chrome.command("page", name=self.name, method="reload", args=[])

    def screenshot(self, path, **options):
        self.chrome.command("page", name=self.name, method="screenshot",
                            args=[{"path": str(path), **options}])

    def axe(self):
        """axe-core's findings that are serious or critical, one line each."""
        return self.chrome.command("axe", name=self.name)

    def errors(self):
        """The console's errors since the last call."""
        return self.chrome.command("errors", name=self.name)
