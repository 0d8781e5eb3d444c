#!/bin/bash
# MySQL 9.7.4: an orderly stop acknowledges commits that still wait for a replica.
#
# A primary with semi-synchronous replication (AFTER_SYNC, no time-out) whose replicas are away
# acknowledges no commit: that is what it is for. SIGTERM, which `systemctl stop` sends, or the
# statement SHUTDOWN makes it acknowledge all of them, and then it ends. No other server has them,
# so they are lost when a replica is promoted. SIGKILL ends the connections without an answer, and
# so does MariaDB's orderly stop. On both, SET GLOBAL read_only = 1 waits behind such a commit, and
# it is acknowledged when the replication is turned off.
#
# Seen on 2026-11-30:
#
#     9.7.4-2
#     SET GLOBAL read_only = 1: no answer in 3 s
#     SIGTERM: the commit is acknowledged
#     SHUTDOWN: the commit is acknowledged
#     SIGKILL: the commit is not acknowledged
#     semi-synchronous replication turned off: the commit is acknowledged
#     10.11.19-MariaDB-0+deb12u1
#     SET GLOBAL read_only = 1: no answer in 3 s
#     SIGTERM: the commit is not acknowledged
#     SHUTDOWN: the commit is not acknowledged
#     SIGKILL: the commit is not acknowledged
#     semi-synchronous replication turned off: the commit is acknowledged
set -euo pipefail
# shellcheck source=findings/fetch.bash
. "$(dirname "$0")/fetch.bash"

statement() {
    if [[ $kind == mysql ]]; then mysql "$1"; else sql server "$1"; fi
}

start_server() {
    rm -rf "${temp:?}/data" "${temp:?}/server"
    if [[ $kind == mysql ]]; then
        mysql_start mysql --plugin-load-add=semisync_source.so --log-bin=binlog --server-id=1
    else
        mariadb_start server maria --log-bin=binlog --server-id=1
    fi
    server=$spawned
    statement "CREATE TABLE t (a INT PRIMARY KEY); SET GLOBAL rpl_semi_sync_${role}_timeout
        = 4294967295; SET GLOBAL rpl_semi_sync_${role}_enabled = 1"
}

commit_waits() {
    (($(statement "SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_${role}_wait_sessions'" | cut -f 2) > 0))
}

start_commit() {
    statement 'INSERT INTO t VALUES (1)' 2>/dev/null &
    client=$!
    wait_for commit_waits
}

end_by() {
    local said=acknowledged
    start_server
    start_commit
    case $1 in
    SIGTERM) kill -TERM "$server" ;;
    SHUTDOWN) statement SHUTDOWN >/dev/null 2>&1 || true ;;
    SIGKILL) kill_now "$server" ;;
    *) statement "SET GLOBAL rpl_semi_sync_${role}_enabled = 0" ;;
    esac
    wait "$client" || said='not acknowledged'
    kill_now "$server"
    echo "$1: the commit is $said"
    require "the commit after $1" "$2" "$said"
}

read_only_waits() {
    local setter
    start_server
    start_commit
    statement 'SET GLOBAL read_only = 1' 2>/dev/null &
    setter=$!
    sleep 3
    kill -0 "$setter" 2>/dev/null || changed 'read_only waits behind a commit that waits'
    echo 'SET GLOBAL read_only = 1: no answer in 3 s'
    kill_now "$server"
    wait "$setter" "$client" || true
}

try() {
    kind=$1 role=$2
    read_only_waits
    end_by SIGTERM "$3"
    end_by SHUTDOWN "$3"
    end_by SIGKILL 'not acknowledged'
    end_by 'semi-synchronous replication turned off' acknowledged
}

fetch mysql sid mysql-server-core=9.7.4-2 mysql-client-core=9.7.4-2
run mysql usr/sbin/mysqld --version | sed 's/.*Ver \([^ ]*\).*/\1/'
try mysql source acknowledged
fetch maria bookworm mariadb-{server,client}-core=1:10.11.19-0+deb12u1
run maria usr/sbin/mariadbd --version | sed 's/.*Ver \([^ ]*\).*/\1/'
try maria master 'not acknowledged'
