"""The service and the lock library on a Redis Cluster over TLS, and on clusters whose nodes hang or
are met with the wrong kind of address."""

import copy
import signal
import subprocess
import time

import pytest

from harness.audit import audit, sell_out
from harness.daemon import HASTY, STEADY
from harness.engines_cluster import RedisCluster
from harness.processes import BUILD, clean_environment, wait_until
from test_cluster import SEGMENTS, accept_more, finish, segment_key, segments_of, settle_anew

pytestmark = pytest.mark.xdist_group("cluster_tls")  # one cluster for all


@pytest.fixture(scope="module", name="cluster")
def a_cluster_with_tls():
    with RedisCluster(tls=True) as cluster:
        yield cluster


@pytest.fixture(name="on_cluster")
def a_stack_with_a_cluster(stack, cluster):
    for node in cluster.masters():
        node("FLUSHALL")
    other = copy.copy(stack)
    other.redis_url, other.redis = cluster.url, cluster  # for the audit, which speaks no TLS
    return other


def call_each_other(cluster, endpoints):
    for node in cluster.nodes:
        node("CONFIG", "SET", "cluster-preferred-endpoint-type", endpoints)


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("endpoints", ["ip", "hostname", "no hostname", "unknown-endpoint"])
def test_sells_out_whatever_the_nodes_call_each_other(on_cluster, cluster, spawn, endpoints):
    """By address; by name; by a name that they should have and have not; or not at all."""
    for node in cluster.nodes:
        node("CONFIG", "SET", "cluster-announce-hostname",
             "localhost" if endpoints == "hostname" else "")
    call_each_other(cluster, endpoints.split()[-1])
    if endpoints == "hostname":
        cluster.wait("the names are known to all", lambda: all(
            part[2][0] == b"localhost" for node in cluster.nodes
            for part in node("CLUSTER", "SLOTS")))
    daemon = spawn(on_cluster, redis_url=cluster.tls_url("localhost"), **STEADY)
    daemon.reset("demo", 60, SEGMENTS)
    assert all(segments_of(cluster, master) for master in cluster.masters()), "badly spread"
    assert len(sell_out(daemon)) == 60
    call_each_other(cluster, "ip")
    assert audit(daemon) == 60


@pytest.mark.long
def test_master_that_hangs_in_mid_load(on_cluster, cluster, spawn, load):
    """Its connections stay open and say nothing; the other masters' segments sell meanwhile."""
    daemon = spawn(on_cluster, redis_url=cluster.tls_url(), **HASTY)
    daemon.reset("demo", 10_000_000, SEGMENTS)
    running = load(daemon, connections=16, seconds=250, delay_ms=100)
    victim = cluster.owner(segment_key(0))
    heir, segments = cluster.replica_of(victim), segments_of(cluster, victim)
    accept_more(daemon, 100)
    victim.signal(signal.SIGSTOP)
    start = time.monotonic()
    others = accept_more(daemon, 50)
    cluster.nodes.remove(victim)  # so that nothing here asks it
    cluster.wait(f"{heir.port} takes over", heir.is_master)
    settle_anew(cluster, segments)
    print(f"50 orders after {others:.2f} s, the segments of the master that hung sold again after"
          f" {time.monotonic() - start:.2f} s")
    cluster.nodes.append(victim)
    victim.signal(signal.SIGCONT)
    cluster.wait_whole()
    finish(daemon, running)


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("tests, form", [
    (": excludes", ""), (": release_wakes_who_waits", ""), (": fence_grows", ""),
    (": excludes", "_loop"), (": release_wakes_who_waits", "_loop")])
def test_lock_library(cluster, stack, tests, form):
    done = subprocess.run([f"{BUILD}/test/test_conformance{form}", tests], text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=150, check=False,
                          env={**clean_environment(), "SECKILL_REDIS_URL": cluster.tls_url(),
                               "SECKILL_MYSQL_URL": stack.mysql_url})
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def plain_url(cluster):
    return f"redis://127.0.0.1:{cluster.nodes[0].port}"


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("url, words", [
    (plain_url, "it is a node of a Redis Cluster: the URL begins with redis+cluster"),
    (lambda cluster: f"rediss://127.0.0.1:{cluster.nodes[0].tls_port}?ca={cluster.certificates.ca}",
     "it is a node of a Redis Cluster: the URL begins with rediss+cluster"),
    (lambda cluster: f"redis+cluster://127.0.0.1:{cluster.nodes[0].tls_port}",
     "if the port speaks TLS, the URL begins with rediss"),
    (lambda cluster: f"rediss+cluster://127.0.0.1:{cluster.nodes[0].port}",
     "if the port speaks no TLS, the URL begins with redis")],
    ids=["a node", "a node over TLS", "a port of TLS", "a plain port"])
def test_wrong_schemes_are_told(on_cluster, cluster, spawn, url, words):
    """By the daemon in its log, and by the lock library to its caller."""
    daemon = spawn(on_cluster, ready=False, redis_url=url(cluster), **HASTY)
    wait_until(lambda: words in daemon.log(), f"{words!r} in the log")
    assert daemon.get("/readyz").status == 503

    def told():
        """On a slow machine a time-out may come first."""
        refused = subprocess.run(
            [f"{BUILD}/seclock", "-s", url(cluster), "-n", "unit", "--", "true"], text=True,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False,
            env=clean_environment())
        assert refused.returncode != 0, refused.stderr
        return words in refused.stderr
    wait_until(told, f"{words!r} told by the lock library")


def test_server_without_a_cluster_is_told(stack, spawn):
    url = stack.redis_url.replace("redis://", "redis+cluster://").rsplit("/", 1)[0]
    daemon = spawn(stack, ready=False, redis_url=url)
    words = "it is no node of a Redis Cluster: the URL begins with redis"
    wait_until(lambda: words in daemon.log(), f"{words!r} in the log")
