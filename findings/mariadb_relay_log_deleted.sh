#!/bin/bash
# MariaDB 10.11.19 (Debian 12) and 11.8.9 (Debian 13): a replica that follows by GTID deletes what
# it has received and not applied when START SLAVE finds both of its threads stopped.
#
# It may name SQL_THREAD alone, as an operator does who wants to apply the rest before he promotes
# the replica. When the primary is dead, nobody can send these commits again; under semi-synchronous
# replication they were acknowledged because this replica had them. Afterwards Gtid_IO_Pos is what
# was applied, so a comparison of replicas does not show it. A restart of the replica does the same.
# Nothing is deleted while one thread runs, nor when the replica follows by file and position.
#
# It is meant so: a replica that follows by GTID ignores its relay log when its threads start, and
# fetches the events again (lists.launchpad.net/maria-developers/msg05582.html). The page on START
# SLAVE does not say it. Orchestrator met it, too (github.com/openark/orchestrator/pull/1264).
#
# Seen on 2026-11-30, on each version:
#
#     received 3 commits, then both threads stopped, START SLAVE SQL_THREAD: 0 applied
#     received 3 commits, then both threads stopped, START SLAVE: 0 applied
#     received 3 commits, then a restart of the replica: 0 applied
#     received 3 commits, then START SLAVE SQL_THREAD while the IO thread runs: 3 applied
#     received 3 commits, then the IO thread restarted while the SQL thread runs: 3 applied
#     received 3 commits, then by file and position, both threads stopped: 3 applied
set -euo pipefail
# shellcheck source=findings/fetch.bash
. "$(dirname "$0")/fetch.bash"

readonly REPLICAS=(sql_thread both restart one_runs io_again by_file)
declare -A server # by name: its process

# start NAME FOLDER ID OPTION ...
start() {
    mariadb_start "$1" "$2" --server-id="$3" --log-bin=binlog "${@:4}"
    server[$1]=$spawned
}

start_source() {
    port=$(free_port)
    start source "$1" 1 --skip-networking=0 --bind-address=127.0.0.1 --port="$port"
    sql source "CREATE TABLE t (a INT PRIMARY KEY); CREATE USER copy@127.0.0.1
        IDENTIFIED BY 'word'; GRANT REPLICATION SLAVE ON *.* TO copy@127.0.0.1"
}

status() {
    run "$mariadb_of" usr/bin/mariadb --no-defaults -uroot -S "$temp/$1/s" \
        -e 'SHOW SLAVE STATUS\G' | sed -n "s/^ *$2: //p"
}

has_received() {
    [[ $(status "$1" Read_Master_Log_Pos) == "$end" ]]
}

has_read_its_log() {
    [[ $(status "$1" Slave_SQL_Running_State) == 'Slave has read all relay log'* ]]
}

start_replica() {
    local name=$1 how="master_use_gtid=slave_pos"
    [[ $name != by_file ]] ||
        how="master_use_gtid=no, master_log_file='binlog.000001', master_log_pos=4"
    start "$name" "$folder" "$2"
    sql "$name" "CHANGE MASTER TO master_host='127.0.0.1', master_port=$port, $how,
        master_user='copy', master_password='word', master_connect_retry=1; START SLAVE"
    wait_for sql "$name" 'SELECT * FROM t'
}

# The SQL thread stops; that of io_again runs, and waits for a table that somebody has locked.
hold_back() {
    [[ $1 == io_again ]] || {
        sql "$1" 'STOP SLAVE SQL_THREAD'
        return
    }
    local command
    from "$mariadb_of" usr/bin/mariadb --no-defaults -uroot -S "$temp/$1/s" shop \
        -e 'LOCK TABLES t READ; SELECT SLEEP(600)'
    "${command[@]}" >/dev/null 2>&1 &
    locker=$!
    pids+=("$locker")
    wait_for is_locked "$1"
}

is_locked() {
    [[ -n $(sql "$1" "SHOW OPEN TABLES WHERE \`Table\` = 't' AND In_use > 0") ]]
}

go_on() {
    case $1 in
    sql_thread | by_file) sql "$1" 'STOP SLAVE; START SLAVE SQL_THREAD' ;;
    both) sql "$1" 'STOP SLAVE; START SLAVE' ;;
    one_runs) sql "$1" 'START SLAVE SQL_THREAD' ;;
    restart)
        kill_now "${server[$1]}"
        start "$1" "$folder" 4
        ;;
    io_again)
        sql "$1" 'STOP SLAVE IO_THREAD; START SLAVE IO_THREAD'
        kill_now "$locker"
        ;;
    esac
    wait_for has_read_its_log "$1"
}

check() {
    local applied
    go_on "$1"
    applied=$(sql "$1" 'SELECT COUNT(*) FROM t')
    echo "received 3 commits, then $2: $applied applied"
    require "applied after $2" "$3" "$applied"
}

try() {
    local folder=$1 name id=1 end
    run "$folder" usr/sbin/mariadbd --version | sed 's/.*Ver \([^ ]*\).*/\1/'
    start_source "$folder"
    for name in "${REPLICAS[@]}"; do start_replica "$name" $((++id)); done
    for name in "${REPLICAS[@]}"; do hold_back "$name"; done
    sql source 'INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); INSERT INTO t VALUES (3)'
    end=$(sql source 'SHOW MASTER STATUS' | cut -f 2)
    for name in "${REPLICAS[@]}"; do wait_for has_received "$name"; done
    kill_now "${server[source]}"
    check sql_thread 'both threads stopped, START SLAVE SQL_THREAD' 0
    require 'the position afterwards' "$(sql sql_thread 'SELECT @@gtid_slave_pos')" \
        "$(status sql_thread Gtid_IO_Pos)"
    check both 'both threads stopped, START SLAVE' 0
    check restart 'a restart of the replica' 0
    check one_runs 'START SLAVE SQL_THREAD while the IO thread runs' 3
    check io_again 'the IO thread restarted while the SQL thread runs' 3
    check by_file 'by file and position, both threads stopped' 3
    for name in "${REPLICAS[@]}"; do kill_now "${server[$name]}"; done
    for name in source "${REPLICAS[@]}"; do rm -r "${temp:?}/$name"; done
}

fetch maria bookworm mariadb-{server,client}-core=1:10.11.19-0+deb12u1
try maria
fetch debian13 trixie mariadb-{server,client}-core=1:11.8.9+ds-0+deb13u1
try debian13
