"""Clock shifts what a daemon takes for the time."""

import os
import struct

from harness.processes import BUILD

PRELOAD = BUILD / "test" / "shifted_clock.so"
TEST_SECONDS_MAX = 180  # conftest.py ends a test that takes longer


class Clock:
    """The shifts of a daemon's clocks, see shifted_clock.c."""

    def __init__(self, path):
        self.path = path
        self.set()

    def set(self, wall_s=0, boot_s=0):
        # In one write to the same file: the daemon has it mapped.
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT)
        os.write(fd, struct.pack("=qq", wall_s * 1000, boot_s * 1000))
        os.close(fd)

    def environment(self):
        asan = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        return {"LD_PRELOAD": str(PRELOAD), "SHIFTED_CLOCK": str(self.path), "ASAN_OPTIONS": asan}
