"""The processes that a run measures: daemons, HAProxy before them, further servers."""

import contextlib
import json
import re
import shutil
import signal
import socket
import subprocess
import tempfile

from harness.engines_cluster import RedisCluster
from harness.processes import ROOT, HarnessError, clean_environment, free_port
from harness.program import Program
from harness.servers import RedisServer
from harness.stack import ToolServers, ToolStack
from lib import metrics
from lib.programs import Daemon

MASTERS = 3
ALLOWED = re.compile(r"^# Allowed: ([^\n]*)\.\n#(\w+) = ?([^\n]*)", re.M)
# How many servers of its own a lock needs, and their kind in deploy/stack.
LOCK_SERVERS = {"redlock": (3, "redis"), "zookeeper": (1, "zookeeper")}
# Options that differ every time.
ADDRESSES = ("lock_servers", "redis_url", "mysql_url")

POD_SALES_MAX = 1000  # of a run over several pods
HAPROXY = "/usr/sbin/haproxy"
HAPROXY_CONFIGURATION = """\
global
    maxconn 4000
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    http-reuse always
frontend orders
    bind 127.0.0.1:{port}
    default_backend daemons
backend daemons
    balance roundrobin
"""


class Build:
    """A daemon's abilities, as it reports them."""

    def __init__(self, program):
        self.program = program
        done = subprocess.run([program, "--help-config"], capture_output=True, text=True,
                              env=clean_environment())
        if done.returncode != 0:
            raise HarnessError(f"{program} --help-config: {done.stderr.strip()}")
        found = ALLOWED.findall(done.stdout)
        self.allowed = {name: what for what, name, _ in found}
        self.defaults = {name: value for _, name, value in found}

    def lacks(self, options):
        """Why it cannot run with these options; '' when it can."""
        for name, value in options.items():
            what = self.allowed.get(name)
            if what is None:
                return f"it has no option {name}"
            if what.startswith("one of: ") and value not in what[len("one of: "):].split():
                return f"{name}={value} is not among its choices ({what[len('one of: '):]})"
        return ""


class LockServer(ToolServers):
    """Context manager: one more server by deploy/stack; `url` is its address."""

    def __init__(self, kind):
        super().__init__((kind,))
        self.kind = kind

    @property
    def url(self):
        return self.urls[self.kind]


class LoneRedis:
    """Context manager: one server with the settings of a cluster's, to compare a cluster with."""

    def __enter__(self):
        self.directory = tempfile.mkdtemp(prefix="seckill-")
        self.server = RedisServer(self.directory)
        try:
            self.server.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.server.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def url(self):
        return self.server.url

    def pids(self):
        return [self.server.process.pid]


class Cluster(RedisCluster):
    """Context manager: masters alone, as replicas would cost the machine that is measured."""

    def __init__(self):
        super().__init__(MASTERS, 0)

    def pids(self):
        return [node.process.pid for node in self.nodes]


# By the setting "redis"; "stack" leaves the stack's own.
REDIS = {"alone": LoneRedis, "cluster": Cluster}


class Proxy(Program):
    """Context manager: an HAProxy before daemons."""

    good_statuses = (0, -signal.SIGTERM, 128 + signal.SIGTERM)

    def __init__(self, daemons, directory):
        path = f"{directory}/haproxy.cfg"
        super().__init__(HAPROXY, "-db", "-f", path, directory=directory)
        self.front = ("127.0.0.1", free_port())
        with open(path, "w", encoding="ascii") as text:
            text.write(HAPROXY_CONFIGURATION.format(port=self.front[1]))
            for number, daemon in enumerate(daemons):
                text.write("    server d%d %s:%d\n" % (number, *daemon.address))

    def listening(self):
        with contextlib.suppress(OSError), socket.create_connection(self.front, 1):
            return self.front
        return None


class PodProxy(Proxy):
    """Context manager: HAProxy as deploy/proxy/haproxy.cfg sets it up, before pods of one daemon
    each."""

    def __init__(self, daemons, directory):
        super().__init__([], directory)
        with open(ROOT / "deploy/proxy/haproxy.cfg", encoding="utf-8") as shipped, \
                open(f"{directory}/haproxy.cfg", "w", encoding="utf-8") as text:
            text.write(re.sub("    server (two|three|four) .*\n", "", shipped.read()))
        self.env = {"SECKILL_PROXY_BIND": "%s:%d" % self.front}
        for name, daemon in zip(("ONE", "POD_1_ONE"), daemons):
            self.env[f"SECKILL_PROXY_{name}"] = "%s:%d" % daemon.address
            self.env[f"SECKILL_PROXY_{name}_PORT"] = str(daemon.address[1])
        if len(daemons) > 1:
            self.env["SECKILL_PROXY_PODS"] = f"{directory}/pods.map"
            with open(f"{directory}/pods.map", "w", encoding="ascii") as text:
                text.writelines(f"sale-{n} {n % len(daemons)}\n" for n in range(POD_SALES_MAX))


class Fleet:
    """Context manager: the daemons of a run. The first of them answers what the run asks."""

    def __init__(self, program, stack, options, instances=1, proxy=False, redis="stack", pods=0):
        """redis: "stack", or one of REDIS. pods: of one daemon each, whose Redis and ledger
        no other uses, behind the proxy that deploy/ ships; sales take turns among them."""
        self.program, self.stack, self.options = program, stack, dict(options)
        self.stacks, self.pods = [stack], pods
        self.redis, self.redis_url = redis, stack.redis_url
        self.instances, self.proxied = instances, proxy
        self.running = contextlib.ExitStack()
        self.pids = dict(stack.pids())

    def __enter__(self):
        with contextlib.ExitStack() as starting:
            self.start_lock_servers(starting)
            self.start_redis(starting)
            self.start_pods(starting)
            self.daemons = [starting.enter_context(
                Daemon(self.program, stack, **self.options, **pod)) for stack, pod in self.places()]
            self.pids["server"] = [daemon.process.pid for daemon in self.daemons]
            self.door = self.daemons[0]
            if self.proxied or self.pods:
                proxy = PodProxy if self.pods else Proxy
                self.door = starting.enter_context(proxy(self.daemons, self.stack.directory))
                self.pids["proxy"] = [self.door.process.pid]
            self.running = starting.pop_all()
        return self

    def __exit__(self, *error):
        return self.running.__exit__(*error)

    def start_lock_servers(self, starting):
        count, kind = LOCK_SERVERS.get(self.options.get("lock"), (0, None))
        servers = [starting.enter_context(LockServer(kind)) for _ in range(count)]
        if servers:
            self.options["lock_servers"] = ",".join(server.url for server in servers)
            self.pids["lock"] = [pid for server in servers for pid in server.pids()[kind]]

    def start_redis(self, starting):
        if self.redis in REDIS:
            engine = starting.enter_context(REDIS[self.redis]())
            self.redis_url = self.options["redis_url"] = engine.url
            self.pids["redis"] = engine.pids()

    def start_pods(self, starting):
        """The Redis and the ledger of each pod behind the first, which has the stack's."""
        for _ in range(1, self.pods):
            self.stacks.append(starting.enter_context(ToolStack()).clean())
            for kind, pids in self.stacks[-1].pids().items():
                self.pids[kind] = self.pids[kind] + pids

    def places(self):
        """The servers and the options of each daemon."""
        if self.pods:
            return [(stack, {"pod": pod}) for pod, stack in enumerate(self.stacks)]
        return [(self.stack, {})] * self.instances

    def pod_of(self, sku):
        """The number of the pod that has the sale."""
        return int(sku.rpartition("-")[2]) % self.pods if self.pods > 1 else 0

    @property
    def token(self):
        """Of an admin's calls."""
        return self.daemons[0].token

    def ask(self, *words):
        return self.daemons[0].ask(*words)

    def reset(self, sku, *words, **options):
        return self.daemons[self.pod_of(sku)].reset(sku, *words, **options)

    def metrics(self):
        return metrics.add([metrics.read(daemon) for daemon in self.daemons])

    def stock(self, sku):
        """The answer to GET /stock; None without a good one."""
        status, text = self.ask("GET", f"/stock/{sku}")
        return json.loads(text) if status == 200 else None

    def reconcile(self, sku):
        status, text = self.ask("POST", "/admin/reconcile", {"sku": sku})
        if status != 200:
            raise HarnessError(f"POST /admin/reconcile {sku}: {status} {text}")

    def offers(self, call):
        """True when the service has such a call on an order."""
        return f"/order/{{order_id}}/{call}" in self.interface()

    def sales_expire(self):
        """True when a sale can limit the seconds to pay an order."""
        return '"expires_at"' in self.interface()

    def interface(self):
        return self.ask("GET", "/openapi.json")[1]


def described(options):
    """The options for a result: without addresses, which differ every time."""
    return {name: value for name, value in options.items() if name not in ADDRESSES}
