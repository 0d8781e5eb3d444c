#!/usr/bin/python3
"""Runs a program under what a systemd unit allows it, where no systemd runs.

usage: sandbox.py UNIT PROGRAM WORD…

Applies SystemCallFilter=, RestrictAddressFamilies= and MemoryDenyWriteExecute= of the unit, by
libseccomp as systemd does, and NoNewPrivileges=. Mounts, users and capabilities are up to the
caller.
"""

import ctypes
import os
import re
import socket
import subprocess
import sys

ALLOW, EPERM = 0x7FFF0000, 1
DENY = 0x00050000 | EPERM
EQUAL, MASKED = 4, 7
PROT_WRITE, PROT_EXEC = 2, 4
PR_SET_NO_NEW_PRIVS = 38


class Compare(ctypes.Structure):
    """struct scmp_arg_cmp"""

    _fields_ = [("argument", ctypes.c_uint), ("how", ctypes.c_int),
                ("one", ctypes.c_uint64), ("two", ctypes.c_uint64)]


def values(unit, name):
    """The words of a setting, over all its lines."""
    return " ".join(re.findall(rf"^{name}=(.*)$", unit, re.MULTILINE)).split()


def calls_of(group):
    """The system calls of a group of systemd's, with the groups in it."""
    lines = subprocess.run(["systemd-analyze", "syscall-filter", group], check=True, text=True,
                           capture_output=True).stdout.splitlines()[1:]
    names = {line.strip() for line in lines if not line.strip().startswith("#")}
    return {call for name in names for call in (calls_of(name) if name[0] == "@" else {name})}


def allowed_calls(unit):
    """The calls that remain when each line has added its own, or removed them with "~"."""
    allowed = calls_of("@default")
    for line in re.findall(r"^SystemCallFilter=(.*)$", unit, re.MULTILINE):
        named = set()
        for word in line.removeprefix("~").split():
            named |= calls_of(word) if word[0] == "@" else {word}
        allowed = allowed - named if line[0] == "~" else allowed | named
    return allowed


class Filter:
    """A filter of libseccomp that answers EPERM to whatever no rule speaks of."""

    def __init__(self, library, otherwise):
        self.library = library
        self.context = library.seccomp_init(otherwise)
        assert self.context

    def add(self, action, call, *compares):
        number = self.library.seccomp_syscall_resolve_name(call.encode())
        if number < 0:  # not of this processor
            return
        found = (Compare * len(compares))(*compares)
        done = self.library.seccomp_rule_add_array(self.context, action, number, len(compares),
                                                   found)
        assert done == 0, (call, done)

    def load(self):
        assert self.library.seccomp_load(self.context) == 0


def libseccomp():
    library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_rule_add_array.argtypes = [
        ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.POINTER(Compare)]
    library.seccomp_load.argtypes = [ctypes.c_void_p]
    return library


def confine(unit):
    library = libseccomp()
    calls = Filter(library, DENY)
    for call in sorted(allowed_calls(unit)):
        calls.add(ALLOW, call)
    rest = Filter(library, ALLOW)
    families = [int(getattr(socket, name)) for name in values(unit, "RestrictAddressFamilies")]
    for family in set(range(64)) - set(families):
        rest.add(DENY, "socket", Compare(0, EQUAL, family, 0))
    if values(unit, "MemoryDenyWriteExecute") == ["yes"]:
        both = PROT_WRITE | PROT_EXEC
        rest.add(DENY, "mmap", Compare(2, MASKED, both, both))
        rest.add(DENY, "mprotect", Compare(2, MASKED, PROT_EXEC, PROT_EXEC))
    assert values(unit, "NoNewPrivileges") == ["yes"]
    ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    rest.load()
    calls.load()  # last, as it forbids the loading


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        confine(file.read())
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
