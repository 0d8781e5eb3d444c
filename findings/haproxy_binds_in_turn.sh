#!/bin/bash
# HAProxy 2.6.12 (Debian 12), 3.0.11 (Debian 13) and 3.2.26 (unstable): an address takes connections
# before the proxy has all of its addresses, and before it is certain that it will run at all.
#
# HAProxy opens the addresses of its configuration one after the other, and the kernel takes
# connections at each from then on. Who waits for a proxy by connecting to its first address and
# then uses its last is refused. With two addresses that lasts for microseconds; here a range of
# ports stands between them, and the proxy is halted (SIGSTOP) in between. A reload (-sf without -x)
# whose configuration has an address that another process holds does worse: for two seconds the new
# process tries again, and takes the clients of all its other addresses away from the old one, which
# has stood aside; then it gives up, and resets them without an answer. The old process serves on as
# if nothing had been. haproxy -c finds no fault in such a configuration.
#
# Seen on 2026-11-29:
#
#     HAProxy version 2.6.12-1+deb12u4 2026/10/17
#       start 1: the first address connects, then the last address refuses
#       reload that fails, a client: 200=247 ConnectionResetError=1
#       reload that fails, a client: 200=244 ConnectionResetError=1
#       reload that fails, a client: 200=241 ConnectionResetError=1
#       reload that fails, a client: 200=242 ConnectionResetError=1
#         4 ConnectionResetError after 2.1 s
#     HAProxy version 3.0.11-1+deb13u4 2026/10/15
#       start 1: the first address connects, then the last address refuses
#       (and four clients as above)
#     HAProxy version 3.2.26-1 2026/10/14
#       start 1: the first address connects, then the last address refuses
#       (and four clients as above)
set -euo pipefail
# shellcheck source=findings/fetch.bash
. "$(dirname "$0")/fetch.bash"

readonly ADDRESS=127.83.83.83 # nobody else's on this machine

# write_config LINE ...: the lines are further addresses.
write_config() {
    cat >"$temp/cfg" <<END
global
    maxconn 100
defaults
    mode http
    timeout connect 1s
    timeout client 5s
    timeout server 5s
frontend shop
    bind $ADDRESS:8000
$(printf '    bind %s\n' "$@")
    http-request return status 200
END
}

# Asks the first address until it takes a connection, halts the proxy there and asks the last one.
cat >"$temp/ask.py" <<'END'
import os
import signal
import socket
import sys
import time

address, pid_file = sys.argv[1:]
end = time.monotonic() + 20
while time.monotonic() < end:
    try:
        socket.create_connection((address, 8000), 1)
    except OSError:
        continue
    with open(pid_file, encoding="ascii") as file:
        os.kill(int(file.read()), signal.SIGSTOP)
    try:
        socket.create_connection((address, 8001), 5)
        print("the last address connects")
    except OSError as error:
        print("the last address refuses" if isinstance(error, ConnectionRefusedError) else error)
    break
END

# A client that asks a hundred times a second, for five seconds, and counts the answers.
cat >"$temp/shop.py" <<'END'
import collections
import socket
import sys
import time

answers = collections.Counter()
longest = 0
end = time.monotonic() + 5
while time.monotonic() < end:
    began = time.monotonic()
    try:
        with socket.create_connection((sys.argv[1], 8000), 4) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n")
            answers[connection.recv(100)[9:12].decode() or "closed"] += 1
    except OSError as error:
        answers[type(error).__name__] += 1
        print(f"{type(error).__name__} after {time.monotonic() - began:.1f} s", file=sys.stderr)
    time.sleep(0.01)
print(*(f"{name}={count}" for name, count in sorted(answers.items())))
END

version_of() {
    local text
    text=$(run "$1" usr/sbin/haproxy -v)
    echo "${text%% - http*}"
}

# On a busy machine the proxy may have all of its addresses before it is halted.
show_start() {
    local ask try
    write_config "$ADDRESS:10000-19999" "$ADDRESS:8001"
    for try in 1 2 3 4 5; do
        python3 "$temp/ask.py" "$ADDRESS" "$temp/pid" >"$temp/seen" &
        ask=$!
        pids+=("$ask")
        sleep 1
        spawn "$temp/log" "$1" usr/sbin/haproxy -db -f "$temp/cfg"
        echo "$spawned" >"$temp/pid"
        wait "$ask" || cannot_run 'no connection within 20 s'
        kill_now "$spawned"
        echo "  start $try: the first address connects, then $(<"$temp/seen")"
        [[ $(<"$temp/seen") != 'the last address refuses' ]] || return 0
    done
    changed 'while it starts, one address connects and another refuses'
}

show_reload() {
    local old holder clients=() client
    write_config
    sed -i '/bind $/d' "$temp/cfg"
    spawn "$temp/log" "$1" usr/sbin/haproxy -db -f "$temp/cfg"
    old=$spawned
    python3 -c 'import socket, sys, time
held = socket.create_server((sys.argv[1], 8001))
time.sleep(20)' "$ADDRESS" &
    holder=$!
    pids+=("$holder")
    sleep 1
    for client in 1 2 3 4; do
        python3 "$temp/shop.py" "$ADDRESS" >"$temp/answers$client" 2>"$temp/errors$client" &
        clients+=("$!")
    done
    pids+=("${clients[@]}")
    sleep 1
    write_config "$ADDRESS:8001"
    run "$1" usr/sbin/haproxy -c -q -f "$temp/cfg" 2>/dev/null ||
        changed 'haproxy -c finds no fault in the configuration'
    spawn "$temp/log" "$1" usr/sbin/haproxy -db -f "$temp/cfg" -sf "$old"
    ! wait "$spawned" || changed 'the reload fails'
    wait "${clients[@]}"
    kill -0 "$old" || changed 'the old process goes on'
    kill_now "$old"
    kill_now "$holder"
    sed 's/^/  reload that fails, a client: /' "$temp"/answers?
    sort "$temp"/errors? | uniq -c | sed 's/^ */    /'
    grep -q ConnectionResetError "$temp"/errors? || changed 'a reload that fails resets clients'
}

fetch debian12 bookworm haproxy=2.6.12-1+deb12u4
fetch debian13 trixie haproxy=3.0.11-1+deb13u4
fetch unstable sid haproxy=3.2.26-1
for suite in debian12 debian13 unstable; do
    version_of "$suite"
    show_start "$suite"
    show_reload "$suite"
done
