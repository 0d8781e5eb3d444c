"""How fast the parts are by themselves, and what that allows the whole."""

import csv
import json
import subprocess
from urllib.parse import urlsplit

from harness.processes import HarnessError, clean_environment

INSERT_S = 1
TAKES_FIRST, TAKES_S = 20_000, 1
TRIES_MAX = 3
# An order's work in Redis when orders share only the round trip: check that the lock holds
# and that the segment is of this round, take one unit.
TAKE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {0} end
local segment = redis.call('HMGET', KEYS[2], 'available', 'round')
if segment[2] ~= ARGV[2] or tonumber(segment[1]) < 1 then return {2} end
return {1, redis.call('HINCRBY', KEYS[2], 'available', -1)}
"""


def combined(*rates):
    """The rate of a whole that needs every part in turn for an order: 1/x = 1/a + 1/b + ..."""
    return 1 / sum(1 / rate for rate in rates)


def takes_per_s(stack, batch, clients):
    """Runs the script above by redis-benchmark, with a pipeline of `batch` on each connection."""
    keys = ("seckill:{limit:0}:lock", "seckill:{limit:0}:segment")
    sha1 = stack.redis("SCRIPT", "LOAD", TAKE).decode()
    stack.redis("SET", keys[0], "token")
    stack.redis("HSET", keys[1], "available", "1000000000", "round", "1")
    words = ("EVALSHA", sha1, "2", *keys, "token", "1")
    rate = redis_benchmark(stack, batch, clients, TAKES_FIRST, words)
    rate = redis_benchmark(stack, batch, clients, int(rate * TAKES_S), words)
    stack.redis("DEL", *keys)
    return rate


def redis_benchmark(stack, batch, clients, count, words):
    parts = urlsplit(stack.redis_url)
    login = ["-a", parts.password] if parts.password else []
    argv = ["redis-benchmark", "-h", parts.hostname, "-p", str(parts.port), *login,
            "-P", str(batch), "-c", str(clients), "-n", str(max(count, batch * clients)),
            "--csv", *words]
    for _ in range(TRIES_MAX):  # it gives up when its first client meets a Redis under load
        done = subprocess.run(argv, capture_output=True, text=True)
        if "disconnected" not in done.stderr + done.stdout:
            break
    rows = [row for row in csv.reader(done.stdout.splitlines()) if len(row) > 2]
    if done.returncode != 0 or len(rows) < 2:
        raise HarnessError(f"redis-benchmark: {done.stderr.strip() or done.stdout.strip()}")
    return float(rows[-1][rows[0].index("rps")])


def inserts_per_s(stack, program, batch, clients):
    """Inserts rows as orders do, `batch` in a transaction, on each connection."""
    argv = [program, stack.mysql_url, str(batch), str(INSERT_S)]
    running = [subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env=clean_environment()) for _ in range(clients)]
    rate = 0
    for process in running:
        text, _ = process.communicate()
        if process.returncode != 0:
            raise HarnessError(f"insert_limit: {text.strip()}")
        rate += json.loads(text)["rows_per_s"]
    return rate


def measure(stack, insert_limit, batch, clients):
    return {"batch": batch, "clients": clients,
            "redis_per_s": takes_per_s(stack, batch, clients),
            "insert_per_s": inserts_per_s(stack, insert_limit, batch, clients)}
