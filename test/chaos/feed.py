"""A reader of the feed of events, and what the feed must say when everything is over."""

import json
from zlib import crc32

from chaos.clients import Client
from harness.feed import position_of

WAIT_S = 2
PAGE = 1000
STATUS = {"accepted": {"reserved"}, "paid": {"paid"}, "retaken": {"paid"},
          "cancelled": {"cancelled"}, "expired": {"expired"}, "refunded": {"refunded"},
          "unpaid": {"reserved"}, "changed": {"reserved", "paid"}}


def sum_of(event):
    return crc32(json.dumps(event).encode())


class Reader(Client):
    """Reads on, at any daemon, and keeps a checksum of each event by its position. A cursor that
    one daemon gave is good at each."""

    def __init__(self, cluster, record, seed):
        super().__init__(cluster, record, f"reader {seed}")
        self.sums, self.faults, self.cursor = [], [], "0"

    def read(self, daemon, after, wait_s=0):
        """(events, next); None when the daemon does not answer, or not now."""
        answer, content = self.send(
            daemon, "GET", f"/events?after={after}&limit={PAGE}&wait_s={wait_s}")
        self.record.add_other("events", answer)
        if answer == "200":
            return content["events"], content["next"]
        if answer and answer[0] != "5":
            self.faults.append(f"a reader at {after} was answered {answer}")
        return None

    def run(self, stop):
        try:
            while not stop.is_set():
                page = self.read(self.random.randrange(len(self.cluster.daemons)), self.cursor,
                                 WAIT_S)
                if page is None:
                    stop.wait(0.2)
                else:
                    self.take(*page)
        finally:
            self.close()

    def take(self, events, after):
        for event in events:
            if int(event["id"]) != len(self.sums) + 1:
                self.faults.append(f"position {event['id']} was told behind {len(self.sums)}")
                return
            self.sums.append(sum_of(event))
        self.cursor = after
        if position_of(after) != len(self.sums):
            self.faults.append(f"next is {after} behind position {len(self.sums)}")

    def replay(self):
        """All events from the first one on; None in place of those that no daemon gives."""
        after, tries = "0", 0
        while tries < 100:
            page = self.read(tries % len(self.cluster.daemons), after)
            tries = tries + 1 if page is None else 0
            if page is not None and not page[0]:
                return
            yield from page[0] if page else ()
            after = page[1] if page else after
        self.faults.append("no daemon answers a reader")


class History:
    """What the feed has said of each order and payment."""

    def __init__(self):
        self.orders, self.due, self.failed, self.faults = {}, {}, {}, []
        self.paying, self.replaced = {}, set()  # names of payments, as the keys of `failed`

    def take(self, number, event):
        """The event with this number, from 1 on."""
        if int(event["id"]) != number:
            self.faults.append(f"event {number} of the feed has the position {event['id']}")
        kind, _, what = event["type"].partition(".")
        if kind == "payment":
            name = event["subject"], event["data"]["payment_ref"]
            self.due[name] = self.due.get(name, 0) + 1
        elif kind == "order":
            version, _, _ = self.orders.get(event["subject"], (0, None, None))
            if event["version"] != version + 1 or (version == 0) != (what == "accepted"):
                self.faults.append(f"order {event['subject']}: version {event['version']}, {what}, "
                                   f"comes behind version {version}")
            self.orders[event["subject"]] = event["version"], what, event["data"]["qty"]
            self.take_payment(event["subject"], what, event["data"].get("payment_ref"))

    def take_payment(self, order_id, what, ref):
        """An event of an order may name the payment that pays it from then on, or has failed."""
        name = order_id, ref
        if what == "unpaid":
            self.failed[name] = self.failed.get(name, 0) + 1
        elif ref:
            before = self.paying.get(order_id)
            if what == "changed" and before != name:
                self.replaced.add(before)
            self.paying[order_id] = name

    def compare(self, ledger):
        """Yields what differs between the feed and the ledger."""
        yield from self.faults
        rows = {}
        for order_id, version, status, qty in ledger.run(
                "SELECT order_id, COALESCE(version, 1), status, qty FROM orders"):
            rows[order_id] = int(version), status, int(qty)
        for order_id in rows.keys() | self.orders.keys():
            version, status, qty = rows.get(order_id, (0, None, 0))
            last, what, told_qty = self.orders.get(order_id, (0, None, 0))
            if last != version or qty != told_qty or status not in STATUS.get(what, ()):
                yield (f"order {order_id}: the ledger has version {version}, {status}, {qty}; the "
                       f"feed {last}, {what}, {told_qty}")
        due = {(order_id, ref): 1 for order_id, ref in ledger.run(
            "SELECT order_id, payment_ref FROM payment"
            " WHERE outcome IN ('too_late', 'already_paid')")}
        for name in due.keys() | self.due.keys():
            if due.get(name) != self.due.get(name):
                yield (f"payment {name}: due in the ledger {due.get(name, 0)} times, in the feed "
                       f"{self.due.get(name, 0)}")
        yield from self.compare_failed(ledger)

    def compare_failed(self, ledger):
        """A failure is told once, or the order stays paid by another payment, which is told."""
        failed = set(ledger.run("SELECT order_id, payment_ref FROM payment WHERE state = 'failed'"))
        for name in failed | self.failed.keys():
            times = self.failed.get(name, 0)
            if name not in failed or times != int(name not in self.replaced):
                yield (f"payment {name}: failed in the ledger {int(name in failed)} times, in the"
                       f" feed {times}")
