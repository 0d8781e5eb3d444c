"""The library as `make install-lock` puts it, and what a program needs to be built with it."""

import os
import shutil
import subprocess

import pytest

from harness.processes import BUILD, ROOT

PREFIX = "/opt/seclock"


def install(root):
    """Installs it under `root`: its folder there."""
    subprocess.run(["make", "-s", "-C", ROOT, "install-lock", f"DESTDIR={root}",
                    f"PREFIX={PREFIX}", f"BUILD={BUILD}"],
                   check=True, stdout=subprocess.DEVNULL)
    return root / PREFIX.strip("/")


def installed_flags(installed):
    """What pkg-config says of the library, with the paths of where it lies for now. It knows no
    other package, as on a machine that has only what a program with the library runs with."""
    def ask(*words):
        done = subprocess.run(["pkg-config", *words, "seclock"], check=True, text=True,
                              stdout=subprocess.PIPE,
                              env={**os.environ, "PKG_CONFIG_LIBDIR": f"{installed}/lib/pkgconfig",
                                   "PKG_CONFIG_PATH": ""})
        return done.stdout.replace(PREFIX, str(installed)).split()
    return ask


def sanitizers():
    """Those that the library was built with have to be in the program as well."""
    symbols = subprocess.run(["nm", "-D", BUILD / "libseclock.so"], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    return [f"-fsanitize={name}" for name, symbol in
            (("address", "__asan_init"), ("undefined", "__ubsan_handle"), ("thread", "__tsan_init"))
            if symbol in symbols]


def need(compiler):
    if not shutil.which(compiler[0]):
        pytest.skip(f"there is no {compiler[0]}")


def build(compiler, source, program, flags, libraries=None):
    """Builds a program with the installed library, which is linked as `libraries` say."""
    need(compiler)
    subprocess.run([*compiler, "-Wall", "-Werror", *sanitizers(), *flags("--cflags"), "-o", program,
                    source, *(flags("--libs") if libraries is None else libraries)],
                   check=True, cwd=program.parent)


def run_built(installed, *argv, status=0, **environment):
    """The finished program, once it has ended with that status."""
    done = subprocess.run(argv, check=False, text=True, capture_output=True, timeout=30,
                          env={**os.environ, "LD_LIBRARY_PATH": f"{installed}/lib", **environment})
    assert done.returncode == status, done.stdout + done.stderr
    return done
