"""Faults of the lines between daemons and servers, by the fault proxies."""

import time

from chaos.cluster import BEHIND_PROXIES
from chaos.kinds import kind, one_of, seconds, times
from harness.proxy import COMMIT, WRITE, Link

SCRIPT = rb"seckill:\{"  # any call of a script that touches a sale
TRAP_SECONDS = 2         # within which a request must come that a trap waits for
ends = one_of(*range(BEHIND_PROXIES), "all")


def chosen(lines, which):
    return lines if which == "all" else [lines[which]]


def spring(lines, pattern, count, **action):
    """Sets traps for the next requests, one after the other; unused traps are taken away."""
    for number in range(count):
        line = lines[number % len(lines)]
        trap = line.once(pattern, **action)
        if not trap.sprung.wait(TRAP_SECONDS):
            line.forget(trap)


def arrive_late(link):
    """The daemon loses its connection now; its request arrives later."""
    link.cut_client()
    time.sleep(0.5)


@kind("line", line=ends, count=times(1, 6))
def redis_answers_lost(cluster, line, count):
    spring(chosen(cluster.redis_lines, line), SCRIPT, count, after=Link.cut)


@kind("line", line=ends, count=times(1, 6))
def redis_requests_lost(cluster, line, count):
    spring(chosen(cluster.redis_lines, line), SCRIPT, count, before=Link.cut)


@kind("line", line=ends, count=times(1, 3))
def redis_requests_late(cluster, line, count):
    spring(chosen(cluster.redis_lines, line), SCRIPT, count, before=arrive_late)


@kind("line", line=ends, count=times(1, 6))
def commit_answers_lost(cluster, line, count):
    spring(chosen(cluster.maria_lines, line), COMMIT, count, after=Link.cut)


@kind("line", line=ends, count=times(1, 6))
def commits_lost(cluster, line, count):
    spring(chosen(cluster.maria_lines, line), COMMIT, count, before=Link.cut)


@kind("line", line=ends, count=times(1, 3))
def commits_late(cluster, line, count):
    spring(chosen(cluster.maria_lines, line), COMMIT, count, before=arrive_late)


@kind("line", line=ends, count=times(1, 6))
def write_answers_lost(cluster, line, count):
    spring(chosen(cluster.maria_lines, line), WRITE, count, after=Link.cut)


def slow(lines, delay, lasts):
    for line in lines:
        line.delay = delay
    time.sleep(lasts)
    for line in lines:
        line.delay = 0.0


@kind("line", line=ends, delay=one_of(0.01, 0.05, 0.2), lasts=seconds(0.5, 2))
def redis_slow(cluster, line, delay, lasts):
    slow(chosen(cluster.redis_lines, line), delay, lasts)


@kind("line", line=ends, delay=one_of(0.01, 0.05, 0.2), lasts=seconds(0.5, 2))
def maria_slow(cluster, line, delay, lasts):
    slow(chosen(cluster.maria_lines, line), delay, lasts)


def break_lines(lines, how, lasts):
    for line in lines:
        line.fail(how)
    time.sleep(lasts)
    for line in lines:
        line.heal()


@kind("line", line=ends, how=one_of("hold", "deaf", "refuse"), lasts=seconds(0.2, 2))
def redis_unreachable(cluster, line, how, lasts):
    break_lines(chosen(cluster.redis_lines, line), how, lasts)


@kind("line", line=ends, how=one_of("hold", "deaf", "refuse"), lasts=seconds(0.2, 2))
def maria_unreachable(cluster, line, how, lasts):
    break_lines(chosen(cluster.maria_lines, line), how, lasts)


@kind("line", line=ends, how=one_of("hold", "deaf", "refuse"), lasts=seconds(0.2, 2))
def both_unreachable(cluster, line, how, lasts):
    lines = chosen(cluster.redis_lines, line) + chosen(cluster.maria_lines, line)
    break_lines(lines, how, lasts)


@kind("line", line=ends, count=times(1, 10), apart=seconds(0.02, 0.15))
def connections_cut(cluster, line, count, apart):
    for _ in range(count):
        for one in chosen(cluster.redis_lines, line) + chosen(cluster.maria_lines, line):
            one.cut()
        time.sleep(apart)
