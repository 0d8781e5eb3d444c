"""Distributed locks from Python, over libseclock.so.1: leases with fencing tokens.

    import seclock

    with seclock.Client("redis://127.0.0.1:6379") as locks:
        with locks.acquire("report", wait=5) as report:
            write_report(report.fence)      # the store refuses a smaller fence

Times are in seconds. A lock that is not acquired raises NotAcquired, whose `result` says why
("busy", "timeout", "failed", "unknown", ...); a mistake of the caller raises ValueError. A hold is
renewed by a thread of the library until it is released. seclock.h says the rest; what is not here
can be called by `library`.
"""

import ctypes
import ctypes.util
import os

FOREVER = -1  # as a wait
OK, HELD = 0, 1
_MISTAKES = ("unsupported", "config")

library = ctypes.CDLL(os.environ.get("SECLOCK_LIBRARY", "libseclock.so.1"))


class Options(ctypes.Structure):
    """struct seclock_options"""
    _fields_ = [("size", ctypes.c_size_t), ("servers", ctypes.POINTER(ctypes.c_char_p)),
                ("prefix", ctypes.c_char_p), ("lease_ms", ctypes.c_int),
                ("timeout_ms", ctypes.c_int), ("poll_ms", ctypes.c_int),
                ("outage_ms", ctypes.c_int), ("now_ns", ctypes.c_void_p),
                ("log", ctypes.c_void_p), ("log_context", ctypes.c_void_p)]


class Request(ctypes.Structure):
    """struct seclock_request"""
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("kind", ctypes.c_int),
                ("mode", ctypes.c_int), ("permits", ctypes.c_int), ("limit", ctypes.c_int),
                ("wait_ms", ctypes.c_int), ("lease_ms", ctypes.c_int),
                ("fixed_lease", ctypes.c_bool), ("hold_ms_max", ctypes.c_int),
                ("cancel_fd", ctypes.c_int), ("owner", ctypes.c_void_p),
                ("on_lost", ctypes.c_void_p), ("context", ctypes.c_void_p),
                ("generation", ctypes.c_uint64)]


class Leader(ctypes.Structure):
    """struct seclock_leader"""
    _fields_ = [("size", ctypes.c_size_t), ("led", ctypes.c_bool), ("term", ctypes.c_uint64),
                ("holder", ctypes.c_char * 80), ("value", ctypes.c_char * 256)]


def _declare():
    handle, text = ctypes.c_void_p, ctypes.c_char_p
    for name, result, *arguments in (
            ("open", ctypes.c_int, ctypes.POINTER(Options), ctypes.POINTER(handle)),
            ("close", None, ctypes.POINTER(handle)),
            ("acquire", ctypes.c_int, handle, ctypes.POINTER(Request), ctypes.POINTER(handle)),
            ("campaign", ctypes.c_int, handle, ctypes.POINTER(Request), text,
             ctypes.POINTER(handle)),
            ("proclaim", ctypes.c_int, handle, text),
            ("leader", ctypes.c_int, handle, ctypes.c_int, text, ctypes.POINTER(Leader)),
            ("renew", ctypes.c_int, handle), ("release", ctypes.c_int, handle),
            ("free", None, ctypes.POINTER(handle)), ("state", ctypes.c_int, handle),
            ("loss", ctypes.c_int, handle), ("remaining_ms", ctypes.c_int64, handle),
            ("fence", ctypes.c_uint64, handle), ("token", text, handle),
            ("error", text), ("result_name", text, ctypes.c_int),
            ("loss_name", text, ctypes.c_int),
            ("kind_find", ctypes.c_bool, text, ctypes.POINTER(ctypes.c_int))):
        function = getattr(library, f"seclock_{name}")
        function.restype, function.argtypes = result, arguments


_declare()


class NotAcquired(Exception):
    """The lock was not acquired; `result` says why in a word, the text in a sentence."""

    def __init__(self, result, reason):
        super().__init__(f"{result}: {reason}" if reason else result)
        self.result = result


def _milliseconds(seconds):
    return seconds if seconds == FOREVER else round(seconds * 1000)


def _named(result):
    """The result's name; raises ValueError for a mistake of the caller."""
    name = library.seclock_result_name(result).decode()
    if name in _MISTAKES:
        raise ValueError(library.seclock_error().decode())
    return name


def _kind(name):
    kind = ctypes.c_int()
    if not library.seclock_kind_find(name.encode(), ctypes.byref(kind)):
        raise ValueError(f"no kind of lock: {name}")
    return kind.value


class Hold:
    """A hold of a lock, released at the end of its `with`, or by release()."""

    def __init__(self, client, handle):
        self._client, self._handle = client, handle  # the client must live as long

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()

    def __del__(self):
        self.close()

    def close(self):
        """Frees the hold; one that is not released ends with its lease."""
        if self._handle:
            library.seclock_free(ctypes.byref(self._handle))

    @property
    def held(self):
        """True until the lease ends here, which each renewal moves."""
        return bool(self._handle) and library.seclock_state(self._handle) == HELD

    @property
    def fence(self):
        """Greater than that of every holder before; 0: the kind has none."""
        return library.seclock_fence(self._handle) if self._handle else 0

    @property
    def remaining(self):
        """Seconds until the lease ends, unless it is renewed."""
        return library.seclock_remaining_ms(self._handle) / 1000 if self._handle else 0.0

    @property
    def why_lost(self):
        """Why the hold was lost, in words; "not lost"."""
        return library.seclock_loss_name(
            library.seclock_loss(self._handle) if self._handle else 0).decode()

    def renew(self):
        """Extends the lease now, or finds out about a hold in doubt: "ok", "lost", ..."""
        return _named(library.seclock_renew(self._handle)) if self._handle else "not owner"

    def release(self):
        """Gives the lock back: "ok"; "lost" when the lease had ended; "failed" or "unknown"."""
        return _named(library.seclock_release(self._handle)) if self._handle else "not owner"

    def proclaim(self, value):
        """Proclaims a value as the leader."""
        return _named(library.seclock_proclaim(self._handle, value.encode())) \
            if self._handle else "not owner"


class Client:
    """The servers as this process sees them. Any number of threads may use it."""

    def __init__(self, *servers, prefix="", lease=0, timeout=0):
        self._client = ctypes.c_void_p()
        urls = (ctypes.c_char_p * (len(servers) + 1))(*(url.encode() for url in servers), None)
        options = Options(size=ctypes.sizeof(Options), servers=urls, prefix=prefix.encode() or None,
                          lease_ms=_milliseconds(lease), timeout_ms=_milliseconds(timeout))
        result = _named(library.seclock_open(ctypes.byref(options), ctypes.byref(self._client)))
        if result != "ok":
            raise MemoryError(library.seclock_error().decode())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Closes every connection. Holds that are left end with their leases."""
        if self._client:
            library.seclock_close(ctypes.byref(self._client))

    @staticmethod
    def _request(name, kind, wait, lease, read, permits, limit, fixed):
        return Request(size=ctypes.sizeof(Request), name=name.encode(), kind=_kind(kind),
                       mode=int(read), permits=permits, limit=limit, wait_ms=_milliseconds(wait),
                       lease_ms=_milliseconds(lease), fixed_lease=fixed)

    def _held(self, result, handle):
        """The hold, or the exception that says why there is none. One in doubt is given up."""
        name, reason = _named(result), library.seclock_error().decode()
        if result == OK:
            return Hold(self, handle)
        if handle:
            library.seclock_release(handle)
            library.seclock_free(ctypes.byref(handle))
        raise NotAcquired(name, reason)

    def acquire(self, name, kind="simple", *, wait=0, lease=0, read=False, permits=0, limit=0,
                fixed=False):
        """Acquires a lock: a Hold. `wait` is how long to wait for it, 0: one try, or FOREVER."""
        request = self._request(name, kind, wait, lease, read, permits, limit, fixed)
        handle = ctypes.c_void_p()
        result = library.seclock_acquire(self._client, ctypes.byref(request), ctypes.byref(handle))
        return self._held(result, handle)

    def campaign(self, name, value, kind="simple", *, wait=0, lease=0):
        """Waits to lead, and proclaims the value: a Hold, whose fence is the term."""
        request = self._request(name, kind, wait, lease, False, 0, 0, False)
        handle = ctypes.c_void_p()
        result = library.seclock_campaign(self._client, ctypes.byref(request), value.encode(),
                                          ctypes.byref(handle))
        return self._held(result, handle)

    def leader(self, name, kind="simple"):
        """Who leads: (term, value), or None."""
        leader = Leader(size=ctypes.sizeof(Leader))
        result = _named(library.seclock_leader(self._client, _kind(kind), name.encode(),
                                               ctypes.byref(leader)))
        if result != "ok":
            raise OSError(library.seclock_error().decode())
        return (leader.term, leader.value.decode()) if leader.led else None
