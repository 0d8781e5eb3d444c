"""The harness itself: ports, lost connections, what an audit finds in Redis."""

import http.client
import io
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from chaos.clients import Client
from chaos.record import Record
from harness import audit, client
from harness.processes import ROOT, HarnessError
from harness.servers import RedisAlone, wrapped
from harness.standstill import undisturbed

TAKE_PORTS = """
from harness import processes
processes.PORT_COUNT = 400  # several suites may have theirs at once
print(*(processes.free_port() for _ in range(20)), flush=True)
input()
"""


def test_no_two_processes_are_given_the_same_port():
    takers = [subprocess.Popen([sys.executable, "-c", TAKE_PORTS], cwd=ROOT / "test", text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(4)]
    ports = [port for taker in takers for port in taker.stdout.readline().split()]
    for taker in takers:
        taker.communicate("\n")
    assert len(ports) == 80
    assert len(set(ports)) == len(ports)


def test_servers_of_tests_get_a_locale_that_is_installed(monkeypatch, tmp_path):
    wrapper = wrapped("redis-server", f'printf %s "$LC_ALL" >{tmp_path}/told', tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("LC_ALL", "xx_XX.UTF-8")
    with RedisAlone():
        assert (tmp_path / "told").read_text() == "C"


class ResetConnection(http.client.HTTPConnection):
    def connect(self):
        raise ConnectionResetError


def test_connection_that_never_stood_is_lost(monkeypatch):
    """The server has died in the middle of it, so no answer can have come early."""
    monkeypatch.setattr(client, "connect", lambda *_: ResetConnection("127.0.0.1"))
    with pytest.raises(ConnectionResetError):
        client.send(("127.0.0.1", 1), "POST", "/order", {})


@pytest.mark.parametrize("answered", [b"", b"HTTP/1.1 201 Created\r\nContent-Le"])
def test_head_that_ends_early_is_an_error(answered):
    """A server that died meanwhile; the test would read its end for ever."""
    with pytest.raises(ConnectionError):
        client.read_head(io.BytesIO(answered))


@pytest.mark.parametrize("available, state", [("4", ""), ("5", "mismatch"), ("rubbish", "damaged")])
def test_audit_judges_whatever_stands_in_redis(available, state):
    row = {"segment": 0, "round": 1, "capacity": 5, "sold": 1, "fence": 9}
    cached = {"available": available, "round": "1", "open": "", "settled": "9"}
    assert audit.segment_state(row, cached) == state


@pytest.fixture
def late(stack, proxies, spawn):
    """A daemon whose ledger hangs, and which answers later than its options seem to say."""
    ledger = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=ledger.url(stack.mysql_url), deadline_ms=2500)
    daemon.reset()
    daemon.options = {**daemon.options, "deadline_ms": 500}
    ledger.hold()
    yield daemon
    ledger.resume()


def told_by_wrk(late, load):
    try:
        load(late, connections=2, seconds=4).wait()
    except AssertionError as error:
        return "the bound of orders is 0.5 s" in str(error)
    return False


def test_late_answer_is_told_by_every_client(late, load):
    with pytest.raises(HarnessError, match="its bound is 0.5 s"):
        late.order()
    assert undisturbed(lambda: told_by_wrk(late, load), lambda told: not told)
    record = Record()
    buyer = Client(SimpleNamespace(daemons=[late]), record, "buyer")
    buyer.order(0, "demo", "u1", 1, "k1")
    buyer.close()
    assert [what for _, _, _, what in record.lates] == ["POST /order"]
