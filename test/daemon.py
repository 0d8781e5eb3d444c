"""One running seckilld: started with options, asked over HTTP, stopped, killed or paused by pid."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

from client import send
from servers import ROOT, spawn_process, wait_until

TOKEN = "test-token-0123456789"
PROGRAM = os.environ.get("SECKILL_DAEMON", str(ROOT / "build" / "seckilld"))
LISTENING = re.compile(r"event=listening\b.*\baddress=\"?([\d.]+):(\d+)")
SANITIZER = re.compile(r"AddressSanitizer|ThreadSanitizer|LeakSanitizer|runtime error:|Assertion")


class Daemon:
    """A context manager: leaving it stops the daemon, which must then exit 0 and have reported no
    failed assertion or sanitizer error."""

    def __init__(self, stack, directory, ready=True, env=None, **options):
        """options are the daemon's own, with underscores; None leaves one out. The deadline is a
        long one, so that a slow machine alone makes no test see 503."""
        self.stack = stack
        self.options = {"listen": "127.0.0.1:0", "redis_url": stack.redis_url,
                        "mysql_url": stack.mysql_url, "lease_ms": 500,
                        "deadline_ms": 10_000, **options}
        self.env = {"SECKILL_ADMIN_TOKEN": TOKEN, **(env or {})}
        self.directory = Path(directory)
        self.log_paths = []
        self.must_be_ready = ready
        self.process = self.address = None
        self.end_expected = False

    def argv(self):
        return [PROGRAM] + [f"--{name.replace('_', '-')}={value}"
                            for name, value in self.options.items() if value is not None]

    def start(self):
        """Starts it (again, after a kill); every start has a port and a log of its own."""
        self.launch()
        return self.wait_started()

    def launch(self):
        """Only from the main thread: the kernel kills the daemon when the thread ends."""
        self.log_paths.append(self.directory / f"seckilld-{time.monotonic_ns()}.log")
        self.end_expected = False
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("SECKILL_")}
        with open(self.log_paths[-1], "wb") as log:
            self.process = spawn_process(self.argv(), log, env={**inherited, **self.env})

    def wait_started(self):
        found = wait_until(self._listening, "event=listening")
        self.address = (found[1], int(found[2]))
        if self.must_be_ready:
            self.wait_ready()
        return self

    def _listening(self):
        assert self.process.poll() is None, f"seckilld ended at its start:\n{self.log()}"
        return LISTENING.search(self.log())

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.reap()
            raise

    def __exit__(self, *_):
        try:
            if self.running():
                self.cont()
                self.stop()
        finally:
            self.reap()
            print(f"--- {self.log_paths[-1]} (its end)\n{self.log()[-4000:]}")
        assert self.end_expected, f"seckilld died: {self.process.returncode}\n{self.log()[-4000:]}"
        for path in self.log_paths:
            text = path.read_text(errors="replace")
            assert not SANITIZER.search(text), text

    def reap(self):
        """Cleans up, whatever state it is in."""
        if self.running():
            self.signal(signal.SIGKILL)
            self.process.wait()

    # its life

    def running(self):
        return self.process is not None and self.process.poll() is None

    def log(self):
        """What the last start has logged so far."""
        return self.log_paths[-1].read_text(errors="replace")

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, timeout=30):
        """The exit status; a signal's is negative."""
        status = self.process.wait(timeout)
        self.end_expected = True
        return status

    def stop(self):
        """SIGTERM: drains and exits 0."""
        self.signal(signal.SIGTERM)
        try:
            status = self.wait()
        except subprocess.TimeoutExpired:
            raise AssertionError("seckilld hangs in its drain") from None
        assert status == 0, f"exit status {status}\n{self.log()[-4000:]}"

    def kill(self):
        """SIGKILL."""
        assert self.running(), f"seckilld died before it was killed\n{self.log()[-4000:]}"
        self.reap()
        self.end_expected = True

    def pause(self):
        self.signal(signal.SIGSTOP)

    def cont(self):
        self.signal(signal.SIGCONT)

    def ready(self):
        try:
            return self.get("/readyz").status == 200
        except OSError:
            return False

    def wait_ready(self):
        wait_until(self.ready, "/readyz 200")

    # its interface

    def url(self, path=""):
        return "http://%s:%d%s" % (*self.address, path)

    def request(self, method, path, body=None, headers=(), timeout=30):
        return send(self.address, method, path, body, headers, timeout)

    def get(self, path):
        return self.request("GET", path)

    def order(self, sku="demo", user_id="u1", qty=1, key=None, timeout=30):
        headers = {"Idempotency-Key": key} if key else {}
        return self.request("POST", "/order", {"sku": sku, "user_id": user_id, "qty": qty}, headers,
                            timeout)

    def pay(self, order_id, timeout=30):
        return self.request("POST", f"/order/{order_id}/pay", timeout=timeout)

    def cancel(self, order_id, timeout=30):
        return self.request("POST", f"/order/{order_id}/cancel", timeout=timeout)

    def admin(self, method, path, body=None, timeout=30):
        return self.request(method, path, body, {"Authorization": f"Bearer {TOKEN}"}, timeout)

    def reset(self, sku="demo", total=1000, segments=20, **terms):
        response = self.admin("POST", "/admin/stock/reset",
                              {"sku": sku, "total": total, "segments": segments, **terms})
        assert response.status == 200, response
        return response.json()

    def change(self, sku="demo", **terms):
        response = self.admin("PATCH", f"/admin/sale/{sku}", terms)
        assert response.status == 200, response
        return response.json()

    def add(self, units, sku="demo", key=None):
        headers = {"Authorization": f"Bearer {TOKEN}", "Idempotency-Key": key}
        return self.request("POST", "/admin/stock/add", {"sku": sku, "units": units}, headers)

    def reconcile(self, sku="demo"):
        response = self.admin("POST", "/admin/reconcile", {"sku": sku})
        assert response.status == 200, response
        return response.json()

    def stock(self, sku="demo"):
        response = self.get(f"/stock/{sku}")
        assert response.status == 200, response
        return response.json()

    def metrics(self):
        """{'name{labels}': value}"""
        lines = self.get("/metrics").body.decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def metric(self, name):
        """The value, 0 when there is none: a counter may first appear with its first count."""
        return self.metrics().get(name, 0)
