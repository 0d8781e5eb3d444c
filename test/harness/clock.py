"""Clock shifts what a daemon or a server takes for the time."""

import os
import struct

from harness.processes import BUILD

PRELOAD = BUILD / "test" / "shifted_clock.so"
TEST_SECONDS_MAX = 300  # conftest.py ends a test that takes longer


class Clock:
    """The shifts of a process's clocks, see shifted_clock.c. The time of day may be set back; the
    time since boot may not: no system's does, and leases rest on that."""

    def __init__(self, path):
        self.path, self.boot_s = path, 0
        self.set()

    def set(self, wall_s=0, boot_s=None):
        """Without `boot_s` the time since boot goes on as it is."""
        boot_s = self.boot_s if boot_s is None else boot_s
        assert boot_s >= self.boot_s
        self.boot_s = boot_s
        # In one write to the same file: the daemon has it mapped.
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT)
        os.write(fd, struct.pack("=qq", wall_s * 1000, boot_s * 1000))
        os.close(fd)

    def environment(self):
        asan = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        return {"LD_PRELOAD": str(PRELOAD), "SHIFTED_CLOCK": str(self.path), "ASAN_OPTIONS": asan}
