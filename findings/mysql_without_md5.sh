#!/bin/bash
# MySQL 9.7.4 (unstable): MD5() and SHA1() are no functions of the server any more.
#
# A new server answers error 1305, "FUNCTION ... does not exist", as for a misspelt name, to MD5()
# and SHA1(), which MariaDB has; SHA2() is there. Whoever shortens idempotency keys by MD5(), has a
# generated column of it, or fills tables by SHA1(n), meets that at the upgrade, in the middle of a
# migration.
#
# Seen on 2026-11-29:
#
#     10.11.19-MariaDB-0+deb12u1: MD5 32, SHA1 40, SHA2 64
#     9.7.4-2: MD5 1305, SHA1 1305, SHA2 64
set -euo pipefail
# shellcheck source=findings/fetch.bash
. "$(dirname "$0")/fetch.bash"

# lengths COMMAND...: the length of each function's result, or the number of its error; the command
# takes a statement.
lengths() {
    local ask=("$@") call said
    for call in "MD5('a')" "SHA1('a')" "SHA2('a',256)"; do
        said=$("${ask[@]}" "SELECT LENGTH($call)" 2>&1 || true)
        [[ $said =~ ERROR\ ([0-9]+) ]] && said=${BASH_REMATCH[1]}
        printf '%s %s, ' "${call%%(*}" "$said"
    done | sed 's/, $//'
}

fetch maria bookworm mariadb-{server,client}-core=1:10.11.19-0+deb12u1
mariadb_start m maria
seen=$(lengths sql m)
echo "$(sql m 'SELECT VERSION()'): $seen"
require 'MariaDB' 'MD5 32, SHA1 40, SHA2 64' "$seen"
kill_now "$spawned"

fetch mysql sid mysql-server-core=9.7.4-2 mysql-client-core=9.7.4-2
mysql_start mysql
seen=$(lengths mysql)
echo "$(mysql 'SELECT VERSION()'): $seen"
require 'MySQL' 'MD5 1305, SHA1 1305, SHA2 64' "$seen"
