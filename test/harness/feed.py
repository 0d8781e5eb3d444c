"""A reader of the feed of events, which checks what the feed promises of what it reads."""

import http.client
import itertools
import threading

from harness.processes import HarnessError, wait_until


def position_of(cursor):
    """The position in a cursor, whose first part it is: nothing but a test may know that."""
    return int(cursor.split(".")[0])


class Feed:
    """Reads on from a cursor; keeps all events."""

    def __init__(self, daemon, after="0"):
        self.daemon, self.cursor = daemon, after
        self.events, self.versions = [], {}

    def ask(self, limit=1000, wait_s=0, daemon=None):
        return (daemon or self.daemon).request(
            "GET", f"/events?after={self.cursor}&limit={limit}&wait_s={wait_s}", timeout=90)

    def read(self, limit=1000, wait_s=0, daemon=None):
        """Reads once and returns the new events."""
        response = self.ask(limit, wait_s, daemon)
        if response.status != 200:
            raise HarnessError(f"GET /events was answered {response.answer}")
        page = response.json()
        position = None if self.cursor == "end" else position_of(self.cursor)
        for event in page["events"]:
            position = self.take(event, position)
        self.cursor = page["next"]
        return page["events"]

    def take(self, event, last_position):
        """Returns the event's position."""
        position = int(event["id"])
        if last_position is not None and position != last_position + 1:
            raise HarnessError(f"position {position} comes behind {last_position}")
        self.events.append(event)
        if "version" not in event:
            return position
        last = self.versions.get(event["subject"], 0)
        if event["version"] != last + 1:
            raise HarnessError(f"version {event['version']} of order {event['subject']} comes "
                               f"behind {last}")
        self.versions[event["subject"]] = event["version"]
        return position

    def read_all(self):
        """Reads until there are no more for now."""
        while self.read():
            pass
        return self.events

    def until(self, condition, what):
        """Reads on until the condition is true of an event; returns that event."""
        def look():
            found = [event for event in self.read(wait_s=1) if condition(event)]
            return found and found[0]
        return wait_until(look, what)

    def of(self, order_id):
        """[(type without its first part, version)] of an order's events so far."""
        return [(event["type"].split(".")[1], event.get("version")) for event in self.events
                if event["subject"] == order_id]


class Follower(Feed):
    """Context manager: follows the feed meanwhile, at daemon after daemon, whatever breaks."""

    def __init__(self, daemons):
        super().__init__(daemons[0])
        self.daemons, self.ended, self.error = itertools.cycle(daemons), threading.Event(), None

    def __enter__(self):
        self.thread = threading.Thread(target=self.follow)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def follow(self):
        while not self.ended.is_set() and not self.error:
            self.daemon = next(self.daemons)
            try:
                if self.ask().status == 503:
                    self.ended.wait(0.2)
                else:
                    self.read(wait_s=1)
                    self.ended.wait(0.05)
            except HarnessError as error:
                self.error = "503" not in str(error) and error
            except (OSError, http.client.HTTPException):
                self.ended.wait(0.2)


def published(daemon):
    """Waits until all that is committed has its place in the feed."""
    wait_until(lambda: not daemon.stack.ledger.number(
        "SELECT COUNT(*) FROM event_batch WHERE position = 0"), "publishing")


def assert_feed_is_the_ledger(feed, ledger):
    """Every order's last version in the ledger is the last one in the feed, which has no others."""
    orders = dict(ledger.run("SELECT order_id, COALESCE(version, 1) FROM orders"))
    assert feed.versions == {order: int(version) for order, version in orders.items()}
