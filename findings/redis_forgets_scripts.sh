#!/bin/bash
# Redis 8.0.2, Valkey 8.1.1 and 9.1.2: a server that nobody restarted forgets scripts.
#
# Redis 7.0 keeps every script that it was given until SCRIPT FLUSH or its end, so that NOSCRIPT
# means a new server. Redis 8 and Valkey keep, of those that came by EVAL, the 500 that were used
# last; who sends EVAL once and EVALSHA from then on is answered NOSCRIPT by a healthy server, as
# soon as other clients have sent 500 other texts since. A script that came by SCRIPT LOAD stays.
# Inside a MULTI the other commands of the transaction are carried out all the same.
#
# Seen on 2026-11-29:
#
#     redis_version:7.0.15
#       after 500 other texts: by EVAL: taken; by SCRIPT LOAD: loaded
#       in a transaction: 1;taken;1
#     redis_version:8.0.2
#       after 500 other texts: by EVAL: NOSCRIPT No matching script. Please use EVAL.; by SCRIPT
#         LOAD:
#       loaded
#       in a transaction: 1;NOSCRIPT No matching script. Please use EVAL.;1
#     redis_version:7.2.4 valkey_version:8.1.1
#       after 500 other texts: by EVAL: NOSCRIPT No matching script.; by SCRIPT LOAD: loaded
#       in a transaction: 1;NOSCRIPT No matching script.;1
#     redis_version:7.2.4 valkey_version:9.1.2
#       after 500 other texts: by EVAL: NOSCRIPT No matching script.; by SCRIPT LOAD: loaded
#       in a transaction: 1;NOSCRIPT No matching script.;1
set -euo pipefail
# shellcheck source=findings/fetch.bash
. "$(dirname "$0")/fetch.bash"

# show FOLDER NAME WANTED: NAME is redis or valkey.
show() {
    local folder=$1 name=$2 wanted=$3 port sha loaded seen kept transaction
    port=$(free_port)
    spawn "$temp/log" "$folder" "usr/bin/$name-server" --port "$port" --bind 127.0.0.1 --save '' \
        --dir "$temp"
    ask() {
        run "$folder" "usr/bin/$name-cli" -p "$port" "$@"
    }
    wait_for ask PING
    ask INFO server | tr -d '\r' | grep -E '^(redis|valkey)_version' | paste -sd' '
    ask EVAL "return 'taken'" 0 >/dev/null
    sha=$(printf %s "return 'taken'" | sha1sum | cut -d' ' -f1)
    loaded=$(ask SCRIPT LOAD "return 'loaded'")
    require 'EVALSHA at once' taken "$(ask EVALSHA "$sha" 0)"
    for i in {1..500}; do echo "EVAL \"return $i\" 0"; done | ask >/dev/null
    seen=$(ask EVALSHA "$sha" 0)
    kept=$(ask EVALSHA "$loaded" 0)
    transaction=$(printf 'MULTI\nINCR before\nEVALSHA %s 0\nINCR after\nEXEC\n' "$sha" | ask |
        tail -n +5 | grep . | paste -sd';')
    echo "  after 500 other texts: by EVAL: ${seen%%$'\n'*}; by SCRIPT LOAD: $kept"
    echo "  in a transaction: $transaction"
    kill_now "$spawned"
    require "EVALSHA on $folder" "$wanted" "${seen%% *}"
    require 'a loaded script' loaded "$kept"
}

fetch redis7 bookworm redis-server=5:7.0.15-1~deb12u10
fetch redis8 trixie redis-server=5:8.0.2-3+deb13u3
fetch valkey8 trixie valkey-server=8.1.1+dfsg1-3+deb13u3
fetch valkey9 sid valkey-server=9.1.2-1
show redis7 redis taken
show redis8 redis NOSCRIPT
show valkey8 valkey NOSCRIPT
show valkey9 valkey NOSCRIPT
