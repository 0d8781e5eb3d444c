#!/bin/bash
# jansson 2.14 (Debian 12 and 13) and 2.15.1 (unstable): one number, written in two ways.
#
# json_dumps of a real number that json_loads has read as 0.1 writes 0.10000000000000001 with 2.14
# and 0.1 with 2.15.1; 99.99 becomes 99.989999999999995. 1e0 is a real, 1.0. So a program that
# reads a document and writes it again changes it, and its output, a signature over it and a hash of
# it change with the library.
#
# Seen on 2026-11-29:
#
#     2.14: [0.10000000000000001,99.989999999999995,1.0,5]
#     2.14: [0.10000000000000001,99.989999999999995,1.0,5]
#     2.15.1: [0.1,99.99,1.0,5]
set -euo pipefail
# shellcheck source=findings/fetch.bash
. "$(dirname "$0")/fetch.bash"

need gcc
cat >"$temp/again.c" <<'END'
#include <jansson.h>
#include <stdio.h>

int main(void)
{
    json_t *document = json_loads("[0.1,99.99,1e0,5]", 0, NULL);
    printf("%s: %s\n", jansson_version_str(), json_dumps(document, JSON_COMPACT));
    return 0;
}
END

# show FOLDER WANTED
show() {
    local root=$temp/$1 seen
    mkdir "$root/include"
    cp "$root"/usr/include/jansson*.h "$root/include"
    find "$root/usr/include" -name 'jansson_config.h' -exec cp {} "$root/include" \;
    # The library may be of a newer C library than this machine's; it runs with its own.
    gcc -o "$root/again" "$temp/again.c" -I"$root/include" \
        -L"$root/usr/lib/x86_64-linux-gnu" -ljansson -Wl,--unresolved-symbols=ignore-all
    seen=$(run "$1" again)
    echo "$seen"
    require "$1" "$2" "${seen#*: }"
}

fetch debian12 bookworm libjansson-dev=2.14-2
fetch debian13 trixie libjansson-dev=2.14-2+b3
fetch unstable sid libjansson-dev=2.15.1-1
show debian12 '[0.10000000000000001,99.989999999999995,1.0,5]'
show debian13 '[0.10000000000000001,99.989999999999995,1.0,5]'
show unstable '[0.1,99.99,1.0,5]'
