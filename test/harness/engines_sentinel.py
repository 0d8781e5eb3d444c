"""A Redis that sentinels watch, and one with every kind of door: context managers, each in a folder
of its own, on loopback, on free ports. They end their servers by process id."""

import shutil
import signal
import subprocess
from pathlib import Path

from harness.processes import free_port, send_signal, server_folder, spawn_server, wait_until
from harness.redis import Redis, by_name

ANSWER_SECONDS_MAX = 150  # a Sentinel that has stood still does nothing for 30 s


class RedisProcess:
    """One redis-server, or one sentinel, that comes back on its port whenever it is started."""

    def __init__(self, directory, name, options, password="", sentinel=False):
        self.directory = Path(directory, name)
        self.directory.mkdir()
        self.port = free_port()
        self.process = None
        self.sentinel = sentinel
        self.password = password
        self.url = f"redis://:{password}@127.0.0.1:{self.port}/0"
        self.client = Redis(self.url)
        own = [f"port {self.port}", "bind 127.0.0.1", f"dir {self.directory}"]
        own += [f"requirepass {password}"] if password else []
        # A file, because sentinels and servers write into theirs what they learn.
        self.config = self.directory / "redis.conf"
        self.config.write_text("\n".join([*own, *options, ""]), encoding="ascii")

    def start(self):
        with open(self.directory / "log", "ab") as log:
            self.process = spawn_server(["redis-server", self.config,
                                         *(["--sentinel"] if self.sentinel else [])], log)

    def ask(self, *words):
        """One command without the choice of a database, which a sentinel does not have."""
        return self.client.ask(*words)

    def answers(self):
        try:
            return self.ask("PING") == "PONG"
        except (OSError, RuntimeError):
            return False

    def wait_answers(self):
        wait_until(self.answers, f"an answer of {self.directory.name}", timeout=ANSWER_SECONDS_MAX)

    def signal(self, number):
        send_signal(self.process, number)

    def stop(self):
        """It stands still, and its connections with it."""
        self.signal(signal.SIGSTOP)

    def go_on(self):
        self.signal(signal.SIGCONT)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Engine:
    """The base of all sets of servers: a folder and processes."""

    def __enter__(self):
        self.directory = server_folder()
        self.processes = []
        try:
            self.up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def up(self):
        raise NotImplementedError

    def add(self, name, options, password="", sentinel=False):
        process = RedisProcess(self.directory, name, options, password, sentinel)
        self.processes.append(process)
        return process


class SentinelTrio(Engine):
    """A master, two replicas and three sentinels, which promote a replica when the master is gone
    for down_after_ms. `url` leads to the master."""

    NAME = "shop"
    QUORUM = 2
    PASSWORD, SENTINEL_PASSWORD = "of-the-servers", "of-the-sentinels"

    def __init__(self, down_after_ms=1000):
        self.down_after_ms = down_after_ms

    def up(self):
        options = ["save ''", "appendonly no", "maxmemory-policy noeviction",
                   "repl-diskless-sync yes", "repl-diskless-sync-delay 0",
                   "repl-ping-replica-period 1", f"masterauth {self.PASSWORD}"]
        self.servers = [self.add("server0", options, self.PASSWORD)]
        first = self.servers[0].port
        self.servers += [self.add(f"server{i}", [*options, f"replicaof 127.0.0.1 {first}"],
                                  self.PASSWORD) for i in (1, 2)]
        watch = [f"sentinel monitor {self.NAME} 127.0.0.1 {first} {self.QUORUM}",
                 f"sentinel down-after-milliseconds {self.NAME} {self.down_after_ms}",
                 f"sentinel failover-timeout {self.NAME} 4000",
                 f"sentinel auth-pass {self.NAME} {self.PASSWORD}",
                 f"sentinel sentinel-pass {self.SENTINEL_PASSWORD}"]
        self.sentinels = [self.add(f"sentinel{i}", watch, self.SENTINEL_PASSWORD, sentinel=True)
                          for i in range(3)]
        # A sentinel asks the master for its replicas when it starts, and then every ten seconds.
        self.start_all(self.servers)
        wait_until(lambda: self.in_step(self.servers[0]) == 2, "replicas in step",
                   timeout=ANSWER_SECONDS_MAX)
        self.start_all(self.sentinels)
        wait_until(self.whole, "sentinels and replicas that know each other",
                   timeout=ANSWER_SECONDS_MAX)
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in self.sentinels)
        self.url = (f"redis+sentinel://:{self.PASSWORD}@{hosts}/{self.NAME}/0"
                    f"?sentinel_password={self.SENTINEL_PASSWORD}")

    @staticmethod
    def start_all(processes):
        for process in processes:
            process.start()
        for process in processes:
            process.wait_answers()

    def whole(self):
        """Both replicas follow, and every sentinel knows them and its like."""
        for known in map(self.known, self.sentinels):
            if (known["num-slaves"], known["num-other-sentinels"]) != ("2", "2"):
                return False
        return self.in_step(self.servers[0]) == 2

    def known(self, sentinel):
        """What a sentinel tells about the master."""
        return by_name(sentinel.ask("SENTINEL", "MASTER", self.NAME))

    @staticmethod
    def in_step(master):
        """How many replicas the master counts as online."""
        text = master.client("INFO", "replication").decode()
        return text.count("state=online")

    def master(self):
        """The server that most sentinels name."""
        votes = []
        for sentinel in self.sentinels:
            try:
                address = sentinel.ask("SENTINEL", "get-master-addr-by-name", self.NAME)
            except (OSError, RuntimeError):  # one that a test has killed
                continue
            votes.append(int(address[1]))
        port = max(set(votes), key=votes.count)
        return next(one for one in self.servers if one.port == port)

    def replicas(self):
        master = self.master()
        return [one for one in self.servers if one is not master]

    def promoted(self, old):
        """The server that is master now and was not, when it says so itself; else None."""
        new = self.master()
        return new if new is not old and new.client.role() == b"master" else None

    def wait_promoted(self, old):
        return wait_until(lambda: self.promoted(old), "a new master", timeout=ANSWER_SECONDS_MAX)

    def calm(self):
        """No server is called down any more, on a machine that may stand still. Returns the
        present master, on which all living sentinels agree, and which is one."""
        alive = [one for one in self.sentinels if one.process.poll() is None]
        for sentinel in alive:
            sentinel.ask("SENTINEL", "SET", self.NAME, "down-after-milliseconds", 60_000)

        def agreed():
            found = {(known["port"], known["flags"]) for known in map(self.known, alive)}
            return next((one for one in self.servers if found == {(str(one.port), "master")}
                         and one.client.role() == b"master"), None)
        return wait_until(agreed, "sentinels that agree", timeout=ANSWER_SECONDS_MAX)


class Certificates:
    """An authority and what it has signed, in a folder: ca, cert and key are files of PEM; other_ca
    is an authority that has signed nothing."""

    NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")

    def __init__(self, directory):
        self.directory = Path(directory)
        self.ca, self.ca_key = self._authority("ca")
        self.other_ca, _ = self._authority("other")
        self.cert, self.key = self.directory / "server.crt", self.directory / "server.key"
        request, names = self.directory / "server.csr", self.directory / "names"
        names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n", encoding="ascii")
        self._run("req", "-new", *self.NEW_KEY, "-keyout", self.key, "-out", request,
                  "-subj", "/CN=localhost")
        self._run("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.ca_key,
                  "-CAcreateserial", "-out", self.cert, "-days", "2", "-extfile", names)

    def _authority(self, name):
        cert, key = self.directory / f"{name}.crt", self.directory / f"{name}.key"
        self._run("req", "-x509", *self.NEW_KEY, "-keyout", key, "-out", cert, "-days", "2",
                  "-subj", f"/CN={name}")
        return cert, key

    @staticmethod
    def _run(*words):
        subprocess.run(["openssl", *words], check=True, stdin=subprocess.DEVNULL,
                       capture_output=True)


class RedisDoors(Engine):
    """One Redis with a plain port, a Unix socket and a port of TLS that wants clients' certificates
    where `mutual` is set."""

    def __init__(self, mutual=False):
        self.mutual = mutual

    def up(self):
        self.certificates = Certificates(self.directory)
        self.tls_port, self.socket = free_port(), Path(self.directory, "redis.sock")
        self.server = self.add("server", [
            "bind 127.0.0.1 127.0.0.2", "save ''", "appendonly no",
            "maxmemory-policy noeviction", f"unixsocket {self.socket}",
            f"tls-port {self.tls_port}", f"tls-cert-file {self.certificates.cert}",
            f"tls-key-file {self.certificates.key}", f"tls-ca-cert-file {self.certificates.ca}",
            f"tls-auth-clients {'yes' if self.mutual else 'no'}"])
        self.server.start()
        self.server.wait_answers()
        self.url = f"redis://127.0.0.1:{self.server.port}/0"
        self.unix_url = f"redis+unix://{self.socket}?db=0"
        own = f"&cert={self.certificates.cert}&key={self.certificates.key}" if self.mutual else ""
        self.tls_url = f"rediss://localhost:{self.tls_port}/0?ca={self.certificates.ca}{own}"
