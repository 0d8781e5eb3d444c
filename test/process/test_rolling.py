"""Restarts under load: no client is refused, reset or left without an answer by them."""

import contextlib
import fcntl
import shlex
import socket
import subprocess
import time

import pytest

from harness.audit import audit
from harness.buyers import Buyers
from harness.client import send
from harness.daemon import STEADY, Daemon
from harness.processes import ROOT, free_port, wait_until

UNIT = ROOT / "deploy" / "systemd" / "seckilld.service"


class Activated(Daemon):
    """A daemon that gets its listening sockets as systemd passes them."""

    def __init__(self, sockets, names, stack, directory, **options):
        super().__init__(stack, directory, **options)
        self.pass_fds = [fcntl.fcntl(sock, fcntl.F_DUPFD, 100) for sock in sockets]
        self.names = names

    def argv(self):
        moves = " ".join(f"{3 + i}<&{fd} {fd}<&-" for i, fd in enumerate(self.pass_fds))
        return ["bash", "-c", f"export LISTEN_PID=$$ LISTEN_FDS={len(self.pass_fds)}"
                f' LISTEN_FDNAMES={self.names}; exec "$@" {moves}', "bash", *super().argv()]


def on_port(**options):
    return {"listen": f"127.0.0.1:{free_port()}", **options}


@pytest.mark.parametrize("step", ["ExecStartPre", "ExecReload"])
def test_unit_copies_the_configuration_past_links_of_the_daemon(tmp_path, step):
    source, copy, foreign = (tmp_path / name for name in ("source", "copy", "foreign"))
    for directory in (source, copy):
        directory.mkdir()
    source.joinpath("seckill.conf").write_text("new")
    foreign.write_text("not ours")
    copy.joinpath("seckill.conf").symlink_to(foreign)  # root does the copying
    line = next(line for line in UNIT.read_text().splitlines() if line.startswith(step + "=+"))
    command = line.partition("=+")[2].replace("@SYSCONFDIR@/seckill", str(source))
    subprocess.run(shlex.split(command.replace("/run/seckilld", str(copy))), check=True)
    assert foreign.read_text() == "not ours"
    assert copy.joinpath("seckill.conf").read_text() == "new"


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("threads", [2, 1])
def test_daemon_takes_over_a_shared_port_under_load(stack, spawn, threads):
    options = on_port(reuse_port="on", http_threads=threads)
    old = spawn(stack, **options, **STEADY)
    old.reset("demo", 1_000_000, 20)
    with (Buyers(old.address, count=4, pause=0.02) as kept,
          Buyers(old.address, count=4, pause=0.01, kept=False) as brief):
        for _ in range(3):
            time.sleep(0.3)
            new = spawn(stack, ready=False, **options, **STEADY)  # it listens only when it is ready
            old.stop()
            old = new
        time.sleep(0.3)
    for buyers in (kept, brief):
        assert (buyers.lost, set(buyers.answers)) == ([], {"201"})
        assert buyers.slowest < 10
    accepted = kept.accepted + brief.accepted
    assert audit(new, accepted=accepted) == len(accepted)


def test_shared_port_is_joined_only_when_ready(stack, proxies, spawn, tmp_path):
    proxy = proxies(stack.ledger.port)
    options = on_port(reuse_port="on")
    old = spawn(stack, **options)
    proxy.refuse()
    new = Daemon(stack, tmp_path, mysql_url=proxy.url(stack.mysql_url), **options)
    try:
        new.launch()
        wait_until(lambda: "event=ledger_not_ready" in new.log(), "a try to prepare the ledger")
        time.sleep(0.5)
        assert not new.listening()
        assert all(old.get("/servingz").status == 200 for _ in range(20))
        proxy.admit()
        new.wait_started()
        new.stop()
    finally:
        new.reap()


def test_operators_who_wait_for_the_start_are_answered(stack, tmp_path):
    """The socket took them while no daemon ran; all that a page shows is there when it is asked."""
    with socket.create_server(("127.0.0.1", 0)) as public, \
         socket.create_server(("127.0.0.1", 0), backlog=64) as admin, \
         Activated([public, admin], "seckilld:admin", stack, tmp_path, **STEADY) as daemon:
        for _ in range(6):
            daemon.stop()
            with contextlib.ExitStack() as clients:
                waiting = [ask(clients, daemon, admin.getsockname(), path) for path in (
                    "/metrics", "/dashboard/live", "/admin/log-level", "/readyz") * 4]
                daemon.start()
                for client in waiting:
                    assert client.makefile("rb").read().split()[1] in (b"200", b"503")


def ask(clients, daemon, address, path):
    client = clients.enter_context(socket.create_connection(address, timeout=60))
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                   f"Authorization: Bearer {daemon.token}\r\n\r\n".encode())
    return client


def test_sockets_of_systemd_outlive_the_daemon(stack, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as public, \
         socket.create_server(("127.0.0.1", 0)) as admin:
        address, operators = public.getsockname(), admin.getsockname()
        with Activated([public, admin], "seckilld:admin", stack, tmp_path,
                       http_threads=2, **STEADY) as daemon:
            assert (daemon.address, daemon.admin_address()) == (address, operators)
            assert send(address, "GET", "/readyz").status == 404
            daemon.reset("demo", 1_000_000, 20)
            with (Buyers(address, count=4, pause=0.01) as kept,
                  Buyers(address, count=4, pause=0.005, kept=False) as brief):
                for _ in range(2):
                    time.sleep(0.3)
                    daemon.stop()
                    time.sleep(0.2)  # clients connect meanwhile, and wait
                    daemon.start()
                time.sleep(0.3)
            accepted = kept.accepted + brief.accepted
            assert audit(daemon, accepted=accepted) == len(accepted)
    for buyers in (kept, brief):
        assert (buyers.lost, set(buyers.answers)) == ([], {"201"})


def test_more_clients_wait_for_the_start_than_there_may_be(stack, tmp_path):
    """The first HTTP threads make room in all of them while the last ones are being started."""
    with contextlib.ExitStack() as clients:
        public = clients.enter_context(socket.create_server(("127.0.0.1", 0), backlog=100))
        for _ in range(100):
            clients.enter_context(socket.create_connection(public.getsockname(), timeout=10))
        with Activated([public] * 8, ":".join(["seckilld"] * 8), stack, tmp_path,
                       connections_max=4, http_threads=8) as daemon:
            wait_until(lambda: daemon.log().count("event=connections_full"), "a full daemon")


def test_socket_that_does_not_listen_is_exit_2(stack, tmp_path):
    with socket.socket() as useless:
        daemon = Activated([useless], "", stack, tmp_path)
        daemon.launch()
        assert daemon.wait() == 2
        assert "descriptor 3 is no listening" in daemon.log()
