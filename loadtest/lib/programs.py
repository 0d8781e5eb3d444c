"""The processes of a load test: private servers, the service, the bare server; stopped by pid."""

import resource
import signal
import sys

import harness.daemon
from harness.program import Program
from lib import metrics

DESCRIPTORS = 20_000


def leave(number, _):
    """Ends by unwinding, which stops every child. A second signal does not disturb that."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + number)


def raise_descriptor_limit():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class BareServer(Program):
    """Context manager: the HTTP server that answers every request with a static 201."""

    def __init__(self, program, stack):
        super().__init__(program, directory=stack.directory)


class Daemon(harness.daemon.PlainDaemon):
    """Context manager: the service on a free port, with its log beside the servers' data."""

    def __init__(self, program, stack, **options):
        super().__init__(program, stack, stack.directory, **options)

    def outcomes(self):
        """How many orders had which outcome so far."""
        return metrics.outcomes(metrics.read(self))
