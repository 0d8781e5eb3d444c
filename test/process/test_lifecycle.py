"""Start, options, readiness, metrics and the end of a daemon."""

import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path

import pytest

from harness.audit import answered, audit, sell_out
from harness.buyers import Buyers
from harness.client import assert_problem, order_bytes, read_response, read_to_end
from harness.daemon import HASTY, STEADY, Daemon
from harness.processes import BUILD, PROGRAM, ROOT, free_port, wait_until
from harness.proxy import SEGMENT_LOCK, WRITE
from harness.servers import is_mysql
from harness.stack import Stack
from harness.standstill import Elapsed, timed


IDLE_GRACE_S = 1  # service/http/loop.c


def run(*flags, env=None):
    """Runs a daemon that is expected to end by itself."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("SECKILL_")}
    return subprocess.run([PROGRAM, *flags], env={**inherited, **(env or {})}, text=True,
                          capture_output=True, timeout=30)


# the end

def test_sigterm_under_load_answers_every_accepted_order(pair, load):
    steady, leaving = pair
    steady.reset("demo", 1_000_000, 20)
    running = load(leaving, connections=128, stop_after=10**9)
    wait_until(lambda: len(running.accepted) > 1000, "orders")
    leaving.stop()
    in_ledger = steady.stack.ledger.number("SELECT COUNT(*) FROM orders")
    wait_until(lambda: len(running.accepted) == in_ledger, "wrk to read the last answers")
    running.stop()
    assert set(running.answers) <= {"201", "503 unavailable", "503 overloaded"}
    assert audit(steady, accepted=running.accepted) == in_ledger


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_an_idle_daemon_with_exit_0(daemon, number):
    with socket.create_connection(daemon.address):  # an idle client does not keep the daemon
        daemon.signal(number)
        assert daemon.wait() == 0
    with pytest.raises(ConnectionRefusedError):
        daemon.get("/healthz")


def test_lame_duck_serves_and_says_so(stack, spawn):
    daemon = spawn(stack, lame_duck_ms=10_000, http_threads=2)
    daemon.reset()
    with closing(HTTPConnection(*daemon.address)) as kept:
        def closes():
            kept.request("GET", "/healthz")
            response = kept.getresponse()
            assert response.read() and response.status == 200
            return response.will_close
        assert not closes()
        with Elapsed() as passed:
            daemon.signal(signal.SIGTERM)
            wait_until(lambda: daemon.get("/readyz").json()["status"] == "draining", "a drain")
            assert daemon.get("/readyz").status == 503
            assert not closes(), "balancers have not seen it yet"
            assert daemon.order().status == 201
            wait_until(closes, "Connection: close", pause=0.2)
            assert daemon.order().status == 201
            daemon.signal(signal.SIGHUP)  # harmless by now
            assert daemon.wait() == 0
        assert passed.seconds > 10 and passed.running < 20


def test_clients_in_the_backlog_are_answered(daemon):
    """The daemon hangs for a moment, clients connect, and SIGTERM comes before it has seen them."""
    daemon.reset()
    daemon.pause()
    clients = [socket.create_connection(daemon.address, timeout=20) for _ in range(200)]
    for number, client in enumerate(clients):
        client.sendall(order_bytes(user_id=f"u{number}"))
    daemon.signal(signal.SIGTERM)
    daemon.cont()
    assert [read_response(client).status for client in clients] == [201] * len(clients)
    assert daemon.wait() == 0


@pytest.mark.parametrize("threads", [1, 3])
def test_stop_resets_no_client_that_has_connected(stack, spawn, threads):
    """Clients come all the time: each is answered or not let in."""
    daemon = spawn(stack, http_threads=threads)
    daemon.reset()
    with Buyers(daemon.address, count=16, kept=False) as buyers:
        wait_until(lambda: buyers.answers["201"] > 100, "orders")
        daemon.signal(signal.SIGTERM)
        assert daemon.wait() == 0
    assert buyers.lost, "nobody came after the end"
    assert {why.split(":")[0] for why in buyers.lost} == {"ConnectionRefusedError"}
    assert set(buyers.answers) == {"201"}


def listener(daemon):
    """The path of its descriptor, and what that is while the daemon lets clients in."""
    listens = re.compile(rf":{daemon.address[1]:04X} 00000000:0000 0A (?:\S+ +){{5}}(\d+) ")
    inode = listens.search(Path("/proc/net/tcp").read_text(encoding="ascii"))[1]
    for path in Path(f"/proc/{daemon.process.pid}/fd").iterdir():
        with suppress(OSError):
            if os.readlink(path) == f"socket:[{inode}]":
                return path, f"socket:[{inode}]"
    raise AssertionError("the daemon does not listen")


def is_closed(path, socket_name):
    with suppress(OSError):
        return os.readlink(path) != socket_name
    return True


def order_while_it_stops(daemon):
    """The answer to an order on a connection that was idle when the daemon was told to stop; None
    when a busy machine let the grace pass before the daemon was stopped in it. While it is, no
    time passes for it, however late the order is sent."""
    daemon.reset()
    with socket.create_connection(daemon.address, timeout=20) as client:
        client.sendall(order_bytes())
        assert read_response(client).status == 201
        lets_in = listener(daemon)
        with Elapsed() as passed:
            daemon.signal(signal.SIGTERM)
            wait_until(lambda: is_closed(*lets_in), "nobody is let in any more", pause=0.001)
            daemon.pause()
        client.sendall(order_bytes(user_id="late"))
        daemon.cont()
        response = read_response(client) if passed.seconds < IDLE_GRACE_S else None
    assert daemon.wait() == 0
    return response


def test_idle_connection_has_a_grace(stack, spawn):
    """A client may be about to send when the daemon stops. On a machine that never lets two
    processes run within the grace one after the other, this shows nothing."""
    tries = (order_while_it_stops(spawn(stack)) for _ in range(20))
    response = next((answer for answer in tries if answer), None)
    assert response, f"each of 20 daemons took more than {IDLE_GRACE_S} s to stop listening"
    assert (response.status, response.headers["Connection"]) == (201, "close")


def test_drain_waits_for_the_rest_of_a_request(daemon):
    """It has begun, so it has longer than the grace of an idle connection."""
    daemon.reset()
    data = order_bytes()
    with socket.create_connection(daemon.address, timeout=20) as client:
        client.sendall(data[:-1])
        assert daemon.get("/healthz").status == 200  # it has read the beginning by now
        lets_in = listener(daemon)
        daemon.signal(signal.SIGTERM)
        wait_until(lambda: is_closed(*lets_in), "nobody is let in any more")
        time.sleep(1.5 * IDLE_GRACE_S)
        client.sendall(data[-1:])
        assert read_response(client).status == 201
    assert daemon.wait() == 0


def test_library_that_reads_heads_otherwise_is_refused(stack, tmp_path):
    """An upgrade of the system may bring a libmicrohttpd that the checks were not built for."""
    other = tmp_path / "other.so"
    source = 'const char *MHD_get_version(void) { return "9.0.0"; }'
    subprocess.run(["cc", "-shared", "-fPIC", "-o", other, "-xc", "-"], input=source, text=True,
                   check=True)
    asan = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    done = run(f"--redis-url={stack.redis_url}", f"--mysql-url={stack.mysql_url}",
               "--listen=127.0.0.1:0", env={"LD_PRELOAD": str(other), "ASAN_OPTIONS": asan})
    assert done.returncode == 2
    assert "libmicrohttpd 9.0.0 is loaded" in done.stderr


def test_build_refuses_a_library_that_nobody_has_tested():
    source = ("#include <microhttpd.h>\n#undef MHD_VERSION\n#define MHD_VERSION 0x02000000\n"
              '#include "service/http/http.h"\n')
    command = ["cc", "-std=gnu11", "-fsyntax-only", "-I.", f"-I{BUILD}/gen", "-xc", "-"]
    done, forced = (subprocess.run([*command, *more], cwd=ROOT, input=source, text=True,
                                   capture_output=True, check=False)
                    for more in ([], ["-DSECKILL_ANY_LIBMICROHTTPD"]))
    assert done.returncode != 0 and "was tested with libmicrohttpd 0.9.75" in done.stderr
    assert forced.returncode == 0, forced.stderr


@pytest.mark.parametrize("second, status", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_second_signal_ends_it_at_once(stack, proxies, spawn, second, status):
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url), deadline_ms=60_000,
                   mysql_timeout_ms=60_000, drain_ms=60_000)
    daemon.reset()
    stuck = threading.Event()
    trap = proxy.once(WRITE, before=lambda link: stuck.wait(30))

    def order():
        with pytest.raises(OSError):
            daemon.order()
    client = threading.Thread(target=order)
    client.start()
    trap.wait()
    daemon.signal(signal.SIGTERM)
    wait_until(lambda: "event=draining" in daemon.log(), "the first signal")
    time.sleep(0.3)
    assert daemon.running(), "it did not wait for the order"
    daemon.signal(second)
    assert daemon.wait() == status
    stuck.set()
    client.join()


def test_drain_waits_for_an_order_under_way(stack, proxies, spawn):
    proxy = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=proxy.url(stack.mysql_url))
    daemon.reset()
    trap = proxy.once(WRITE, before=lambda link: time.sleep(0.3))
    answers = []
    client = threading.Thread(target=lambda: answers.append(daemon.order()))
    client.start()
    trap.wait()
    daemon.stop()
    client.join()
    assert answers[0].status == 201
    assert stack.ledger.number("SELECT COUNT(*) FROM orders") == 1


def test_drain_ends_though_redis_and_ledger_are_gone(stack, proxies, spawn):
    redis, ledger = proxies(stack.redis.address[1]), proxies(stack.ledger.port)
    spawn(stack, **STEADY).reset()  # it has more time for that
    daemon = spawn(stack, redis_url=redis.url(stack.redis_url), deadline_ms=1000,
                   mysql_url=ledger.url(stack.mysql_url), **HASTY)
    ledger.hold()
    trap = redis.once(SEGMENT_LOCK, before=lambda link: redis.hold())
    answers = []
    client = threading.Thread(target=lambda: answers.append(daemon.order()))
    client.start()
    trap.wait()
    daemon.stop()
    client.join()
    assert answers[0].status == 503


def test_drain_out_of_time_leaves_nobody_waiting(stack, proxies, spawn, many_files):
    """Orders under way, and thousands that come in the daemon's last moments."""
    ledger = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=ledger.url(stack.mysql_url), http_threads=1, drain_ms=500,
                   admin_listen="127.0.0.1:0", mysql_timeout_ms=5000)  # all orders come within it
    daemon.reset()
    with ExitStack() as clients:
        socks = [clients.enter_context(socket.create_connection(daemon.address, timeout=30))
                 for _ in range(6000)]
        early, late = socks[:1500], socks[1500:]
        wait_until(lambda: daemon.metric('seckill_connections{listener="public"}') == len(socks),
                   "all connections")
        ledger.hold()
        for number, sock in enumerate(early):
            sock.sendall(order_bytes(user_id=f"u{number}"))
        wait_until(lambda: daemon.metric("seckill_queue_depth") == len(early), "orders under way")
        daemon.signal(signal.SIGTERM)
        early[0].recv(1, socket.MSG_PEEK)  # the first answer, as the time is over
        daemon.pause()
        for number, sock in enumerate(late):
            with suppress(OSError):
                sock.sendall(order_bytes(user_id=f"late{number}"))
        daemon.cont()
        status, passed = timed(daemon.wait)
        assert status == 0 and passed.running < 15
        assert {read_to_end(sock)[:12] for sock in early} == {b"HTTP/1.1 503"}
        assert {read_to_end(sock)[:12] for sock in late} <= {b"HTTP/1.1 503", b""}  # b"": not read


def test_drain_out_of_time_answers_every_call(stack, proxies, spawn):
    """Also those that wait behind one that hangs."""
    ledger = proxies(stack.ledger.port)
    daemon = spawn(stack, mysql_url=ledger.url(stack.mysql_url), drain_ms=500,
                   mysql_timeout_ms=10_000)
    daemon.reset()
    ledger.hold()
    with ThreadPoolExecutor(3) as clients:
        calls = [clients.submit(daemon.get, "/user/u1/orders") for _ in range(3)]
        wait_until(lambda: daemon.metric('seckill_call_queue_depth{call="list"}') == len(calls),
                   "calls under way")
        daemon.signal(signal.SIGTERM)
        assert {call.result().answer for call in calls} == {"503 unavailable"}
    assert daemon.wait() == 0


# options

def test_help_and_version():
    assert run("--version").returncode == 0
    shown = run("--help")
    assert shown.returncode == 0
    for flag in ("--listen", "--redis-url", "--mysql-url", "--lease-ms", "--config"):
        assert flag in shown.stdout


def test_reference_file_is_a_valid_configuration(tmp_path, stack, spawn):
    path = tmp_path / "seckill.conf"
    shown = run("--help-config")
    assert shown.returncode == 0
    for option in ("listen", "redis_url", "mysql_url", "admin_token", "order_workers",
                   "http_threads", "max_batch", "strategy", "lock", "lease_ms", "queue_max",
                   "deadline_ms", "node_id"):
        assert re.search(rf"^#?\s*{option}\s*=", shown.stdout, re.MULTILINE), option
    path.write_text(shown.stdout)
    spawn(stack, config=path)


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path, stack, spawn):
    path = tmp_path / "seckill.conf"
    path.write_text("# comment\nlisten = 127.0.0.2:0\n\n")
    env = {"SECKILL_LISTEN": "127.0.0.3:0"}
    assert spawn(stack, config=path, listen=None).address[0] == "127.0.0.2"
    assert spawn(stack, config=path, listen=None, env=env).address[0] == "127.0.0.3"
    assert spawn(stack, config=path, listen="127.0.0.4:0", env=env).address[0] == "127.0.0.4"


def test_every_thread_is_named_after_its_work(stack, spawn):
    daemon = spawn(stack, order_workers=2, http_threads=3)
    tasks = Path(f"/proc/{daemon.process.pid}/task")

    def names():
        return sorted((task / "comm").read_text().strip() for task in tasks.iterdir())

    expected = sorted([
        *["order-worker"] * 2, *["http-thread"] * 3,
        "call-lookups", "call-payments", "call-cancels", "call-lists", "call-admin", "call-sales",
        "call-listings", "invalidation", "expiry-worker", "log-writer",
        "seclock-renew",  # once the expiry worker is elected
        "health-redis", "health-ledger"])
    wait_until(lambda: "expiry_worker_elected" in daemon.log(), "an election")
    wait_until(lambda: [name for name in names() if name in expected] == expected, "all names")


@pytest.mark.parametrize("flags, word", [
    (["--no-such-option=1"], "no-such-option"),
    (["surplus"], "surplus"),
    (["--listen"], "listen"),
    (["--listen=nowhere"], "listen"),
    (["--listen=127.0.0.1:99999"], "listen"),
    (["--redis-url=http://127.0.0.1:1"], "redis"),
    (["--redis-url=127.0.0.1"], "redis"),
    (["--mysql-url=redis://127.0.0.1:1/0"], "mysql"),
    (["--lease-ms=0"], "lease"),
    (["--lease-ms=-5"], "lease"),
    (["--lease-ms=1e3"], "lease"),
    (["--lease-ms=500ms"], "lease"),
    (["--lease-ms="], "lease"),
    (["--order-workers=100000"], "order_workers"),
    (["--max-batch=99999999999999999999"], "max"),
    (["--queue-max=0"], "queue"),
    (["--node-id=1024"], "node"),
    (["--strategy=hope"], "strategy"),
    (["--lock=none"], "lock"),
    (["--lock=redlock"], "lock_servers"),
    (["--lock=redlock", "--lock-servers=redis://a,redis://b zookeeper://c"], "lock_servers"),
    (["--lock=zookeeper"], "lock_servers"),
    (["--lock-servers=http://127.0.0.1"], "lock_servers"),
    (["--config=/no/such/file"], "/no/such/file"),
], ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_wrong_option_is_exit_2_and_is_named(flags, word):
    done = run(*flags)
    assert done.returncode == 2
    assert word in done.stderr
    assert len(done.stderr.splitlines()) <= 3, "a message, not a manual"


@pytest.mark.parametrize("line", ["lease_ms = many", "no_such_option = 1", "lease_ms", "= 5"])
def test_wrong_line_in_the_file_is_exit_2_and_is_named(tmp_path, line):
    path = tmp_path / "seckill.conf"
    path.write_text(f"# first\norder_workers = 1\n{line}\n")
    done = run("--config", str(path))
    assert done.returncode == 2
    assert str(path) in done.stderr and "3" in done.stderr


def test_wrong_variable_is_exit_2_and_is_named():
    done = run(env={"SECKILL_LEASE_MS": "soon"})
    assert done.returncode == 2
    assert "SECKILL_LEASE_MS" in done.stderr


def test_port_in_use_is_an_error_at_start(stack):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = run(f"--listen=127.0.0.1:{taken.getsockname()[1]}", f"--redis-url={stack.redis_url}",
                   f"--mysql-url={stack.mysql_url}")
    assert done.returncode not in (0, 139, 134)
    assert "127.0.0.1" in done.stderr


@pytest.mark.parametrize("threads", [1, 2])
def test_second_daemon_on_a_port_is_told(stack, spawn, threads):
    first = spawn(stack, http_threads=threads)
    done = run("--listen=%s:%d" % first.address, f"--http-threads={threads}",
               f"--redis-url={stack.redis_url}", f"--mysql-url={stack.mysql_url}")
    assert done.returncode == 2
    assert "Address already in use" in done.stderr


def test_passwords_are_not_in_the_log(stack, spawn):
    stack.redis("ACL", "SETUSER", "shop", "reset", "on", ">hush-hush", "~*", "&*", "+@all")
    host, port = stack.redis.address
    daemon = spawn(stack, redis_url=f"redis://shop:hush-hush@{host}:{port}/0",
                   lock_servers="redis://:hush-hush@a,mysql://u:hush-hush@b/c")
    assert "hush-hush" not in daemon.log()
    assert (stack.ledger.password or "hush-hush") not in daemon.log()


# SIGHUP

def reload(daemon, event="reloaded"):
    before = daemon.log().count(f"event={event}")
    daemon.signal(signal.SIGHUP)
    wait_until(lambda: daemon.log().count(f"event={event}") > before, event)


@pytest.fixture
def configured(stack, spawn, tmp_path):
    """configured(text, …) gives a daemon with a file of these lines."""
    def spawn_it(text, **options):
        path = tmp_path / "seckill.conf"
        path.write_text(text)
        daemon = spawn(stack, config=path, **options)
        daemon.file = path
        daemon.reset()
        return daemon
    return spawn_it


def test_sighup_takes_over_rates_proxies_and_the_log_level(configured):
    daemon = configured("rate_address_per_min = 1\nrate_address_burst = 1\n")

    def order(forwarded):
        return daemon.request("POST", "/order", {"sku": "demo", "user_id": "u", "qty": 1},
                              {"X-Forwarded-For": forwarded}).status
    assert [order("192.0.2.1"), order("192.0.2.2")] == [201, 429]
    daemon.file.write_text("rate_address_per_min = 1\nrate_address_burst = 2\n"
                           "trusted_proxies = 127.0.0.0/8\nlog_level = debug\n")
    reload(daemon)
    assert [order("192.0.2.3") for _ in range(3)] == [201, 201, 429]
    assert [order("192.0.2.4") for _ in range(3)] == [201, 201, 429]
    daemon.file.write_text("")
    reload(daemon)
    assert [order("192.0.2.4") for _ in range(3)] == [201] * 3
    changed = re.findall(r"event=option_changed (.*)", daemon.log())
    assert {"rate_address_burst=2", "log_level=debug", "rate_address_per_min=0"} <= set(changed)


def test_sighup_names_what_needs_a_restart(configured):
    daemon = configured("order_workers = 1\n")
    daemon.file.write_text("order_workers = 2\nrate_user_per_min = 7\n")
    reload(daemon)
    assert re.findall(r"event=option_needs_restart (.*)", daemon.log()) == ["order_workers=2"]
    assert re.findall(r"event=option_changed (.*)", daemon.log()) == ["rate_user_per_min=7"]


@pytest.mark.parametrize("text", ["rate_user_burst = many\n", "no_such_option = 1\n", "rate_user"],
                         ids=["value", "option", "line"])
def test_sighup_with_a_bad_file_changes_nothing(configured, text):
    daemon = configured("rate_user_per_min = 1\nrate_user_burst = 1\n")
    daemon.file.write_text(f"rate_user_per_min = 0\n{text}")
    reload(daemon, "not_reloaded")
    assert str(daemon.file) in daemon.log()
    assert [daemon.order().status, daemon.order().status] == [201, 429]


def test_sighup_reads_tokens_again(stack, spawn, tmp_path):
    path = tmp_path / "token"
    path.write_text("old-token\n")
    daemon = spawn(stack, admin_token_file=path, env={"SECKILL_ADMIN_TOKEN": ""})

    def status(token):
        daemon.token = token
        return daemon.admin("GET", "/admin/sales").status
    assert [status("old-token"), status("new-token")] == [200, 401]
    path.write_text("old-token\nnew-token\n")
    reload(daemon)
    assert [status("old-token"), status("new-token")] == [200, 200]
    path.write_text("")
    reload(daemon, "not_reloaded")
    assert [status("old-token"), status("new-token")] == [200, 200]
    path.write_text("new-token\n")
    reload(daemon)
    assert [status("old-token"), status("new-token")] == [401, 200]
    assert "needs_restart" not in daemon.log()


def test_sighup_at_any_time_loses_no_order(configured):
    """During the start, under load, and while it drains."""
    daemon = configured("", lame_duck_ms=300)
    with Buyers(daemon.address, count=4, pause=0.005) as buyers:
        for number in range(100):
            daemon.file.write_text(f"trusted_proxies = 192.0.2.{number}\n"
                                   f"rate_address_per_min = {1_000_000 + number % 2}\n")
            daemon.signal(signal.SIGHUP)
            time.sleep(0.005)
    assert buyers.lost == [] and set(buyers.answers) <= {"201", "409 sold_out"}
    daemon.signal(signal.SIGTERM)
    for _ in range(10):
        time.sleep(0.05)
        if daemon.running():
            daemon.signal(signal.SIGHUP)
    assert daemon.wait() == 0
    daemon.launch()
    wait_until(lambda: "event=starting" in daemon.log(), "the start")
    for _ in range(50):
        daemon.signal(signal.SIGHUP)
        time.sleep(0.001)
    daemon.wait_started()


# the start

def test_four_daemons_at_once_on_an_empty_database_migrate_it_once(unmigrated, tmp_path):
    daemons = [Daemon(unmigrated, tmp_path, **STEADY) for _ in range(4)]
    try:
        for daemon in daemons:
            daemon.launch()
        for daemon in daemons:
            daemon.wait_started()
        names = [row[0] for row in unmigrated.ledger.run("SELECT name FROM schema_version")]
        assert names and len(set(names)) == len(names)
        daemons[0].reset("demo", 8, 2)
        assert [daemon.order().status for daemon in daemons * 2] == [201] * 8
        assert audit(daemons[3]) == 8
        for daemon in daemons:
            daemon.stop()
    finally:
        for daemon in daemons:
            daemon.reap()


def test_daemon_started_before_redis_and_mariadb_waits_for_them(stack, proxies, spawn):
    redis, ledger = proxies(stack.redis.address[1]), proxies(stack.ledger.port)
    redis.refuse()
    ledger.refuse()
    daemon = spawn(stack, redis_url=redis.url(stack.redis_url), ready=False,
                   mysql_url=ledger.url(stack.mysql_url), deadline_ms=1000)
    assert daemon.get("/healthz").status == 200
    answer = daemon.get("/servingz")
    assert (answer.status, answer.json()) == (503, {"status": "starting"})
    wait_until(lambda: daemon.get("/readyz").json() == {
        "status": "unavailable", "redis": "down", "ledger": "down"}, "both down in /readyz")
    assert_problem(daemon.order(), 503, "unavailable")
    redis.admit()
    wait_until(lambda: daemon.get("/readyz").json()["redis"] == "ok", "redis ok in /readyz")
    assert daemon.get("/readyz").status == 503
    assert_problem(daemon.order(), 503, "unavailable")
    ledger.admit()
    daemon.wait_ready()
    spawn(stack, **STEADY).reset()  # it has more time for that
    assert answered(daemon.order).status == 201


@pytest.mark.parametrize("how", ["refuse", "hold"])
def test_servers_that_go_away_take_no_daemon_from_its_balancer(stack, proxies, spawn, how):
    """All daemons lose them at once, and then their own words are the best answer there is."""
    redis, ledger = proxies(stack.redis.address[1]), proxies(stack.ledger.port)
    daemon = spawn(stack, redis_url=redis.url(stack.redis_url),
                   mysql_url=ledger.url(stack.mysql_url), deadline_ms=1000, **HASTY)
    for proxy in (redis, ledger):
        getattr(proxy, how)()
    wait_until(lambda: {*daemon.get("/readyz").json().values()} == {"unavailable", "down"}, "down")
    answer = daemon.get("/servingz")
    assert (answer.status, answer.json()) == (200, {"status": "serving"})
    redis.heal(), ledger.heal()
    daemon.wait_ready()
    daemon.admin("POST", "/admin/drain", {"stop": False})
    answer = daemon.get("/servingz")
    assert (answer.status, answer.json()) == (503, {"status": "draining"})
    assert answer.headers["Retry-After"] == "1"


def test_database_that_does_not_exist_yet(stack, spawn):
    ledger = stack.ledger
    ledger.run(f"DROP DATABASE `{ledger.database}`", database="")
    daemon = spawn(stack, ready=False)
    wait_until(lambda: daemon.get("/readyz").json()["ledger"] == "down", "ledger down in /readyz")
    ledger.recreate()
    daemon.wait_ready()
    daemon.reset()
    assert daemon.order().status == 201


def test_restart_finds_sales_and_orders_again(daemon):
    daemon.reset("demo", 10, 2)
    order = daemon.order(key="k").json()
    daemon.stop()
    daemon.start()
    assert daemon.get(f"/order/{order['order_id']}").json() == {**order, "version": 1}
    assert daemon.order(key="k").status == 200
    assert len(sell_out(daemon)) == 9
    assert audit(daemon) == 10


@pytest.mark.parametrize("login, password", [
    ("shop:s3cret", "s3cret"), ("shop:a%40b%2F%3A", "a@b/:")], ids=["plain", "percent-encoded"])
def test_redis_acl_user(stack, spawn, login, password):
    stack.redis("ACL", "SETUSER", "shop", "reset", "on", f">{password}", "~seckill:*", "&*",
                "+@all")
    host, port = stack.redis.address
    daemon = spawn(stack, redis_url=f"redis://{login}@{host}:{port}/0", **STEADY)
    daemon.reset()
    assert daemon.order().status == 201
    assert audit(daemon) == 1


def test_redis_with_a_wrong_password_is_not_ready(stack, spawn):
    stack.redis("ACL", "SETUSER", "shop", "reset", "on", ">right", "~*", "&*", "+@all")
    host, port = stack.redis.address
    spawn(stack).reset()
    daemon = spawn(stack, ready=False, redis_url=f"redis://shop:wrong@{host}:{port}/0")
    wait_until(lambda: daemon.get("/readyz").json()["ledger"] == "ok", "ledger ok in /readyz")
    wait_until(lambda: daemon.get("/readyz").json()["redis"] == "down", "redis down in /readyz")
    assert_problem(daemon.order(), 503, "unavailable")
    stack.redis("ACL", "SETUSER", "shop", ">wrong")
    daemon.wait_ready()


def test_two_sales_apart_by_database_and_redis_number(stack, spawn):
    one, other = spawn(stack, **STEADY), spawn(stack.aside("other", 2), **STEADY)
    one.reset("demo", 5, 1)
    other.reset("demo", 7, 2)
    assert len(sell_out(one)) == 5
    assert len(sell_out(other)) == 7
    assert (audit(one), audit(other)) == (5, 7)


def test_ledger_by_its_socket(private_stack, spawn):
    path = private_stack.maria_server.directory / "sock"
    daemon = spawn(private_stack, mysql_url="mysql://root@localhost/seckill?socket=%s" % path)
    daemon.reset()
    assert daemon.order().status == 201


def test_ledger_that_may_lose_a_commit_is_told_of(private_stack, spawn):
    assert "ledger_not_durable" not in spawn(private_stack).log()
    for setting in (0, 2):
        private_stack.ledger.run(f"SET GLOBAL innodb_flush_log_at_trx_commit = {setting}")
        said = f'event=ledger_not_durable setting="innodb_flush_log_at_trx_commit={setting}"'
        assert said in spawn(private_stack).log()


@pytest.mark.parametrize("constraint, table", [("never_oversold", "stock_segment"),
                                               ("never_above_limit", "user_quota")])
def test_daemon_does_not_start_on_a_ledger_without_its_checks(stack, spawn, constraint, table):
    spawn(stack)
    stack.ledger.run(f"ALTER TABLE {table} DROP CONSTRAINT {constraint}")
    unfit = spawn(stack, ready=False)
    assert unfit.wait(timeout=30) == 2
    assert "event=ledger_unfit " in unfit.log() and f"of {table} does not refuse" in unfit.log()
    assert stack.ledger.number(f"SELECT COUNT(*) FROM {table}") == 0, "the trial left its row"


def test_nothing_listens_at_the_ledgers_address(spawn):
    nowhere = Stack(f"redis://127.0.0.1:{free_port()}/0",
                    f"mysql://root@127.0.0.1:{free_port()}/seckill")
    daemon = spawn(nowhere, ready=False)
    for _ in range(3):
        assert_problem(daemon.order(), 503, "unavailable")
    assert_problem(daemon.get("/stock/demo"), 503, "unavailable")


# readiness

@contextmanager
def redis_set(redis, name, value):
    was = redis("CONFIG", "GET", name)[1]
    redis("CONFIG", "SET", name, value)
    yield
    redis("CONFIG", "SET", name, was)


@contextmanager
def replica(redis, server):
    del server
    redis("REPLICAOF", "127.0.0.1", free_port())
    yield
    redis("REPLICAOF", "NO", "ONE")


@contextmanager
def full_disk(redis, server):
    """Redis refuses writes once it could not save them."""
    with redis_set(redis, "save", "3600 1"):
        shutil.rmtree(server.directory)
        redis("BGSAVE")
        yield


REFUSALS = {
    "read_only": replica,
    "out_of_memory": lambda redis, _: redis_set(redis, "maxmemory", "1"),
    "few_replicas": lambda redis, _: redis_set(redis, "min-replicas-to-write", "1"),
    "cannot_persist": full_disk,
}


def test_readyz_says_why_redis_refuses_writes(private_stack, spawn):
    daemon = spawn(private_stack)
    told = ["event=redis_up"]
    for word, refusal in REFUSALS.items():
        with refusal(private_stack.redis, private_stack.redis_server):
            why = {"status": "unavailable", "redis": word, "ledger": "ok"}
            wait_until(lambda: daemon.get("/readyz").json() == why, f"{word} in /readyz")
            wait_until(lambda: [daemon.metric(f"seckill_{server}_up") for server in
                                ("redis", "ledger")] == [0, 1], "the same in /metrics")
        told.append(f"event=redis_down reason={word} ")
        if word != "cannot_persist":  # the last one: its folder stays away
            daemon.wait_ready()
            wait_until(lambda: daemon.metric("seckill_redis_up") == 1, "the same in /metrics")
            told.append("event=redis_up")
    wait_until(lambda: re.search(".*".join(told), daemon.log(), re.DOTALL), "the lines in the log")


def test_readyz_knows_a_read_only_ledger(private_stack, spawn):
    """The setting does not bind every user: what counts is whether this one may write."""
    ledger = private_stack.ledger
    ledger.run("CREATE USER shop@127.0.0.1; GRANT ALL ON seckill.* TO shop@127.0.0.1")
    url = private_stack.mysql_url.replace("root@", "shop@")
    daemon, of_root = spawn(private_stack, mysql_url=url), spawn(private_stack)
    daemon.reset()
    ledger.run("SET GLOBAL read_only = 1")
    why = {"status": "unavailable", "redis": "ok", "ledger": "read_only"}
    wait_until(lambda: daemon.get("/readyz").json() == why, "read_only in /readyz")
    assert daemon.metric("seckill_ledger_up") == 0
    assert_problem(daemon.order(), 503, "unavailable")
    of_root.wait_ready()
    assert of_root.order().status == 201
    ledger.run("SET GLOBAL read_only = 0")
    daemon.wait_ready()
    assert daemon.order().status == 201
    told = "event=ledger_down reason=read_only .*event=ledger_up"
    wait_until(lambda: re.search(told, daemon.log(), re.DOTALL), "the lines in the log")


def test_readiness_costs_the_ledger_no_write(private_stack, spawn):
    daemon = spawn(private_stack)
    # MySQL writes ten bytes of log for a transaction that changed nothing.
    written = "Innodb_rows_updated" if is_mysql() else "Innodb_os_log_written"

    def status():
        return [private_stack.ledger.status(name) for name in ("Com_rollback", written)]

    def asked_without_a_write():
        before = status()
        time.sleep(1)
        after = status()
        return after[0] >= before[0] + 2 and after[1] == before[1]

    wait_until(asked_without_a_write, "a quiet second")  # the start's own writes end some time
    daemon.wait_ready()


# what it says of itself

SAMPLE = re.compile(r'[a-z_]+(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? [-+]?([0-9.e+-]+|Inf|NaN)')
LOG_LINE = re.compile(r"ts=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z level=\w+ event=\w+")
HISTOGRAMS = ("seckill_batch_orders", "seckill_order_seconds", "seckill_redis_seconds",
              "seckill_ledger_seconds")


def test_metrics_are_prometheus_text(daemon):
    daemon.reset("demo", 2, 1)
    for _ in range(4):
        daemon.order()
    response = daemon.get("/metrics")
    assert response.headers["Content-Type"].startswith("text/plain")
    typed = set()
    for line in response.body.decode().splitlines():
        if line.startswith("# TYPE "):
            assert line.split()[2] not in typed
            typed.add(line.split()[2])
        elif not line.startswith("# HELP "):
            assert SAMPLE.fullmatch(line), line
            name = re.sub(r"_(bucket|sum|count)$", "", re.split(r"[{ ]", line)[0])
            assert name in typed or re.split(r"[{ ]", line)[0] in typed, line
    metrics = daemon.metrics()
    assert metrics['seckill_orders_total{outcome="accepted"}'] == 2
    assert metrics['seckill_orders_total{outcome="sold_out"}'] == 2
    assert metrics['seckill_http_responses_total{status="201"}'] == 2
    assert metrics["seckill_queue_depth"] == 0


def test_histograms_add_up(daemon):
    daemon.reset()
    for _ in range(3):
        daemon.order()
    for name in HISTOGRAMS:
        wait_until(lambda: daemon.metric(f"{name}_count") >= 3, "the third observation")
        metrics = daemon.metrics()
        buckets = [(key, value) for key, value in metrics.items()
                   if key.startswith(f"{name}_bucket")]
        counts = [value for _, value in buckets]
        assert counts == sorted(counts)
        assert 'le="+Inf"' in buckets[-1][0]
        assert counts[-1] == metrics[f"{name}_count"]
        assert metrics[f"{name}_sum"] > 0


def test_every_promised_metric_is_there(daemon):
    text = daemon.get("/metrics").body.decode()
    for name in ("orders_total", "http_responses_total", "queue_depth", "batch_orders",
                 "order_seconds", "redis_seconds", "ledger_seconds", "recoveries_total",
                 "ledger_refusals_total", "unknown_commits_total", "sold_out_fast_total",
                 "redis_reconnects_total", "ledger_reconnects_total", "redis_up", "ledger_up"):
        assert f"# TYPE seckill_{name} " in text, name


def test_log_is_one_event_a_line(daemon):
    daemon.reset()
    daemon.order()
    daemon.stop()
    for line in daemon.log().splitlines():
        assert LOG_LINE.match(line), line
