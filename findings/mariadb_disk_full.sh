#!/bin/bash
# MariaDB 10.11.19 (Debian 12): a disk that is full for its binary log refuses nothing.
#
# A commit that finds no room on the binary log's disk (ENOSPC) is answered neither by an error nor
# in time: it waits, holding its row locks, and all other commits wait behind it. Reads go on. The
# server looks for room once in 60 seconds, so that commits stand still for up to a minute after
# somebody has made some. The write then goes on where it stopped: no half event stays in the log,
# and a server that is killed right after an acknowledgement keeps every commit. (A write that fails
# otherwise leaves half an event: see mariadb_half_event.sh.) While it waits the server does not end
# on SIGTERM.
#
# Seen on 2026-11-29:
#
#     10.11.19-MariaDB-0+deb12u1
#     full: 648 acknowledged, 0 more in 5 s, 0 errors
#     who wants the row of the commit that waits: ERROR 1205 (HY000) at line 1: Lock wait timeout
#       exceeded; try restarting transaction
#     room again: the next commit is acknowledged after 52 s
#     killed then: 713 acknowledged, 713 kept
#     full again, and SIGTERM: the server is still there after 5 s
#     killed: 648 acknowledged, 648 kept
set -euo pipefail
# A small disk is a tmpfs in a mount namespace of this script.
[[ -n ${FINDING_NAMESPACE-} ]] ||
    FINDING_NAMESPACE=1 exec unshare --map-root-user --mount --kill-child --fork "$0" "$@"
# shellcheck source=findings/fetch.bash
. "$(dirname "$0")/fetch.bash"

readonly OPTIONS=(--log-bin="$temp/disk/binlog" --sync-binlog=1 --binlog-format=ROW)
trap 'umount --lazy "$temp/disk" 2>/dev/null || true; clean_up' EXIT

acknowledged() {
    wc -l <"$temp/acknowledged"
}

# Commits one after the other, each with 3 KB of binary log.
start_commits() {
    local command i
    for ((i = 1; i <= 1500; i++)); do
        echo "INSERT INTO t VALUES ($i, REPEAT('x', 3000)); SELECT $i;"
    done >"$temp/commits.sql"
    from maria usr/bin/mariadb --no-defaults -uroot -S "$temp/$1/s" -nNB shop
    "${command[@]}" <"$temp/commits.sql" >"$temp/acknowledged" 2>"$temp/refused" &
    pids+=("$!")
}

disk_is_full() {
    (($(df --output=avail "$temp/disk" | tail -n 1) == 0))
}

# A server that has committed until its disk was full.
fill_disk() {
    ! mountpoint -q "$temp/disk" || umount "$temp/disk"
    mount -t tmpfs -o size=8m none "$temp/disk"
    fallocate -l 6M "$temp/disk/something"
    mariadb_start "$1" maria "${OPTIONS[@]}"
    sql "$1" 'CREATE TABLE t (a INT PRIMARY KEY, b VARBINARY(3000)) ENGINE=InnoDB'
    start_commits "$1"
    wait_for disk_is_full
    sleep 2
    full_at=$(acknowledged)
}

kill_and_count() {
    local told
    kill_now "$spawned"
    told=$(acknowledged)
    mariadb_start "$1" maria "${OPTIONS[@]}"
    kept=$(sql "$1" 'SELECT COUNT(*) FROM t')
    kill_now "$spawned"
    echo "$2: $told acknowledged, $kept kept"
    ((kept >= told)) || changed 'no acknowledged commit is lost'
}

mkdir "$temp/disk"
fetch maria bookworm mariadb-{server,client}-core=1:10.11.19-0+deb12u1
run maria usr/sbin/mariadbd --version | sed 's/.*Ver \([^ ]*\).*/\1/'

fill_disk one
sleep 5
echo "full: $full_at acknowledged, $(($(acknowledged) - full_at)) more in 5 s," \
    "$(wc -l <"$temp/refused") errors"
require 'acknowledged on a full disk' "$full_at" "$(acknowledged)"
require 'errors on a full disk' 0 "$(wc -l <"$temp/refused")"
require 'rows that a reader sees' "$full_at" "$(sql one 'SELECT COUNT(*) FROM t')"
next=$((full_at + 1))
waited=$(sql one "SET innodb_lock_wait_timeout = 1; UPDATE t SET b = '' WHERE a = $next" 2>&1 ||
    true)
echo "who wants the row of the commit that waits: ERROR${waited##*ERROR}"
[[ $waited == *1205* ]] || changed 'the commit that waits holds its locks'
rm "$temp/disk/something"
SECONDS=0
while (($(acknowledged) == full_at)); do
    ((SECONDS < 90)) || changed 'commits go on within 60 s of there being room'
    sleep 0.1
done
echo "room again: the next commit is acknowledged after $SECONDS s"
((SECONDS > 30)) || changed 'the server looks for room once in 60 s'
kill_and_count one 'killed then'

fill_disk two
server=$spawned
kill -TERM "$server"
sleep 5
kill -0 "$server" || changed 'a server that waits for room does not end on SIGTERM'
echo 'full again, and SIGTERM: the server is still there after 5 s'
rm "$temp/disk/something"
kill_and_count two 'killed'
