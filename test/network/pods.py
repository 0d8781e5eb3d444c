"""HAProxy on a host of its own, with the configuration that we ship, and the faults of pods."""

import csv
import shutil
import urllib.request

from harness.processes import ROOT
from network.faults import HOLD_S, fault
from network.servers import HTTP, PATH, Service

PROXY = "proxy"
PORT, STATISTICS, ADMIN = 80, 8404, 9081
NOBODY = "127.0.0.1:1"
PAGE = """
listen statistics from common
    bind {}:{}
    stats enable
    stats uri /
"""
PODS = ("pods",)


class PodProxyOnHost(Service):
    """Before two pods of two daemons each; the second sku is of pod 1."""

    def __init__(self, network, directory, daemons, skus):
        super().__init__(network, PROXY, f"{directory}/{PROXY}")
        shipped = (ROOT / "deploy" / "proxy" / "haproxy.cfg").read_text(encoding="utf-8")
        (self.directory / "haproxy.cfg").write_text(
            shipped + PAGE.format(self.address, STATISTICS), encoding="utf-8")
        pods = self.directory / "pods.map"
        pods.write_text(f"{skus[1]} 1\n", encoding="ascii")
        self.env |= {"SECKILL_PROXY_BIND": f"{self.address}:{PORT}",
                     "SECKILL_PROXY_PODS": str(pods), "SECKILL_PROXY_THREE": NOBODY,
                     "SECKILL_PROXY_FOUR": NOBODY}
        for name, daemon in zip(("ONE", "TWO", "POD_1_ONE", "POD_1_TWO"), daemons):
            place = network.addresses[daemon.host]
            self.env |= {f"SECKILL_PROXY_{name}": f"{place}:{HTTP}",
                         f"SECKILL_PROXY_{name}_PORT": str(ADMIN)}

    def argv(self):
        return [shutil.which("haproxy", path=PATH), "-db", "-f", self.directory / "haproxy.cfg"]

    def answers(self):
        """The four daemons are sent requests, and no others: HAProxy takes all for up when it
        starts."""
        try:
            with urllib.request.urlopen(f"http://{self.address}:{STATISTICS}/;csv",
                                        timeout=5) as page:
                rows = csv.DictReader(page.read().decode().removeprefix("# ").splitlines())
                found = {(row["pxname"], row["svname"]): row["status"] for row in rows}
        except OSError:
            return False
        return (all(found[f"pod_{pod}", name] == "UP" for pod in (0, 1) for name in ("one", "two"))
                and found["pod_0", "three"] == found["pod_0", "four"] == "DOWN")


class Proxy:
    """The part of a set-up."""

    def __init__(self, *made):
        self.service = PodProxyOnHost(*made)

    def processes(self):
        return [self.service]

    def start(self):
        self.service.start()
        self.service.wait_answers()


# --- Faults -------------------------------------------------------------------------------------

def both_sell(case):
    case.hold(HOLD_S)
    for number, sku in enumerate(case.skus):
        if not case.is_served(case.began, number):
            case.violate(f"no order of {sku} was accepted in the cut")


def other_sells(case):
    """What befalls pod 1 changes nothing for pod 0."""
    case.hold(HOLD_S)
    if not case.is_served(case.began, 0):
        case.violate("pod 0 accepted no order")


@fault("a daemon is cut off from the proxy", *PODS)
def daemon_from_proxy(case):
    with case.cut(["app1"], [PROXY]):
        both_sell(case)


@fault("a daemon is cut off from its ledger and its Redis", *PODS)
def daemon_from_servers(case):
    """The proxy finds it out by /readyz."""
    with case.cut(["app1"], ["db1", "redis1"]):
        both_sell(case)


@fault("the proxy is cut off from all daemons of pod 1", *PODS)
def proxy_from_pod(case):
    with case.cut([PROXY], ["app3", "app4"]):
        other_sells(case)


@fault("the ledger of pod 1 is cut off", *PODS)
def ledger_of_pod(case):
    with case.cut(["db2"]):
        other_sells(case)


@fault("the Redis of pod 1 is cut off", *PODS)
def redis_of_pod(case):
    with case.cut(["redis2"]):
        other_sells(case)


@fault("5 % of all packets are lost", *PODS)
def loss_at_pods(case):
    with case.degrade(*case.everywhere(), loss=50):
        both_sell(case)
