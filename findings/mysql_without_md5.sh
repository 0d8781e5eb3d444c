#!/bin/bash
# MySQL 9.7.4 (unstable): MD5() and SHA1() are no functions of the server any more.
#
# A new server answers error 1305, "FUNCTION ... does not exist", as for a misspelt name, to MD5(),
# SHA1() and SHA(), which MariaDB and MySQL 8 have; SHA2() is there. Whoever shortens idempotency
# keys by MD5(), has a generated column of it, or fills tables by SHA1(n), meets that at the
# upgrade, in the middle of a migration.
#
# Seen on 2026-11-29:
#
#     10.11.19-MariaDB-0+deb12u1: MD5 32, SHA1 40, SHA2 64
#     9.7.4-2: MD5 1305, SHA1 1305, SHA2 64
set -euo pipefail
# shellcheck source=findings/fetch.bash
. "$(dirname "$0")/fetch.bash"

# lengths FUNCTION...: the length of each function's result, or the number of its error.
lengths() {
    local call said
    for call; do
        said=$(ask "SELECT LENGTH($call)" 2>&1 || true)
        [[ $said =~ ERROR\ ([0-9]+) ]] && said=${BASH_REMATCH[1]}
        printf '%s %s, ' "${call%%(*}" "$said"
    done | sed 's/, $//'
}
calls=("MD5('a')" "SHA1('a')" "SHA2('a',256)")

fetch maria bookworm mariadb-{server,client}-core=1:10.11.19-0+deb12u1
mariadb_start m maria
ask() {
    run maria usr/bin/mariadb --no-defaults -uroot -S "$temp/m/s" mysql -N -e "$1"
}
seen=$(lengths "${calls[@]}")
echo "$(ask 'SELECT VERSION()'): $seen"
require 'MariaDB' 'MD5 32, SHA1 40, SHA2 64' "$seen"
kill_now "$spawned"

fetch mysql sid mysql-server-core=9.7.4-2 mysql-client-core=9.7.4-2
share=$temp/mysql/usr/share/mysql
options=(--no-defaults "--datadir=$temp/data" "--lc-messages-dir=$share" --user="$(id -un)"
    "--character-sets-dir=$share/charsets" "--plugin-dir=$temp/mysql/usr/lib/mysql/plugin"
    --innodb-buffer-pool-size=32M --secure-file-priv=NULL --skip-log-bin)
run mysql usr/sbin/mysqld "${options[@]}" --initialize-insecure >"$temp/made" 2>&1 ||
    cannot_run "no data folder: $(tail -n 1 "$temp/made")"
spawn "$temp/log" mysql usr/sbin/mysqld "${options[@]}" --skip-networking --loose-mysqlx=OFF \
    --socket="$temp/s"
ask() {
    run mysql usr/bin/mysql --no-defaults -uroot -S "$temp/s" mysql -N -e "$1"
}
wait_for ask 'SELECT 1'
seen=$(lengths "${calls[@]}")
echo "$(ask 'SELECT VERSION()'): $seen"
require 'MySQL' 'MD5 1305, SHA1 1305, SHA2 64' "$seen"
