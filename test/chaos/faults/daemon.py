"""Faults of daemons: they die, sleep, are restarted, and their clocks step."""

import time

from chaos.cluster import DAEMONS, OPTIONS
from chaos.kinds import kind, one_of, seconds

LEASE = OPTIONS["lease_ms"] / 1000
a_daemon = one_of(*range(DAEMONS))


@kind("daemon", victim=a_daemon, down=seconds(0, 1))
def daemon_kill(cluster, victim, down):
    cluster.daemons[victim].kill()
    time.sleep(down)
    cluster.daemons[victim].launch()


@kind("daemon", down=seconds(0, 0.5))
def all_daemons_kill(cluster, down):
    for daemon in cluster.daemons:
        daemon.kill()
    time.sleep(down)
    for daemon in cluster.daemons:
        daemon.launch()


@kind("daemon", victim=a_daemon)
def daemon_restart(cluster, victim):
    cluster.daemons[victim].stop()
    cluster.daemons[victim].launch()


@kind("daemon", victim=a_daemon, asleep=seconds(LEASE + 0.1, LEASE + 1))
def daemon_pause_beyond_lease(cluster, victim, asleep):
    cluster.daemons[victim].pause()
    time.sleep(asleep)
    cluster.daemons[victim].cont()


@kind("daemon", victim=a_daemon, asleep=seconds(0.1, 1))
def daemon_pause_short(cluster, victim, asleep):
    daemon_pause_beyond_lease(cluster, victim, asleep)


@kind("daemon", victim=a_daemon)
def daemon_kill_in_its_start(cluster, victim):
    """It dies once more while it prepares the ledger."""
    daemon = cluster.daemons[victim]
    daemon.kill()
    daemon.launch()
    time.sleep(0.03)
    daemon.kill()
    daemon.launch()


@kind("daemon", victim=a_daemon, step=one_of(-3600, -60, -2, 2, 60, 3600), lasts=seconds(0.3, 1.5))
def clock_step(cluster, victim, step, lasts):
    """An administrator sets the wall clock, and corrects it later."""
    clock = cluster.clocks[victim]
    clock.set(wall_s=step)
    time.sleep(lasts)
    clock.set()


@kind("daemon", victim=a_daemon, slept=one_of(5, 11, 600))
def host_sleep(cluster, victim, slept):
    """The host slept: the time since boot jumps ahead, and the node's lease is over."""
    clock = cluster.clocks[victim]
    clock.set(boot_s=clock.boot_s + slept)
