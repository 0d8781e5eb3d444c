#!/bin/bash
# etcd 3.4.23 (Debian 12), 3.5.16 (Debian 13) and 3.5.30 (unstable): a restart renews every lease.
#
# A lease of ten seconds that nobody renews has three left. When the server starts again (or another
# one becomes leader) it has ten once more: servers that restart often enough keep the lock of a
# dead holder for ever. 3.5 has options that write down what is left of a lease
# (--experimental-enable-lease-checkpoint and …-persist); they do so every five minutes, so they
# change nothing for a shorter lease. And the shortest lease is two seconds: who asks for one gets
# two, and hears it in the answer alone.
#
# Seen on 2026-11-29:
#
#     etcd Version: 3.4.23
#       of 10 s are left: 3 s; after a restart: 10 s
#       of 10 s are left: 4 s; after a restart: 10 s
#       a lease of 1 s is granted as: 2 s
#     etcd Version: 3.5.16
#       of 10 s are left: 3 s; after a restart: 10 s
#       of 10 s are left: 4 s; after a restart: 10 s
#       a lease of 1 s is granted as: 2 s
#     etcd Version: 3.5.30
#       of 10 s are left: 3 s; after a restart: 10 s
#       of 10 s are left: 4 s; after a restart: 10 s
#       a lease of 1 s is granted as: 2 s
#     etcd Version: 3.5.30
#       --experimental-enable-lease-checkpoint --experimental-enable-lease-checkpoint-persist
#       of 10 s are left: 3 s; after a restart: 10 s
#       of 10 s are left: 4 s; after a restart: 10 s
#       a lease of 1 s is granted as: 2 s
set -euo pipefail
# shellcheck source=findings/fetch.bash
. "$(dirname "$0")/fetch.bash"
export ETCDCTL_API=3

etcd_start() {
    local peer
    peer=http://127.0.0.1:$peer_port
    spawn "$temp/log" "$release" usr/bin/etcd --data-dir "$temp/data$number" \
        --listen-client-urls "http://127.0.0.1:$port" --listen-peer-urls "$peer" \
        --advertise-client-urls "http://127.0.0.1:$port" --initial-cluster "default=$peer" \
        --initial-advertise-peer-urls "$peer" "$@"
    wait_for ctl endpoint health
}

ctl() {
    run "$release" usr/bin/etcdctl --endpoints "127.0.0.1:$port" "$@" 2>>"$temp/log"
}

left() {
    ctl lease timetolive "$lease" | sed -n 's/.*remaining(\([0-9]*\)s).*/\1/p'
}

number=0

# show RELEASE OPTION ...
show() {
    local before after
    release=$1
    shift
    number=$((number + 1))
    port=$(free_port) peer_port=$(free_port)
    etcd_start "$@"
    run "$release" usr/bin/etcd --version | sed -n 1p
    [[ -z $* ]] || echo "  $*"
    granted=$(ctl lease grant 1 | sed 's/.*TTL(\(.*\)s)/\1/')
    lease=$(ctl lease grant 10 | awk '{print $2}')
    ctl put lock holder --lease="$lease" >"$temp/put"
    for _ in 1 2; do
        sleep 6
        before=$(left)
        kill_now "$spawned"
        etcd_start "$@"
        after=$(left)
        echo "  of 10 s are left: $before s; after a restart: $after s"
        ((before <= 5 && after >= 9)) || changed 'a restart renews a lease'
    done
    require 'the lock after 12 s' holder "$(ctl get lock --print-value-only)"
    echo "  a lease of 1 s is granted as: $granted s"
    require 'the shortest lease' 2 "$granted"
    kill_now "$spawned"
}

fetch debian12 bookworm etcd-server=3.4.23-4+b4 etcd-client=3.4.23-4+b4
fetch debian13 trixie etcd-server=3.5.16-4 etcd-client=3.5.16-4
fetch unstable sid etcd-server=3.5.30-2 etcd-client=3.5.30-2
show debian12
show debian13
show unstable
show unstable --experimental-enable-lease-checkpoint \
    --experimental-enable-lease-checkpoint-persist
