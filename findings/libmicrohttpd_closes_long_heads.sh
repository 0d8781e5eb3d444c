#!/bin/bash
# libmicrohttpd 0.9.75 (Debian 12), 1.0.1 (Debian 13) and 1.0.10 (unstable): of long heads, the
# longest are answered by 431, and some shorter ones by nothing.
#
# A connection has MHD_OPTION_CONNECTION_MEMORY_LIMIT for its request's head and the head of the
# answer. A head that does not fit is a 431 of the library. One that fits, and leaves too little
# room for the answer, is handed to the application, which queues its answer as ever; the library
# then closes the connection without a byte. Here, with 8 KB, that is a header of 8,000 bytes, while
# one of 7,900 is a 200 and one of 8,050 a 431; and 112 short headers, or a cookie of 3,950 bytes,
# which is kept twice. The exact sizes are not checked, but that there are some.
#
# Seen on 2026-11-29 (each size at which the answer changes):
#
#     0.9.75
#       bytes of a header: 7000: 200, 7950: closed, 8050: 431
#       short headers: 90: 200, 112: closed, 113: 431
#       bytes of a cookie: 3500: 200, 3950: closed, 4000: 431
#     1.0.1
#       bytes of a header: 7000: 200, 8000: closed, 8050: 431
#       short headers: 90: 200, 112: closed, 113: 431
#       bytes of a cookie: 3500: 200, 3950: closed, 4000: 431
#     1.0.10
#       bytes of a header: 7000: 200, 8000: closed, 8050: 431
#       short headers: 90: 200, 112: closed, 113: 431
#       bytes of a cookie: 3500: 200, 3950: closed, 4000: 431
set -euo pipefail
# shellcheck source=findings/fetch.bash
. "$(dirname "$0")/fetch.bash"

need gcc
cat >"$temp/server.c" <<'END'
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static enum MHD_Result answer(void *cls, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **state)
{
    static int begun;
    (void)cls, (void)url, (void)method, (void)version, (void)data, (void)size;
    if (!*state) {
        *state = &begun;
        return MHD_YES;
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(2, (void *)"ok", MHD_RESPMEM_PERSISTENT);
    enum MHD_Result queued = MHD_queue_response(connection, 200, response);
    MHD_destroy_response(response);
    return queued;
}

int main(int argc, char **argv)
{
    puts(MHD_get_version());
    fflush(stdout);
    if (argc != 2 || !MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, (uint16_t)atoi(argv[1]),
                                       NULL, NULL, answer, NULL, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                                       (size_t)8192, MHD_OPTION_END))
        return 1;
    sleep(120);
    return 0;
}
END
cat >"$temp/ask.py" <<'END'
import socket
import sys


def ask(fields):
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: shop\r\n" + fields + b"\r\n")
        try:
            return connection.recv(4000)[9:12].decode() or "closed"
        except ConnectionResetError:
            return "closed"


def show(what, fields_of, sizes):
    last, changes = None, []
    for size in sizes:
        answer = ask(fields_of(size))
        if answer != last:
            changes.append(f"{size}: {answer}")
        last = answer
    print(f"  {what}:", ", ".join(changes))


show("bytes of a header", lambda size: b"X: " + b"x" * size + b"\r\n", range(7000, 8600, 50))
show("short headers", lambda size: b"".join(b"X%d: y\r\n" % i for i in range(size)),
     range(90, 130))
show("bytes of a cookie", lambda size: b"Cookie: a=" + b"x" * size + b"\r\n",
     range(3500, 4500, 50))
END

connects() {
    python3 -c "import socket; socket.create_connection(('127.0.0.1', $port), 1)"
}

for release in 'bookworm 0.9.75-6' 'trixie 1.0.1-4' 'sid 1.0.10-1'; do
    read -r suite version <<<"$release"
    fetch "$suite" "$suite" "libmicrohttpd-dev=$version"
    mkdir "$temp/$suite/include"
    cp "$temp/$suite/usr/include/microhttpd.h" "$temp/$suite/include"
    # The library may be of a newer C library than this machine's; it runs with its own.
    gcc -o "$temp/$suite/server" "$temp/server.c" -I"$temp/$suite/include" \
        -L"$temp/$suite/usr/lib/x86_64-linux-gnu" -lmicrohttpd -Wl,--unresolved-symbols=ignore-all
    port=$(free_port)
    spawn "$temp/$suite/log" "$suite" server "$port"
    wait_for connects
    head -n 1 "$temp/$suite/log"
    timeout 60 python3 "$temp/ask.py" "$port" | tee "$temp/seen"
    kill_now "$spawned"
    (($(grep -c ': 200, [0-9]*: closed, [0-9]*: 431' "$temp/seen") == 3)) ||
        changed 'between the heads with a 200 and those with a 431 are some without an answer'
done
