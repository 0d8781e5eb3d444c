"""MySQL over TLS: the service sells, locks work, and a wrong certificate or none is refused."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.audit import audit
from harness.daemon import HASTY, STEADY
from harness.engines_sentinel import Certificates
from harness.processes import BUILD, clean_environment, server_folder, wait_until
from harness.servers import MariaServer
from harness.stack import Stack

PASSWORD = "hush-hush"


class Door:
    """A MariaDB with a certificate, and accounts that it admits over TLS alone: `shop`, and `own`
    with a certificate. Context manager."""

    def __enter__(self):
        self.directory = Path(server_folder())
        self.certificates = files = Certificates(self.directory)
        self.server = MariaServer(
            self.directory, f"--ssl-cert={files.cert}", f"--ssl-key={files.key}",
            f"--ssl-ca={files.ca}", "--bind-address=127.0.0.1,127.0.0.2")
        try:
            self.server.start()
            for user, what in (("shop", "SSL"), ("own", "X509")):
                self.server.client.run(
                    f"CREATE USER {user}@'%' IDENTIFIED BY '{PASSWORD}' REQUIRE {what};"
                    f"GRANT ALL ON *.* TO {user}@'%'", database="")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.server.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def url(self, options, host="localhost", user="shop", port=None):
        login, place = f"{user}:{PASSWORD}", f"{host}:{port or self.server.port}"
        return f"mysqls://{login}@{place}/seckill{options}"

    def locked_key(self):
        """The server's key with a passphrase, which nobody may be asked for."""
        locked = self.directory / "locked.key"
        subprocess.run(["openssl", "pkey", "-aes128", "-passout", "pass:x", "-in",
                        self.certificates.key, "-out", locked], check=True, capture_output=True)
        return locked

    @property
    def good(self):
        return self.url(f"?ca={self.certificates.ca}")


@pytest.fixture(scope="module", name="door")
def a_server_with_a_certificate(template):
    with Door() as door:
        yield door


def own_certificate(door):
    files = door.certificates
    return door.url(f"?ca={files.ca}&cert={files.cert}&key={files.key}", user="own")


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("url", [
    lambda door: door.good,
    lambda door: door.url(f"?ca={door.certificates.ca}", host="127.0.0.1"),
    lambda door: door.url(f"?ca={door.certificates.ca}",
                          host=f"127.0.0.1:{door.server.port},localhost"),
    own_certificate], ids=["a name", "an address", "several hosts", "with a certificate"])
def test_service_sells(door, stack, spawn, load, url):
    door.server.client.recreate()
    stack.redis("FLUSHALL")
    shop = Stack(stack.redis_url, door.server.url)
    daemon = spawn(shop, mysql_url=url(door), **STEADY)
    daemon.reset("demo", 300, 20)
    accepted = load(daemon, connections=16, stop_after=100).wait().accepted
    orders = shop.ledger.number("SELECT COUNT(*) FROM orders")
    assert audit(daemon, accepted=accepted) == 300 == orders
    assert daemon.metric("seckill_ledger_reconnects_total") == 0


WRONG = [
    (lambda door, _: door.url(f"?ca={door.certificates.other_ca}"), "certificate"),
    (lambda door, _: door.url(""), "certificate"),
    (lambda door, _: door.url(f"?ca={door.certificates.ca}", host="127.0.0.2"),
     "certificate|Hostname verification"),
    (lambda door, _: door.url("?ca=/nowhere"), "TLS"),
    (lambda door, _: door.url(f"?ca={door.certificates.ca}", user="own"), "Access denied"),
    (lambda door, _: door.url(f"?ca={door.certificates.ca}&cert={door.certificates.cert}"
                              f"&key={door.locked_key()}"), "TLS"),
    (lambda door, plain: door.url(f"?ca={door.certificates.ca}", port=plain), "TLS")]
NAMES = ["another authority", "the system's authorities", "another host", "no such file",
         "no certificate of its own", "a key with a passphrase", "a server without TLS"]


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("url, words", WRONG, ids=NAMES)
def test_wrong_doors_are_told(door, stack, spawn, url, words):
    """By the daemon in its log, and by the lock library to its caller, without the password."""
    wrong = url(door, stack.ledger.port)
    daemon = spawn(stack, ready=False, mysql_url=wrong, **HASTY)
    wait_until(lambda: re.search(words, daemon.log()), f"{words!r} in the log")
    assert daemon.get("/readyz").status == 503

    def told():
        """On a slow machine a time-out may come first."""
        refused = seclock(wrong, "-n", "unit", "--", "true")
        assert refused.returncode == 69 and PASSWORD not in refused.stderr, refused.stderr
        return re.search(words, refused.stderr)
    wait_until(told, f"{words!r} told by the lock library")
    assert PASSWORD not in daemon.log()


def seclock(url, *words):
    return subprocess.run([f"{BUILD}/seclock", "-s", url, *words], text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, check=False,
                          env=clean_environment())


@pytest.mark.parametrize("kind", ["table", "get-lock"])
def test_locks_exclude_each_other(door, kind):
    door.server.client.recreate()

    def locked(*words):  # in the second that seclock allows, which is short on a busy machine
        return wait_until(lambda: (done := seclock(door.good, "-k", kind, *words)).returncode != 69
                          and done, "a server in reach").returncode
    assert locked("unit", "--", f"{BUILD}/seclock", "-s", door.good, "-k", kind, "-n", "unit",
                  "--", "true") == 75
    assert locked("-n", "unit", "--", "true") == 0


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("tests", [": excludes", ": fence_grows"])
def test_lock_library(door, stack, tests):
    door.server.client.recreate()
    done = subprocess.run([f"{BUILD}/test/test_conformance", tests], text=True, timeout=150,
                          stdin=subprocess.DEVNULL, capture_output=True, check=False,
                          env={**clean_environment(), "SECKILL_REDIS_URL": stack.redis_url,
                               "SECKILL_MYSQL_URL": door.good})
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
