"""The lock library on hosts: processes that acquire and release a lock, each on a host of its own,
with etcd or ZooKeeper on three others. What they saw is checked by test/lock/history_check.py."""

import json
import random
import shutil
import signal
import socket
import sys
import time
import urllib.request

from harness.processes import BUILD, ROOT, HarnessError, server_folder, spawn, wait_until
from harness.servers import ZooKeeper
from network.case import Round
from network.faults import HOLD_S, fault
from network.hosts import both_ways, one_way
from network.servers import Service

sys.path.insert(0, str(ROOT / "test" / "lock"))

import history_check  # noqa: E402  the test of the lock library's room

ETCD, ETCD_PEER, ZOOKEEPER = 2379, 2380, 2181
SERVERS, HOLDERS = ("node1", "node2", "node3"), ("holder1", "holder2", "holder3")
PROCESSES = 2         # on each host of holders
QUIET_S, AFTER_S = 2.0, 60
LOCKS = ("etcd", "zookeeper")
NS = 10**9


class EtcdOnHost(Service):
    def argv(self):
        here, peer = f"http://{self.address}:{ETCD}", f"http://{self.address}:{ETCD_PEER}"
        every = ",".join(f"{name}=http://{self.network.addresses[name]}:{ETCD_PEER}"
                         for name in SERVERS)
        return [shutil.which("etcd"), f"--name={self.host}", f"--data-dir={self.directory}/data",
                f"--listen-client-urls={here}", f"--advertise-client-urls={here}",
                f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster={every}", "--log-level=error", "--logger=zap"]

    def ask(self, path, body):
        with urllib.request.urlopen(f"http://{self.address}:{ETCD}{path}", body,
                                    timeout=2) as reply:
            return json.loads(reply.read())

    def answers(self):
        try:
            return self.ask("/health", None)["health"] == "true"
        except OSError:
            return False

    def tell(self):
        return json.dumps(self.ask("/v3/kv/range", b'{"key":"AA==","range_end":"AA=="}'))

    def leads(self):
        state = self.ask("/v3/maintenance/status", b"{}")
        return state["leader"] == state["header"]["member_id"]


class ZooKeeperOnHost(Service):
    def __init__(self, network, host, directory):
        super().__init__(network, host, directory)
        members = "".join(f"server.{number}={network.addresses[name]}:2888:3888\n"
                          for number, name in enumerate(SERVERS, 1))
        (self.directory / "data").mkdir()
        (self.directory / "data" / "myid").write_bytes(b"%d\n" % (SERVERS.index(host) + 1))
        (self.directory / "zoo.cfg").write_text(
            "tickTime=500\ninitLimit=10\nsyncLimit=5\nmaxSessionTimeout=60000\n"
            f"dataDir={self.directory}/data\nclientPort={ZOOKEEPER}\n"
            f"clientPortAddress={self.address}\nadmin.enableServer=false\n"
            f"4lw.commands.whitelist=srvr,dump\n{members}", encoding="ascii")

    def argv(self):
        return ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx96m", "-cp",
                f"{ZooKeeper.PROGRAM}:{ZooKeeper.LOG}",
                "org.apache.zookeeper.server.quorum.QuorumPeerMain", self.directory / "zoo.cfg"]

    def tell(self, word=b"dump"):
        try:
            with socket.create_connection((self.address, ZOOKEEPER), timeout=2) as sock:
                sock.sendall(word)
                return sock.makefile().read()
        except OSError:
            return ""

    def answers(self):
        return "Mode: " in self.tell(b"srvr")

    def leads(self):
        return "Mode: leader" in self.tell(b"srvr")


class LockSetup:
    """Context manager: three servers, and three hosts of processes that want the lock."""

    MADE = {"etcd": (EtcdOnHost, "etcd", ETCD), "zookeeper": (ZooKeeperOnHost, "queue", ZOOKEEPER)}

    def __init__(self, name):
        self.server_class, self.kind, self.port = self.MADE[name]
        self.scheme = name

    def prepare(self, _, make_network):
        self.network = make_network([*SERVERS, *HOLDERS])
        return self

    def __enter__(self):
        self.directory, self.servers = server_folder(), {}
        self.network.__enter__()
        try:
            for name in SERVERS:
                self.servers[name] = self.server_class(self.network, name,
                                                       f"{self.directory}/{name}")
                self.servers[name].start()
            for server in self.servers.values():
                server.wait_answers()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for server in self.servers.values():
            server.kill()
        self.network.__exit__()
        shutil.rmtree(self.directory, ignore_errors=True)

    def leader(self):
        return wait_until(lambda: next((name for name, one in self.servers.items()
                                        if one.leads()), None), "a leader")

    def url(self):
        return f"{self.scheme}://" + ",".join(f"{one.address}:{self.port}"
                                              for one in self.servers.values())

    def case(self, fault_of, seed):
        return LockCase(self, fault_of, seed)


class LockCase:
    """One round: the processes' holds are what is recorded."""

    def __init__(self, setup, fault_of, seed):
        self.setup, self.network, self.fault = setup, setup.network, fault_of
        self.random, self.round, self.processes = random.Random(seed), Round(), []
        self.began = self.healed = None

    def run(self):
        self.files = {}
        try:
            for number in range(PROCESSES * len(HOLDERS)):
                self.start(number)
            wait_until(lambda: all(self.holds(number) for number in self.files),
                       "a hold of every process")
            self.hold(QUIET_S)
            self.fault.act(self)
            wait_until(lambda: all(self.after(number) is not None for number in self.files),
                       "a hold of every process after the heal", AFTER_S)
            self.hold(QUIET_S)
        except HarnessError as error:
            self.round.violations.append(str(error))
            self.tell_story()
        finally:
            self.finish()
        self.measure()
        return self.round

    def tell_story(self):
        """Of a round that does not go on: what each server has, and what each process did last."""
        for server in self.setup.servers.values():
            self.round.story += [f"{server.host}:", server.tell()]
        for number, name in self.files.items():
            with open(name, encoding="ascii") as file:
                self.round.story += [f"process {number}:", *file.read().splitlines()[-4:]]

    def start(self, number):
        host = HOLDERS[number % len(HOLDERS)]
        self.files[number] = f"{self.setup.directory}/holds{number}"
        argv = [BUILD / "test" / "lock_history", "mutex", self.setup.kind, "network",
                self.random.randrange(1 << 30), self.setup.url()]
        with open(self.files[number], "wb") as file:
            self.processes.append(spawn(self.network.argv(host, argv), stdout=file))

    def finish(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            if process.wait(60) not in (0, -signal.SIGTERM):
                self.round.violations.append(f"a process ended with {process.returncode}")

    # what faults do

    def cut(self, some, others):
        return self.fault_of(both_ways(some, others))

    def cut_to(self, sources, targets):
        return self.fault_of(one_way(sources, targets))

    def fault_of(self, rule):
        return Cut(self, rule)

    def others(self, *names):
        return self.network.others(*names)

    @staticmethod
    def hold(seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(0.05)

    def holder(self):
        """The host of the process that acquired last."""
        ends = {number: max((one.end for one in self.holds(number)), default=0)
                for number in self.files}
        return HOLDERS[max(ends, key=ends.get) % len(HOLDERS)]

    # figures

    def holds(self, number):
        with open(self.files[number], encoding="ascii") as file:
            return [one for one in history_check.read(list(file)) if one.acquired and one.held]

    def after(self, number):
        """How soon after the heal the process has the lock that it asked for since then."""
        ends = [one.end for one in self.holds(number) if one.begin >= self.healed * NS]
        return min(ends) / NS - self.healed if ends else None

    def measure(self):
        lines = []
        for name in self.files.values():
            with open(name, encoding="ascii") as file:
                lines += file
        holds = history_check.read(lines)
        self.round.violations += history_check.check("mutex", holds)
        hosts = {host: sorted(one.end / NS for number in self.files
                              if HOLDERS[number % len(HOLDERS)] == host
                              for one in self.holds(number)) for host in HOLDERS}
        self.round.without = self.longest_gap(sorted(sum(hosts.values(), [])))
        self.round.without_worst = max(map(self.longest_gap, hosts.values()))
        after = [self.after(number) for number in self.files]
        self.round.after = None if None in after else max(after)
        self.round.notes.append(f"{len(holds)} holds")

    def longest_gap(self, ends):
        inside = [self.began, *(end for end in ends if self.began <= end <= self.healed),
                  self.healed]
        return max(later - earlier for earlier, later in zip(inside, inside[1:]))


class Cut:
    """Context manager: the rule holds within."""

    def __init__(self, case, rule):
        self.case, self.rule = case, rule

    def __enter__(self):
        self.case.network.impose(self.rule)
        if self.case.began is None:
            self.case.began = time.monotonic()

    def __exit__(self, *_):
        self.case.network.lift(self.rule)
        self.case.healed = time.monotonic()


# --- Faults -------------------------------------------------------------------------------------

@fault("the leader is cut off from everybody", *LOCKS)
def leader_alone(case):
    leader = case.setup.leader()
    with case.cut([leader], case.others(leader)):
        case.hold(HOLD_S)


@fault("the leader is cut off from the other servers alone", *LOCKS)
def leader_from_servers(case):
    leader = case.setup.leader()
    with case.cut([leader], [name for name in SERVERS if name != leader]):
        case.hold(HOLD_S)


@fault("the leader hears nobody", *LOCKS)
def leader_deaf(case):
    leader = case.setup.leader()
    with case.cut_to(case.others(leader), [leader]):
        case.hold(HOLD_S)


@fault("a holder's host is cut off", *LOCKS)
def holder_alone(case):
    """Its hold ends with its lease, and another one gets the lock; it must notice before."""
    host = case.holder()
    with case.cut([host], list(SERVERS)):
        case.hold(HOLD_S)


@fault("a holder's host is not heard", *LOCKS)
def holder_mute(case):
    host = case.holder()
    with case.cut_to([host], list(SERVERS)):
        case.hold(HOLD_S)


@fault("no server sees another one", *LOCKS)
def no_quorum(case):
    with case.cut(SERVERS, SERVERS):
        case.hold(HOLD_S)
