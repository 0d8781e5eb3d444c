"""The lock on etcd: logins, TLS, clusters that lose a server, and watches that are lost."""

import json
import re
import signal
import subprocess
import time
from contextlib import ExitStack

import pytest

from harness.engines_sentinel import Certificates
from harness.processes import send_signal, wait_until
from harness.proxy import FaultProxy
from harness.servers import Etcd
from harness.standstill import Elapsed
from locks import Driver, settled

if not Etcd.PROGRAM:
    pytest.skip("no etcd is installed", allow_module_level=True)


def test_several_readers_or_one_writer(etcd):
    with ExitStack() as running:
        one, two, writer = (running.enter_context(Driver(etcd.url, lease=20000)) for _ in range(3))
        first = one.acquire("etcd", "n", mode="read")
        second = two.acquire("etcd", "n", mode="read")
        assert (first["result"], second["result"]) == ("ok", "ok")
        assert 0 < first["fence"] < second["fence"]
        assert writer.acquire("etcd", "n")["result"] == "busy"
        writer.send("acquire", 1, "etcd", "n", wait=60000)
        wait_until(lambda: one("status", "etcd", "n")["waiting"] == 1, "queueing up")
        assert one.acquire("etcd", "n", hold=2, mode="read")["result"] == "busy"  # behind it
        assert one("release", 1)["result"] == "ok"
        assert two("status", "etcd", "n")["count"] == 1
        assert two("release", 1)["result"] == "ok"
        last = writer.read()
        assert last["result"] == "ok" and last["fence"] > second["fence"]
        assert writer("release", 1)["result"] == "ok"


def test_busy_try_leaves_no_key(etcd):
    with Driver(etcd.url, lease=20000) as holder, Driver(etcd.url, lease=20000) as other:
        assert holder.acquire("etcd", "n")["result"] == "ok"
        for mode in ("write", "read"):
            assert other.acquire("etcd", "n", mode=mode)["result"] == "busy"
        assert other.acquire("etcd", "n", wait=100)["result"] == "timeout"
        assert len(etcd.ctl("get", "--prefix", "/seclock/n/", "--keys-only").split()) == 1
        assert holder("release", 1)["result"] == "ok"
        assert etcd.ctl("get", "--prefix", "/seclock/", "--keys-only").split() == []


def test_lease_is_shared_and_no_key_is_without(etcd):
    with Driver(etcd.url, lease=20000) as holder:
        for hold in range(5):
            assert holder.acquire("etcd", f"n{hold}", hold=hold)["result"] == "ok"
        keys = json.loads(etcd.ctl("get", "--prefix", "/seclock/", "-w", "json"))["kvs"]
        assert len(keys) == 5 and len({key["lease"] for key in keys}) == 1
        assert holder("release", 0)["result"] == "ok"
        for hold in range(1, 5):
            assert holder("renew", hold)["result"] == "ok"


def test_hold_that_has_ended_keeps_nobody_out(etcd):
    """Though its lease goes on, which another hold shares. The thread that deletes the keys sleeps
    between them: each has to wake it."""
    with Driver(etcd.url, lease=2000) as holder, Driver(etcd.url, lease=2000, poll=200) as other:
        assert holder.acquire("etcd", "kept", hold=2)["result"] == "ok"
        for name in ("n", "m"):
            assert holder.acquire("etcd", name, hold=1, fixed=1)["result"] == "ok"
            assert other.acquire("etcd", name, wait=9000)["result"] == "ok"
            assert holder("state", 1)["state"] == "lost"
        assert holder("renew", 2)["result"] == "ok"


def test_lease_that_is_revoked_is_a_loss_and_no_obstacle(etcd):
    with Driver(etcd.url, lease=3000) as holder, Driver(etcd.url, lease=3000) as other:
        assert holder.acquire("etcd", "n")["result"] == "ok"
        other.send("acquire", 1, "etcd", "n", wait=60000)
        wait_until(lambda: holder("status", "etcd", "n")["waiting"] == 1, "queueing up")
        keys = json.loads(etcd.ctl("get", "--prefix", "/seclock/n/", "-w", "json",
                                   "--sort-by=CREATE", "--order=DESCEND"))["kvs"]
        for key in keys:  # the waiter's first
            etcd.ctl("lease", "revoke", f"{key['lease']:x}")
        wait_until(lambda: holder("state", 1)["lost"] == 1, "call of on_lost")
        assert holder("state", 1)["state"] == "lost"
        assert other.read()["result"] == "ok"  # with another lease, and in another place
        assert holder("release", 1)["result"] == "lost"
        assert other("release", 1)["result"] == "ok"
        assert holder.acquire("etcd", "n", wait=9000)["result"] == "ok"


def test_waiter_whose_stream_is_lost_hears_of_the_release(etcd):
    with FaultProxy(etcd.port) as proxy, Driver(etcd.url, lease=30000) as holder:
        with Driver(proxy.url(etcd.url), lease=30000, poll=30000, timeout=9000) as waiter:
            assert holder.acquire("etcd", "n")["result"] == "ok"
            waiter.send("acquire", 1, "etcd", "n", wait=60000)
            wait_until(lambda: holder("status", "etcd", "n")["waiting"] == 1, "queueing up")
            time.sleep(0.3)
            proxy.cut()
            time.sleep(1)
            with Elapsed() as passed:
                assert holder("release", 1)["result"] == "ok"
                assert waiter.read()["result"] == "ok"
            assert passed.running < 5  # long before it would ask by itself


def test_release_between_try_and_watch_is_not_missed(etcd):
    """The watch begins late, but from the revision of the answer on."""
    with FaultProxy(etcd.port) as proxy, Driver(etcd.url, lease=30000) as holder:
        with Driver(proxy.url(etcd.url), lease=30000, poll=30000, timeout=9000) as waiter:
            assert holder.acquire("etcd", "n")["result"] == "ok"
            trap = proxy.once(rb"POST /v3/watch", before=lambda _: holder("release", 1))
            with Elapsed() as passed:
                assert waiter.acquire("etcd", "n", wait=60000)["result"] == "ok"
            trap.wait()
            assert passed.running < 5


def test_waiter_keeps_its_place_however_seldom_it_polls(etcd):
    """Its key ends with its lease, which it keeps alive meanwhile."""
    with FaultProxy(etcd.port) as proxy, Driver(etcd.url, lease=30000) as holder:
        with Driver(proxy.url(etcd.url), lease=2000, poll=60000) as waiter:
            assert holder.acquire("etcd", "n")["result"] == "ok"
            waiter.send("acquire", 1, "etcd", "n", wait=60000)
            for _ in range(2):
                proxy.once(rb"POST /v3/lease/keepalive").wait()
            assert holder("release", 1)["result"] == "ok"
            assert waiter.read()["result"] == "ok"


@pytest.mark.long
def test_fifty_waiters_come_in_order(etcd):
    with ExitStack() as running:
        holder, *waiters = (running.enter_context(Driver(etcd.url, lease=30000))
                            for _ in range(51))
        last = holder.acquire("etcd", "n")["fence"]
        for number, waiter in enumerate(waiters, 1):
            waiter.send("acquire", 1, "etcd", "n", wait=120000)
            wait_until(lambda: holder("status", "etcd", "n")["waiting"] >= number, "queueing up")
        assert holder("release", 1)["result"] == "ok"
        for waiter in waiters:
            answer = waiter.read()
            assert answer["result"] == "ok" and answer["fence"] > last
            last = answer["fence"]
            assert waiter("release", 1)["result"] == "ok"


# ---- logins and TLS ----


def allow_only_users(server):
    server.ctl("user", "add", "root:secret")
    server.ctl("user", "grant-role", "root", "root")
    server.ctl("role", "add", "locks")
    server.ctl("role", "grant-permission", "locks", "--prefix=true", "readwrite",
               "/seclock/shop:.")
    server.ctl("user", "add", "worker:pass/word")
    server.ctl("user", "grant-role", "worker", "locks")
    server.ctl("auth", "enable")


@pytest.mark.long
def test_user_logs_in_and_again_when_the_token_has_expired():
    with Etcd(auth_token_ttl=2) as server:
        allow_only_users(server)
        url = server.url.replace("://", "://worker:pass%2Fword@")
        with Driver(url, prefix="shop:", lease=20000) as driver:
            answer = driver.acquire("etcd", "n")
            assert answer["result"] == "ok", answer
            time.sleep(4)
            assert driver("release", 1)["result"] == "ok"
            driver.send("acquire", 1, "etcd", "n", wait=9000)
            assert driver.read()["result"] == "ok"
            assert driver("status", "etcd", "n")["held"] == 1
        for wrong in (server.url, server.url.replace("://", "://worker:secret2@")):
            with Driver(wrong, prefix="shop:") as driver:
                answer = driver.acquire("etcd", "n")
                assert answer["result"] == "failed"
                assert f"etcd 127.0.0.1:{server.port}: " in answer["error"]
                assert "secret2" not in answer["error"]
        with Driver(url, prefix="other:") as driver:
            answer = driver.acquire("etcd", "n")
            assert answer["result"] == "failed" and "permission denied" in answer["error"]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """An authority, and a certificate of it for the address and for clients."""
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
    openssl("req", "-x509", *Certificates.NEW_KEY, "-days", "2", "-subj", "/CN=authority",
            "-keyout", "ca.key", "-out", "ca.pem")
    openssl("req", *Certificates.NEW_KEY, "-subj", "/CN=etcd", "-keyout", "server.key",
            "-out", "server.csr")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n", encoding="ascii")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", "server.pem")
    return folder


def test_tls(certificates):
    files = {name: certificates / file for name, file in
             (("cert_file", "server.pem"), ("key_file", "server.key"),
              ("trusted_ca_file", "ca.pem"))}
    own = f"&cert={certificates}/server.pem&key={certificates}/server.key"
    with Etcd(client_cert_auth="true", **files) as server:
        url = f"{server.url}?ca={certificates}/ca.pem"
        with Driver(url + own, lease=20000) as driver, Driver(url + own, lease=20000) as waiter:
            assert settled(driver, "acquire", 1, "etcd", "n")["result"] == "ok"
            waiter.send("acquire", 1, "etcd", "n", wait=60000)
            wait_until(lambda: driver("status", "etcd", "n")["waiting"] == 1, "queueing up")
            assert driver("release", 1)["result"] == "ok"
            assert waiter.read()["result"] == "ok"
        for wrong in (url, server.url + "?" + own[1:],
                      server.url.replace("etcds", "etcd")):
            with Driver(wrong, timeout=3000) as driver:
                assert driver.acquire("etcd", "n")["result"] in ("failed", "unknown")


# ---- several servers ----


def test_server_that_is_dead_or_silent_is_passed_over(etcd):
    with FaultProxy(etcd.port) as proxy:
        first, second = f"127.0.0.1:{proxy.port}", f"127.0.0.1:{etcd.port}"
        with Driver(f"etcd://127.0.0.1:1,{first},{second}", lease=20000, timeout=3000) as driver:
            assert driver.acquire("etcd", "n", hold=1)["result"] == "ok"
            proxy.hold()
            assert driver.acquire("etcd", "m", hold=2)["result"] == "ok"
            assert driver("renew", 1)["result"] == "ok"
            proxy.resume()
            for hold in (1, 2):
                assert driver("release", hold)["result"] == "ok"


class DeposedLeader(FaultProxy):
    """Answers keep-alives as a leader does that has not noticed yet that the others have elected
    another one: in an earlier term."""
    deposed = False

    def answers_of(self, link):
        for data in super().answers_of(link):
            if self.deposed and b'"result":' in data:
                data = re.sub(rb'("raft_term":)"(\d+)"', earlier_term, data)
            yield data


def earlier_term(found):
    return b'%s"%0*d"' % (found[1], len(found[2]), int(found[2]) - 1)


def test_keep_alive_by_a_deposed_leader_does_not_count(etcd):
    with DeposedLeader(etcd.port) as proxy:
        with Driver(proxy.url(etcd.url), lease=4000, timeout=1000, outage=1000) as holder:
            assert settled(holder, "acquire", 1, "etcd", "n")["result"] == "ok"
            proxy.deposed = True
            wait_until(lambda: holder("state", 1)["lost"] == 1, "call of on_lost")
            assert holder("state", 1)["state"] == "lost"
            proxy.deposed = False
            assert holder.acquire("etcd", "m", hold=2)["result"] == "ok"


@pytest.fixture
def cluster():
    with ExitStack() as running:
        members = [Etcd() for _ in range(3)]
        for member in members:
            running.callback(member.__exit__)
            member.join(members)
        for member in members:
            member.start(wait=False)
        for member in members:
            member.wait_answers()
        yield members


def leader_of(members):
    for member in members:
        line = member.ctl("endpoint", "status", "-w", "simple")
        if line.split(", ")[4] == "true":
            return member
    return None


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_leader_is_lost(cluster, how):
    """Holds go on, and so does whoever waits; fences grow."""
    url = "etcd://" + ",".join(f"127.0.0.1:{member.port}" for member in cluster)
    with Driver(url, lease=30000, timeout=3000, outage=60000) as holder:
        with Driver(url, lease=30000, timeout=3000, outage=60000) as waiter:
            old = settled(holder, "acquire", 1, "etcd", "n")
            assert old["result"] == "ok"
            waiter.send("acquire", 1, "etcd", "n", wait=100000)
            wait_until(lambda: holder("status", "etcd", "n")["waiting"] == 1, "queueing up")
            leader = wait_until(lambda: leader_of(cluster), "a leader")
            send_signal(leader.process, how)
            assert settled(holder, "renew", 1)["result"] == "ok"
            state = holder("state", 1)
            assert (state["state"], state["lost"]) == ("held", 0)
            assert settled(holder, "release", 1)["result"] == "ok"
            new = waiter.read()
            assert new["result"] == "ok" and new["fence"] > old["fence"]
            leader.process.send_signal(signal.SIGCONT)
            assert settled(waiter, "release", 1)["result"] == "ok"


@pytest.mark.long
def test_majority_is_lost(cluster):
    """Nobody can have the lock, and the holder loses its hold in time."""
    url = "etcd://" + ",".join(f"127.0.0.1:{member.port}" for member in cluster)
    with Driver(url, lease=4000, timeout=1000, outage=1000) as holder:
        assert settled(holder, "acquire", 1, "etcd", "n")["result"] == "ok"
        for member in cluster[:2]:
            member.signal(signal.SIGSTOP)
        wait_until(lambda: holder("state", 1)["lost"] == 1, "call of on_lost")
        assert holder("state", 1)["state"] == "lost"
        assert holder.acquire("etcd", "m", hold=2)["result"] in ("failed", "unknown")
        for member in cluster[:2]:
            member.process.send_signal(signal.SIGCONT)
        assert settled(holder, "release", 1)["result"] == "lost"
