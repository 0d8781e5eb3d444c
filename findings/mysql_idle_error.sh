#!/bin/bash
# MySQL 9.7.4 (unstable): the error of an idle connection has a number that reconnecting code lacks.
#
# A connection that was idle for wait_timeout is ended by either server, and the next statement
# fails. With MariaDB 10.11.19 the client library finds a closed socket: error 2006 or 2013, which
# programs know as "lost: connect again". MySQL (from 8.0.24 on) leaves a last packet in the socket,
# and the library takes it for the statement's answer: error 4031, a number of the server's, as if
# the server had run into it and the connection were sound. Only the statement after that hears of
# the loss. A driver that notices the closed socket as it sends, as PyMySQL does, says 2006.
#
# Seen on 2026-11-29, by each server's own client, with wait_timeout = 2:
#
#     10.11.19-MariaDB-0+deb12u1: errors 2006 2006
#     9.7.4-2: errors 4031 2013
set -euo pipefail
# shellcheck source=findings/fetch.bash
. "$(dirname "$0")/fetch.bash"

# ask_after_pause FOLDER PROGRAM SOCKET: two statements after a pause; each error's number.
ask_after_pause() {
    {
        echo 'SET SESSION wait_timeout = 2;'
        sleep 4
        printf 'SELECT 1;\nSELECT 2;\n'
    } | run "$1" "$2" --no-defaults -S "$3" --skip-reconnect --force -nN -uroot 2>&1 |
        sed -n 's/^ERROR \([0-9]*\).*/\1/p' | paste -sd' '
}

fetch maria bookworm mariadb-{server,client}-core=1:10.11.19-0+deb12u1
mariadb_start m maria
seen=$(ask_after_pause maria usr/bin/mariadb "$temp/m/s" || true)
echo "$(sql m 'SELECT VERSION()'): errors $seen"
[[ $seen =~ ^20[01][0-9]( 20[01][0-9])?$ ]] || changed 'MariaDB: the library reports the loss'
kill_now "$spawned"

fetch mysql sid mysql-server-core=9.7.4-2 mysql-client-core=9.7.4-2
mysql_start mysql
seen=$(ask_after_pause mysql usr/bin/mysql "$temp/s" || true)
echo "$(mysql 'SELECT VERSION()'): errors $seen"
require 'MySQL' '4031 2013' "$seen"
