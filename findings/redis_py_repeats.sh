#!/bin/bash
# redis-py 6.1.0 (Debian 13) and 6.4.0 (unstable), not 4.3.4 (Debian 12): a command whose answer is
# lost is sent again.
#
# With redis-py 4.3.4 (Debian 12) a call whose connection breaks before the answer raises
# ConnectionError, and the caller decides. With 6.1.0 and 6.4.0 the default is three repeats, for
# every command: one call of incr() counts twice, and nothing tells so. A script that takes units,
# or a lock's SET NX whose first try succeeded, is repeated in the same way.
#
# Seen on 2026-11-29 (a proxy drops the answer to the first INCR):
#
#     redis-py 4.3.4: incr() once gives ConnectionError, the server counted 1
#     redis-py 6.1.0: incr() once gives 2, the server counted 2
#     redis-py 6.4.0: incr() once gives 2, the server counted 2
set -euo pipefail
# shellcheck source=findings/fetch.bash
. "$(dirname "$0")/fetch.bash"

# Lets everything through but the first number that the server answers: then it hangs up.
cat >"$temp/proxy.py" <<'END'
import socket
import sys
import threading

listen, to = (int(word) for word in sys.argv[1:])
dropped = threading.Event()


def pump(source, sink, answers):
    while data := source.recv(65536):
        if answers and data.startswith(b":") and not dropped.is_set():
            dropped.set()
            break
        sink.sendall(data)
    for connection in (source, sink):
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


server = socket.create_server(("127.0.0.1", listen))
while True:
    client = server.accept()[0]
    redis = socket.create_connection(("127.0.0.1", to))
    threading.Thread(target=pump, args=(client, redis, False), daemon=True).start()
    threading.Thread(target=pump, args=(redis, client, True), daemon=True).start()
END
cat >"$temp/count.py" <<'END'
import sys
import redis

listen, to = (int(word) for word in sys.argv[1:])
try:
    answer = redis.Redis(port=listen, socket_timeout=5).incr("sold")
except redis.RedisError as error:
    answer = type(error).__name__
stored = int(redis.Redis(port=to).get("sold"))
print(f"redis-py {redis.__version__}: incr() once gives {answer}, the server counted {stored}")
END

show() {
    local suite=$1 version=$2 wanted=$3 port proxy_port proxy seen
    fetch "py$version" "$suite" "python3-redis=$version"
    port=$(free_port)
    spawn "$temp/log" redis usr/bin/redis-server --port "$port" --bind 127.0.0.1 --save '' \
        --dir "$temp"
    wait_for run redis usr/bin/redis-cli -p "$port" PING
    proxy_port=$(free_port)
    python3 "$temp/proxy.py" "$proxy_port" "$port" 2>>"$temp/log" &
    proxy=$!
    pids+=("$proxy")
    sleep 1
    seen=$(PYTHONPATH="$temp/py$version/usr/lib/python3/dist-packages" \
        timeout 20 python3 "$temp/count.py" "$proxy_port" "$port")
    echo "$seen"
    kill_now "$proxy"
    kill_now "$spawned"
    require 'counted' "$wanted" "${seen##* }"
}

fetch redis bookworm redis-server=5:7.0.15-1~deb12u10
show bookworm 4.3.4-3 1
show trixie 6.1.0-2 2
show sid 6.4.0-3 2
