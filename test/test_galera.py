"""A ledger that is a Galera cluster: one node takes the writes, and another one follows it."""

import subprocess

import pytest

from failover import Selling, sells_out
from harness.engines_ledger import GALERA_PROVIDER, GaleraTrio
from harness.processes import ROOT, wait_until

pytestmark = pytest.mark.skipif(not GALERA_PROVIDER.exists(), reason="no galera-4 is installed")


@pytest.fixture
def engine(template):
    with GaleraTrio() as servers:
        yield servers


def moved_to(daemon, node):
    return f"event=ledger_moved address={node.place} " in daemon.log()


def test_writer_killed_in_mid_load(engine, stack, spawn, load):
    selling = Selling(engine, stack, spawn, load)
    first, second, _ = engine.nodes

    def fault():
        first.kill()
        engine.primary = second
    selling.through(fault)
    wait_until(lambda: all(moved_to(daemon, second) for daemon in selling.pair), "a new writer",
               timeout=60)
    selling.finish()


def test_writer_changes_in_mid_load(engine, stack, spawn, load):
    """A node that is set to read-only is left, and the first of the list is gone back to."""
    selling = Selling(engine, stack, spawn, load)
    first, second, _ = engine.nodes

    def change():
        first.run("SET GLOBAL read_only = 1")
        wait_until(lambda: all(moved_to(daemon, second) for daemon in selling.pair), "a new writer")
    selling.through(change)

    def change_back():
        first.run("SET GLOBAL read_only = 0")
        wait_until(lambda: all(moved_to(daemon, first) for daemon in selling.pair),
                   "the old writer")
    selling.through(change_back)
    selling.finish()


def seclock(server, kind):
    return subprocess.run([ROOT / "build" / "seclock", "--server", server, "--kind", kind,
                           "--wait", "30", "name", "--", "true"],
                          capture_output=True, text=True, timeout=60, check=False)


def test_lock_library_on_a_cluster(engine):
    """The lock table serves; a lock that is local to one node is refused."""
    one = engine.url.replace(engine.nodes[1].place + ",", "").replace(
        "," + engine.nodes[2].place, "")
    assert seclock(engine.url, "table").returncode == 0
    for server in (one, engine.url):
        refused = seclock(server, "get-lock")
        assert (refused.returncode, "get-lock: " in refused.stderr) == (78, True), refused


def test_node_outside_the_primary_component_is_left(engine, stack, spawn):
    first, second, _ = engine.nodes
    both = engine.stack(stack.redis_url)
    daemon = spawn(both, mysql_url=engine.url)
    daemon.reset("demo", 10, 2)
    assert daemon.order().status == 201
    first.run("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=1'")
    engine.primary = second
    wait_until(lambda: moved_to(daemon, second), "a new writer", timeout=60)
    both.mysql_url, both.ledger = second.url, second.client
    assert first.status("wsrep_cluster_status") == "non-Primary"
    sells_out(daemon, 10)
