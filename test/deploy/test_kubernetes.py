"""The manifests of deploy/kubernetes, without a cluster: their fields are Kubernetes' by our own
schemas, their names fit each other, and what their containers run, the real programs run."""

import copy
import json
import re
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml

from harness.daemon import STEADY, TOKEN, Daemon
from harness.processes import PROGRAM, ROOT, clean_environment
from kubernetes_schema import KINDS

FOLDER = ROOT / "deploy" / "kubernetes"
FILES = {path.name: [*yaml.safe_load_all(path.read_text())] for path in FOLDER.glob("*.yaml")}
OBJECTS = [found for documents in FILES.values() for found in documents]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
OPTIONAL = {"migrate.yaml", "servicemonitor.yaml", "kustomization.yaml"}
CHOSEN = re.compile(r"<[a-z ]+>")  # what a user puts in
SECONDS_MAX = 60


def find(kind, name):
    found = [each for each in OBJECTS
             if (each["kind"], each.get("metadata", {}).get("name")) == (kind, name)]
    assert len(found) == 1, (kind, name)
    return found[0]


DEPLOYMENT, JOB = find("Deployment", "seckilld"), find("Job", "seckill-migrate")
PODS = {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in (DEPLOYMENT, JOB)}
LABELS = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
POD, DAEMON = PODS["seckilld"], PODS["seckilld"]["containers"][0]


def containers(pod):
    return pod.get("initContainers", []) + pod["containers"]


def options():
    """The daemon's defaults, and what the ConfigMap sets."""
    pattern = re.compile(r"^#?(\w+) = ?(.*)$", re.MULTILINE)
    own = re.findall(r"^(\w+) = (.*)$", find("ConfigMap", "seckilld")["data"]["seckill.conf"],
                     re.MULTILINE)
    return {**dict(pattern.findall((ROOT / "deploy/seckill.conf").read_text())), **dict(own)}


def ports():
    return {port["name"]: port["containerPort"] for port in DAEMON["ports"]}


# Fields

def check(found):
    jsonschema.Draft7Validator(KINDS[found["kind"]]).validate(found)


@pytest.mark.parametrize("found", OBJECTS, ids=lambda found: found["kind"])
def test_fields_are_those_of_the_interface(found):
    check(found)


def mappings(found):
    if isinstance(found, dict):
        yield found
    for each in found.values() if isinstance(found, dict) else found:
        if isinstance(each, (dict, list)):
            yield from mappings(each)


@pytest.mark.parametrize("found", OBJECTS, ids=lambda found: found["kind"])
def test_a_slip_in_any_mapping_is_found(found):
    """But in those whose keys are the user's own: labels and data."""
    free = [id(each) for name in ("labels", "matchLabels", "data", "stringData")
            for parent in mappings(found) for each in [parent.get(name)]]
    free += [id(found["spec"]["selector"])] if found["kind"] == "Service" else []
    for index, mapping in enumerate(mappings(found)):
        if id(mapping) in free:
            continue
        broken = copy.deepcopy(found)
        [*mappings(broken)][index]["slip"] = "x"
        with pytest.raises(jsonschema.ValidationError):
            check(broken)


def test_every_file_is_among_the_resources_or_said_not_to_be():
    assert FILES.keys() - OPTIONAL == {*FILES["kustomization.yaml"][0]["resources"]}


# Names

def test_selectors_match_labels():
    def chosen(selector, labels):
        return selector.items() <= labels.items()
    policy = find("NetworkPolicy", "seckilld")["spec"]
    for selector in (DEPLOYMENT["spec"]["selector"], policy["podSelector"],
                     find("PodDisruptionBudget", "seckilld")["spec"]["selector"],
                     POD["topologySpreadConstraints"][0]["labelSelector"]):
        assert chosen(selector["matchLabels"], LABELS)
        assert not chosen(selector["matchLabels"],
                          JOB["spec"]["template"]["metadata"]["labels"]), "the Job's pods, too"
    for name in ("seckilld", "seckilld-ops"):
        assert chosen(find("Service", name)["spec"]["selector"], LABELS)
    monitor = find("ServiceMonitor", "seckilld")["spec"]
    assert [name for name in ("seckilld", "seckilld-ops") if chosen(
        monitor["selector"]["matchLabels"], find("Service", name)["metadata"]["labels"])] == [
            "seckilld-ops"]


def test_ports_are_where_the_daemon_listens():
    own = options()
    assert ports() == {"http": int(own["listen"].split(":")[1]),
                       "ops": int(own["admin_listen"].split(":")[1])}
    # The image's variables win over the file.
    for name in ("listen", "admin_listen"):
        assert f"SECKILL_{name.upper()}={own[name]}" in DOCKERFILE
    assert {port["targetPort"] for name in ("seckilld", "seckilld-ops")
            for port in find("Service", name)["spec"]["ports"]} == {"http", "ops"}
    named = {port["name"] for port in find("Service", "seckilld-ops")["spec"]["ports"]}
    assert {end["port"] for end in find("ServiceMonitor", "seckilld")["spec"]["endpoints"]} <= named


def test_paths_are_of_the_interface():
    known = json.loads((ROOT / "service" / "openapi.json").read_text())["paths"]
    probes = {name: DAEMON[name]["httpGet"] for name in DAEMON if name.endswith("Probe")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startupProbe": "/healthz", "livenessProbe": "/healthz",
        "readinessProbe": "/servingz"}
    assert {probe["port"] for probe in probes.values()} == {"ops"}
    asked = {probe["path"] for probe in probes.values()}
    asked |= {end["path"] for end in find("ServiceMonitor", "seckilld")["spec"]["endpoints"]}
    assert asked <= known.keys() and all("get" in known[path] for path in asked)


@pytest.mark.parametrize("name", PODS)
def test_volumes_are_there_and_used(name):
    pod = PODS[name]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounted = {mount["name"] for each in containers(pod) for mount in each["volumeMounts"]}
    assert mounted == volumes.keys()
    for volume in volumes.values():
        if "secret" in volume:
            assert find("Secret", volume["secret"]["secretName"])
            assert volume["secret"]["defaultMode"] == 0o440
        elif "configMap" in volume:
            assert find("ConfigMap", volume["configMap"]["name"])


# Rights

@pytest.mark.parametrize("name", PODS)
def test_pods_keep_to_the_restricted_standard(name):
    """Pod Security Standards, "restricted"; and no root file system to write to."""
    pod = PODS[name]
    context = pod["securityContext"]
    user, group = re.search(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE).groups()
    assert context["runAsNonRoot"] and context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert (context["runAsUser"], context["runAsGroup"]) == (int(user), int(group))
    assert not pod["automountServiceAccountToken"] and not pod["enableServiceLinks"]
    for each in containers(pod):
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]}}
        assert "cpu" not in each["resources"]["limits"] and each["resources"]["limits"]["memory"]


def test_no_secret_is_in_an_option_or_a_variable():
    assert "env" not in KINDS["Deployment"]["properties"]["spec"]["properties"]["template"][
        "properties"]["spec"]["properties"]["containers"]["items"]["properties"]
    set_here = re.findall(r"^(\w+) =", find("ConfigMap", "seckilld")["data"]["seckill.conf"],
                          re.MULTILINE)
    assert not {"redis_url", "mysql_url", "admin_token", "shop_token", "lock_servers"} & {*set_here}


def test_buyers_do_not_reach_the_operators_calls():
    rules = find("NetworkPolicy", "seckilld")["spec"]["ingress"]
    by_client = {rule["from"][0]["podSelector"]["matchLabels"]["seckill/client"]:
                 [port["port"] for port in rule["ports"]] for rule in rules}
    assert by_client == {"shop": ["http"], "operators": ["ops"]}
    assert all(len(rule["from"]) == 1 for rule in rules)
    shop = find("Service", "seckilld")["spec"]["ports"]
    assert [port["targetPort"] for port in shop] == ["http"]


# Ends

def test_daemon_has_time_to_end_and_others_to_notice():
    own = options()
    lame_duck_s, drain_s = int(own["lame_duck_ms"]) / 1000, int(own["drain_ms"]) / 1000
    assert POD["terminationGracePeriodSeconds"] >= lame_duck_s + drain_s + 5
    ready = DAEMON["readinessProbe"]
    assert lame_duck_s > ready["periodSeconds"] * (ready["failureThreshold"] + 1)
    assert DEPLOYMENT["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert find("PodDisruptionBudget", "seckilld")["spec"]["maxUnavailable"] == 1
    assert DEPLOYMENT["spec"]["replicas"] >= 2


# The containers' programs

def put(folder, data):
    folder.mkdir(parents=True)
    for name, text in data.items():
        (folder / name).write_text(text)


def configure(directory, **chosen):
    """What the init container does with ConfigMap and Secret: the file it makes. `chosen` has what
    a user put in the place of <words>."""
    secret = {name: CHOSEN.sub(lambda found: chosen.get(found[0][1:-1].replace(" ", "_"), found[0]),
                               text)
              for name, text in find("Secret", "seckilld")["stringData"].items()}
    put(directory / "etc/seckill/options", find("ConfigMap", "seckilld")["data"])
    put(directory / "etc/seckill/secrets", secret)
    (directory / "run/seckilld").mkdir(parents=True)
    argv = [re.sub(r"(?<= |>)/(?=etc|run)", f"{directory}/", word) for word
            in POD["initContainers"][0]["command"]]
    subprocess.run(argv, check=True, timeout=SECONDS_MAX)
    assert DAEMON["args"] == ["--config", "/run/seckilld/seckill.conf"]
    made = directory / "run/seckilld/seckill.conf"
    assert made.stat().st_mode & 0o777 == 0o600
    made.write_text(made.read_text().replace("= /etc/", f"= {directory}/etc/"))
    return made


def check_configuration(path):
    return subprocess.run([PROGRAM, "--config", path, "--check-config"], text=True,
                          env=clean_environment(), capture_output=True, timeout=SECONDS_MAX)


GOOD = {"password": "secret", "redis_host": "redis.example", "ledger_host": "db.example",
        "admin_token": TOKEN, "shop_token": "token-of-the-shop"}


def test_options_are_known_and_good(tmp_path):
    done = check_configuration(configure(tmp_path, **GOOD))
    assert (done.returncode, done.stdout) == (0, "seckilld: the configuration is good\n"), done


@pytest.mark.parametrize("left_out", GOOD)
def test_secrets_that_nobody_edited_are_refused(tmp_path, left_out):
    unedited = f"<{left_out.replace('_', ' ')}>"
    done = check_configuration(configure(tmp_path, **{**GOOD, left_out: unedited}))
    by_the_servers = left_out == "password"
    assert (done.returncode == 0) == by_the_servers, done


def test_daemon_of_these_files_answers_the_probes(stack, tmp_path):
    made = configure(tmp_path / "pod", **GOOD)
    daemon = Daemon(stack, tmp_path, config=made, admin_listen="127.0.0.1:0", update_tables="on",
                    lame_duck_ms=0, log_format="logfmt", **STEADY)
    del daemon.env["SECKILL_ADMIN_TOKEN"]
    with daemon:
        for name in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert daemon.get(DAEMON[name]["httpGet"]["path"]).status == 200
        assert daemon.admin("GET", "/admin/sales").status == 200
        assert daemon.pay("1").code == "unauthorized"


def test_job_makes_the_tables(stack, tmp_path):
    secret = find("Secret", "seckill-migrate")["stringData"]["migrate.conf"]
    assert CHOSEN.search(secret)
    container = JOB["spec"]["template"]["spec"]["containers"][0]
    mount = container["volumeMounts"][0]["mountPath"]
    (tmp_path / "migrate.conf").write_text(
        re.sub(r"mysql://\S+( host>\S*)?", stack.mysql_url, secret))
    argv = [word.replace(mount, str(tmp_path)) for word in container["args"]]
    assert str(tmp_path) in argv[1] and argv[-1] == "--migrate"
    for _ in range(2):
        subprocess.run([PROGRAM, *argv], check=True, env=clean_environment(), timeout=SECONDS_MAX)
    assert stack.ledger.run("SELECT COUNT(*) FROM orders")[0][0] == "0"


def test_page_names_what_is_there():
    page = (ROOT / "docs" / "deployment.md").read_text()
    for path in re.findall(r"deploy/kubernetes/([\w.-]+)", page):
        assert (FOLDER / path).exists(), path
    assert Path(FOLDER, "kustomization.yaml").exists()
