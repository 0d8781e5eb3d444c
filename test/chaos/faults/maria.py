"""Faults of MariaDB: it dies, sleeps, refuses, has no room, and others hold what orders need."""

import os
import resource
import signal
import subprocess
import time
from contextlib import ExitStack, suppress

import pymysql

from chaos.kinds import kind, one_of, seconds, times
from harness.ledger import kill_sessions, numbers
from harness.processes import PROGRAM, HarnessError

FEWEST_CONNECTIONS = 10  # that MariaDB lets an administrator set
MANY = 500               # what harness/servers.py starts it with
LONG = 40 << 20          # bytes, more than the server's other files have
LENGTHEN = ("CREATE TABLE long_log (a LONGBLOB); INSERT INTO long_log"
            f" SELECT REPEAT('x', 1048576) FROM {numbers(40)}; DROP TABLE long_log")
SESSIONS = "user = 'seckill'"
SEGMENTS = "SELECT * FROM stock_segment FOR UPDATE"
ROW = "SELECT * FROM stock_segment WHERE sku = '{}' AND segment = 0 FOR UPDATE"
REPORT = " UNION ".join(f"(SELECT user_id FROM {table} LIMIT 1)"
                        for table in ("orders", "order_key", "user_quota"))
MIGRATION = "0007_user_id"  # changes tables that every order needs, and may run again
MIGRATION_SECONDS = 60      # until it has ended, long after the reader has
ARCHIVE = "archive"         # the sku of a million orders that were paid in another system
PIECES, PIECE = 100, 10_000


@kind("maria", down=seconds(0, 0.5))
def maria_kill(cluster, down):
    cluster.maria_server.kill()
    time.sleep(down)
    cluster.maria_server.start()


@kind("maria", down=seconds(0, 0.5))
def maria_restart(cluster, down):
    cluster.maria_server.signal(signal.SIGTERM)
    cluster.maria_server.process.wait(60)
    time.sleep(down)
    cluster.maria_server.start()


@kind("maria", asleep=seconds(0.5, 3.3))
def maria_pause(cluster, asleep):
    cluster.maria_server.signal(signal.SIGSTOP)
    time.sleep(asleep)
    cluster.maria_server.signal(signal.SIGCONT)


@kind("maria", lasts=seconds(0.2, 2))
def maria_read_only(cluster, lasts):
    cluster.ledger.run("SET GLOBAL read_only = 1", database="")
    time.sleep(lasts)
    cluster.ledger.run("SET GLOBAL read_only = 0", database="")


@kind("maria", count=times(1, 15))
def maria_sessions_killed(cluster, count):
    with cluster.ledger.connect("") as connection:
        for _ in range(count):
            kill_sessions(connection, SESSIONS)
            time.sleep(0.05)


@kind("maria", lasts=seconds(0.2, 2))
def maria_out_of_connections(cluster, lasts):
    """Others have all of them; an administrator has one more."""
    with ExitStack() as open_until, cluster.ledger.connect("") as admin, admin.cursor() as cursor:
        cursor.execute(f"SET GLOBAL max_connections = {FEWEST_CONNECTIONS}")
        try:
            end = time.monotonic() + lasts
            while time.monotonic() < end:
                kill_sessions(admin, SESSIONS)
                with suppress(pymysql.MySQLError):
                    for _ in range(FEWEST_CONNECTIONS):
                        open_until.enter_context(cluster.ledger.connect(""))
                time.sleep(0.05)
        finally:
            cursor.execute(f"SET GLOBAL max_connections = {MANY}")


@kind("maria", lasts=seconds(0.5, 2))
def maria_deadlocks(cluster, lasts):
    """A rival takes the segments one by one, from the last to the first, after many changes of its
    own: InnoDB rolls back who has changed less."""
    end = time.monotonic() + lasts
    cluster.ledger.run("DROP TABLE IF EXISTS rival; CREATE TABLE rival (a INT) ENGINE=InnoDB;"
                       f"INSERT INTO rival SELECT seq FROM {numbers(2000)}")
    rows = cluster.ledger.run("SELECT sku, segment FROM stock_segment"
                              " ORDER BY sku DESC, segment DESC")
    while time.monotonic() < end:
        with suppress(HarnessError), \
                cluster.ledger.transaction("UPDATE rival SET a = a + 1") as connection:
            with suppress(pymysql.MySQLError), connection.cursor() as cursor:
                for sku, segment in rows:
                    cursor.execute("SELECT 1 FROM stock_segment WHERE sku = %s AND segment = %s"
                                   " FOR UPDATE", (sku, segment))
                    time.sleep(0.01)
    cluster.ledger.run("DROP TABLE rival")


@kind("maria", lasts=seconds(0.3, 3))
def maria_rows_locked(cluster, lasts):
    """Somebody's transaction stays open."""
    with cluster.ledger.transaction(SEGMENTS):
        time.sleep(lasts)


@kind("maria", sku=one_of("steady", "limited", "brief"), lasts=seconds(0.5, 4))
def maria_row_locked(cluster, sku, lasts):
    """One row of one sale, for longer than an order waits: other sales go on."""
    with cluster.ledger.transaction(ROW.format(sku)):
        time.sleep(lasts)


@kind("maria", lasts=seconds(0.5, 4))
def maria_migrated_beside_reader(cluster, lasts):
    """A report reads the orders while an operator migrates: the change waits for the report, and
    what came after the change must not wait for it."""
    with cluster.ledger.transaction(REPORT):
        cluster.ledger.run(f"DELETE FROM schema_version WHERE name = '{MIGRATION}'")
        migration = subprocess.Popen([PROGRAM, "--migrate"], stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL,
                                     env={**os.environ,
                                          "SECKILL_MYSQL_URL": cluster.maria_server.daemons_url})
        time.sleep(lasts)
    migration.wait(MIGRATION_SECONDS)


@kind("maria", lasts=seconds(0.3, 2))
def maria_tables_locked(cluster, lasts):
    """As a backup does: no commit ends meanwhile."""
    with cluster.ledger.transaction("FLUSH TABLES WITH READ LOCK"):
        time.sleep(lasts)


def log_size(cluster):
    """Each start of the server begins a binary log."""
    name = cluster.ledger.run("SHOW BINARY LOGS", database="")[-1][0]
    return (cluster.maria_server.directory / "data" / name).stat().st_size


@kind("maria", lasts=seconds(0.5, 2))
def maria_disk_full(cluster, lasts):
    """Its binary log, which is longer than every other file, cannot grow, as under a quota: writes
    fail, while they would wait on a full disk. If the server gives up it is started again, as an
    init system does."""
    server = cluster.maria_server
    pid = server.process.pid
    size = log_size(cluster)
    if size < LONG:
        cluster.ledger.run(LENGTHEN)
        size = log_size(cluster)
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    time.sleep(lasts)
    if server.process.poll() is None:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
        # Half an event stays where the log was full. A server that dies later stops reading there
        # when it recovers, and rolls back commits that it has acknowledged.
        cluster.ledger.run("FLUSH BINARY LOGS", database="")
    else:
        server.start()


@kind("maria")
def maria_archive(cluster):
    """Somebody imports a million paid orders, which are older than all others; once."""
    done = cluster.ledger.number(f"SELECT COUNT(*) FROM orders WHERE order_id <= {PIECES * PIECE}")
    for piece in range(done // PIECE, PIECES):
        number = f"{piece * PIECE} + seq"
        cluster.ledger.run(
            "BEGIN; INSERT INTO orders (order_id, sku, round, user_id, qty, status, created_at)"
            f" SELECT {number}, '{ARCHIVE}', 1, 'archive', 1, 'paid', UTC_TIMESTAMP(3)"
            f" FROM {numbers(PIECE)}; INSERT INTO payment"
            " (order_id, payment_ref, state, outcome, told_at)"
            f" SELECT {number}, CONCAT('archive-', seq), 'taken', 'in_time', UTC_TIMESTAMP(3)"
            f" FROM {numbers(PIECE)}; COMMIT")


def forget_archive(ledger):
    """The checks at the end of a run read every table."""
    for piece in range(1, PIECES + 1):
        for table in ("payment", "orders"):
            ledger.run(f"DELETE FROM {table} WHERE order_id <= {piece * PIECE}")
