"""How long a daemon may take for a call, by the call's class: every client that waits for answers
checks it here."""

import re

DEADLINE_MS, LEASE_MS = 2000, 3000  # without options
BUSY_S = 1.5  # for which a thread of a busy machine may not come to run


def bound_s(path, options):
    """As service/request/request.h promises, for a daemon with these options."""
    deadline_ms = options.get("deadline_ms") or DEADLINE_MS
    lease_ms = options.get("lease_ms") or LEASE_MS
    # These may wait for a dead holder.
    if path.startswith("/admin/") or path.endswith(("/cancel", "/refund", "/unpay")):
        return max(lease_ms + deadline_ms / 2, deadline_ms) / 1000
    waits = re.match(r"/events\?.*\bwait_s=(\d+)", path)
    return deadline_ms / 1000 + (int(waits[1]) if waits else 0)


def is_late(path, took_s, options):
    """Whether an answer that took so long, without standstills, came too late."""
    return took_s > bound_s(path, options) + BUSY_S
