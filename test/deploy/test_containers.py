"""The container files, of which no engine runs here: what they name exists, and what they have
programs do, the real programs do."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from harness.daemon import STEADY
from harness.processes import (BUILD, PROGRAM, ROOT, clean_environment, free_port, spawn_server,
                               wait_until)
from harness.redis import Redis

DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
OVERLAYS = {name: yaml.safe_load((ROOT / "deploy" / f"compose.{name}.yaml").read_text())
            for name in ("daemons", "sentinel")}
SERVICES = COMPOSE["services"]
OURS = SERVICES["seckilld"]
SECRETS = "/run/secrets"
CONTROL = BUILD / "seckillctl"
FOLDED = DOCKERFILE.replace("\\\n", " ")
# The fields of a service in Compose that these files use.
SERVICE_KEYS = {
    "build", "cap_drop", "command", "depends_on", "environment", "healthcheck", "image", "networks",
    "ports", "read_only", "restart", "secrets", "security_opt", "stop_grace_period", "tmpfs",
    "ulimits", "user", "volumes"}
HEALTH_KEYS = {"test", "interval", "timeout", "start_period", "retries"}
SANITIZERS = ("libasan.", "libubsan.", "libtsan.")
SECONDS_MAX = 60
# A Sentinel that has stood still distrusts its clock for 30 s ("TILT"), and each time anew.
PROMOTION_S_MAX = 240


def merged(base, more):
    """What Compose makes of two files: mappings are merged, lists joined, but for commands and
    checks, and anything else is replaced."""
    result = dict(base)
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        elif isinstance(value, list) and key not in ("command", "test") and key in result:
            result[key] = result[key] + [each for each in value if each not in result[key]]
        else:
            result[key] = value
    return result


def instruction(name):
    """The words of the last such instruction of the Dockerfile."""
    return re.findall(rf"^{name} +(.*)$", FOLDED, re.MULTILINE)[-1]


def image_environment():
    return dict(word.split("=", 1) for word in shlex.split(instruction("ENV")))


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(ms|s|m)", text).groups()
    return int(number) * {"ms": 0.001, "s": 1, "m": 60}[unit]


def defaults():
    text = (ROOT / "deploy" / "seckill.conf").read_text()
    return dict(re.findall(r"^#(\w+) = ?(.*)$", text, re.MULTILINE))


def command_of(service, secrets, data="/data"):
    """Words as the engine gives them to the program, with our folders in the place of its own."""
    words = [word.replace("$$", "$") for word in service["command"]]
    return [word.replace(SECRETS, str(secrets)).replace("/data", str(data)) for word in words]


def container_environment(secrets):
    """The variables of a program in the daemon's container."""
    env = {**clean_environment(), **image_environment(), **OURS["environment"], "HOME": "/"}
    return {name: value.replace(SECRETS, str(secrets)) for name, value in env.items()}


@pytest.fixture
def secrets(tmp_path):
    folder = tmp_path / "secrets"
    subprocess.run([ROOT / "deploy" / "compose-secrets", folder], check=True, timeout=SECONDS_MAX)
    return folder


# Names

def test_options_and_variables_exist():
    """The programs ignore variables that they do not know."""
    help_text = subprocess.run([CONTROL, "help"], capture_output=True, text=True).stdout
    known = {f"SECKILL_{name.upper()}" for name in defaults()} | {"SECKILL_CONFIG"}
    known |= set(re.findall(r"SECKILLCTL_\w+", help_text))
    named = {*OURS["environment"], *image_environment()}
    assert len(named) >= 7 and named <= known


@pytest.mark.parametrize("overlay", [None, *OVERLAYS])
def test_services_have_what_they_name(overlay):
    compose = merged(COMPOSE, OVERLAYS[overlay]) if overlay else COMPOSE
    services = compose["services"]
    for name, service in services.items():
        assert service.keys() <= SERVICE_KEYS and service["healthcheck"].keys() <= HEALTH_KEYS
        mounted = set(re.findall(rf"{SECRETS}/([\w.-]+)", json.dumps(service)))
        given = set(service.get("secrets", ()))
        # An overlay adds secrets to its service's own.
        assert mounted == given if not overlay else mounted <= given, name
        assert given <= compose["secrets"].keys()
        assert set(service["networks"]) <= compose["networks"].keys()
        volumes = {volume.split(":")[0] for volume in service.get("volumes", ())}
        files = {volume for volume in volumes if volume.startswith("./")}
        assert volumes - files <= compose["volumes"].keys()
        assert all((ROOT / "deploy" / path).is_file() for path in files)
        assert service.get("depends_on", {}).keys() <= services.keys()
        assert {"healthcheck", "stop_grace_period", "restart"} <= service.keys(), name
    used = {secret for service in services.values() for secret in service.get("secrets", ())}
    assert used == compose["secrets"].keys()
    assert (ROOT / "deploy" / OURS["build"]["context"] / OURS["build"]["dockerfile"]).is_file()
    taken = [port.rsplit(":", 1)[0] for each in services.values() for port in each.get("ports", ())]
    assert len(taken) == len(set(taken))
    assert all(port.startswith("127.0.0.1:") for port in taken)


# Access

def test_only_the_daemon_can_be_reached_and_from_this_machine_alone():
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["seckilld"]
    exposed = instruction("EXPOSE").split()
    env = image_environment()
    assert exposed == [env[name].split(":")[1] for name in ("SECKILL_LISTEN",
                                                            "SECKILL_ADMIN_LISTEN")]
    for port in OURS["ports"]:
        address, _, inside = port.split(":")
        assert address == "127.0.0.1" and inside in exposed
    for name in ("redis", "mariadb"):
        assert [COMPOSE["networks"][net] for net in SERVICES[name]["networks"]] == [
            {"internal": True}]


def test_daemon_is_not_root_and_no_secret_is_in_a_layer_or_a_variable():
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", instruction("USER"))
    assert OURS["read_only"] and OURS["cap_drop"] == ["ALL"]
    for name, value in [item for service in SERVICES.values()
                        for item in service.get("environment", {}).items()]:
        if re.search("PASSWORD|TOKEN|SECRET|CONFIG", name):
            assert value.startswith(SECRETS), name
    assert not re.search(r"^(ARG|ADD)\b|_URL=|TOKEN=|PASSWORD", DOCKERFILE, re.MULTILINE)


def test_secrets_are_made_once_behind_a_folder_that_is_private(secrets):
    made = {path.name: path.read_text() for path in secrets.iterdir()}
    named = {**COMPOSE["secrets"], **OVERLAYS["sentinel"]["secrets"]}
    assert made.keys() == named.keys()
    for name, entry in named.items():
        assert entry == {"file": f"secrets/{name}"}
    assert secrets.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in secrets.iterdir()} == {0o644}
    random = re.findall(r"\b[0-9a-f]{48}\b", "".join(made.values()))
    assert len(set(random)) == 5  # two passwords stand in the files of several programs
    subprocess.run([ROOT / "deploy" / "compose-secrets", secrets], check=True)
    assert made == {path.name: path.read_text() for path in secrets.iterdir()}
    default = COMPOSE["secrets"]["admin.token"]["file"].split("/")[0]
    assert f"deploy/{default}" in (ROOT / ".dockerignore").read_text().splitlines()
    assert f"/deploy/{default}/" in (ROOT / ".gitignore").read_text().splitlines()


# The daemon

def test_configuration_of_the_daemon_is_good(secrets):
    done = subprocess.run([PROGRAM, "--check-config"], env=container_environment(secrets),
                          text=True, capture_output=True)
    assert (done.returncode, done.stdout) == (0, "seckilld: the configuration is good\n"), done
    text = (secrets / "seckill.conf").read_text()
    for service, user in (("redis", ""), ("mariadb", SERVICES["mariadb"]["environment"][
            "MARIADB_USER"])):
        assert re.search(rf"//{user}:[0-9a-f]{{48}}@{service}:\d+/", text)
    assert text.rstrip().endswith("/" + SERVICES["mariadb"]["environment"]["MARIADB_DATABASE"])


@pytest.mark.parametrize("overlay, name", [("daemons", "seckilld"), ("daemons", "seckilld-two"),
                                           ("sentinel", "seckilld")])
def test_configuration_of_each_daemon_is_good(secrets, overlay, name):
    daemon = merged(COMPOSE, OVERLAYS[overlay])["services"][name]
    env = {**container_environment(secrets), **{
        key: value.replace(SECRETS, str(secrets)) for key, value in daemon["environment"].items()}}
    done = subprocess.run([PROGRAM, "--check-config"], env=env, text=True, capture_output=True)
    assert (done.returncode, done.stdout) == (0, "seckilld: the configuration is good\n"), done
    needs = int(daemon["environment"].get("SECKILL_LAME_DUCK_MS", 0)) / 1000 + 10
    assert seconds(daemon["stop_grace_period"]) > needs


def test_daemon_has_time_to_end():
    own = {name.removeprefix("SECKILL_").lower(): value
           for name, value in {**image_environment(), **OURS["environment"]}.items()}
    options = {**defaults(), **own}
    needs = (int(options["lame_duck_ms"]) + int(options["drain_ms"])) / 1000
    assert seconds(OURS["stop_grace_period"]) > needs
    assert instruction("STOPSIGNAL") == "SIGTERM"


def test_health_is_to_be_alive_and_to_be_ready(private_stack, spawn, secrets):
    daemon = spawn(private_stack, admin_listen="127.0.0.1:0", **STEADY)
    address = "%s:%d" % daemon.admin_address()
    port = address.split(":")[1]
    alive = json.loads(instruction("HEALTHCHECK").split("CMD ", 1)[1])
    alive = [word.replace("/8081", f"/{port}") for word in alive]
    assert f"/{port}" in alive[-1]
    ready = OURS["healthcheck"]["test"]
    assert ready[:2] == ["CMD", "seckillctl"]

    def holds(argv):
        env = {**container_environment(secrets), "SECKILLCTL_ADMIN": f"http://{address}"}
        return subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              timeout=SECONDS_MAX).returncode == 0
    assert holds(alive)
    wait_until(lambda: holds([CONTROL, *ready[2:]]), "that it is ready")
    private_stack.redis_server.kill()
    wait_until(lambda: not holds([CONTROL, *ready[2:]]), "that it is not ready")
    assert holds(alive)
    daemon.stop()
    assert not holds(alive) and not holds([CONTROL, *ready[2:]])


# The image

def packages_linked(*programs):
    """The packages of the libraries that programs name; libc's is in every image."""
    found = set()
    for program in programs:
        dynamic = subprocess.run(["readelf", "-d", program], check=True, capture_output=True,
                                 text=True).stdout
        needed = re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)
        loaded = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
        for library in needed:
            if library.startswith(SANITIZERS):
                continue
            path = re.search(rf"^\s*{re.escape(library)} => (\S+)", loaded, re.MULTILINE)
            if path:
                found.add(path[1])
    return owners(found) - {"libc6"}


def owners(paths):
    """The packages of these files, each of which may be known by another of its names."""
    names = {path: {path, f"/usr{path}", str(Path(path).resolve())} for path in paths}
    done = subprocess.run(["dpkg-query", "-S", *set().union(*names.values())], capture_output=True,
                          text=True)  # its status tells of names that no package has
    owner = {name: package for package, name in
             re.findall(r"^([^:\n]+):.*? (/\S+)$", done.stdout, re.MULTILINE)}
    unknown = [path for path in paths if not names[path] & owner.keys()]
    assert not unknown, f"no package has {unknown}"
    return {owner[name] for path in paths for name in names[path] & owner.keys()}


def is_of_the_image():
    """Whether this system is the image's: another Debian may have packages of other names."""
    name, system = re.match(r"debian:(\w+)", instruction("FROM"))[1], Path("/etc/os-release")
    return system.exists() and f"VERSION_CODENAME={name}\n" in system.read_text()


@pytest.mark.skipif(not is_of_the_image(), reason="the packages' names are of the image's Debian")
def test_image_has_the_libraries_of_the_programs_and_no_more():
    run = instruction("RUN")
    assert "apt-get update" in run and "--no-install-recommends" in run
    installed = run.split("--no-install-recommends")[1].split("&&")[0].split()
    assert sorted(installed) == sorted(packages_linked(PROGRAM, CONTROL))
    assert installed == sorted(installed)


def test_what_the_build_can_see_is_enough_and_has_no_file_of_a_user(tmp_path):
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    seen = [rule[1:] for rule in rules if rule.startswith("!")]
    hidden = [rule.removeprefix("**/") for rule in rules[1:] if not rule.startswith("!")]
    for name in seen:
        copy = tmp_path / name
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy, ignore=shutil.ignore_patterns(*hidden))
        else:
            shutil.copy(ROOT / name, copy)
    assert "RUN deploy/packages build\n" in DOCKERFILE
    target = re.search(r"^RUN make (.*) DESTDIR=/image$", DOCKERFILE, re.MULTILINE)[1]
    done = subprocess.run(["make", "-n", target, "DESTDIR=/image"], cwd=tmp_path, text=True,
                          env=clean_environment() | {"MAKEFLAGS": "", "MAKELEVEL": "0"},
                          capture_output=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stderr
    for name in set(re.findall(r"[\w./-]+", done.stdout)):
        built = name.startswith("build/")
        assert built or not (ROOT / name).is_file() or (tmp_path / name).is_file(), name
    makefile = (ROOT / "Makefile").read_text()
    assert set(re.search(r"^folders +:= (.*)$", makefile, re.MULTILINE)[1].split()) <= set(seen)
    for source in re.findall(r"^COPY --from=build (\S+)", DOCKERFILE, re.MULTILINE):
        assert f" {source}" in done.stdout, source
    assert not {".git", "run", "build", "test"} & set(seen)


# The servers

def test_redis_has_the_settings_that_the_service_wants(secrets, tmp_path, stack):
    port, data = free_port(), tmp_path / "data"
    data.mkdir()
    argv = [*command_of(SERVICES["redis"], secrets, data), "--bind 127.0.0.1", f"--port {port}"]
    kind, line = SERVICES["redis"]["healthcheck"]["test"]
    line = line.replace("$$", "$").replace(SECRETS, str(secrets))
    healthy = ["sh", "-c", line.replace("redis-cli ", f"redis-cli -p {port} ")]
    assert kind == "CMD-SHELL" and healthy[-1] != line
    password = (secrets / "redis.conf").read_text().split()[1]
    assert password not in " ".join(argv)

    def holds():
        return subprocess.run(healthy, capture_output=True, timeout=SECONDS_MAX).returncode == 0
    server = spawn_server(argv)
    try:
        wait_until(holds, "that Redis is healthy")
        ours = Redis(f"redis://:{password}@127.0.0.1:{port}/0")
        for name in ("appendonly", "appendfsync", "save", "maxmemory-policy",
                     "lazyfree-lazy-expire"):
            assert ours("CONFIG", "GET", name) == stack.redis("CONFIG", "GET", name), name
        assert ours("CONFIG", "GET", "dir")[1].decode() == str(data)
        secret = secrets / "redis.conf"
        secret.write_text("requirepass wrong\n")
        assert not holds(), "another password counts as healthy"
    finally:
        server.terminate()
        server.wait(timeout=SECONDS_MAX)
    assert not holds()


def test_mariadb_has_the_settings_that_the_service_wants():
    program = shutil.which("mariadbd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    flags = SERVICES["mariadb"]["command"]
    done = subprocess.run([program, "--no-defaults", *flags, "--verbose", "--help"], text=True,
                          capture_output=True, timeout=SECONDS_MAX)
    assert done.returncode == 0 and "unknown" not in done.stderr, done.stderr
    taken = dict(re.findall(r"^([a-z-]+) +(\S+)$", done.stdout, re.MULTILINE))
    assert taken["sync-binlog"] == taken["innodb-flush-log-at-trx-commit"] == "1"
    wanted = {flag.removeprefix("--") for flag in flags} - {"sync-binlog=1"}
    template = (ROOT / "deploy" / "stack").read_text()
    template = re.search(r"\[mysqld\]\n(.*?)^CONF$", template, re.DOTALL | re.MULTILINE)[1]
    ours = {line.replace(" = ", "=").split("=")[0].replace("_", "-"): line.split("= ")[-1]
            for line in template.splitlines()}
    for flag in wanted:
        name, _, value = flag.partition("=")
        stack_value = re.sub(r"\$\{\w+:-(\w+)\}", r"\1", ours[name])
        assert stack_value == (value or name), name


# The overlays

@pytest.mark.skipif(not shutil.which("haproxy", path="/usr/sbin:/usr/bin"), reason="no HAProxy")
def test_haproxy_of_the_overlay_takes_its_configuration(tmp_path):
    services = merged(COMPOSE, OVERLAYS["daemons"])["services"]
    service = services["haproxy"]
    line = service["command"][2].replace("$$", "$").replace("/tmp/", f"{tmp_path}/")
    line = line.replace("/etc/seckill", str(ROOT / "deploy/proxy"))
    env = {**clean_environment(), "PATH": "/usr/sbin:/usr/bin:/bin"}
    for name, value in service["environment"].items():
        host, port = value.split(":")
        assert host == "*" or host in services
        env[name] = value if host == "*" else f"127.0.0.1:{port}"
    line = line.replace("exec haproxy -W -db", "haproxy -c")
    done = subprocess.run(["sh", "-c", line], env=env, text=True, capture_output=True,
                          timeout=SECONDS_MAX)
    assert done.returncode == 0, done
    made = (tmp_path / "haproxy.cfg").read_text()
    operators = image_environment()["SECKILL_ADMIN_LISTEN"].split(":")[1]
    assert len(re.findall(rf"^ *server .* port {operators}$", made, re.MULTILINE)) == 12


def test_sentinels_of_the_overlay_promote_the_replica(secrets, tmp_path):
    """The command lines of the five containers, on ports in the place of names."""
    services = merged(COMPOSE, OVERLAYS["sentinel"])["services"]
    ports = {name: free_port() for name in services if name.startswith(("redis", "sentinel"))}
    (secrets / "sentinel.conf").write_text(
        (secrets / "sentinel.conf").read_text().replace(
            " redis 6379 ", f" 127.0.0.1 {ports['redis']} "))
    password = (secrets / "redis.conf").read_text().split()[1]

    def argv(name):
        data = tmp_path / name
        data.mkdir()
        words = command_of(services[name], secrets, data)
        if name.startswith("sentinel"):
            return [*words[:2], f"{words[2]} --bind 127.0.0.1 --port {ports[name]}"]
        words = [word.replace("--replicaof redis 6379", f"--replicaof 127.0.0.1 {ports['redis']}")
                 .replace(f"-announce-ip {name}", "-announce-ip 127.0.0.1") for word in words]
        return [*words, "--bind 127.0.0.1", f"--port {ports[name]}"]

    def primary(name):
        return ask_sentinel(ports[name], "GET-MASTER-ADDR-BY-NAME")[1:]

    def client(name):
        return Redis(f"redis://:{password}@127.0.0.1:{ports[name]}/0")
    running = {}
    try:
        for name in sorted(ports):
            running[name] = spawn_server(argv(name))
            if name == "redis-two":
                wait_until(lambda: answers(lambda: client("redis-two")("ROLE")[3] == b"connected"),
                           "a copy")
        trio = [name for name in ports if name.startswith("sentinel")]
        for name in trio:
            wait_until(lambda: primary(name) == [str(ports["redis"])], name)
            wait_until(lambda: knows_all(ports[name], len(trio)), f"the others of {name}")
        running["redis"].kill()
        for name in trio:
            wait_until(lambda: primary(name) == [str(ports["redis-two"])], "a promotion",
                       PROMOTION_S_MAX)
        wait_until(lambda: client("redis-two").role() == b"master", "a new primary")
    finally:
        for process in running.values():
            process.kill()
            process.wait(timeout=SECONDS_MAX)


def answers(condition):
    try:
        return condition()
    except (OSError, RuntimeError, EOFError):
        return False


def ask_sentinel(port, question):
    done = subprocess.run(["redis-cli", "-p", str(port), "SENTINEL", question, "seckill"],
                          text=True, capture_output=True, timeout=SECONDS_MAX)
    return done.stdout.split("\n")[:-1]


def knows_all(port, sentinels):
    """True when a sentinel knows the others and the replica: before that it promotes none."""
    found = ask_sentinel(port, "MASTER")
    state = dict(zip(found[::2], found[1::2]))
    return (state["num-slaves"], int(state["num-other-sentinels"])) == ("1", sentinels - 1)
