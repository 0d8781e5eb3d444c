"""The library from C++ and from Python, as installed."""

import re
import subprocess
import sys

import pytest

from harness.processes import ROOT
from installation import build, run_built, sanitizers

RUNTIMES = {"asan": "address", "tsan": "thread"}  # of the sanitizers: they come first in a process


def run_python(installed, source, *arguments):
    """The output of a Python program with the binding."""
    used = sanitizers()
    preload = [subprocess.run(["gcc", f"-print-file-name=lib{runtime}.so"], check=True, text=True,
                              stdout=subprocess.PIPE).stdout.strip()
               for runtime, name in RUNTIMES.items() if f"-fsanitize={name}" in used]
    return run_built(installed, sys.executable, "-c", source, *arguments,
                     SECLOCK_LIBRARY=str(installed / "lib/libseclock.so.1"),
                     PYTHONPATH=str(installed / "share/seclock/python"),
                     LD_PRELOAD=":".join(preload), ASAN_OPTIONS="detect_leaks=0").stdout


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("standard", ("c++17", "c++20"))
def test_cplusplus_example_runs(standard, flags, installed, stack, tmp_path):
    program = tmp_path / "example"
    build(("g++", f"-std={standard}", "-Wextra", "-Wpedantic"), ROOT / "lock/examples/report.cpp",
          program, flags)
    for url, status, told in ((stack.redis_url, 0, r"held, fence [1-9]\d*\n"),
                              ("ftp://nowhere", 2, "no kind of lock uses .*\n"),
                              ("redis://127.0.0.1:1", 1, "failed: .*\n")):
        done = run_built(installed, program, status=status, SECKILL_REDIS_URL=url)
        assert re.fullmatch(told, done.stdout + done.stderr)


CPLUSPLUS = r"""
#include <cassert>
#include <utility>
#include <seclock.hpp>

int main(int, char **argv)
{
    seclock::client locks({argv[1]}), others({argv[1]});
    seclock::request wanted("scope");
    {
        seclock::hold first = locks.acquire(wanted);
        seclock::hold moved = std::move(first);
        assert(!first && moved && moved.fence() > 0);
        seclock::hold none = others.acquire(wanted);
        assert(!none && none.result() == SECLOCK_BUSY && none.release() == SECLOCK_NOT_OWNER);
    }
    seclock::hold again = others.acquire(wanted); /* the end of the scope has released it */
    assert(again && again.proclaim("me") == SECLOCK_OK);
    assert(again.renew() == SECLOCK_OK && again.release() == SECLOCK_OK && !again);
    assert(again.why_lost() == SECLOCK_LOSS_NONE);
    try {
        locks.acquire(seclock::request("scope").read());
        assert(!"a simple lock has no readers");
    } catch (const seclock::error &mistake) {
        assert(mistake.result() == SECLOCK_UNSUPPORTED);
    }
}
"""


@pytest.mark.long
def test_cplusplus_holds_end_with_their_scope(flags, installed, stack, tmp_path):
    source, program = tmp_path / "scope.cpp", tmp_path / "scope"
    source.write_text(CPLUSPLUS)
    build(("g++", "-std=c++17", "-Wextra", "-Wpedantic"), source, program, flags)
    run_built(installed, program, stack.redis_url)


PYTHON = """
import sys, seclock
with seclock.Client(sys.argv[1], prefix="py:", lease=20) as locks:
    with locks.acquire("report", "reentrant", wait=5) as report:
        assert report.held and report.fence > 0 and 10 < report.remaining <= 20
        with locks.acquire("report", "reentrant") as again:
            assert again.fence == report.fence
        assert report.renew() == "ok"
    assert not report.held and report.why_lost == "not lost" and report.release() == "not owner"
    with seclock.Client(sys.argv[1], prefix="py:") as others:
        hold = others.acquire("report", "fair", wait=seclock.FOREVER)
        for wait, result in ((0, "busy"), (0.05, "timeout")):
            try:
                locks.acquire("report", "fair", wait=wait)
            except seclock.NotAcquired as reason:
                assert reason.result == result, reason
            else:
                assert False
        assert hold.release() == "ok"
        hold.close()
        assert locks.leader("chair") is None
        with others.campaign("chair", "Ada") as chair:
            assert locks.leader("chair") == (chair.fence, "Ada")
            assert chair.proclaim("Ada L.") == "ok"
            assert locks.leader("chair") == (chair.fence, "Ada L.")
    for mistake in (lambda: locks.acquire("report", "no such kind"),
                    lambda: locks.acquire("report", "red", read=True),
                    lambda: seclock.Client("ftp://nowhere")):
        try:
            mistake()
        except ValueError as error:
            assert str(error)
        else:
            assert False
print("done")
"""


def test_python_binding(installed, stack):
    assert run_python(installed, PYTHON, stack.redis_url) == "done\n"


LAYOUT = """
import seclock
for name in ("options", "request", "leader"):
    struct = getattr(seclock, name.title())
    print(name, "size", *(f"{field[0]}:{getattr(struct, field[0]).offset}"
                          for field in struct._fields_))
"""


def test_python_structs_are_those_of_the_header(installed, tmp_path):
    """Each field at its place, none left out: the sizes agree as well."""
    lines = run_python(installed, LAYOUT).splitlines()
    source = ["#include <stdio.h>", "#include <stddef.h>", "#include <seclock.h>",
              "int main(void)", "{"]
    for line in lines:
        name, _, *fields = line.split()
        source.append(f'printf("{name} size");')
        for field in fields:
            field = field.partition(":")[0]
            source.append(f'printf(" {field}:%zu", offsetof(struct seclock_{name}, {field}));')
        source.append('printf("\\n");')
    sizes = [line.split()[0] for line in lines]
    source += [f'printf("%zu\\n", sizeof(struct seclock_{name}));' for name in sizes] + ["}"]
    (tmp_path / "layout.c").write_text("\n".join(source))
    subprocess.run(["gcc", "-o", tmp_path / "layout", f"-I{installed}/include",
                    tmp_path / "layout.c"], check=True)
    printed = subprocess.run([tmp_path / "layout"], check=True, text=True,
                             stdout=subprocess.PIPE).stdout.splitlines()
    assert printed[:len(lines)] == lines
    assert printed[len(lines):] == run_python(
        installed, "import ctypes, seclock\nfor name in ('Options', 'Request', 'Leader'):\n"
                   "    print(ctypes.sizeof(getattr(seclock, name)))").split()
