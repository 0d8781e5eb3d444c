"""A case for each alert: makes a daemon, and gives the function that breaks what it watches."""

import random
import re
import resource
import signal
import socket
import threading
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from tempfile import TemporaryDirectory

from harness.daemon import HASTY, STEADY
from harness.engines_cluster import RedisCluster
from harness.processes import free_port, wait_until
from harness.proxy import COMMIT
from harness.servers import MariaServer

CASES = {}
# The cases that stop a server or change its settings have servers of their own: what is shared gets
# nothing back but its rows and keys.
BREAKS_SERVERS = set()


def case(alert, breaks_servers=False):
    def add(function):
        assert alert not in CASES
        CASES[alert] = function
        if breaks_servers:
            BREAKS_SERVERS.add(alert)
        return function
    return add


class Scene:
    """A case's resources: servers, daemons, and threads that end with it."""

    def __init__(self, stack, spawn, proxies, clock):
        self.stack, self.spawn, self.proxies, self.clock = stack, spawn, proxies, clock
        self.daemons = []
        self.prometheus = None
        self.over = threading.Event()
        self.threads = []
        self.ends = ExitStack()

    def daemon(self, **options):
        self.daemons.append(self.spawn(self.stack, **{**STEADY, **HASTY, **options}))
        return self.daemons[-1]

    def daemon_behind(self, **options):
        """A daemon, and the proxy through which it reaches the ledger."""
        proxy = self.proxies(self.stack.ledger.port)
        return self.daemon(mysql_url=proxy.url(self.stack.mysql_url), **options), proxy

    def repeat(self, action, threads=1, pause=0.05):
        """Runs the action again and again, in the background, whatever it is answered."""
        def run():
            while not self.over.wait(pause):
                try:
                    action()
                except OSError:
                    pass
        for _ in range(threads):
            self.threads.append(threading.Thread(target=run, daemon=True))
            self.threads[-1].start()

    def end(self):
        self.over.set()
        self.ends.close()
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive()


def order(daemon, **what):
    return lambda: daemon.order(timeout=5, **what)


def in_minutes(minutes):
    moment = datetime.now(timezone.utc) + timedelta(minutes=minutes)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


# ---- processes ----

@case("SeckillDaemonDown")
def daemon_down(scene):
    daemon = scene.daemon()
    return daemon.kill


@case("SeckillNotScraped")
def not_scraped(scene):
    scene.daemon()
    return lambda: scene.prometheus.scrape()


@case("SeckillNotReady")
def not_ready(scene):
    daemon = scene.daemon(lame_duck_ms=60_000)
    scene.ends.callback(daemon.kill)
    return lambda: daemon.signal(signal.SIGTERM)


@case("SeckillRestarts")
def restarts(scene):
    daemon = scene.daemon(listen=f"127.0.0.1:{free_port()}")

    def restart():
        started = "process_start_time_seconds"
        for _ in range(4):
            before = scene.prometheus.query(started)
            daemon.stop()
            daemon.start()
            wait_until(lambda: scene.prometheus.query(started) not in (before, {}), "a scrape")
    return restart


@case("SeckillDescriptorsNearLimit")
def few_descriptors(scene):
    daemon = scene.daemon()

    def lower():
        pid = daemon.process.pid
        hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
        files = int(daemon.metric("process_open_fds"))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (files + 2, hard))
    return lower


@case("SeckillClockSkew")
def clock_skew(scene):
    scene.daemon(env=scene.clock.environment())
    return lambda: scene.clock.set(wall_s=10)


# ---- servers ----

@case("SeckillRedisDown", breaks_servers=True)
def redis_down(scene):
    scene.daemon()
    return scene.stack.redis_server.kill


@case("SeckillRedisRefusesWrites", breaks_servers=True)
def redis_refuses(scene):
    scene.daemon()
    return lambda: scene.stack.redis("REPLICAOF", "127.0.0.1", free_port())


@case("SeckillRedisNodesDown")
def redis_nodes_down(scene):
    """No replica takes over, because no replica exists."""
    cluster = scene.ends.enter_context(RedisCluster(replicas=0))
    scene.daemon(redis_url=cluster.url)
    return lambda: cluster.nodes[0].kill()


@case("SeckillRedisEvicts", breaks_servers=True)
def redis_evicts(scene):
    scene.daemon()
    return lambda: scene.stack.redis("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")


@case("SeckillLedgerDown", breaks_servers=True)
def ledger_down(scene):
    scene.daemon()
    return lambda: scene.stack.maria_server.signal(signal.SIGSTOP)


@case("SeckillLedgerReadOnly", breaks_servers=True)
def ledger_read_only(scene):
    ledger = scene.stack.ledger
    ledger.run("CREATE USER shop@127.0.0.1; GRANT ALL ON seckill.* TO shop@127.0.0.1")
    scene.daemon(mysql_url=scene.stack.mysql_url.replace("root@", "shop@"))
    return lambda: ledger.run("SET GLOBAL read_only = 1")


@case("SeckillLedgerCommitsWait", breaks_servers=True)
def ledger_commits_wait(scene):
    """A backup of MariaDB that has come to its last stage, and does not end."""
    scene.daemon()
    backup = scene.ends.enter_context(scene.stack.ledger.connect(""))

    def hold():
        for stage in ("START", "FLUSH", "BLOCK_DDL", "BLOCK_COMMIT"):
            backup.query(f"BACKUP STAGE {stage}")
    return hold


@case("SeckillLedgerSplit", breaks_servers=True)
def ledger_split(scene):
    other = MariaServer(scene.ends.enter_context(TemporaryDirectory()))
    scene.ends.callback(other.close)
    other.start()
    other.client.recreate()
    other.client.run("SET GLOBAL read_only = 1")
    ours, theirs = scene.stack.mysql_url, f",127.0.0.1:{other.port}/"
    scene.daemon(mysql_url=ours.replace("/seckill", theirs + "seckill"))
    return lambda: other.client.run("SET GLOBAL read_only = 0")


@case("SeckillLedgerNotDurable", breaks_servers=True)
def ledger_not_durable(scene):
    scene.daemon()
    return lambda: scene.stack.ledger.run("SET GLOBAL innodb_flush_log_at_trx_commit = 2")


@case("SeckillNodeLeaseLost")
def node_lost(scene):
    """Somebody else holds every number."""
    scene.daemon()
    return lambda: scene.stack.ledger.run(
        "UPDATE node_lease SET holder='another',leased_until='2999-01-01'")


@case("SeckillLedgerClockUnsteady", breaks_servers=True)
def ledger_clock_unsteady(scene):
    scene.daemon()
    return lambda: scene.repeat(lambda: scene.clock.set(wall_s=random.choice((0, 2, 4, 6))))


# ---- orders ----

@case("SeckillOrdersUnavailable", breaks_servers=True)
def orders_unavailable(scene):
    daemon = scene.daemon()
    daemon.reset()

    def lose():
        scene.stack.redis_server.kill()
        scene.repeat(order(daemon))
    return lose


@case("SeckillOutcomeUnknown")
def outcome_unknown(scene):
    """The ledger's network holds the commit of an order beyond the deadline."""
    daemon, proxy = scene.daemon_behind(deadline_ms=1000)
    daemon.reset()
    daemon.order()
    scene.ends.callback(proxy.heal)

    def hold():
        proxy.once(COMMIT, before=lambda _: proxy.hold())
        wait_until(lambda: daemon.order(timeout=30).code == "outcome_unknown", "such an order")
    return hold


@case("SeckillUnknownCommits")
def unknown_commits(scene):
    """Each commit's connection is cut before the answer; the service finds out what it did."""
    daemon, proxy = scene.daemon_behind()
    daemon.reset()

    def cut():
        while daemon.metric("seckill_unknown_commits_total") < 8:
            proxy.once(COMMIT, after=lambda link: link.cut())
            daemon.order()
    return cut


@case("SeckillOverload")
def overload(scene):
    daemon, proxy = scene.daemon_behind(queue_max=2, deadline_ms=2000)
    daemon.reset()
    scene.ends.callback(proxy.heal)

    def hold():
        proxy.hold()
        scene.repeat(order(daemon), threads=8)
    return hold


@case("SeckillLatencyHigh")
def latency(scene):
    daemon, proxy = scene.daemon_behind()
    daemon.reset()

    def delay():
        proxy.delay = 0.4
        scene.repeat(order(daemon), threads=2)
    return delay


@case("SeckillQueueFilling")
def queue_filling(scene):
    daemon, proxy = scene.daemon_behind(queue_max=12, deadline_ms=60_000)
    daemon.reset()
    scene.ends.callback(proxy.heal)

    def hold():
        proxy.hold()
        scene.repeat(lambda: daemon.order(timeout=100), threads=12)
    return hold


@case("SeckillCallQueueFilling")
def call_queue_filling(scene):
    daemon, proxy = scene.daemon_behind(call_queue_max=12, deadline_ms=60_000)
    daemon.reset()
    order_id = daemon.order().json()["order_id"]
    scene.ends.callback(proxy.heal)

    def hold():
        proxy.hold()
        scene.repeat(lambda: daemon.request("GET", f"/order/{order_id}", timeout=100), threads=12)
    return hold


@case("SeckillConnectionsNearLimit")
def connections(scene):
    daemon = scene.daemon(connections_max=20, admin_listen="127.0.0.1:0")
    return lambda: [scene.ends.enter_context(socket.create_connection(daemon.address))
                    for _ in range(19)]


@case("SeckillUnauthorized")
def unauthorized(scene):
    daemon = scene.daemon()
    return lambda: scene.repeat(lambda: daemon.get("/admin/sales"), threads=2)


# ---- the stock ----

@case("SeckillRecoveries")
def recoveries(scene):
    """Redis forgets everything, and each order meets a segment that is to be recovered."""
    daemon = scene.daemon()
    daemon.reset("demo", 80, 80)

    def forget():
        scene.stack.redis("FLUSHALL")
        for number in range(70):
            assert daemon.order(user_id=f"u{number}").status == 201
    return forget


@case("SeckillLedgerRefusals")
def refusals(scene):
    """A hand in the tables: the fence is ahead of what Redis was settled at."""
    daemon = scene.daemon()
    daemon.reset("demo", 100, 1)

    def touch():
        for number in range(15):
            scene.stack.ledger.run("UPDATE stock_segment SET fence=fence+1")
            assert daemon.order(user_id=f"u{number}").status == 201
    return touch


def seize(scene, lock):
    keys = [key.decode() for key in scene.stack.redis("KEYS", f"*{lock}*")]
    locks = [key for key in keys if re.search(f"lock|{lock}}}?$", key)]
    assert locks, keys
    for key in locks:
        scene.stack.redis("SET", key, "another")


@case("SeckillExpiryStandsStill")
def expiry_stands_still(scene):
    """Somebody holds the lock that elects the expiry worker, and never lets go."""
    scene.daemon(lease_ms=1000)
    return lambda: seize(scene, "expirer")


@case("SeckillEventsUnpublished")
def events_unpublished(scene):
    """Somebody holds the lock that elects the publisher, and never lets go."""
    daemon = scene.daemon(lease_ms=1000, events_retention_h=1)
    wait_until(lambda: daemon.metric("seckill_publisher_elected"), "an election")
    return lambda: seize(scene, "publisher")


@case("SeckillEventsLate")
def events_late(scene):
    """Whenever the publisher looks, an event has waited for a minute."""
    daemon = scene.daemon(events_retention_h=1)
    wait_until(lambda: daemon.metric("seckill_publisher_elected"), "an election")
    return lambda: scene.repeat(lambda: scene.stack.ledger.run(
        "INSERT INTO event_batch(written_at,body,events)"
        "VALUES(UTC_TIMESTAMP(3)-INTERVAL 1 MINUTE,'= demo 1 0\\na 77 1 u',1)"), pause=0.02)


def webhook(scene, change):
    """Makes a webhook that nobody receives; gives the function that changes its row."""
    daemon = scene.daemon(events_retention_h=1, webhook_networks="127.0.0.0/8")
    made = daemon.admin("PUT", "/admin/webhooks/erp", {"url": f"http://127.0.0.1:{free_port()}/"})
    assert made.status == 201, made
    return lambda: scene.stack.ledger.run(f"UPDATE webhook SET generation=generation+1,{change}")


@case("SeckillWebhookFailing")
def webhook_failing(scene):
    return webhook(scene, "failures=1,failing_since=UTC_TIMESTAMP(3)-INTERVAL 11 MINUTE")


@case("SeckillWebhookUndelivered")
def webhook_undelivered(scene):
    return webhook(scene, "url=url;INSERT INTO webhook_undelivered SET webhook='erp',id='evt_0_1',"
                          "events=1,answer='500 ',body='{}',failing_since=UTC_TIMESTAMP(3),"
                          "given_up_at=UTC_TIMESTAMP(3)")


@case("SeckillWebhookDisabled")
def webhook_disabled(scene):
    return webhook(scene, "state='disabled',reason='gone'")


def pay_too_late(daemon, number):
    order = f"/order/{daemon.order(user_id=f'u{number}').json()['order_id']}"
    assert daemon.request("POST", order + "/cancel").status == 200
    paid = daemon.request("POST", order + "/pay", {"payment_ref": "pi_1"})
    assert paid.code == "payment_too_late", paid


@case("SeckillRefundsDue")
def refunds_due(scene):
    """Nobody pays the money back."""
    daemon = scene.daemon()
    daemon.reset()
    return lambda: pay_too_late(daemon, 1)


@case("SeckillLatePayments")
def late_payments(scene):
    daemon = scene.daemon()
    daemon.reset()
    return lambda: [pay_too_late(daemon, number) for number in range(5)]


@case("SeckillSalePaused")
def sale_paused(scene):
    daemon = scene.daemon()
    daemon.reset()
    return lambda: daemon.change("demo", paused=True)


@case("SeckillSaleEndsUnsold")
def sale_ends_unsold(scene):
    daemon = scene.daemon()
    daemon.reset("demo", 10, 2, ends_at=in_minutes(60))
    return lambda: daemon.change("demo", ends_at=in_minutes(10))
