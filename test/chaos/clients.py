"""Clients: they order, repeat, pay, extend, cancel, refund, unpay and look, and note every
answer."""

import http.client
import json
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

from chaos.record import TOLD, UNKNOWN, Call, Change, Page, Try
from harness import standstill
from harness.bounds import is_late

PATIENCE = 15.0                     # seconds; a daemon that serves answers long before
HURRIED = (0.3, 1.0, PATIENCE)      # some clients give up sooner
PAUSE = (0.005, 0.04)               # seconds between two requests of a client
USERS = 60                          # who buy again and again, and reach their limits
SALES = ("steady", "limited", "brief")
WEIGHTS = (5, 3, 2)
HOT = 40                # of the newest orders and payments, for which calls of several clients race
LATE_AFTER = 8.0        # seconds after which most orders that have a time to pay have expired
NAMED = 0.85            # of the payments
RACERS = 3              # calls for one order at the same moment
BUYERS_EACH = 4         # of every daemon


def told_by(content):
    return {name: content[name] for name in TOLD if name in content}


def time_text(seconds):
    at = datetime.fromtimestamp(seconds, timezone.utc)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Client:
    """Asks the daemons of a cluster, over a connection to each that it keeps, and records."""

    def __init__(self, cluster, record, seed):
        self.cluster, self.record, self.random = cluster, record, random.Random(seed)
        self.watch = standstill.watch()
        self.connections = {}

    # requests

    def send(self, daemon, method, path, body=None, headers=(), timeout=PATIENCE):
        """(status and code in one text, JSON): (None, {}) without an answer."""
        start, since = self.record.now(), time.monotonic()
        connection = self.connections.pop(daemon, None)
        if connection is None:
            connection = http.client.HTTPConnection(*self.cluster.daemons[daemon].address)
        connection.timeout = timeout
        if connection.sock:
            connection.sock.settimeout(timeout)
        headers = {name: value for name, value in dict(headers).items() if value is not None}
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, path, body and json.dumps(body), headers)
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if isinstance(error, TimeoutError) and timeout == PATIENCE:
                self.record.add_hang(daemon, start, self.record.now(), f"{method} {path}")
            return None, {}
        self.check_time(daemon, f"{method} {path}", path, since)
        if response.will_close:
            connection.close()
        else:
            self.connections[daemon] = connection
        content = json.loads(text) if text[:1] in (b"{", b"[") else {}
        code = content.get("code") if response.status >= 300 else None
        return f"{response.status} {code}" if code else str(response.status), content

    def check_time(self, daemon, what, path, since):
        """Each answer comes within the bound of its class, whatever the servers do; a daemon that
        a fault has stopped answers later."""
        asked = self.cluster.daemons[daemon]
        if (is_late(path, self.watch.running_s(since), asked.options)
                and asked.stopped_until < since):
            now = self.record.now()
            self.record.add_late(daemon, now - (time.monotonic() - since), now, what)

    # buyers and the shop

    def order(self, daemon, sku, user, qty, key, timeout=PATIENCE):
        one = Try(key, user, sku, qty, daemon, self.record.now())
        answer, content = self.send(daemon, "POST", "/order",
                                    {"sku": sku, "user_id": user, "qty": qty},
                                    {"Idempotency-Key": key}, timeout)
        one.end, one.answer = self.record.now(), answer
        one.order_id, one.round = content.get("order_id"), content.get("round")
        one.told_qty, one.status = content.get("qty"), content.get("status")
        one.told = told_by(content)
        if answer not in ("200", "201"):
            one.status = None
        self.record.add_try(one)
        return one

    def call(self, what, daemon, order_id, timeout=PATIENCE, **asked):
        """asked: ref, keep, restock and until, as a Call has them."""
        one = Call(what, order_id, daemon, self.record.now(), **asked)
        method, tail = ("GET", "") if what == "get" else ("POST", f"/{what}")
        body = {"payment_ref": one.ref, "keep": one.keep, "restock": one.restock or None,
                "expires_at": one.until and time_text(one.until)}
        body = {name: value for name, value in body.items() if value is not None}
        answer, content = self.send(daemon, method, f"/order/{order_id}{tail}", body or None,
                                    timeout=timeout)
        one.end, one.answer, one.told = self.record.now(), answer, told_by(content)
        one.status = content.get("status" if answer == "200" else "order_status")
        self.record.add_call(one)
        return one

    # operators

    def change(self, what, daemon, sku, body=None, key=None, timeout=PATIENCE):
        """what: reset, add, patch, retire or reconcile."""
        method, path = {"reset": ("POST", "/admin/stock/reset"),
                        "add": ("POST", "/admin/stock/add"),
                        "patch": ("PATCH", f"/admin/sale/{sku}"),
                        "retire": ("DELETE", f"/admin/sale/{sku}"),
                        "reconcile": ("POST", "/admin/reconcile")}[what]
        if what in ("reset", "add", "reconcile"):
            body = {"sku": sku, **(body or {})}
        one = Change(what, sku, body, key, daemon, self.record.now())
        token = self.cluster.daemons[daemon].token
        answer, content = self.send(daemon, method, path, body,
                                    {"Authorization": f"Bearer {token}", "Idempotency-Key": key},
                                    timeout)
        one.end, one.answer, one.round = self.record.now(), answer, content.get("round")
        self.record.add_change(one)
        return one

    def close(self):
        for connection in self.connections.values():
            connection.close()
        self.connections = {}


class Buyer(Client):
    """Belongs to one daemon, so that a sleeping one does not hold all clients up; when it calls
    again it may ask another one."""

    def __init__(self, cluster, record, seed, home):
        super().__init__(cluster, record, seed)
        self.home = home

    def run(self, stop):
        acts = {self.buy: 42, self.repeat: 14, self.pay: 10, self.pay_again: 5, self.pay_twice: 3,
                self.pay_late: 4, self.race: 4, self.extend: 3, self.cancel: 5, self.cut: 3,
                self.refund: 7, self.unpay: 5, self.unpay_again: 2, self.look: 10,
                self.look_at_stock: 3, self.list_orders: 2}
        while not stop.is_set():
            self.random.choices(list(acts), acts.values())[0]()
            time.sleep(self.random.uniform(*PAUSE))
        self.close()

    def anywhere(self):
        return self.random.randrange(len(self.cluster.daemons))

    def patience(self):
        return self.random.choice(HURRIED)

    def buy(self):
        number, sku = self.record.number(), self.random.choices(SALES, WEIGHTS)[0]
        keyed = self.random.random() < 0.75
        user = f"u{self.random.randrange(USERS)}" if keyed else f"once{number}"
        self.order(self.home, sku, user, self.random.randint(1, 5), f"k{number}" if keyed else None,
                   self.patience())

    def repeat(self):
        """Of a few recent keys the first whose outcome is not known, if there is one."""
        some = self.record.some(self.random, self.record.recent_tries, 5)
        unclear = [one for one in some if one.answer in UNKNOWN]
        for one in (unclear or some)[:1]:
            self.order(self.anywhere(), one.sku, one.user, one.qty, one.key, self.patience())

    def ask(self, what, **asked):
        """Of any recent order, or of one that others ask about, too."""
        newest = self.random.choice((HOT, len(self.record.recent_orders)))
        for one in self.record.some(self.random, self.record.recent_orders, newest=newest):
            self.call(what, self.anywhere(), one.order_id, self.patience(), **asked)

    def new_ref(self):
        return f"pi{self.record.number()}"

    def pay(self):
        self.ask("pay", ref=self.new_ref() if self.random.random() < NAMED else None)

    def some_payments(self, count):
        newest = self.random.choice((HOT, len(self.record.recent_payments)))
        return self.record.some(self.random, self.record.recent_payments, count, newest)

    def pay_again(self):
        """The same payment: of a few the first whose outcome is not known, if there is one."""
        some = self.some_payments(5)
        unclear = [one for one in some if one.answer in UNKNOWN]
        for one in (unclear or some)[:1]:
            self.call("pay", self.anywhere(), one.order_id, self.patience(), ref=one.ref)

    def pay_twice(self):
        """Another payment of an order that has one."""
        for one in self.some_payments(1):
            self.call("pay", self.anywhere(), one.order_id, self.patience(), ref=self.new_ref())

    def pay_late(self):
        """An order that has probably expired: any, or the one that others pay late just now."""
        for one in self.some_expired():
            self.call("pay", self.anywhere(), one.order_id, self.patience(), ref=self.new_ref())

    def some_expired(self):
        before = self.record.now() - LATE_AFTER
        if self.random.random() < 0.5:
            some = self.record.some(self.random, self.record.recent_orders, 20)
        else:
            some = self.record.just_before(self.record.recent_orders, before, 20)
        return [one for one in some if one.sku != "steady" and one.start < before][:1]

    def race(self):
        """Several calls for one order at the same moment, at different daemons."""
        if self.random.random() < 0.3:
            self.race_of_refunds()
            return
        some = self.some_expired() if self.random.random() < 0.5 else self.record.some(
            self.random, self.record.recent_orders, newest=HOT)
        for one in some:
            ref, first = self.new_ref(), self.anywhere()
            others = (("pay", {"ref": ref}), ("pay", {"ref": self.new_ref()}),
                      ("pay", {"ref": self.new_ref()}), ("pay", {}), ("cancel", {}),
                      ("cancel", {"keep": 1}), ("refund", {"ref": ref, "restock": True}),
                      ("refund", {"ref": ref}), ("unpay", {"ref": ref}),
                      ("unpay", {"ref": ref}), ("extend", {"until": self.soon()}))
            calls = [("pay", {"ref": ref}), *self.random.sample(others, RACERS - 1)]
            self.at_once(one.order_id, first, calls)

    def race_of_refunds(self):
        """Of one payment, which is told again meanwhile, or fails, and another pays its order."""
        for one in self.paid_payments():
            refund, unpay = ("refund", {"ref": one.ref, "restock": self.random.random() < 0.5}), (
                "unpay", {"ref": one.ref})
            others = (refund, unpay, unpay, ("pay", {"ref": one.ref}),
                      ("pay", {"ref": self.new_ref()}), ("pay", {}), ("cancel", {}))
            first = self.random.choice((refund, unpay))
            self.at_once(one.order_id, self.anywhere(),
                         [first, *self.random.sample(others, RACERS - 1)])

    def at_once(self, order_id, first, calls):
        with ThreadPoolExecutor(RACERS) as pool:
            for number, (what, asked) in enumerate(calls):
                pool.submit(self.call, what, (first + number) % len(self.cluster.daemons), order_id,
                            PATIENCE, **asked)

    def soon(self):
        return round(time.time() + self.random.uniform(0.5, 12), 3)

    def extend(self):
        self.ask("extend", until=self.soon())

    def cancel(self):
        self.ask("cancel")

    def cut(self):
        self.ask("cancel", keep=self.random.randint(1, 3))

    def refund(self):
        """Of any payment, whether it has paid its order or not."""
        for one in self.some_payments(1):
            keep = self.random.randint(1, 3) if self.random.random() < 0.3 else None
            self.call("refund", self.anywhere(), one.order_id, self.patience(), ref=one.ref,
                      restock=self.random.random() < 0.5, keep=keep)

    def paid_payments(self):
        """Of a few one that has paid its order, if there is one."""
        some = self.some_payments(5)
        return ([one for one in some if one.answer == "200"] or some)[:1]

    def unpay(self):
        """A payment fails, and now and then the buyer pays again: with a new one, without a name,
        or with the one that has failed."""
        for one in self.paid_payments():
            daemon = self.anywhere()
            self.call("unpay", daemon, one.order_id, self.patience(), ref=one.ref)
            if self.random.random() < 0.5:
                ref = self.random.choices((self.new_ref(), None, one.ref), (8, 1, 1))[0]
                self.call("pay", daemon, one.order_id, self.patience(), ref=ref)

    def unpay_again(self):
        """Of a few the first whose outcome is not known, if there is one."""
        some = self.record.some(self.random, self.record.recent_unpays, 5)
        unclear = [one for one in some if one.answer in UNKNOWN]
        for one in (unclear or some)[:1]:
            self.call("unpay", self.anywhere(), one.order_id, self.patience(), ref=one.ref)

    def look(self):
        self.ask("get")

    def look_at_stock(self):
        answer, page = self.send(self.home, "GET", f"/stock/{self.random.choice(SALES)}")
        self.record.add_other("stock", answer)
        if answer == "200":
            self.record.add_page(Page(self.record.now(), page))

    def list_orders(self):
        answer, _ = self.send(self.home, "GET", f"/user/u{self.random.randrange(USERS)}/orders")
        self.record.add_other("list", answer)


def some_buyers(cluster, record, seed):
    """BUYERS_EACH for every daemon."""
    return [Buyer(cluster, record, f"buyer {seed} {number}", number % len(cluster.daemons))
            for number in range(BUYERS_EACH * len(cluster.daemons))]


class InThreads:
    """Context manager: each of these has a thread for its run(stop), until the context is left."""

    def __init__(self, *clients):
        self.failures = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(one,)) for one in clients]

    def _run(self, client):
        try:
            client.run(self._stop)
        except Exception as error:  # a client that breaks must not pass for a quiet one
            self.failures.append(repr(error))
            raise

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()
