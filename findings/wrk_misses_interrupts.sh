#!/bin/bash
# wrk 4.1.0 (Debian 12): it takes no notice of an interrupt while its threads begin, though the
# first of them send already.
#
# SIGINT ends a run of wrk early, with its report. But wrk ignores the signal from its start until
# all its threads have begun, and each begins by running the script's init(). Meanwhile the threads
# that have begun send their requests. So a program that waits for a first request, or a first
# answer, and then interrupts wrk may have no effect: wrk runs for its whole duration, and its
# report says nothing of it. Here init() takes half a second in each of four threads, so that the
# time is long enough to be met.
#
# Seen on 2026-11-30:
#
#     wrk 4.1.0, --duration=5s, four threads whose init() takes 0.5 s each:
#       interrupted after the first request: status 0, ends 6 s after the interrupt
#       interrupted when all threads send: status 0, ends 0 s after the interrupt
set -euo pipefail
# shellcheck source=findings/fetch.bash
. "$(dirname "$0")/fetch.bash"

cat >"$temp/server.py" <<'END'
import asyncio
import sys


async def serve(reader, writer):
    try:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            print("asked", flush=True)
            await asyncio.sleep(0.01)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main():
    async with await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1])) as server:
        await server.serve_forever()

asyncio.run(main())
END
cat >"$temp/slow.lua" <<'END'
function init(args)
  local began = os.clock()
  while os.clock() - began < 0.5 do end
end
END

need python3
fetch wrk bookworm wrk=4.1.0-3+b2
port=$(free_port)
python3 "$temp/server.py" "$port" >"$temp/served" &
pids+=("$!")
wait_for bash -c "exec 3<>/dev/tcp/127.0.0.1/$port"

lines() {
    (($(grep -c "$1" "$temp/served") >= $2))
}

# interrupted WORD COUNT: sets `status`, and `after` to the seconds from the interrupt to the end.
interrupted() {
    local began
    : >"$temp/served"
    spawn "$temp/out" wrk usr/bin/wrk --threads=4 --connections=4 --duration=5s \
        --script="$temp/slow.lua" "http://127.0.0.1:$port/"
    wait_for lines "$1" "$2"
    began=$SECONDS status=0
    kill -INT "$spawned"
    wait "$spawned" || status=$?
    after=$((SECONDS - began))
}

echo "wrk 4.1.0, --duration=5s, four threads whose init() takes 0.5 s each:"
interrupted asked 1
echo "  interrupted after the first request: status $status, ends $after s after the interrupt"
require "the status" 0 "$status"
((after >= 4)) || changed "an interrupt during the start ends wrk"
interrupted asked 500
echo "  interrupted when all threads send: status $status, ends $after s after the interrupt"
require "the status" 0 "$status"
((after <= 2)) || changed "an interrupt no longer ends wrk"
