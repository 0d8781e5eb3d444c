"""A daemon as tests want it: a token that they know, short leases, long deadlines."""

import os

import harness.daemon
from harness.processes import ROOT
from harness.program import LOG_SHOWN_MAX

TOKEN = "test-token-0123456789"
# Options of daemons that no fault befalls: a machine may stand still without a lease running out.
STEADY = {"lease_ms": 30_000}
# Options of daemons whose servers hang: how long these may is what the service has by default.
HASTY = {"redis_timeout_ms": 500, "mysql_timeout_ms": 5000}
# Those of all other daemons: a server that is slow with the machine must not pass for one that is
# gone, and the answer to an order comes after that of its servers.
PATIENT = {"redis_timeout_ms": 15_000, "mysql_timeout_ms": 15_000, "deadline_ms": 20_000}
PROGRAM = os.environ.get("SECKILL_DAEMON", str(ROOT / "build" / "seckilld"))


class Daemon(harness.daemon.Daemon):
    """The lease is short, so that what a dead holder held is free soon. All else is PATIENT, so
    that a slow machine alone makes no test see 503."""

    def __init__(self, stack, directory, peers=None, ready=True, env=None, **options):
        super().__init__(PROGRAM, stack, directory, ready, env,
                         **{"lease_ms": 500, **PATIENT, **options})
        self.token = TOKEN
        self.peers = [] if peers is None else peers  # all daemons of the test
        self.peers.append(self)
        self.env = {"SECKILL_ADMIN_TOKEN": TOKEN, **(env or {})}

    def __exit__(self, *error):
        try:
            super().__exit__(*error)
        finally:
            print(f"--- {self.log_paths[-1]} (its end)\n{self.log()[-LOG_SHOWN_MAX:]}")
