#!/bin/bash
# curl 7.88.1 (Debian 12) and 8.23.0 (unstable): a POST over a kept connection is sent twice.
#
# When a connection that libcurl has kept from an earlier request ends before any byte of an answer,
# libcurl sends the request once more over a new one: any method, without --retry, and also when
# the server has read the whole request and carried it out before it ended. The caller hears of one
# request, with one status. On a new connection the same end is an error (52). Python's urllib3 and
# Node's fetch, asked the same way, report an error in either case.
#
# Seen on 2026-11-29 (the server carries out the second POST of a connection, then hangs up):
#
#     curl 7.88.1
#       curl: 201
#       curl: 201
#       server: carried out order=1
#       server: carried out order=2
#       server: carried out order=2
#     curl 8.23.0
#       curl: 201
#       curl: 201
#       server: carried out order=1
#       server: carried out order=2
#       server: carried out order=2
set -euo pipefail
# shellcheck source=findings/fetch.bash
. "$(dirname "$0")/fetch.bash"

listens() {
    python3 -c "import socket; socket.create_connection(('127.0.0.1', $port), 1)"
}

show() {
    local port version
    port=$(free_port)
    python3 "$(dirname "$0")/hangs_up.py" "$port" >"$temp/carried_out" 2>"$temp/log" &
    pids+=("$!")
    wait_for listens
    version=$(run "$1" usr/bin/curl --version)
    echo "${version%% (*}"
    local shop=http://127.0.0.1:$port/ told=(-sS -w '  curl: %{http_code}\n')
    run "$1" usr/bin/curl -q "${told[@]}" -d order=1 "$shop" --next \
        "${told[@]}" -d order=2 "$shop" >"$temp/told"
    cat "$temp/told"
    sed 's/^/  server: /' "$temp/carried_out"
    require 'what curl tells' 2 "$(grep -c 201 "$temp/told")"
    require 'how often the second was carried out' 2 "$(grep -c order=2 "$temp/carried_out")"
}

fetch debian12 bookworm curl=7.88.1-10+deb12u15
fetch unstable sid curl=8.23.0-1
show debian12
show unstable
