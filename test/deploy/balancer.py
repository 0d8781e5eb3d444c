"""HAProxy and nginx before daemons, as deploy/proxy sets them up, on free ports."""

import contextlib
import csv
import os
import re
import shutil
import signal
import socket
import urllib.request

from harness.processes import ROOT, clean_environment, free_port, spawn, wait_until
from harness.program import Program

DIRECTORY = ROOT / "deploy" / "proxy"
SERVERS = ("one", "two", "three", "four")
NOBODY = "127.0.0.1:1"
STATISTICS = """
listen statistics from common
    bind {address}
    stats enable
    stats uri /
"""
HAPROXY = shutil.which("haproxy", path="/usr/sbin:" + os.environ.get("PATH", ""))
NGINX = shutil.which("nginx", path="/usr/sbin:" + os.environ.get("PATH", ""))


class Balancer(Program):
    """Context manager: a proxy. Clients connect to `front`; tests may connect to `beside`, too."""

    good_statuses = (0, -signal.SIGTERM, 128 + signal.SIGTERM)

    def listening(self):
        """A proxy binds one address after the other: it is up when both take a connection."""
        with contextlib.suppress(OSError):
            for address in (self.front, self.beside):
                socket.create_connection(address, 1).close()
            return self.front
        return None


class HaProxy(Balancer):
    """`OPTIONS` are for the daemons behind it; it asks them at their admin_listen."""

    OPTIONS = {"trusted_proxies": "127.0.0.1", "lame_duck_ms": 2500}

    def __init__(self, daemons, directory, **settings):
        path = directory / "haproxy.cfg"
        super().__init__(HAPROXY, "-db", "-f", path, directory=directory)
        self.front, self.beside = (("127.0.0.1", free_port()) for _ in range(2))
        path.write_text((DIRECTORY / "haproxy.cfg").read_text() +
                        STATISTICS.format(address="%s:%d" % self.beside))
        self.env = {"SECKILL_PROXY_BIND": "%s:%d" % self.front,
                    **{f"SECKILL_PROXY_{name.upper()}": str(value)
                       for name, value in settings.items()}}
        for number, name in enumerate(SERVERS):
            options = daemons[number].options if number < len(daemons) else {}
            self.env["SECKILL_PROXY_" + name.upper()] = options.get("listen", NOBODY)
            self.env[f"SECKILL_PROXY_{name.upper()}_PORT"] = \
                options.get("admin_listen", NOBODY).rpartition(":")[2]

    def statuses(self, backend="pod_0"):
        """Of the servers, in their order."""
        url = "http://%s:%d/;csv" % self.beside
        with urllib.request.urlopen(url, timeout=5) as page:
            rows = csv.DictReader(page.read().decode().removeprefix("# ").splitlines())
        found = {row["svname"]: row["status"] for row in rows if row["pxname"] == backend}
        return [found[name] for name in SERVERS if name in found]

    def wait_up(self, daemons, number):
        """Until the daemon of that number is sent requests, and no server that is none: HAProxy
        takes all for up when it starts."""
        def up():
            found = self.statuses()
            return found[number] == "UP" and set(found[len(daemons):]) <= {"DOWN"}
        wait_until(up, f"{SERVERS[number]} up at HAProxy")

    def wait_unready(self, daemons):
        """Until the daemons are sent requests only because none of them is ready."""
        def unready():
            beside = self.statuses("pod_0_unready")
            return (set(self.statuses()) == {"DOWN"} and
                    set(beside[:len(daemons)]) == {"UP"} and set(beside[len(daemons):]) <= {"DOWN"})
        wait_until(unready, "unready daemons at HAProxy")


class PodProxy(HaProxy):
    """Before two pods of one daemon each, with `skus` of pod 1; all others are of pod 0."""

    def __init__(self, daemons, directory, skus, **settings):
        super().__init__(daemons[:1], directory, **settings)
        pods = directory / "pods.map"
        pods.write_text("".join(f"{sku} 1\n" for sku in skus))
        other = daemons[1].options
        self.env |= {"SECKILL_PROXY_PODS": str(pods), "SECKILL_PROXY_POD_1_ONE": other["listen"],
                     "SECKILL_PROXY_POD_1_ONE_PORT": other["admin_listen"].rpartition(":")[2],
                     "SECKILL_PROXY_POD_1_TWO": NOBODY}

    def wait_pods(self, *states):
        """Until the one daemon of each pod has this state."""
        def reached():
            return tuple(self.statuses(f"pod_{pod}")[0] for pod in (0, 1)) == states
        wait_until(reached, f"pods {states} at HAProxy")


class Nginx(Balancer):
    """nginx has no variables for its configuration, so that its lines are changed."""

    OPTIONS = {"reuse_port": "on", "trusted_proxies": "127.0.0.1", "lame_duck_ms": 2500}

    def __init__(self, daemons, directory):
        path = directory / "nginx.conf"
        super().__init__(NGINX, "-p", directory, "-c", path, "-g", "daemon off;",
                         directory=directory)
        (directory / "logs").mkdir(exist_ok=True)
        self.front, self.beside = (("127.0.0.1", free_port()) for _ in range(2))
        text = (DIRECTORY / "nginx.conf").read_text()
        for number in range(len(SERVERS)):
            where = daemons[number].options["listen"] if number < len(daemons) else None
            text = re.sub(rf"server 127.0.0.1:808{number + 1} .*;\n",
                          f"server {where} max_fails=1 fail_timeout=1s;\n" if where else "\n", text)
        for old, new in ((r"listen 80;", "listen %s:%d;" % self.front),
                         (r"listen 8079 ", "listen %s:%d " % self.beside),
                         (r"worker_processes auto", "worker_processes 1"),
                         (r"/run/nginx-seckill.pid", str(directory / "nginx.pid"))):
            assert old in text, old
            text = text.replace(old, new)
        # Its temporary files, which it opens for nobody.
        text = text.replace("http {\n", "http {\n" + "".join(
            f"    {kind}_temp_path {directory / kind};\n"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")), 1)
        path.write_text(text)

    def wait_unready(self, daemons):
        """nginx does not ask."""

    def wait_up(self, daemons, number):
        """nginx tries a daemon again a second after it has failed."""
        wait_until(daemons[number].ready, f"daemon {number} ready")


def check(program, words):
    """(exit status, output) of a proxy's own check of its configuration."""
    process = spawn([program, *words], stdout=-1, stderr=-2, env=clean_environment())
    text = process.communicate(timeout=60)[0].decode()
    return process.returncode, text
