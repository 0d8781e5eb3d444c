#!/bin/bash
# MariaDB 10.11.19 (Debian 12) and 11.8.9 (Debian 13): half an event in the binary log takes back
# an acknowledged commit.
#
# A write to the binary log that fails in the middle ("Error writing file", here because the file
# may not grow) leaves half an event there. The statement is refused, rightly. The next commits are
# acknowledged and written after the half event. A server that is then killed reads its log up to
# the half event when it recovers, and rolls back each transaction that the redo log has as prepared
# only. With innodb_flush_log_at_trx_commit = 1 and sync_binlog = 1 that is every commit since the
# last flush of the redo log: the last ones, if the kill comes within a second of them. The server
# that is idle for longer has flushed, and loses none; nor does one whose log was rotated in time
# (FLUSH BINARY LOGS), or one with innodb_flush_log_at_trx_commit = 3. A full disk (ENOSPC) is no
# such error: see mariadb_disk_full.sh.
#
# Seen on 2026-11-29:
#
#     11.8.9-MariaDB-0+deb13u1
#     killed at once: 50 acknowledged, 49 kept
#     10.11.19-MariaDB-0+deb12u1
#     killed at once: 50 acknowledged, 49 kept
#     killed after 3 s: 50 acknowledged, 50 kept
#     rotated, killed at once: 50 acknowledged, 50 kept
#     innodb_flush_log_at_trx_commit = 3, killed at once: 50 acknowledged, 50 kept
set -euo pipefail
# shellcheck source=findings/fetch.bash
. "$(dirname "$0")/fetch.bash"

readonly COMMITS=50
readonly OPTIONS=(--log-bin=binlog --sync-binlog=1 --binlog-format=ROW)
trap '' XFSZ # the server hears of the limit by errno alone

log_size() {
    stat -c %s "$temp/$1/data/binlog.000001"
}

# Longer than every other file of the server, so that the limit meets the binary log alone.
lengthen_log() {
    sql "$1" "CREATE TABLE filler (a LONGBLOB)"
    for _ in 1 2 3; do sql "$1" "INSERT INTO filler VALUES (REPEAT('x', 15 << 20))"; done
}

# A server whose log has half an event, and room again.
start_with_half_event() {
    mariadb_start "$@" "${OPTIONS[@]}"
    sql "$1" "CREATE TABLE t (a INT PRIMARY KEY, b VARBINARY(2000)) ENGINE=InnoDB"
    lengthen_log "$1"
    prlimit --pid "$spawned" --fsize="$(($(log_size "$1") + 1000)):unlimited"
    ! sql "$1" "INSERT INTO t VALUES (0, REPEAT('y', 1500))" 2>/dev/null ||
        changed 'a commit whose event has no room is refused'
    prlimit --pid "$spawned" --fsize=unlimited:unlimited
}

# Commits one after the other, waits, kills the server and prints how many are kept.
count_kept() {
    local name=$1 wait_s=$2 acked=0 i
    shift 2
    while read -r i; do
        acked=$i
        ((acked < COMMITS)) || break
    done < <(for ((i = 1; i <= COMMITS; i++)); do
        echo "INSERT INTO t VALUES ($i, 'acknowledged'); SELECT $i;"
    done | run "$mariadb_of" usr/bin/mariadb --no-defaults -uroot -S "$temp/$name/s" -nNB shop)
    ((acked == COMMITS)) || cannot_run "$acked commits acknowledged"
    sleep "$wait_s"
    kill_now "$spawned"
    mariadb_start "$name" "$@" "${OPTIONS[@]}"
    kept=$(sql "$name" "SELECT COUNT(*) FROM t WHERE a BETWEEN 1 AND $COMMITS")
    kill_now "$spawned"
}

# The redo log is flushed once a second in any case, so that a try may lose nothing.
kill_at_once() {
    local try
    for try in 1 2 3 4 5 6; do
        start_with_half_event "$1$try" "$1"
        count_kept "$1$try" 0 "$1"
        echo "killed at once: $COMMITS acknowledged, $kept kept"
        ((kept == COMMITS)) || return 0
    done
    changed 'a server killed at once loses acknowledged commits'
}

fetch debian13 trixie mariadb-{server,client}-core=1:11.8.9+ds-0+deb13u1
run debian13 usr/sbin/mariadbd --version | sed 's/.*Ver \([^ ]*\).*/\1/'
kill_at_once debian13

fetch maria bookworm mariadb-{server,client}-core=1:10.11.19-0+deb12u1
run maria usr/sbin/mariadbd --version | sed 's/.*Ver \([^ ]*\).*/\1/'
kill_at_once maria

start_with_half_event later maria
count_kept later 3 maria
echo "killed after 3 s: $COMMITS acknowledged, $kept kept"
require 'kept after 3 s' "$COMMITS" "$kept"

start_with_half_event rotated maria
sql rotated 'FLUSH BINARY LOGS'
count_kept rotated 0 maria
echo "rotated, killed at once: $COMMITS acknowledged, $kept kept"
require 'kept after FLUSH BINARY LOGS' "$COMMITS" "$kept"

start_with_half_event three maria --innodb-flush-log-at-trx-commit=3
count_kept three 0 maria --innodb-flush-log-at-trx-commit=3
echo "innodb_flush_log_at_trx_commit = 3, killed at once: $COMMITS acknowledged, $kept kept"
require 'kept with three flushes' "$COMMITS" "$kept"
