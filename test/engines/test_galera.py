"""A ledger that is a Galera cluster: one node takes the writes, and another one follows it."""

import subprocess

import pytest

from harness.daemon import HASTY
from harness.engines_ledger import GALERA_PROVIDER, GaleraTrio
from harness.processes import BUILD, wait_until
from harness.servers import is_mysql
from failover import Selling, sells_out

pytestmark = pytest.mark.skipif(is_mysql() or not GALERA_PROVIDER.exists(),
                                reason="no MariaDB with galera-4")


@pytest.fixture
def engine(template):
    with GaleraTrio() as servers:
        yield servers


def moved_to(daemon, node):
    return f"event=ledger_moved address={node.place} " in daemon.log()


@pytest.mark.long
def test_writer_killed_in_mid_load(engine, stack, spawn, load):
    selling = Selling(engine, stack, spawn, load)
    first, second, _ = engine.nodes

    def fault():
        first.kill()
        engine.primary = second
    selling.through(fault)
    wait_until(lambda: all(moved_to(daemon, second) for daemon in selling.pair), "a new writer")
    selling.finish()


@pytest.mark.long
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


@pytest.mark.long
def test_node_that_lags_is_the_last_resort(engine, stack, spawn):
    """A donor, or a node that is desynchronised by hand, is left for another, but not for none."""
    daemon = spawn(engine.stack(stack.redis_url), mysql_url=engine.url)
    daemon.reset("demo", 10, 2)
    first, second, third = engine.nodes
    first.run("SET GLOBAL wsrep_desync = ON")
    wait_until(lambda: moved_to(daemon, second), "a new writer")
    for node in (second, third):
        node.run("SET GLOBAL wsrep_desync = ON")
    wait_until(lambda: moved_to(daemon, first), "the first node again")
    assert {node.status("wsrep_local_state") for node in engine.nodes} == {"2"}
    sells_out(daemon, 10)


@pytest.mark.long
def test_one_address_waits_for_what_was_committed(engine, stack, spawn):
    """Behind it there may be a proxy, and another node each time."""
    node = engine.primary
    node.run("SET GLOBAL log_output = 'TABLE', general_log = 1")
    daemon = spawn(engine.stack(stack.redis_url),
                   mysql_url=node.url.replace("root@", "shop@"))
    daemon.reset("demo", 10, 2)
    node.run("SET GLOBAL general_log = 0")

    def threads(words):
        return {row[0] for row in node.run("SELECT thread_id FROM mysql.general_log WHERE "
                                           f"argument LIKE '{words}'")}
    sellers = threads("%stock_segment%")
    assert sellers and sellers <= threads("SET SESSION wsrep_sync_wait=1%")
    sells_out(daemon, 10)


def seclock(server, kind):
    """A cluster that has just begun may be slow: then it is asked again."""
    def run():
        return subprocess.run([BUILD / "seclock", "--server", server, "--kind", kind,
                               "--wait", "30", "name", "--", "true"],
                              capture_output=True, text=True, timeout=60, check=False)
    return wait_until(lambda: (done := run()).returncode != 69 and done, "an answer in time")


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
    daemon = spawn(both, mysql_url=engine.url, **HASTY)
    daemon.reset("demo", 10, 2)
    assert daemon.order().status == 201
    first.run("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=1'")
    engine.primary = second
    wait_until(lambda: moved_to(daemon, second), "a new writer")
    both.mysql_url, both.ledger = second.url, second.client
    assert first.status("wsrep_cluster_status") == "non-Primary"
    sells_out(daemon, 10)
