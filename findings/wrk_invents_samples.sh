#!/bin/bash
# wrk 4.1.0 (Debian 12): its percentiles count requests that it never sent.
#
# A server answers each request within milliseconds, but one: that takes a second. With one
# connection that is one slow request of more than a thousand, and a p99 of the requests sent would
# be some milliseconds. wrk says that p90 is half a second. It adds, for each request that took
# longer than the mean interval, samples for those that it would have sent meanwhile; the samples of
# `latency` in done() are therefore more than `summary.requests`, and its mean and percentiles are
# of both. Nothing in its output says so. One short pause of a server shows as a bad p90, and
# percentiles of wrk cannot be compared with those of a tool that reports what it sent.
#
# Seen on 2026-11-29:
#
#     wrk 4.1.0, one request of a second among those of 2 ms:
#       requests=1232 samples=1548 slower_than_100_ms=277 p50_ms=2 p90_ms=500 p99_ms=952 mean_ms=102
set -euo pipefail
# shellcheck source=findings/fetch.bash
. "$(dirname "$0")/fetch.bash"

cat >"$temp/server.py" <<'END'
import asyncio
import sys

count = slow = 0


async def serve(reader, writer):
    global count, slow
    try:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            count += 1
            slow += count == 300
            await asyncio.sleep(1 if count == 300 else 0.002)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            await writer.drain()
    except asyncio.IncompleteReadError:
        writer.close()


async def main():
    async with await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1])) as server:
        await server.serve_forever()

asyncio.run(main())
END
cat >"$temp/done.lua" <<'END'
function done(summary, latency, requests)
  local samples, slow = 0, 0
  for i = 1, #latency do
    local value, count = latency(i)
    samples = samples + count
    if value > 100000 then slow = slow + count end
  end
  print(string.format("requests=%d samples=%d slower_than_100_ms=%d p50_ms=%.0f p90_ms=%.0f " ..
    "p99_ms=%.0f mean_ms=%.0f", summary.requests, samples, slow, latency:percentile(50) / 1000,
    latency:percentile(90) / 1000, latency:percentile(99) / 1000, latency.mean / 1000))
end
END

fetch wrk bookworm wrk=4.1.0-3+b2
port=$(free_port)
python3 "$temp/server.py" "$port" 2>"$temp/server.log" &
pids+=("$!")
connects() {
    python3 -c "import socket; socket.create_connection(('127.0.0.1', $port), 1)"
}
wait_for connects
run wrk usr/bin/wrk -t1 -c1 -d4s -s "$temp/done.lua" "http://127.0.0.1:$port/" >"$temp/seen"
line=$(grep '^requests=' "$temp/seen")
echo "wrk 4.1.0, one request of a second among those of 2 ms:"
echo "  $line"
number_of() {
    sed "s/.*$1=\([0-9]*\).*/\1/" "$temp/line"
}
echo "$line" >"$temp/line"
requests=$(number_of requests) samples=$(number_of samples) p90=$(number_of p90_ms)
slow=$(number_of slower_than_100_ms)
((requests > 300)) || cannot_run 'the machine is too slow'
((samples > requests + 50)) || changed 'there are more samples than requests'
((slow > 50)) || changed 'one slow request counts as many'
((p90 > 100)) || changed 'p90 is far above what nine of ten requests took'
