#!/bin/bash
# HAProxy 2.6.12 (Debian 12), 3.0.11 (Debian 13) and 3.2.26 (unstable): no 502 on a kept connection.
#
# A server that hangs up without an answer is a 502 (or its errorfile) for the client, as everybody
# knows, but only for the first request of the client's connection. For each later one HAProxy
# closes the client's connection without a byte, so that the client may try again. It does so for a
# POST, too, and with retry-on empty-response where disable-l7-retry forbids the retry. A client
# such as curl then sends the POST again by itself (see curl_sends_twice.sh).
#
# Seen on 2026-11-29 (each server carries out the second POST of a connection, then hangs up):
#
#     HAProxy version 2.6.12-1+deb12u4 2026/10/17
#       retry-on conn-failure: first: 502 later: closed
#       retry-on empty-response, disable-l7-retry: first: 502 later: closed
#     HAProxy version 3.0.11-1+deb13u4 2026/10/15
#       retry-on conn-failure: first: 502 later: closed
#       retry-on empty-response, disable-l7-retry: first: 502 later: closed
#     HAProxy version 3.2.26-1 2026/10/14
#       retry-on conn-failure: first: 502 later: closed
#       retry-on empty-response, disable-l7-retry: first: 502 later: closed
set -euo pipefail
# shellcheck source=findings/fetch.bash
. "$(dirname "$0")/fetch.bash"

cat >"$temp/client.py" <<'END'
import socket
import sys


def order(connection, body):
    connection.sendall(b"POST /order HTTP/1.1\r\nHost: shop\r\nContent-Length: %d\r\n\r\n%s"
                       % (len(body), body))
    try:
        return connection.recv(1000)[9:12].decode() or "closed"
    except ConnectionResetError:
        return "closed"


def connect():
    return socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5)


print("first:", order(connect(), b"hang"))
kept = connect()
order(kept, b"1")
print("later:", order(kept, b"2"))
END

show() {
    local port text answers
    port=$(free_port)
    {
        printf '%s\n' defaults '    mode http' '    timeout connect 1s' '    timeout client 5s' \
            '    timeout server 5s' '    http-reuse safe' "$@" 'frontend shop' \
            "    bind 127.0.0.1:$port" '    default_backend shop' 'backend shop' \
            "    server one 127.0.0.1:$server_port"
    } >"$temp/cfg"
    [[ -z ${no_retry-} ]] || echo '    http-request disable-l7-retry' >>"$temp/cfg"
    spawn "$temp/log" "$release" usr/sbin/haproxy -db -f "$temp/cfg"
    sleep 1
    answers=$(timeout 20 python3 "$temp/client.py" "$port" | paste -sd' ')
    kill_now "$spawned"
    echo "  ${no_retry:-retry-on conn-failure}: $answers"
    require 'answers' 'first: 502 later: closed' "$answers"
}

server_port=$(free_port)
python3 "$(dirname "$0")/hangs_up.py" "$server_port" >"$temp/server.log" 2>&1 &
pids+=("$!")
fetch debian12 bookworm haproxy=2.6.12-1+deb12u4
fetch debian13 trixie haproxy=3.0.11-1+deb13u4
fetch unstable sid haproxy=3.2.26-1
for release in debian12 debian13 unstable; do
    text=$(run "$release" usr/sbin/haproxy -v)
    echo "${text%% - http*}"
    show '    retry-on conn-failure'
    no_retry='retry-on empty-response, disable-l7-retry' \
        show '    retry-on conn-failure empty-response'
done
