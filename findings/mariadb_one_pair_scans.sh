#!/bin/bash
# MariaDB 10.11.19 (Debian 12) and 11.8.9 (Debian 13): one pair in a list costs the whole table.
#
# UPDATE and DELETE … WHERE (a, b) IN ((1, 'x'), (1, 'y')) look two rows up in the primary key
# (a, b). With one pair, (a, b) IN ((1, 'x')), they read, and lock, every row of the table; SELECT
# does not. So a statement that is made for a batch is slow for the smallest one, and waits for each
# row that another transaction holds. "a = 1 AND" before it leaves the rows with that a. The same
# pair written twice is a look-up.
#
# Seen on 2026-11-29, rows read in a table of 2,000:
#
#     10.11.19-MariaDB-0+deb12u1
#       SELECT: one pair 1, two pairs 2, one pair twice 1, one pair and a = 1 1
#       UPDATE: one pair 2001, two pairs 2, one pair twice 1, one pair and a = 1 1001
#       DELETE: one pair 2001, two pairs 2, one pair twice 1, one pair and a = 1 1001
#       UPDATE of one pair while another row is held: ERROR 1205 (HY000) at line 2: Lock wait
#         timeout exceeded; try restarting transaction
#     11.8.9-MariaDB-0+deb13u1 from Debian
#       SELECT: one pair 1, two pairs 2, one pair twice 1, one pair and a = 1 1
#       UPDATE: one pair 2001, two pairs 2, one pair twice 1, one pair and a = 1 1001
#       DELETE: one pair 2001, two pairs 2, one pair twice 1, one pair and a = 1 1001
#       UPDATE of one pair while another row is held: ERROR 1205 (HY000) at line 2: Lock wait
#         timeout exceeded; try restarting transaction
set -euo pipefail
# shellcheck source=findings/fetch.bash
. "$(dirname "$0")/fetch.bash"

readonly ROWS=2000

# rows_read STATEMENT: as the storage engine counted them.
rows_read() {
    sql "$server" "FLUSH STATUS; START TRANSACTION; $1; ROLLBACK;
        SELECT SUM(variable_value) FROM information_schema.session_status
        WHERE variable_name LIKE 'Handler_read%'" | tail -n 1
}

# show STATEMENT: its rows read with one pair, with two, and with the first column named.
show() {
    local one two twice named
    one=$(rows_read "$1 (a, b) IN ((1, 'k7'))")
    two=$(rows_read "$1 (a, b) IN ((1, 'k7'), (1, 'k8'))")
    twice=$(rows_read "$1 (a, b) IN ((1, 'k7'), (1, 'k7'))")
    named=$(rows_read "$1 a = 1 AND (a, b) IN ((1, 'k7'))")
    echo "  ${1%% *}: one pair $one, two pairs $two, one pair twice $twice," \
        "one pair and a = 1 $named"
    ((two < 20)) || changed "${1%% *} with two pairs is a look-up"
    ((twice < 20)) || changed "${1%% *} with one pair twice is a look-up"
    if [[ $1 == SELECT* ]]; then
        ((one < 20)) || changed 'SELECT with one pair is a look-up'
    else
        ((one >= ROWS)) || changed "${1%% *} with one pair reads the whole table"
    fi
}

waits_for_another_row() {
    local holder seen
    sql "$server" "START TRANSACTION; SELECT 1 FROM t WHERE a = 2 AND b = 'k9' FOR UPDATE;
        SELECT SLEEP(4)" >"$temp/holder" &
    holder=$!
    pids+=("$holder")
    sleep 1
    seen=$(sql "$server" "SET innodb_lock_wait_timeout = 1;
        UPDATE t SET n = 1 WHERE (a, b) IN ((1, 'k7'))" 2>&1 || true)
    wait "$holder"
    echo "  UPDATE of one pair while another row is held: ERROR${seen##*ERROR}"
    [[ $seen == *1205* ]] || changed 'the UPDATE of one pair waits for other rows'
}

for release in '10.11 bookworm 1:10.11.19-0+deb12u1' '11.8 trixie 1:11.8.9+ds-0+deb13u1'; do
    read -r server suite version <<<"$release"
    fetch "maria$server" "$suite" mariadb-{server,client}-core="$version"
    mariadb_start "$server" "maria$server"
    sql "$server" 'SELECT VERSION()'
    sql "$server" "CREATE TABLE t (a INT, b VARCHAR(20), n INT, PRIMARY KEY (a, b)) ENGINE=InnoDB;
        INSERT INTO t SELECT 1 + seq % 2, CONCAT('k', seq), 0 FROM seq_1_to_$ROWS"
    sql "$server" 'ANALYZE TABLE t' >"$temp/made"
    show 'SELECT n FROM t WHERE'
    show 'UPDATE t SET n = n + 1 WHERE'
    show 'DELETE FROM t WHERE'
    waits_for_another_row
    kill_now "$spawned"
done
