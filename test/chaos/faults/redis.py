"""Faults of Redis: it dies, sleeps, forgets, goes back in time, and refuses."""

import resource
import shutil
import signal
import time

from chaos.crowd import SKU
from chaos.faults.operator import SHAPES
from chaos.kinds import kind, one_of, seconds, times

KEYS = ("lock", "fence", "segment")
POLL = 0.05
TOO_MANY = "1000000"   # units, more than any segment has
BELIEVED = 0.3         # seconds before an operator notices
RECONCILED_MAX = 100   # tries


def key_names(cluster, *kinds):
    return [key for key in cluster.redis("KEYS", "seckill:*")
            if any(key.endswith(b":" + name.encode()) for name in kinds)]


@kind("redis", down=seconds(0, 1))
def redis_kill(cluster, down):
    cluster.redis_server.kill()
    time.sleep(down)
    cluster.redis_server.start()


@kind("redis", down=seconds(0, 1))
def redis_lose_everything(cluster, down):
    """As without persistence: it comes back empty."""
    cluster.redis_server.kill()
    cluster.redis_server.forget()
    time.sleep(down)
    cluster.redis_server.start()


@kind("redis", step=one_of(2, 60, 3600), down=one_of(None, 0, 0.5))
def redis_clock_back(cluster, step, down):
    """It is emptied, and comes back with its clock further behind: its fences are smaller than the
    ledger's. `down`: seconds of a restart; None: it runs on."""
    clock = cluster.redis_server.clock
    clock.behind_s += step
    if down is not None:
        cluster.redis_server.kill()
        cluster.redis_server.forget()
        time.sleep(down)
    clock.set(wall_s=-clock.behind_s)
    if down is None:
        cluster.redis("FLUSHALL")
    else:
        cluster.redis_server.start()


@kind("redis", down=seconds(0, 0.5))
def redis_restart(cluster, down):
    cluster.redis_server.signal(signal.SIGTERM)
    cluster.redis_server.process.wait(30)
    time.sleep(down)
    cluster.redis_server.start()


@kind("redis", asleep=seconds(0.5, 3.3))
def redis_pause(cluster, asleep):
    cluster.redis_server.signal(signal.SIGSTOP)
    time.sleep(asleep)
    cluster.redis_server.signal(signal.SIGCONT)


@kind("redis", count=times(1, 5), apart=seconds(0, 0.2))
def redis_flushall(cluster, count, apart):
    for _ in range(count):
        cluster.redis("FLUSHALL")
        time.sleep(apart)


@kind("redis", count=times(1, 20))
def redis_forget_scripts(cluster, count):
    for _ in range(count):
        cluster.redis("SCRIPT", "FLUSH")
        time.sleep(0.02)


@kind("redis", back=seconds(0.2, 1.5), count=times(1, 5),
      lost=one_of("nothing", "fences", "locks", "fences and locks"))
def redis_rewind(cluster, back, count, lost):
    """As a replica that lagged behind: counters of a while ago, several times over."""
    old = {key: cluster.redis("DUMP", key) for key in key_names(cluster, "fence", "segment")}
    time.sleep(back)
    for _ in range(count):
        for key, value in old.items():
            if value is not None:
                cluster.redis("RESTORE", key, 0, value, "REPLACE")
        for key in key_names(cluster, *(name for name in KEYS if name in lost)):
            cluster.redis("DEL", key)
        time.sleep(POLL)


@kind("redis", back=seconds(0.2, 1))
def redis_old_file(cluster, back):
    """An append-only file of a while ago is put back, as from a backup."""
    folder = cluster.redis_server.directory / "appendonlydir"
    backup = cluster.redis_server.directory / "backup"
    shutil.rmtree(backup, ignore_errors=True)
    shutil.copytree(folder, backup)
    time.sleep(back)
    cluster.redis_server.kill()
    cluster.redis_server.forget()
    backup.rename(folder)
    cluster.redis_server.start()


@kind("redis", what=one_of(*KEYS, "any"), count=times(1, 30))
def redis_evict(cluster, what, count):
    """Keys vanish one by one."""
    for number in range(count):
        keys = key_names(cluster, *(KEYS if what == "any" else (what,)))
        if keys:
            cluster.redis("DEL", keys[number * 7 % len(keys)])
        time.sleep(0.02)


@kind("redis", available=one_of(TOO_MANY, "0", "-5", "rubbish"), settled=one_of(None, "1"))
def redis_lie(cluster, available, settled):
    """Somebody writes into the segments. Orders meet that, until an operator reconciles: a wrong
    count beside the right fence may stay unnoticed for as long as other segments have units."""
    for key in key_names(cluster, "segment"):
        cluster.redis("HSET", key, "available", available)
        if settled:
            cluster.redis("HSET", key, "settled", settled)
    time.sleep(BELIEVED)
    for sku in (*SHAPES, SKU):
        reconcile(cluster, sku)


def reconcile(cluster, sku):
    """Another fault may strike meanwhile, and that sale may be retired."""
    for number in range(RECONCILED_MAX):
        daemon = number % len(cluster.daemons)
        if cluster.operator.change("reconcile", daemon, sku).answer in ("200", "404 unknown_sku"):
            break
        time.sleep(POLL)


@kind("redis", count=times(1, 10))
def redis_client_kill(cluster, count):
    for _ in range(count):
        for group in ("normal", "pubsub"):
            cluster.redis("CLIENT", "KILL", "TYPE", group, "SKIPME", "yes")
        time.sleep(POLL)


@kind("redis", lasts=seconds(0.2, 4.5))
def redis_out_of_memory(cluster, lasts):
    """It is full, for longer than a lease at times."""
    cluster.redis("CONFIG", "SET", "maxmemory", "1")
    time.sleep(lasts)
    cluster.redis("CONFIG", "SET", "maxmemory", "0")


@kind("redis", lasts=seconds(1, 2))
def redis_disk_full(cluster, lasts):
    """Its append-only file cannot grow: MISCONF. It tries again once a second."""
    pid = cluster.redis_server.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
    try:
        time.sleep(lasts)
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


@kind("redis", lasts=seconds(0.2, 2))
def redis_becomes_replica(cluster, lasts):
    cluster.redis("REPLICAOF", "127.0.0.1", "1")
    time.sleep(lasts)
    cluster.redis("REPLICAOF", "NO", "ONE")


@kind("redis", lasts=seconds(0.2, 2))
def redis_too_few_replicas(cluster, lasts):
    cluster.redis("CONFIG", "SET", "min-replicas-to-write", "1")
    time.sleep(lasts)
    cluster.redis("CONFIG", "SET", "min-replicas-to-write", "0")
