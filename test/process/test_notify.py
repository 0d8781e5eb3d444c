"""The daemon reports to the service manager that started it, over NOTIFY_SOCKET."""

import ctypes
import os
import signal
import time
from pathlib import Path

import pytest

from harness.processes import wait_until
from harness.supervisor import Supervisor

PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17
ptrace = ctypes.CDLL(None, use_errno=True).ptrace
ptrace.argtypes = [ctypes.c_ulong, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_void_p]
WAIT_ALL_THREADS = 0x40000000  # __WALL


@pytest.fixture(params=["path", "abstract"])
def supervisor(request, tmp_path):
    name = tmp_path / "notify" if request.param == "path" else f"@seckill-test-{os.getpid()}"
    with Supervisor(name) as manager:
        yield manager


def environment(manager, **more):
    return {"NOTIFY_SOCKET": manager.name, **more}


def test_ready_status_and_stopping(stack, spawn, supervisor):
    daemon = spawn(stack, env=environment(supervisor))
    supervisor.wait("READY", "1")
    supervisor.wait("STATUS", "Sells")
    daemon.signal(signal.SIGTERM)
    assert daemon.wait() == 0
    supervisor.wait("STOPPING", "1")
    assert supervisor.told("WATCHDOG") == []


def test_ready_comes_with_the_servers(private_stack, spawn, tmp_path):
    """Without its ledger the daemon serves 503 and asks for more time, as long as that takes."""
    private_stack.maria_server.kill()
    with Supervisor(tmp_path / "notify") as manager:
        daemon = spawn(private_stack, env=environment(manager), ready=False)
        assert "Waits for the ledger" in manager.wait("STATUS")
        manager.wait("EXTEND_TIMEOUT_USEC", after=1)
        assert manager.told("READY") == []
        private_stack.maria_server.start()
        manager.wait("READY", "1")
        manager.wait("STATUS", "Sells")
        private_stack.redis_server.kill()
        wait_until(lambda: "Refuses orders: Redis down" in manager.told("STATUS")[-1], "a status")
        private_stack.redis_server.start()
        manager.wait("STATUS", "Sells", after=1)
        daemon.wait_ready()


def test_time_for_a_long_drain_is_asked_for(stack, spawn, tmp_path):
    with Supervisor(tmp_path / "notify") as manager:
        daemon = spawn(stack, env=environment(manager), drain_ms=120_000)
        manager.wait("READY", "1")
        asked = len(manager.told("EXTEND_TIMEOUT_USEC"))
        assert daemon.admin("POST", "/admin/drain", {"lame_duck_ms": 1000}).status == 200
        manager.wait("STOPPING", "1")
        assert int(manager.wait("EXTEND_TIMEOUT_USEC", after=asked)) >= 120_000_000
        assert daemon.wait() == 0


def test_reload_is_announced_and_ends(stack, spawn, tmp_path):
    with Supervisor(tmp_path / "notify") as manager:
        daemon = spawn(stack, env=environment(manager))
        manager.wait("READY", "1")
        before_us = time.monotonic_ns() // 1000
        daemon.signal(signal.SIGHUP)
        manager.wait("READY", "1", after=1)
        begun = next(message for message in manager.messages if "RELOADING" in message)
        assert begun["RELOADING"] == "1"
        assert before_us <= int(begun["MONOTONIC_USEC"]) <= time.monotonic_ns() // 1000
        assert [message for message in manager.messages if "READY" in message][-1] is \
            manager.messages[max(manager.messages.index(begun) + 1, 0):][0]


class Stopped:
    """Context manager: one thread of a process stands still while the others run."""

    def __init__(self, pid, name):
        self.thread = next(int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()
                           if (task / "comm").read_text().strip() == name)

    def __enter__(self):
        if ptrace(PTRACE_SEIZE, self.thread, None, None) != 0:
            pytest.skip(f"ptrace is not allowed: {os.strerror(ctypes.get_errno())}")
        ptrace(PTRACE_INTERRUPT, self.thread, None, None)
        os.waitpid(self.thread, WAIT_ALL_THREADS)

    def __exit__(self, *_):
        ptrace(PTRACE_DETACH, self.thread, None, None)


def test_watchdog_is_fed_while_the_threads_turn(stack, spawn, tmp_path):
    with Supervisor(tmp_path / "notify") as manager:
        daemon = spawn(stack, env=environment(manager, WATCHDOG_USEC="400000"))
        manager.wait("WATCHDOG", after=10)
        with Stopped(daemon.process.pid, "http-thread"):
            before = daemon.log().count("event=thread_stuck")
            daemon.wait_until(lambda: daemon.log().count("event=thread_stuck") > before,
                              "a stuck thread")
            fed = len(manager.told("WATCHDOG"))
            daemon.wait_until(lambda: daemon.log().count("event=thread_stuck") > before + 3,
                              "more lines")
            assert len(manager.told("WATCHDOG")) == fed
        manager.wait("WATCHDOG", after=fed)


def test_watchdog_of_another_process_is_not_fed(stack, spawn, tmp_path):
    with Supervisor(tmp_path / "notify") as manager:
        daemon = spawn(stack, env=environment(manager, WATCHDOG_USEC="100000", WATCHDOG_PID="1"))
        manager.wait("READY")
        daemon.signal(signal.SIGHUP)
        manager.wait("READY", after=1)
        daemon.stop()
        assert manager.told("WATCHDOG") == []


def test_socket_of_another_kind_is_named(stack, spawn):
    daemon = spawn(stack, env={"NOTIFY_SOCKET": "vsock:2:1"})
    assert "event=notify_socket_invalid value=vsock:2:1" in daemon.log()


def test_manager_that_is_gone_stops_nothing(stack, spawn, tmp_path):
    daemon = spawn(stack, env={"NOTIFY_SOCKET": str(tmp_path / "nobody"), "WATCHDOG_USEC": "1000"})
    daemon.reset()
    assert daemon.order().status == 201
