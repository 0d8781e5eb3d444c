"""Fixtures: real servers, daemons, load and faults, each cleaned up by pid however a test ends."""

import os
import random
import resource
import signal
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.register_assert_rewrite("harness.audit", "harness.load")

from harness import costs  # noqa: E402  after what details their asserts
from harness.clock import TEST_SECONDS_MAX, Clock  # noqa: E402
from harness.daemon import STEADY, Daemon  # noqa: E402
from harness.load import Load  # noqa: E402
from harness.processes import ROOT, servers_in_memory  # noqa: E402
from harness.proxy import FaultProxy  # noqa: E402
from harness.servers import TEMPLATE_VARIABLE, Etcd, ZooKeeper  # noqa: E402
from harness.stack import PrivateStack, ToolStack  # noqa: E402

EXTRA = ("browser", "client", "growth", "loadtest")
SEED = os.environ.get("TEST_SEED", "1")
SMALL = {"SECKILL_STACK_LOG_SIZE": "16M", "SECKILL_STACK_BUFFER_POOL": "24M"}


def pytest_addoption(parser):
    parser.addoption("--order-seed", type=int, metavar="N",
                     help="run the tests in a random order, the same for the same N")
    parser.addoption("--without-long", action="store_true",
                     help="leave out the tests that are marked as long")


def pytest_configure(config):
    def interrupt(*_):
        raise KeyboardInterrupt
    signal.signal(signal.SIGTERM, interrupt)  # so that fixtures are torn down
    config.addinivalue_line("markers", "long(keep=0): not for --without-long, but for the first "
                            "`keep` of the function's parameters")
    # Else a test passes whose thread has failed.
    config.addinivalue_line("filterwarnings",
                            "error::pytest.PytestUnhandledThreadExceptionWarning")
    with ExitStack() as running:
        running.enter_context(servers_in_memory())
        config.add_cleanup(running.pop_all().close)


def pytest_ignore_collect(collection_path, config):
    """Tests that need further packages run only when they are named."""
    name = collection_path.name
    named = any(name in Path(argument).parts for argument in config.args)
    return True if name in EXTRA and not named else None


def pytest_collection_modifyitems(config, items):
    if config.getoption("without_long"):
        leave_out_long(config, items)
    seed = config.getoption("order_seed")
    if seed is not None:
        random.Random(seed).shuffle(items)


def leave_out_long(config, items):
    """Of a function that is marked as long the tests from its `keep`-th on."""
    seen, left_out = Counter(), []
    for item in items:
        mark = item.get_closest_marker("long")
        if mark:
            function = item.nodeid.split("[")[0]
            seen[function] += 1
            if seen[function] > mark.kwargs.get("keep", 0):
                left_out.append(item)
    out = set(left_out)
    items[:] = [item for item in items if item not in out]
    config.hook.pytest_deselected(items=left_out)
    config.left_out = dict(Counter(str(item.path.relative_to(ROOT)) for item in left_out))
    if hasattr(config, "workeroutput"):
        config.workeroutput["left_out"] = config.left_out


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """A worker ends: each leaves out the same tests, and one that was killed does not tell."""
    told = getattr(node, "workeroutput", {}).get("left_out")
    if told:
        node.config.left_out = told


def pytest_terminal_summary(terminalreporter, config):
    left_out = getattr(config, "left_out", None)
    if left_out:
        files = ", ".join(f"{file} ({count})" for file, count in left_out.items())
        terminalreporter.write_line(
            f"left out: {sum(left_out.values())} tests that take long: {files}; "
            "TEST_ALL=1 make test, as in CI, runs them, too")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    """Keeps what the test has cost, its fixtures included."""
    with costs.measured(costs.spent, lambda *times: costs.keep(item.nodeid, *times)):
        yield


@pytest.fixture(autouse=True)
def no_test_hangs():
    def expire(*_):
        raise TimeoutError(f"the test took longer than {TEST_SECONDS_MAX} s")
    signal.signal(signal.SIGALRM, expire)
    signal.alarm(TEST_SECONDS_MAX)
    yield
    signal.alarm(0)


@pytest.fixture(autouse=True)
def random_numbers(request):
    """Each test has its own, the same in every run with the same TEST_SEED."""
    random.seed(f"{SEED} {request.node.nodeid}")


@pytest.fixture(scope="session", autouse=True)
def template(request, tmp_path_factory):
    """All MariaDB servers of a run begin with a copy of one initialised data folder."""
    base = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):  # one of several workers, which share it
        base = base.parent
    os.environ.setdefault(TEMPLATE_VARIABLE, str(base / "mariadb"))


@pytest.fixture(scope="session")
def shared_servers(template):
    """The servers of all tests that do not kill them."""
    with ToolStack(**SMALL) as stack:
        stack.clean().migrate()
        costs.servers.update(pid for pids in stack.pids().values() for pid in pids)
        yield stack


@pytest.fixture
def stack(shared_servers):
    """The shared servers, emptied: only the ledger's tables are there."""
    return shared_servers.clean()


@pytest.fixture
def unmigrated(stack):
    """The shared servers, without the ledger's tables."""
    stack.ledger.recreate()
    return stack


@pytest.fixture
def private_stack(template):
    """Servers that the test may kill: stack.redis_server, stack.maria_server."""
    with PrivateStack() as stack:
        yield stack


@pytest.fixture(scope="session")
def zookeeper():
    """The ZooKeeper of all tests that do not kill it; each test uses names of its own in it."""
    if not ZooKeeper.PROGRAM.exists():
        pytest.skip("no ZooKeeper is installed")
    with ZooKeeper() as server:
        costs.servers.add(server.process.pid)
        yield server


@pytest.fixture(scope="session")
def shared_etcd():
    """The etcd of all tests that do not kill it."""
    if not Etcd.PROGRAM:
        pytest.skip("no etcd is installed")
    with Etcd() as server:
        costs.servers.add(server.process.pid)
        yield server


@pytest.fixture
def etcd(shared_etcd):
    """The shared etcd, emptied."""
    shared_etcd.clear()
    return shared_etcd


@pytest.fixture
def proxies():
    """proxies(port) gives a FaultProxy before 127.0.0.1:port."""
    with ExitStack() as running:
        yield lambda port: running.enter_context(FaultProxy(port))


@pytest.fixture
def spawn(proxies, tmp_path):
    """spawn(stack, option=value…) gives a running Daemon."""
    peers = []

    def start(stack, **options):
        return running.enter_context(Daemon(stack, tmp_path, peers, **options))
    with ExitStack() as running:
        yield start


@pytest.fixture
def clock(tmp_path):
    """Shifts the clocks of daemons that have clock.environment()."""
    return Clock(tmp_path / "clock")


@pytest.fixture
def daemon(stack, spawn):
    """A daemon on the shared servers, which are empty."""
    return spawn(stack, **STEADY)


@pytest.fixture
def pair(stack, spawn):
    """Two daemons on the same servers."""
    return spawn(stack, **STEADY), spawn(stack, **STEADY)


@pytest.fixture
def many_files():
    """As many open files as there may be, for tests with thousands of clients."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def load(spawn, tmp_path):
    """load(daemon, …) starts wrk; see class Load."""
    with ExitStack() as running:
        yield lambda daemon, **how: running.enter_context(Load(daemon, tmp_path, **how))
