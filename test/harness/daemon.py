"""One running seckilld, started with options and asked over HTTP: with its own defaults, and with
those that tests want."""

import http.client
import re
import secrets
import time

from harness import standstill
from harness.bounds import bound_s, is_late
from harness.client import send
from harness.processes import PROGRAM, HarnessError, free_port
from harness.program import LOG_SHOWN_MAX, Program

TOKEN = "test-token-0123456789"
# Options of daemons that no fault befalls: a machine may stand still without a lease running out.
STEADY = {"lease_ms": 30_000}
# Options of daemons whose servers hang: how long these may is what the service has by default.
HASTY = {"redis_timeout_ms": 500, "mysql_timeout_ms": 5000}
# Those of all other daemons: a server that is slow with the machine must not pass for one that is
# gone, and the answer to an order comes after that of its servers.
PATIENT = {"redis_timeout_ms": 15_000, "mysql_timeout_ms": 15_000, "deadline_ms": 20_000}

ADMIN_LISTENING = re.compile(r"event=admin_listening\b.*\baddress=\"?(?:unix:)?(\S+?)\"?\s")
RESET_SETTINGS = {"starts_at": None, "ends_at": None, "per_user_limit": None, "pay_within_s": None,
                  "paused": False, "late_payment": "retake", "hold_max_s": None, "grace_s": None}
RESETS_MAX = 5
OPERATORS_PATHS = ("/dashboard", "/admin/", "/healthz", "/servingz", "/readyz",
                   "/metrics")


def parse_metrics(text):
    """{'name{labels}': value}"""
    pairs = (line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#")
    return {name: float(value) for name, value in pairs}


def content(response):
    """The JSON of a 200; anything else is an error."""
    if response.status != 200:
        raise HarnessError(str(response))
    return response.json()


class PlainDaemon(Program):
    """Context manager: the service on a free port."""

    good_statuses = (0,)

    def __init__(self, program, stack, directory, ready=True, env=None, **options):
        """options are the daemon's own, with underscores; None leaves one out. With `ready` it has
        started only when /readyz says so."""
        super().__init__(program, directory=directory)
        self.stack = stack
        self.token = secrets.token_hex(16)
        self.options = options
        self.own_options = {"redis_url": stack.redis_url, "mysql_url": stack.mysql_url}
        self.env = {"SECKILL_ADMIN_TOKEN": self.token, **(env or {})}
        self.must_be_ready = ready

    def argv(self):
        """Each start has a port that nobody had before: clients of a test beside this one may go on
        sending to a daemon that is dead, and would order here."""
        options = {"listen": f"127.0.0.1:{free_port()}", **self.own_options, **self.options}
        return [self.program] + [f"--{name.replace('_', '-')}={value}" for name, value
                                 in options.items() if value is not None]

    def ready(self):
        try:
            return self.get("/readyz").status == 200
        except OSError:
            return False

    def admin_address(self):
        """Where it serves the operators: (host, port), or the path of a Unix socket."""
        found = ADMIN_LISTENING.search(self.log())
        if not found or found[1].startswith("/"):
            return found[1] if found else self.address
        host, port = found[1].rsplit(":", 1)
        return host, int(port)

    def request(self, method, path, body=None, headers=(), timeout=30):
        """The answer, which must come within the bound of the call's class."""
        address = self.admin_address() if path.startswith(OPERATORS_PATHS) else self.address
        watch = standstill.watch()
        since = time.monotonic()
        response = send(address, method, path, body, headers, timeout)
        took_s = watch.running_s(since)
        if is_late(path, took_s, self.options) and self.stopped_until < since:
            raise HarnessError(f"{method} {path} was answered {response.answer} after {took_s:.2f} "
                               f"s; its bound is {bound_s(path, self.options)} s")
        return response

    # orders

    def order(self, sku="demo", user_id="u1", qty=1, key=None, timeout=30):
        headers = {"Idempotency-Key": key} if key else {}
        return self.request("POST", "/order", {"sku": sku, "user_id": user_id, "qty": qty}, headers,
                            timeout)

    def pay(self, order_id, ref=None, timeout=30):
        body = {"payment_ref": ref} if ref else None
        return self.request("POST", f"/order/{order_id}/pay", body, timeout=timeout)

    def cancel(self, order_id, timeout=30, **body):
        return self.request("POST", f"/order/{order_id}/cancel", body or None, timeout=timeout)

    def refund(self, order_id, ref, timeout=30, **body):
        return self.request("POST", f"/order/{order_id}/refund", {"payment_ref": ref, **body},
                            timeout=timeout)

    def unpay(self, order_id, ref, timeout=30, **body):
        return self.request("POST", f"/order/{order_id}/unpay", {"payment_ref": ref, **body},
                            timeout=timeout)

    def extend(self, order_id, expires_at, timeout=30):
        return self.request("POST", f"/order/{order_id}/extend", {"expires_at": expires_at},
                            timeout=timeout)

    # sales

    def admin(self, method, path, body=None, timeout=30):
        return self.request(method, path, body, {"Authorization": f"Bearer {self.token}"}, timeout)

    def ask(self, method, path, body=None):
        """(status, text) of an admin's call; status 0 without an answer."""
        try:
            response = self.admin(method, path, body, timeout=10)
        except (OSError, http.client.HTTPException) as error:
            return 0, str(error)
        return response.status, response.body.decode()

    def reset(self, sku="demo", total=1000, segments=20, **settings):
        """Begins a round with these settings and no others, whatever the round before still has.
        On a slow machine that takes longer than a daemon may have whose deadline a test has made
        short, and it is not what is tested: it has some tries."""
        body = {"sku": sku, "total": total, "segments": segments, "end_round": True,
                **RESET_SETTINGS, **settings}
        for _ in range(RESETS_MAX):
            response = standstill.undisturbed(
                lambda: self.admin("POST", "/admin/stock/reset", body),
                lambda response: response.status == 503)
            if response.status != 503:
                break
        return content(response)

    def change(self, sku="demo", **settings):
        return content(self.admin("PATCH", f"/admin/sale/{sku}", settings))

    def add(self, units, sku="demo", key=None):
        headers = {"Authorization": f"Bearer {self.token}", "Idempotency-Key": key}
        return self.request("POST", "/admin/stock/add", {"sku": sku, "units": units}, headers)

    def reconcile(self, sku="demo"):
        return content(self.admin("POST", "/admin/reconcile", {"sku": sku}))

    def stock(self, sku="demo"):
        """The exact one: GET /stock/{sku} may be 100 ms old."""
        return content(self.admin("GET", f"/admin/stock/{sku}"))

    # metrics

    def metrics(self):
        """{'name{labels}': value}"""
        return parse_metrics(self.get("/metrics").body.decode())

    def metric(self, name, absent=0):
        """The value, 0 when it is absent: a counter may first appear with its first count. Many
        poll one, and all the others' values would be most of the work."""
        text = "\n" + self.get("/metrics").body.decode()
        _, found, rest = text.partition(f"\n{name} ")
        return float(rest.partition("\n")[0]) if found else absent


class Daemon(PlainDaemon):
    """The lease is short, so that what a dead holder held is free soon. All else is PATIENT, so
    that a slow machine alone makes no test see 503."""

    def __init__(self, stack, directory, peers=None, ready=True, env=None, **options):
        super().__init__(PROGRAM, stack, directory, ready, env,
                         **{"lease_ms": 500, **PATIENT, **options})
        self.token = TOKEN
        self.peers = [] if peers is None else peers  # all daemons of the test
        self.peers.append(self)
        self.env = {"SECKILL_ADMIN_TOKEN": TOKEN, **(env or {})}

    def __exit__(self, *error):
        try:
            super().__exit__(*error)
        finally:
            print(f"--- {self.log_paths[-1]} (its end)\n{self.log()[-LOG_SHOWN_MAX:]}")
