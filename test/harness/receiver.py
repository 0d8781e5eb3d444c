"""A receiver of webhooks: an HTTP server that keeps what it gets, and answers as it is told."""

import base64
import hashlib
import hmac
import json
import sys
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness.processes import wait_until


@dataclass
class Delivery:
    headers: dict
    body: bytes
    at: float

    @property
    def id(self):
        return self.headers["webhook-id"]

    @property
    def events(self):
        found = json.loads(self.body)
        return found if isinstance(found, list) else [found]

    def signed_by(self, secret):
        """Whether one of the signatures is of this secret."""
        text = f"{self.id}.{self.headers['webhook-timestamp']}.".encode() + self.body
        key = base64.b64decode(secret.removeprefix("whsec_"))
        code = base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
        return f"v1,{code}" in self.headers["webhook-signature"].split()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        receiver = self.server.receiver
        length = int(self.headers["Content-Length"])
        body = self.rfile.read(length)
        if len(body) < length:
            return  # its sender is gone
        delivery = Delivery({k.lower(): v for k, v in self.headers.items()}, body,
                            time.monotonic())
        status, headers = receiver.take(delivery)
        self.send_response(status)
        for name, value in {"Content-Length": "0", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        """Says nothing of senders that are gone."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Receiver:
    """Context manager. `answer(delivery)` gives (status, headers) of each request; it runs in a
    thread of the request's own."""

    def __init__(self, answer=None, tls=None):
        """tls: the server's side of an ssl context."""
        self.tls = tls
        self.answer = answer or (lambda delivery: (204, {}))
        self.deliveries = []  # all, in the order of their coming
        self.taken = []  # those answered 2xx
        self.most = self.now = 0  # requests at a time
        self.lock = threading.Lock()
        self.subjects = set()
        self.overlaps = 0

    def __enter__(self):
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.receiver = self
        if self.tls:
            self.server.socket = self.tls.wrap_socket(self.server.socket, server_side=True)
        self.url = f"http{'s' if self.tls else ''}://127.0.0.1:{self.server.server_address[1]}/hook"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def take(self, delivery):
        subjects = {event.get("subject") for event in delivery.events}
        with self.lock:
            self.deliveries.append(delivery)
            self.now += 1
            self.most = max(self.most, self.now)
            self.overlaps += bool(subjects & self.subjects)
            self.subjects |= subjects
        status, headers = self.answer(delivery)
        with self.lock:
            self.now -= 1
            self.subjects -= subjects
            if status // 100 == 2:
                self.taken.append(delivery)
        return status, headers

    @property
    def events(self):
        """Events that were taken, in the order of their answers."""
        with self.lock:
            return [event for delivery in self.taken for event in delivery.events]

    def has(self, count):
        """Waits until so many different events are taken."""
        wait_until(lambda: len({event["id"] for event in self.events}) >= count,
                   f"{count} events at the receiver")
        return self.events

    def assert_in_order(self):
        """Each order's events came in its order, and never two at a time."""
        assert self.overlaps == 0
        last = {}
        for event in self.events:
            if "version" in event:
                assert event["version"] == last.get(event["subject"], 0) + 1, event
                last[event["subject"]] = event["version"]
