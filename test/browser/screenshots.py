#!/usr/bin/python3
"""Makes the pictures of the dashboard in docs/images/, of a real rush on private servers.

usage: test/browser/screenshots.py
"""

import os
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from pathlib import Path

from PIL import Image  # comes with matplotlib

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from chrome import DESKTOP, Chrome  # noqa: E402  after the line that finds the harness
from harness.daemon import STEADY, TOKEN, Daemon  # noqa: E402
from harness.load import Load  # noqa: E402
from harness.processes import ROOT, wait_until  # noqa: E402
from harness.stack import ToolStack  # noqa: E402

IMAGES = ROOT / "docs" / "images"
PHONE = (360, 1180)
RUSH_S = 62  # until the curves fill their first minute
PICTURE_MAX = 250_000  # bytes
COLOURS = 128


class NamedDaemon(Daemon):
    """A daemon on a host of that name, where this user may name one: pictures name no machine."""

    def __init__(self, host, *words, **options):
        super().__init__(*words, **options)
        self.host = host

    def argv(self):
        if os.geteuid() != 0:
            return super().argv()
        return ["unshare", "--uts", "--", "sh", "-c", 'hostname "$0" && exec "$@"', self.host,
                *super().argv()]


def later(**span):
    return (datetime.now(timezone.utc) + timedelta(**span)).strftime("%Y-%m-%dT%H:%M:%SZ")


def make_sales(daemon):
    """One of each kind, so that a reader sees how they differ."""
    daemon.reset("phone-14-black", 500_000, 20, ends_at=later(minutes=75), pay_within_s=900)
    daemon.reset("headset-pro", 3_000, 12, per_user_limit=2)
    daemon.reset("console-5", 2_000, 40, starts_at=later(minutes=25), ends_at=later(hours=26),
                 per_user_limit=1, pay_within_s=600)
    daemon.reset("sneaker-42", 9_600, 64, per_user_limit=2, paused=True)


def rush(running, daemons, directory):
    """Buyers at both daemons; the smaller sale sells out on the way."""
    return [running.enter_context(Load(daemon, directory, connections=connections, seconds=200,
                                       skus=skus, delay_ms=40, stop_after=10**9))
            for daemon, connections, skus in
            ((daemons[0], 24, ("phone-14-black", "phone-14-black", "headset-pro")),
             (daemons[1], 16, ("phone-14-black",)))]


def picture(page, name, **options):
    path = IMAGES / f"dashboard-{name}.png"
    page.screenshot(path, **options)
    with Image.open(path) as image:  # a page has few colours: a third of the size
        image.convert("RGB").quantize(COLOURS).save(path, optimize=True)
    size = path.stat().st_size
    assert size < PICTURE_MAX, (path, size)
    print(f"{path.relative_to(ROOT)}: {size} bytes")


def enter_token(page):
    page.click("#token")
    page.fill("dialog input[name=token]", TOKEN)
    page.click("dialog button[type=submit]")
    page.wait("document.querySelector('#actions').childElementCount > 0")
    page.wait("document.querySelector('#done').hidden")


def take(chrome, daemons):
    url = daemons[0].url("/dashboard")
    pages = [chrome.open(url, DESKTOP, "desktop", colorScheme="light"),
             chrome.open(url, PHONE, "phone", colorScheme="light", deviceScaleFactor=2),
             chrome.open(url, DESKTOP, "dark", colorScheme="dark")]
    enter_token(pages[0])
    enter_token(pages[2])
    time.sleep(RUSH_S)
    picture(pages[0], "desktop", fullPage=True)
    picture(pages[1], "phone")
    daemons[1].pause()
    try:
        pages[2].wait("document.querySelector('.daemon[data-state=silent]') !== null")
        picture(pages[2], "dark", fullPage=True)
    finally:
        daemons[1].cont()


def main():
    IMAGES.mkdir(parents=True, exist_ok=True)
    with ExitStack() as running:
        directory = running.enter_context(tempfile.TemporaryDirectory())
        stack = running.enter_context(ToolStack())
        stack.clean()
        daemons = [running.enter_context(NamedDaemon(f"shop-{n}", stack, directory, **STEADY))
                   for n in (1, 2)]
        make_sales(daemons[0])
        loads = rush(running, daemons, directory)
        wait_until(lambda: daemons[0].stock("headset-pro")["sold"] > 0, "orders")
        with Chrome() as chrome:
            take(chrome, daemons)
        for load in loads:
            load.stop()


if __name__ == "__main__":
    main()
