#!/bin/bash
# MariaDB 11.8.9 (Debian 13): a duplicate key is not error 1062, and SKIP LOCKED skips nothing.
#
# innodb_snapshot_isolation, ON by default since 11.6.2, ends a transaction of REPEATABLE READ that
# writes what others have committed after its first read. Less well known is how far that goes. An
# INSERT of a key that somebody has just inserted ends in 1020 ("Record has changed since last
# read"), not in 1062 (duplicate key): code that takes 1062 for "this order is known" fails. INSERT
# IGNORE and ON DUPLICATE KEY UPDATE, which a duplicate cannot fail, fail with 1020. SELECT … SKIP
# LOCKED fails on a row that nobody holds any more. And 1020 rolls the whole transaction back, as a
# deadlock does: the next statements of the client are committed one by one.
#
# Seen on 2026-11-29 (a transaction has read the table; another client commits; then the statement):
#
#     10.11.19-MariaDB-0+deb12u1
#       INSERT INTO t VALUES (7, 2): error 1062, committed
#       INSERT IGNORE INTO t VALUES (7, 2): done, committed
#       INSERT INTO t VALUES (7, 2) ON DUPLICATE KEY UPDATE n = n + 1: done, committed
#       SELECT id FROM t ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED: done, committed
#       DELETE FROM t WHERE id = 7: done, committed
#     11.8.9-MariaDB-0+deb13u1 from Debian
#       INSERT INTO t VALUES (7, 2): error 1020, rolled back
#       INSERT IGNORE INTO t VALUES (7, 2): error 1020, rolled back
#       INSERT INTO t VALUES (7, 2) ON DUPLICATE KEY UPDATE n = n + 1: error 1020, rolled back
#       SELECT id FROM t ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED: error 1020, rolled back
#       DELETE FROM t WHERE id = 7: error 1020, rolled back
set -euo pipefail
# shellcheck source=findings/fetch.bash
. "$(dirname "$0")/fetch.bash"

# try STATEMENT OTHERS: what a transaction hears of its statement after others' commit.
try() {
    local transaction answer
    sql "$server" "DELETE FROM t; DELETE FROM note; INSERT INTO t VALUES (1, 0), (2, 0)"
    {
        echo "START TRANSACTION; INSERT INTO note VALUES (1); SELECT COUNT(*) FROM t;"
        sleep 1
        echo "$1; SHOW WARNINGS; SELECT 'in a transaction', @@in_transaction; COMMIT;"
    } | run "$mariadb_of" usr/bin/mariadb --no-defaults -uroot -S "$temp/$server/s" -nNB --force \
        shop >"$temp/told" 2>"$temp/error" &
    transaction=$!
    pids+=("$transaction")
    sleep 0.5
    sql "$server" "$2"
    wait "$transaction" || true
    answer=$(sed -n 's/^ERROR \([0-9]*\).*/error \1/p' "$temp/error")
    answer=${answer:-done}
    answer+=", $(sql "$server" 'SELECT IF(COUNT(*), "committed", "rolled back") FROM note')"
    echo "  $1: $answer"
    answers+=("$answer")
}

for release in '10.11 bookworm 1:10.11.19-0+deb12u1' '11.8 trixie 1:11.8.9+ds-0+deb13u1'; do
    read -r server suite version <<<"$release"
    fetch "maria$server" "$suite" mariadb-{server,client}-core="$version"
    mariadb_start "$server" "maria$server"
    sql "$server" 'SELECT VERSION()'
    sql "$server" 'CREATE TABLE t (id INT PRIMARY KEY, n INT) ENGINE=InnoDB;
        CREATE TABLE note (id INT PRIMARY KEY) ENGINE=InnoDB'
    answers=()
    inserted='INSERT INTO t VALUES (7, 1)' changed='UPDATE t SET n = 1 WHERE id = 1'
    try 'INSERT INTO t VALUES (7, 2)' "$inserted"
    try 'INSERT IGNORE INTO t VALUES (7, 2)' "$inserted"
    try 'INSERT INTO t VALUES (7, 2) ON DUPLICATE KEY UPDATE n = n + 1' "$inserted"
    try 'SELECT id FROM t ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED' "$changed"
    try 'DELETE FROM t WHERE id = 7' "$inserted"
    kill_now "$spawned"
    if [[ $server == 10.11 ]]; then
        require '10.11' 'error 1062, committed' "${answers[0]}"
        for answer in "${answers[@]:1}"; do require '10.11' 'done, committed' "$answer"; done
    else
        for answer in "${answers[@]}"; do require '11.8' 'error 1020, rolled back' "$answer"; done
    fi
done
