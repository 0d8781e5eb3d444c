"""Redis by a Unix socket and over TLS: the service sells, and a wrong certificate is refused."""

import subprocess

import pytest

from harness.audit import audit
from harness.daemon import HASTY, STEADY
from harness.engines_sentinel import RedisDoors
from harness.processes import BUILD, clean_environment, wait_until
from harness.stack import Stack


@pytest.fixture(scope="module")
def doors():
    with RedisDoors() as redis:
        yield redis


@pytest.fixture(scope="module")
def mutual_doors():
    with RedisDoors(mutual=True) as redis:
        yield redis


def shop_at(doors, stack):
    doors.server.client("FLUSHALL")
    return Stack(doors.url, stack.mysql_url)


def sell(daemon, load):
    daemon.reset("demo", 300, 20)
    accepted = load(daemon, connections=16, stop_after=100).wait().accepted
    assert 0 < len(accepted) <= 300  # the answers to the last orders may come after the load's end
    orders = daemon.stack.ledger.number("SELECT COUNT(*) FROM orders")
    assert audit(daemon, accepted=accepted) == 300 == orders


@pytest.mark.parametrize("door", ["unix_url", "tls_url"])
def test_service_sells(doors, stack, spawn, load, door):
    sell(spawn(shop_at(doors, stack), redis_url=getattr(doors, door), **STEADY), load)


def test_service_shows_its_certificate(mutual_doors, stack, spawn, load):
    sell(spawn(shop_at(mutual_doors, stack), redis_url=mutual_doors.tls_url, **STEADY), load)


def ca(file):
    return lambda doors: f"rediss://localhost:{doors.tls_port}?ca={file(doors)}"


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("url, words", [
    (ca(lambda doors: doors.certificates.other_ca), "the server's certificate"),
    (lambda doors: f"rediss://localhost:{doors.tls_port}", "the server's certificate"),
    (lambda doors: f"rediss://127.0.0.2:{doors.tls_port}?ca={doors.certificates.ca}", "mismatch"),
    (ca(lambda _: "/nowhere"), "the file of ca"),
    (ca(lambda doors: f"{doors.certificates.ca}&cert=/no&key=/no"), "the file of cert"),
    (lambda doors: f"rediss://localhost:{doors.server.port}?ca={doors.certificates.ca}", "TLS: "),
    (lambda doors: f"redis+unix://{doors.socket}.not", "No such file")],
    ids=["another authority", "the system's authorities", "another host", "no such file",
         "no such certificate", "a plain port", "no such socket"])
def test_wrong_doors_are_told(doors, stack, spawn, url, words):
    daemon = spawn(shop_at(doors, stack), ready=False, redis_url=url(doors), **HASTY)
    wait_until(lambda: words in daemon.log(), f"{words!r} in the log")
    assert daemon.get("/readyz").status == 503


def test_server_that_wants_a_certificate_gets_none(mutual_doors, stack, spawn):
    url = f"rediss://localhost:{mutual_doors.tls_port}?ca={mutual_doors.certificates.ca}"
    daemon = spawn(shop_at(mutual_doors, stack), ready=False, redis_url=url)
    wait_until(lambda: "certificate required" in daemon.log(), "the reason in the log")


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("door, program", [
    ("unix_url", "test_waiter"), ("tls_url", "test_script_pipe"), ("tls_url", "test_waiter"),
    ("tls_url", "test_loop")])
def test_unit_programs(doors, stack, door, program):
    """The client and the waiters of the lock library find no difference."""
    done = subprocess.run([f"{BUILD}/test/{program}"], stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, timeout=150, check=False,
                          env={**clean_environment(), "SECKILL_REDIS_URL": getattr(doors, door),
                               "SECKILL_MYSQL_URL": stack.mysql_url})
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
