#!/bin/bash
# The clients of MariaDB 11.8.9 (Debian 13, unstable): a password makes them refuse a server that
# they take without one.
#
# mariadb, mariadb-dump and the like of 11.4 and later demand TLS with a verified certificate. A
# server of Debian 12, which has TLS off by default, is refused with the very command that worked
# from Debian 12's client (error 2026). But only a login with a password: an account without one is
# let in, in clear, with a warning. --skip-ssl, or --disable-ssl-verify-server-cert, brings the old
# behaviour back.
#
# Seen on 2026-11-29, at a MariaDB 10.11.19 as Debian 12 has it, over TCP:
#
#     client Ver 15.1 Distrib 10.11.19-MariaDB
#       with a password: answered; without one: answered; --skip-ssl: answered;
#       --disable-ssl-verify-server-cert: answered
#     client from 11.8.9-MariaDB
#       with a password: error 2026; without one: answered; --skip-ssl: answered;
#       --disable-ssl-verify-server-cert: answered
set -euo pipefail
# shellcheck source=findings/fetch.bash
. "$(dirname "$0")/fetch.bash"

# ask FOLDER OPTION ...
ask() {
    local folder=$1 answer
    shift
    answer=$(run "$folder" usr/bin/mariadb --no-defaults -h127.0.0.1 -P"$port" -NB "$@" \
        -e "SELECT 'answered'" 2>&1 || true)
    echo "$answer" | sed -n 's/^ERROR \([0-9]*\).*/error \1/p; /^answered/p'
}

# show FOLDER WITH_PASSWORD
show() {
    local version with without skipped unverified
    version=$(run "$1" usr/bin/mariadb --version)
    with=$(ask "$1" -ushop -psecret)
    without=$(ask "$1" -uguest)
    skipped=$(ask "$1" -ushop -psecret --skip-ssl)
    unverified=$(ask "$1" -ushop -psecret --disable-ssl-verify-server-cert)
    version=${version##*/mariadb }
    echo "client ${version%%,*}"
    echo "  with a password: $with; without one: $without; --skip-ssl: $skipped;" \
        "--disable-ssl-verify-server-cert: $unverified"
    require 'with a password' "$2" "$with"
    require 'the others' 'answered answered answered' "$without $skipped $unverified"
}

fetch debian12 bookworm mariadb-{server,client}-core=1:10.11.19-0+deb12u1
fetch debian13 trixie mariadb-client-core=1:11.8.9+ds-0+deb13u1
fetch unstable sid mariadb-client-core=1:11.8.9+ds-4
port=$(free_port)
mariadb_start m debian12 --skip-networking=0 --bind-address=127.0.0.1 --port="$port"
sql m "CREATE USER shop@127.0.0.1 IDENTIFIED BY 'secret'; CREATE USER guest@127.0.0.1"
show debian12 answered
show debian13 'error 2026'
show unstable 'error 2026'
