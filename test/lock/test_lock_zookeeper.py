"""The queue lock when its session, its server or the server's numbers come to an end."""

import itertools
import socket
import struct
import time
import zlib
from contextlib import ExitStack, contextmanager

import pytest

from harness.processes import wait_until
from harness.proxy import FaultProxy, Link
from harness.servers import ZooKeeper
from harness.standstill import Elapsed
from locks import Driver, run_seclock, settled

if not ZooKeeper.PROGRAM.exists():
    pytest.skip("no ZooKeeper is installed", allow_module_level=True)

CREATION = rb"-lock-"  # in the name of the node that a waiter makes
DELETION = rb"(?s)\0\0\0\x02\0\0../seclock/"  # a request's type, and its path
THROTTLED = struct.pack(">i", -127)


NUMBERS = itertools.count()
may_kill = pytest.mark.parametrize("server", ["own"], indirect=True)


@pytest.fixture
def server(request, monkeypatch):
    """The shared one, with nodes of the test's own in it; or a new one, which the test may kill."""
    if not hasattr(request, "param"):
        monkeypatch.setattr(Driver, "defaults", {"prefix": f"session-{next(NUMBERS)}:"})
        yield request.getfixturevalue("zookeeper")
        return
    with ZooKeeper() as running:
        yield running


@pytest.fixture
def near(server):
    with Driver(server.url, lease=9000, timeout=3000) as driver:
        yield driver


class Listener(FaultProxy):
    """Keeps the first answer to each connection: the session's id and password."""

    def __init__(self, port):
        super().__init__(port)
        self.sessions = []

    def answers_of(self, link):
        for number, data in enumerate(super().answers_of(link)):
            if number == 0:
                self.sessions.append(data)
            yield data


def end_session(port, answer):
    """Ends a session as its owner would, over connections of our own. The owner keeps coming back
    and takes it from us: so until the server knows no such session."""
    session, size = struct.unpack(">qi", answer[12:24])
    hello = struct.pack(">iqiqi", 0, 0, 9000, session, size) + answer[24:24 + size]
    goodbye = struct.pack(">ii", 1, -11)

    def is_over():
        with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
            with sock.makefile("rb") as answers:
                for frame in (hello, goodbye):
                    sock.sendall(struct.pack(">i", len(frame)) + frame)
                try:
                    return answers.read(20)[12:] == bytes(8)
                except ConnectionError:
                    return False
    wait_until(is_over, "end of the session")


def test_session_is_ended_from_elsewhere(server, near):
    """The node is gone at once; the holder hears of it, once, from its next connection."""
    with Listener(server.port) as proxy, Driver(proxy.url(server.url), lease=9000,
                                                timeout=3000) as holder:
        old = holder.acquire("queue", "n")
        assert old["result"] == "ok"
        near.send("acquire", 1, "queue", "n", wait=60000)
        end_session(server.port, proxy.sessions[-1])
        new = near.read()
        assert new["result"] == "ok" and new["fence"] > old["fence"]
        wait_until(lambda: holder("state", 1)["state"] == "lost", "loss")
        wait_until(lambda: holder("state", 1)["lost"] == 1, "call of on_lost")
        assert settled(holder, "release", 1)["result"] == "lost"
        assert holder.acquire("queue", "n")["result"] == "busy"  # in a session of its own
        assert near("release", 1)["result"] == "ok"
        again = holder.acquire("queue", "n", wait=9000)
        assert again["result"] == "ok" and again["fence"] > new["fence"]


@pytest.mark.long
@may_kill
@pytest.mark.parametrize("when", ["before", "after"])
def test_server_starts_again_during_the_creation(server, near, when):
    """In the end one node exists, whether the server died before it was made or after."""
    # From now on there is the directory. The first use of a server may take long.
    assert settled(near, "acquire", 1, "queue", "n")["result"] == "ok"
    assert near("release", 1)["result"] == "ok"
    with FaultProxy(server.port) as proxy, Driver(proxy.url(server.url), lease=9000,
                                                  timeout=1000, outage=60000) as far:
        assert settled(far, "status", "queue", "n")["held"] == 0  # connects
        trap = proxy.once(CREATION, **{when: lambda _: server.kill()})
        far.send("acquire", 1, "queue", "n", wait=60000)
        trap.wait()
        server.process.wait()
        server.start()
        answer = far.read()
        assert answer["result"] == "ok"
        status = settled(near, "status", "queue", "n")  # near lost its connection, too
        assert (status["held"], status["waiting"]) == (1, 0)
        assert status["fence"] == answer["fence"]
        assert settled(far, "release", 1)["result"] == "ok"
        assert near.acquire("queue", "n")["result"] == "ok"


def test_answer_to_the_creation_is_lost(server, near):
    assert settled(near, "acquire", 1, "queue", "n")["result"] == "ok"
    assert near("release", 1)["result"] == "ok"
    with FaultProxy(server.port) as proxy, Driver(proxy.url(server.url), lease=9000,
                                                  timeout=1000, outage=60000) as far:
        assert settled(far, "status", "queue", "n")["held"] == 0
        trap = proxy.once(CREATION, after=Link.cut)
        answer = far.acquire("queue", "n", wait=20000)
        trap.wait()
        assert answer["result"] == "ok"
        assert near("status", "queue", "n")["waiting"] == 0
        assert far("release", 1)["result"] == "ok"
        assert near.acquire("queue", "n")["result"] == "ok"


@pytest.mark.long
def test_nobody_answers_the_creation(server, near):
    """Its owner and its watchdog both ask what became of it; there is one node, and it goes."""
    assert settled(near, "acquire", 1, "queue", "n")["result"] == "ok"
    assert near("release", 1)["result"] == "ok"
    with FaultProxy(server.port) as proxy, Driver(proxy.url(server.url), lease=30000,
                                                  timeout=500) as far:
        for _ in range(3):
            assert settled(far, "status", "queue", "n")["held"] == 0
            trap = proxy.once(CREATION, after=lambda _: proxy.fail("deaf"))
            answer = far.acquire("queue", "n")
            trap.wait()
            assert (answer["result"], answer["state"]) == ("unknown", "unknown")
            assert near("status", "queue", "n")["held"] == 1
            proxy.heal()
            proxy.cut()
            assert settled(far, "renew", 1, timeout=20)["result"] == "ok"
            status = near("status", "queue", "n")
            assert (status["count"], status["waiting"]) == (1, 0)
            assert status["fence"] == far("state", 1)["fence"]
            assert near.acquire("queue", "n")["result"] == "busy"
            assert settled(far, "release", 1)["result"] == "ok"
            assert near.acquire("queue", "n")["result"] == "ok"
            assert near("release", 1)["result"] == "ok"


def test_second_creation_is_not_answered_either(server, near):
    """The first one never arrived, the second one did: the try leaves nothing in the queue."""
    assert settled(near, "acquire", 1, "queue", "n")["result"] == "ok"
    assert near("release", 1)["result"] == "ok"
    with FaultProxy(server.port) as proxy, Driver(proxy.url(server.url), lease=30000,
                                                  timeout=9000) as far:
        assert settled(far, "status", "queue", "n")["held"] == 0  # connects
        made = []

        def lose_the_next(link):
            made.append(proxy.once(CREATION, after=lambda _: proxy.fail("deaf")))
            link.cut()
        trap = proxy.once(CREATION, before=lose_the_next)
        assert far.acquire("queue", "n")["result"] == "unknown"
        trap.wait()
        made[0].wait()
        wait_until(lambda: settled(near, "status", "queue", "n")["held"] == 1, "the node")
        proxy.heal()
        proxy.cut()
        assert settled(far, "release", 1)["result"] == "ok"
        assert near.acquire("queue", "n", wait=9000)["result"] == "ok"


def test_answer_to_a_proclamation_is_lost(server, near):
    with FaultProxy(server.port) as proxy, Driver(proxy.url(server.url), lease=20000,
                                                  timeout=3000) as far:
        term = settled(far, "campaign", 1, "queue", "n", "one")["fence"]
        trap = proxy.once(rb" two", after=Link.cut)
        assert far("proclaim", 1, "two")["result"] == "ok"
        trap.wait()
        seen = settled(near, "leader", "queue", "n")
        assert (seen["term"], seen["value"]) == (term, "two")
        trap = proxy.once(rb" three", after=lambda _: proxy.fail("deaf"))
        assert far("proclaim", 1, "three")["result"] == "unknown"
        trap.wait()
        assert settled(near, "leader", "queue", "n")["value"] == "three"
        proxy.heal()
        proxy.cut()
        assert settled(far, "proclaim", 1, "three")["result"] == "ok"
        assert settled(far, "proclaim", 1, "four")["result"] == "ok"
        assert settled(near, "leader", "queue", "n")["value"] == "four"
        assert settled(far, "release", 1)["result"] == "ok"
        assert settled(near, "leader", "queue", "n")["led"] == 0


class Throttle(FaultProxy):
    """Once it throttles, says of each request that the server was too busy to carry it out."""
    throttles = False

    def answers_of(self, link):
        greeted, rest = False, b""
        for data in super().answers_of(link):
            rest += data
            while len(rest) >= 4 and len(rest) >= (end := 4 + struct.unpack(">i", rest[:4])[0]):
                frame, rest = rest[:end], rest[end:]
                if self.throttles and greeted and struct.unpack(">i", frame[4:8])[0] > 0:
                    frame = frame[:16] + THROTTLED + frame[20:]
                greeted = True
                yield frame

    def lose_the_answer(self, pattern):
        """To the next request that matches; from then on it throttles."""
        def lose(link):
            self.throttles = True
            link.cut()
        return self.once(pattern, after=lose)


def test_refusal_after_a_lost_answer_leaves_the_doubt(zookeeper):
    """What was sent first may have been carried out, although a later sending certainly was not."""
    with Throttle(zookeeper.port) as proxy, Driver(proxy.url(zookeeper.url), lease=20000,
                                                   timeout=3000) as far:
        with Driver(zookeeper.url, lease=20000) as near:
            assert settled(near, "acquire", 1, "queue", "broken")["result"] == "ok"
            assert settled(far, "status", "queue", "broken")["held"] == 1  # connects
            trap = proxy.lose_the_answer(DELETION)
            assert far("break", "queue", "broken")["result"] == "unknown"
            trap.wait()
            assert near("status", "queue", "broken")["held"] == 0


def test_reentry_is_answered_by_the_server(server, near):
    """Otherwise it would count a new lease for a session of which the server has heard nothing."""
    with FaultProxy(server.port) as proxy, Driver(proxy.url(server.url), lease=30000,
                                                  timeout=2000) as far:
        assert settled(far, "status", "queue", "n")["held"] == 0  # connects
        first = far.acquire("queue", "n", hold=1)
        assert first["result"] == "ok"
        proxy.hold()
        assert far.acquire("queue", "n", hold=2)["result"] == "failed"
        proxy.resume()
        second = settled(far, "acquire", 2, "queue", "n")
        assert (second["result"], second["count"]) == ("ok", 2)
        assert second["fence"] == first["fence"]
        assert settled(far, "release", 1)["result"] == "ok"
        assert near.acquire("queue", "n")["result"] == "busy"
        assert settled(far, "release", 2)["result"] == "ok"
        assert near.acquire("queue", "n")["result"] == "ok"


@pytest.mark.long
@pytest.mark.parametrize("wait", [0, 400])
def test_wait_is_bounded_though_the_server_is_silent(server, near, wait):
    assert settled(near, "acquire", 1, "queue", "n")["result"] == "ok"
    with FaultProxy(server.port) as proxy, Driver(proxy.url(server.url), lease=30000, timeout=4000,
                                                  outage=60000) as far:
        assert settled(far, "acquire", 1, "queue", "n")["result"] == "busy"
        if wait == 0:
            proxy.hold()
        with Elapsed() as passed:
            far.send("acquire", 1, "queue", "n", wait=wait)
            if wait:
                time.sleep(wait / 2000)
                proxy.hold()
            answer = far.read()
        assert answer["result"] in ("unknown", "failed", "timeout")
        assert passed.running * 1000 < wait + 4000 + 3000  # less than a time-out more
        far.kill()


@pytest.mark.long
def test_waiter_that_gives_up_without_a_server_leaves_the_queue(server, near):
    """Its session goes on, so it has to delete its node when the connection is back."""
    assert settled(near, "acquire", 1, "queue", "n")["result"] == "ok"
    with FaultProxy(server.port) as proxy, Driver(proxy.url(server.url), lease=90000, timeout=1000,
                                                  outage=2000) as far:
        assert settled(far, "status", "queue", "n")["held"] == 1  # connects
        far.send("acquire", 1, "queue", "n", wait=120000)
        wait_until(lambda: near("status", "queue", "n")["waiting"] == 1, "queueing up")
        proxy.refuse()
        # The answer to its node may still be under way, though others see the node.
        assert far.read()["result"] in ("failed", "unknown")
        proxy.admit()
        assert settled(near, "release", 1)["result"] == "ok"
        assert near.acquire("queue", "n", wait=30000)["result"] == "ok"


@contextmanager
def silent_port(full):
    """A port that accepts and never answers, as a server that starts may be; or one whose queue is
    full, which does not even answer the connect, as a host that is gone."""
    with ExitStack() as running:
        backlog = 0 if full else 100
        listener = running.enter_context(socket.create_server(("127.0.0.1", 0), backlog=backlog))
        for _ in range(8 if full else 0):
            filler = running.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


@pytest.mark.long
@pytest.mark.parametrize("full", [False, True], ids=["silent", "gone"])
def test_holds_survive_a_silent_server(server, near, full):
    """The holder goes on to the next server while its hold lasts, in the same session."""
    with silent_port(full) as port, FaultProxy(server.port) as proxy:
        url = f"zookeeper://127.0.0.1:{port},127.0.0.1:{proxy.port}"
        with Driver(url, lease=9000, timeout=3000) as holder:
            fence = settled(holder, "acquire", 1, "queue", "n")["fence"]
            for _ in range(2):
                assert settled(holder, "renew", 1)["result"] == "ok"
                proxy.cut()  # the silent one is next, and then the first again
                with Elapsed() as passed:
                    assert settled(holder, "renew", 1)["result"] == "ok"
                assert passed.running < 4
                state = holder("state", 1)
                assert (state["state"], state["lost"], state["fence"]) == ("held", 0, fence)
            assert near.acquire("queue", "n")["result"] == "busy"
            assert holder("release", 1)["result"] == "ok"


def test_each_of_two_servers_is_tried(server):
    """The client library alone stays with one of them after its second failure."""
    with FaultProxy(server.port) as one, FaultProxy(server.port) as two:
        url = f"zookeeper://127.0.0.1:{one.port},127.0.0.1:{two.port}"
        with Driver(url, lease=9000, timeout=3000) as holder:
            fence = settled(holder, "acquire", 1, "queue", "n")["fence"]
            for _ in range(2):
                for away in (one, two):
                    away.refuse()
                    assert settled(holder, "renew", 1)["result"] == "ok"
                    assert holder("state", 1)["fence"] == fence
                    away.admit()
            assert holder("release", 1)["result"] == "ok"


def login(url, user):
    return url.replace("://", f"://{user}@")


@may_kill
def test_locks_belong_to_their_user(server, near):
    """Nobody else may take, break or watch them; who has the password may."""
    own, wrong = login(server.url, "shop:s%40cret"), login(server.url, "shop:wrong")
    with (Driver(own, lease=9000, timeout=3000) as holder,
          Driver(own, lease=9000, timeout=3000) as other,
          Driver(wrong, lease=9000, timeout=3000) as stranger):
        assert settled(holder, "acquire", 1, "queue", "n")["result"] == "ok"
        assert settled(other, "acquire", 1, "queue", "n")["result"] == "busy"
        for refused in (stranger, near):
            for words in (("acquire", 1, "queue", "n"), ("acquire", 1, "queue", "m"),
                          ("break", "queue", "n")):
                answer = refused(*words)
                assert answer["result"] == "failed", answer
                assert "its nodes belong to another user" in answer["error"]
                assert "s@cret" not in answer["error"] and "wrong:" not in answer["error"]
        assert holder("renew", 1)["result"] == "ok"
        other.send("acquire", 1, "queue", "n", wait=60000)
        wait_until(lambda: holder("status", "queue", "n")["waiting"] == 1, "queueing up")
        assert holder("release", 1)["result"] == "ok"
        assert other.read()["result"] == "ok"


@pytest.mark.long
@may_kill
def test_user_is_known_again_after_a_restart(server):
    with Driver(login(server.url, "shop:secret"), lease=30000, timeout=3000) as holder:
        assert settled(holder, "acquire", 1, "queue", "n")["result"] == "ok"
        server.kill()
        server.start()
        assert settled(holder, "acquire", 2, "queue", "m")["result"] == "ok"
        for hold in (1, 2):
            assert settled(holder, "release", hold)["result"] == "ok"


def test_refused_login_is_told():
    with ZooKeeper("DigestAuthenticationProvider.enabled=false") as server:
        with Driver(server.url, lease=9000, timeout=3000) as driver:  # the first is slow
            assert settled(driver, "acquire", 1, "queue", "n")["result"] == "ok"
            assert settled(driver, "release", 1)["result"] == "ok"
        with Driver(login(server.url, "shop:secret"), lease=9000, timeout=3000) as driver:
            with Elapsed() as passed:
                answer = driver.acquire("queue", "n")
            assert answer["result"] == "failed" and passed.running < 3, answer
            assert "refuses to authenticate the user" in answer["error"]
            assert "secret" not in answer["error"]
            answer = driver.acquire("queue", "n", wait=1500)
            assert "refuses to authenticate the user" in answer["error"], answer


def test_tls_is_refused_with_the_reason():
    done = run_seclock("status", "n", server="zookeepers://shop:secret@127.0.0.1:1?ca=/a")
    assert done.returncode == 78 and "has no TLS" in done.stderr, done.stderr
    assert "secret" not in done.stderr


def set_children_made(server, path, count):
    """Lets a node of a server that is down have had so many children: changes its last snapshot."""
    snapshot = max((server.directory / "data" / "version-2").glob("snapshot.*"),
                   key=lambda file: int(file.suffix[1:], 16))
    data = bytearray(snapshot.read_bytes())
    name = path.encode()
    at = data.index(struct.pack(">i", len(name)) + name) + 4 + len(name)
    at += 4 + max(struct.unpack_from(">i", data, at)[0], 0)  # its data
    at += 8 + 4 * 8 + 4  # access list, czxid, mzxid, ctime, mtime, version
    struct.pack_into(">i", data, at, count)
    seal = len(data) - 13  # the checksum of all before, and "/"
    struct.pack_into(">q", data, seal, zlib.adler32(data[:seal]))
    snapshot.write_bytes(data)


@pytest.mark.long
@may_kill
def test_sequence_numbers_run_out(server, near):
    """After the greatest number of 32 bits: still one holder, and first come, first served."""
    with Driver(server.url, lease=9000, timeout=3000) as holder:
        assert settled(holder, "acquire", 1, "queue", "n")["result"] == "ok"
        assert holder("release", 1)["result"] == "ok"
    server.kill()
    server.start()  # writes a snapshot
    server.kill()
    set_children_made(server, "/seclock/n", 2**31 - 3)
    server.start()
    with ExitStack() as running:
        first, *waiters = (running.enter_context(Driver(server.url, lease=9000, timeout=3000))
                           for _ in range(9))
        last = settled(first, "acquire", 1, "queue", "n")["fence"]
        for number, waiter in enumerate(waiters, 1):
            waiter.send("acquire", 1, "queue", "n", wait=60000)
            wait_until(lambda: near("status", "queue", "n")["waiting"] == number, "queueing up")
        for one, next_one in zip([first, *waiters], waiters):
            assert near("status", "queue", "n")["fence"] == last
            assert near.acquire("queue", "n")["result"] == "busy"
            assert one("release", 1)["result"] == "ok"
            answer = next_one.read()
            assert answer["result"] == "ok" and answer["fence"] > last
            last = answer["fence"]
        assert waiters[-1]("release", 1)["result"] == "ok"
        assert near.acquire("queue", "n")["result"] == "ok"
