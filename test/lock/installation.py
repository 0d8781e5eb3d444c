"""The library as `make install-lock` puts it, and what a program needs to be built with it."""

import os
import subprocess

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
