"""The systemd units: systemd's own checks, and the daemon under what they allow it. No systemd runs
here, so harness/sandbox.py applies their filters, and a namespace has their mounts."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from harness.client import send
from harness.daemon import PATIENT, STEADY, TOKEN, Daemon
from harness.processes import BUILD, PROGRAM, ROOT, free_port, spawn_server, wait_until
from harness.supervisor import Supervisor

UNITS = ROOT / "deploy" / "systemd"
SINGLE, TEMPLATE = UNITS / "seckilld.service", UNITS / "seckilld@.service"
SANDBOX = ROOT / "test" / "harness" / "sandbox.py"
EXPOSURE_MAX = "20"  # 2.0 of 10, as systemd-analyze counts
USER_ID = 61184  # the first of those that DynamicUser gives
SECONDS_MAX = 60
# As systemd arranges it: $1 the instance, $2 the folder SYSCONFDIR, $3 the folder of the programs,
# $4 the socket of MariaDB, $5 that of Redis, $6 the sandbox; the rest is ExecStart.
# ProtectSystem=strict makes all read-only but what the unit names, and the lines with "+" run
# before, as root.
ARRANGE = """set -e
own=/run/seckilld-$1 etc=$2 bin=$3 mysqld=$4 redis=$5 sandbox=$6
shift 6
mount --make-rprivate /
mount -t tmpfs -o mode=755 none /run
mkdir /run/etc /run/bin /run/mysqld /run/redis /run/sandbox
install -d -m "$MODE" -o $USER_ID -g $USER_ID "$own"
mount --bind "$etc" /run/etc
mount --bind "$bin" /run/bin
touch /run/mysqld/socket
mount --bind "$mysqld" /run/mysqld/socket
[ -z "$redis" ] || { touch /run/redis/socket; mount --bind "$redis" /run/redis/socket; }
mount --bind "$sandbox" /run/sandbox
mount --bind "$own" "$own"
sh -c "$PREPARE"
for folder in /root /home; do mount -t tmpfs -o ro none "$folder"; done
mount -t tmpfs none /tmp
cd /
mount -o remount,bind,ro /run
mount -o remount,bind,ro /
exec setpriv --reuid $USER_ID --regid $USER_ID --clear-groups --bounding-set=-all \\
    --inh-caps=-all /usr/bin/python3 -B /run/sandbox/sandbox.py /run/sandbox/unit "$@"
"""


def may_mount():
    done = subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/run"],
                          capture_output=True)
    return os.geteuid() == 0 and done.returncode == 0


pytestmark = [
    pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze"),
    pytest.mark.skipif(re.search("/(asan|tsan)/", PROGRAM) is not None,
                       reason="sanitizers want more than the unit allows")]
needs_mounts = pytest.mark.skipif(not may_mount(), reason="wants root and mounts")


def filled(path, sysconfdir="/etc", instance=None):
    """A unit as `make install` puts it, and as systemd reads it for an instance."""
    text = path.read_text().replace("@SYSCONFDIR@", sysconfdir)
    text = text.replace("@BINDIR@", str(BUILD))
    return text if instance is None else text.replace("%i", instance)


def value(unit, name):
    found = re.findall(rf"^{name}=(.*)$", unit, re.MULTILINE)
    assert len(found) == 1, (name, found)
    return found[0]


def settings(path):
    """The lines of [Service]."""
    text = path.read_text().partition("[Service]\n")[2].partition("\n[Install]")[0]
    return [line for line in text.splitlines() if line and line[0] != "#"]


@pytest.fixture
def installed(tmp_path):
    for path in UNITS.iterdir():
        (tmp_path / path.name).write_text(filled(path))
    return tmp_path


# systemd's own checks

def analyze(*words, cwd):
    done = subprocess.run(["systemd-analyze", *words], cwd=cwd, text=True, capture_output=True,
                          timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", ["seckilld.service", "seckilld@one.service", "seckilld.socket",
                                  "seckilld.target"])
def test_units_are_well_formed(installed, name):
    if "@" in name:
        shutil.copy(installed / TEMPLATE.name, installed / name)
    told = analyze("verify", "--man=no", "--recursive-errors=no", f"./{name}", cwd=installed)
    assert "seckilld" not in told, told  # it warns of settings that it does not know


@pytest.mark.parametrize("name", [SINGLE.name, TEMPLATE.name])
def test_exposure_is_at_most_2(installed, name):
    told = analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX}", f"./{name}",
                   cwd=installed)
    level = re.search(r"exposure level for .*: ([\d.]+)", told)[1]
    assert float(level) <= float(EXPOSURE_MAX) / 10


def test_several_daemons_get_what_one_gets():
    own = "seckilld-%i"
    expected = [line.replace("/run/seckilld/seckill.conf", f"/run/{own}/%i.conf")
                for line in settings(SINGLE)]
    expected = [re.sub(r"/run/seckilld(?!-)", f"/run/{own}", line) for line in expected]
    expected = [re.sub("^RuntimeDirectory=.*", f"RuntimeDirectory={own}", line)
                for line in expected]
    assert settings(TEMPLATE) == expected
    text = TEMPLATE.read_text()
    assert value(text, "PartOf") == value(text, "WantedBy") == "seckilld.target"


def test_daemon_has_time_to_end():
    options = dict(re.findall(r"^#(\w+) = (.*)$", (ROOT / "deploy/seckill.conf").read_text(),
                              re.MULTILINE))
    recommended_lame_duck_ms = 3000
    needs = (recommended_lame_duck_ms + int(options["drain_ms"])) / 1000
    for path in (SINGLE, TEMPLATE):
        assert float(value(path.read_text(), "TimeoutStopSec").removesuffix("s")) > needs


# The daemon within

class Filtered(Daemon):
    """A daemon under the unit's filters alone: of any user, and without mounts."""

    def argv(self):
        return ["/usr/bin/python3", "-B", SANDBOX, SINGLE, *super().argv()]


def sells(daemon):
    daemon.reset("demo", 10, 2)
    answers = [daemon.order(user_id=f"u{i}", key=f"k{i}").status for i in range(12)]
    assert answers == [201] * 10 + [409] * 2
    order = daemon.order(user_id="u0", key="k0")
    assert order.status == 200
    assert daemon.cancel(order.json()["order_id"]).status == 200
    assert daemon.order(user_id="v", key="v").status == 201


def test_filters_let_the_daemon_sell_notify_and_reload(stack, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKEN + "\n")
    with Supervisor(f"@seckill-filtered-{os.getpid()}") as manager:
        env = {"NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "1000000"}
        daemon = Filtered(stack, tmp_path, env=env, admin_token_file=tokens,
                          admin_listen=f"unix:{tmp_path}/admin", http_threads=2, **STEADY)
        del daemon.env["SECKILL_ADMIN_TOKEN"]
        with daemon:
            status = Path(f"/proc/{daemon.process.pid}/status").read_text()
            assert re.search(r"^NoNewPrivs:\t1$", status, re.MULTILINE)
            assert re.search(r"^Seccomp:\t2$", status, re.MULTILINE)
            sells(daemon)
            manager.wait("WATCHDOG", "1")
            tokens.write_text("another\n")
            daemon.signal(signal.SIGHUP)
            manager.wait("READY", "1", after=1)
            assert daemon.admin("GET", "/admin/sales").status == 401
            daemon.stop()
        manager.wait("STOPPING", "1")
        assert "event=fatal" not in daemon.log()


class Instance(Daemon):
    """seckilld@NAME.service: its command lines, its user, its mounts and its filters."""

    def __init__(self, name, stack, directory, etc, manager, redis_socket="", **options):
        super().__init__(stack, directory, env={
            "NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "1000000"})
        self.unit = filled(TEMPLATE, "/run/etc", name).replace(str(BUILD), "/run/bin")
        self.name, self.etc, self.redis_socket = name, etc, redis_socket
        socket = Path(parse_qs(urlsplit(stack.mysql_url).query)["socket"][0])
        self.sandbox = directory / f"sandbox-{name}"
        self.sandbox.mkdir()
        shutil.copy(SANDBOX, self.sandbox)
        (self.sandbox / "unit").write_text(self.unit)
        self.mysqld = socket
        mysql_url = stack.mysql_url.replace(str(socket), "/run/mysqld/socket")
        conf = {"listen": f"127.0.0.1:{free_port()}", "redis_url": stack.redis_url,
                "mysql_url": mysql_url, "lame_duck_ms": 500,
                "admin_listen": f"unix:/run/seckilld-{name}/admin.sock",
                "admin_token_file": f"/run/seckilld-{name}/admin.token",
                **PATIENT, **STEADY, **options}
        text = "".join(f"{option} = {value}\n" for option, value in conf.items())
        (etc / "seckill" / f"{name}.conf").write_text(text)
        del self.env["SECKILL_ADMIN_TOKEN"]
        prepare = value(self.unit, "ExecStartPre")
        assert prepare[0] == "+"
        self.env |= {"MODE": value(self.unit, "RuntimeDirectoryMode"), "USER_ID": str(USER_ID),
                     "PREPARE": prepare[1:]}

    def argv(self):
        start = value(self.unit, "ExecStart").split()
        return ["unshare", "--mount", "bash", "-c", ARRANGE, "arrange", self.name, self.etc,
                BUILD, self.mysqld, self.redis_socket, self.sandbox, *start]

    def admin_address(self):
        """Its socket, as seen from outside of its mounts."""
        return f"/proc/{self.process.pid}/root/run/seckilld-{self.name}/admin.sock"

    def reload(self):
        lines = re.findall("^ExecReload=(.*)$", self.unit, re.MULTILINE)
        assert lines[0][0] == "+" and lines[1] == "/bin/kill -HUP $MAINPID"
        subprocess.run(["nsenter", "--mount", "--target", str(self.process.pid), "sh", "-c",
                        lines[0][1:]], check=True, timeout=SECONDS_MAX)
        self.signal(signal.SIGHUP)


@pytest.fixture
def etc(tmp_path):
    folder = tmp_path / "etc" / "seckill"
    folder.mkdir(parents=True, mode=0o700)
    token = folder / "admin.token"
    token.write_text(TOKEN + "\n")
    token.chmod(0o600)
    return folder.parent


@needs_mounts
def test_unit_gives_the_daemon_its_files_and_no_other(stack, tmp_path, etc):
    with (Supervisor(f"@seckill-unit-{os.getpid()}") as manager,
          Instance("one", stack, tmp_path, etc, manager) as daemon):
        root = Path(f"/proc/{daemon.process.pid}/root")
        own = root / "run/seckilld-one"
        assert (own.stat().st_mode & 0o777, own.stat().st_uid) == (0o750, USER_ID)
        for name in ("one.conf", "admin.token"):
            copy = own / name
            assert (copy.stat().st_mode & 0o777, copy.stat().st_uid) == (0o600, USER_ID)
        status = (root / "proc" / str(daemon.process.pid) / "status").read_text()
        assert re.search(rf"^Uid:(\t{USER_ID}){{4}}$", status, re.MULTILINE)
        assert re.search(r"^CapBnd:\t0+$", status, re.MULTILINE)
        for folder in ("run", "var/tmp"):
            with pytest.raises(OSError, match="Read-only"):
                (root / folder / "seckill-is-not-to-be-here").touch()
        sells(daemon)
        manager.wait("WATCHDOG", "1")
        (etc / "seckill" / "admin.token").write_text("another\n")
        daemon.reload()
        manager.wait("READY", "1", after=1)
        assert daemon.admin("GET", "/admin/sales").status == 401


@needs_mounts
def test_group_of_the_unit_reaches_the_operators_socket(stack, tmp_path, etc):
    """And nothing else: the daemon's files are its own."""
    with (Supervisor(f"@seckill-group-{os.getpid()}") as manager,
          Instance("one", stack, tmp_path, etc, manager) as daemon):
        def ask(group, *words):
            return subprocess.run([
                "nsenter", "--mount", "--target", str(daemon.process.pid), "setpriv", "--reuid",
                str(USER_ID + 1), "--regid", str(group), "--clear-groups", *words],
                capture_output=True, timeout=SECONDS_MAX).returncode
        call = ["curl", "-sf", "--unix-socket", "/run/seckilld-one/admin.sock", "http://x/healthz"]
        assert ask(USER_ID, *call) == 0
        assert ask(USER_ID + 1, *call) != 0
        for file in ("one.conf", "admin.token"):
            assert ask(USER_ID, "cat", f"/run/seckilld-one/{file}") != 0


@pytest.fixture
def local_redis(tmp_path, etc):
    """(socket, port with TLS) of a Redis, whose certificate is in the folder of configurations."""
    ca, key, socket = etc / "seckill" / "ca.pem", tmp_path / "redis.key", tmp_path / "redis.sock"
    port = free_port()
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
                    "-subj", "/CN=redis", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key,
                    "-out", ca], check=True, capture_output=True, timeout=SECONDS_MAX)
    ca.chmod(0o600)
    server = spawn_server(["redis-server", "--port", "0", "--save", "", "--dir", tmp_path,
                           "--unixsocket", socket, "--unixsocketperm", "777",
                           "--bind", "127.0.0.1", "--tls-port", port, "--tls-auth-clients", "no",
                           "--tls-cert-file", ca, "--tls-key-file", key, "--tls-ca-cert-file", ca])
    try:
        wait_until(socket.exists, "the socket of Redis")
        yield socket, port
    finally:
        server.terminate()
        server.wait(timeout=SECONDS_MAX)


@needs_mounts
@pytest.mark.long(keep=1)
@pytest.mark.parametrize("way", ["socket", "tls"])
def test_unit_lets_the_daemon_reach_redis(stack, tmp_path, etc, local_redis, way):
    socket, port = local_redis
    url = {"socket": "redis+unix:///run/redis/socket",
           "tls": f"rediss://127.0.0.1:{port}/0?ca=/run/seckilld-one/ca.pem"}[way]
    with (Supervisor(f"@seckill-{way}-{os.getpid()}") as manager,
          Instance("one", stack, tmp_path, etc, manager, socket, redis_url=url) as daemon):
        sells(daemon)


@needs_mounts
@pytest.mark.long
def test_daemons_of_one_machine_are_restarted_one_by_one(stack, tmp_path, etc):
    """While one drains and starts, the other sells; as `systemctl restart` does, the next one's
    turn comes when the daemon says that it is ready."""
    with (Supervisor(f"@seckill-one-{os.getpid()}") as first,
          Supervisor(f"@seckill-two-{os.getpid()}") as second,
          Instance("one", stack, tmp_path, etc, first, lame_duck_ms=5000) as one,
          Instance("two", stack, tmp_path, etc, second, lame_duck_ms=5000) as two):
        one.reset("demo", 1000, 4)
        for present, other, manager in ((one, two, first), (two, one, second)):
            present.signal(signal.SIGTERM)
            wait_until(lambda: present.get("/readyz").status == 503, "a drain")
            assert send(present.address, "POST", "/order", {
                "sku": "demo", "user_id": "late", "qty": 1}).status == 201
            assert present.wait() == 0
            assert other.order(user_id="u").status == 201
            present.start()
            manager.wait("READY", "1", after=1)
            assert present.order(user_id="u").status == 201
        assert one.stock()["sold"] == 6
