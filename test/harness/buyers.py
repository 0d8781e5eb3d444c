"""Clients that order all the time, each order with a key of its own, and forgive nothing."""

import collections
import http.client
import json
import threading
import time
import uuid


class Buyers:
    """Context manager: threads that order at an address until they are stopped. `answers` counts
    statuses, `accepted` has (order_id, qty), `lost` what became of requests without an answer."""

    HEADERS = {"Content-Type": "application/json"}

    def __init__(self, address, count=8, kept=True, sku="demo", pause=0.0):
        """With `kept`, a client keeps its connection for as long as the server lets it."""
        self.address, self.kept, self.sku, self.pause = address, kept, sku, pause
        self.answers, self.lost, self.accepted = collections.Counter(), [], []
        self.slowest = 0.0
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(i,)) for i in range(count)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number):
        connection = http.client.HTTPConnection(*self.address, timeout=20)
        while not self._stop.is_set():
            self._order(connection, f"u{number}")
            if not self.kept:
                connection.close()
            time.sleep(self.pause)
        connection.close()

    def _order(self, connection, user):
        headers = {**self.HEADERS, "Idempotency-Key": uuid.uuid4().hex}
        body = json.dumps({"sku": self.sku, "user_id": user, "qty": 1})
        started = time.monotonic()
        try:
            connection.request("POST", "/order", body, headers)
            response = connection.getresponse()
            text, closing = response.read(), response.will_close
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            with self._lock:
                self.lost.append(f"{type(error).__name__}: {error}")
            return
        ours = "json" in response.headers.get("Content-Type", "")  # not a page of a proxy's
        answer = json.loads(text) if ours else {}
        with self._lock:
            self.answers[f"{response.status} {answer.get('code', '')}".strip()] += 1
            self.slowest = max(self.slowest, time.monotonic() - started)
            if response.status == 201:
                self.accepted.append((answer["order_id"], 1))
        if closing:
            connection.close()
