#!/usr/bin/env python3
"""A sale from start to end, as a shop drives it; it needs Python's standard library alone.

usage: sale.py SKU BUYERS

It creates a sale, lets so many buyers order one unit each, pays the first order, cancels the
second, pays back the second one's money, which comes too late, shows the lists, begins the next
round, and hears from the feed of events which orders have expired by that. The shop's own tables
are an SQLite file: kill this program at any moment and start it again, and each buyer still has one
order.

SALE_URL               the service as buyers and shop reach it, http://127.0.0.1:8080 by default
SALE_ADMIN_URL         the service as operators reach it, by default the same
SALE_ADMIN_TOKEN_FILE  run/admin.token by default
SALE_SHOP_TOKEN_FILE   only where the service has a shop token
SALE_DATABASE          the shop's table, shop.sqlite by default
"""
import http.client
import json
import os
import sqlite3
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

URL = os.environ.get("SALE_URL", "http://127.0.0.1:8080")
ADMIN_URL = os.environ.get("SALE_ADMIN_URL", URL)
TRY_S = 5  # for one try: more than the service takes for any call, 4 s
LOST_S = 3  # before the next try, if no answer came: more than the service's deadline_ms, 2 s
GIVE_UP_S = 60  # for all tries of a call; choose what a buyer waits for
WAIT_S = 2  # for an event; with the service's deadline_ms, 2 s, less than TRY_S


class Refused(Exception):
    """The service has decided: no. `code` is stable."""

    def __init__(self, status, problem):
        super().__init__(f"{status} {problem['code']}: {problem['detail']}")
        self.code, self.problem = problem["code"], problem


class Undecided(Exception):
    """No decision within GIVE_UP_S: the call may have been carried out. Repeat it later."""


def send(method, url, body, headers):
    """One try. Returns (status, seconds to wait before the next try, text); status 0 means that no
    whole answer came."""
    request = urllib.request.Request(url, body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=TRY_S) as answer:
            return answer.status, 0, answer.read().decode()
    except urllib.error.HTTPError as error:
        try:
            wait_s = int(error.headers.get("Retry-After", LOST_S))
            return error.code, wait_s, error.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, LOST_S, ""
    except (OSError, http.client.HTTPException):  # refused, reset, cut off, or too late
        return 0, LOST_S, ""


def call(method, path, body=None, key=None, token=None, base=URL):
    """Repeats the very same request until the service has decided. That is safe for every call
    that carries a key, and for those that are harmless to repeat by nature."""
    headers = {"Content-Type": "application/json"} if body is not None else {}
    if key is not None:
        headers["Idempotency-Key"] = key
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    end = time.monotonic() + GIVE_UP_S
    while True:
        status, wait_s, text = send(method, base + path, data, headers)
        if 200 <= status < 300:
            return text
        if 400 <= status < 500 and status not in (408, 429):
            raise Refused(status, json.loads(text))
        if time.monotonic() + wait_s > end:
            raise Undecided(f"{method} {path}")
        time.sleep(wait_s)


def token_of(variable, default):
    name = os.environ.get(variable, default)
    if not name:
        return None
    with open(name, encoding="ascii") as file:
        return file.readline().strip()


ADMIN = token_of("SALE_ADMIN_TOKEN_FILE", "run/admin.token")
SHOP = token_of("SALE_SHOP_TOKEN_FILE", None)


def admin(method, path, body=None, key=None):
    return call(method, path, body, key, ADMIN, ADMIN_URL)


def create_sale(sku, total):
    """Creates the sale, or finds it as an earlier run has created it."""
    sale = {"sku": sku, "total": total, "segments": 4, "per_user_limit": 2, "pay_within_s": 900,
            "if_round": 0}
    return json.loads(admin("POST", "/admin/stock/reset", sale, key=f"create-{sku}"))


def open_database():
    """The shop's own tables. A purchase is committed before the first call for it is made."""
    database = sqlite3.connect(os.environ.get("SALE_DATABASE", "shop.sqlite"))
    database.execute("""CREATE TABLE IF NOT EXISTS purchase (
        purchase_id TEXT PRIMARY KEY, -- also the Idempotency-Key
        sku TEXT NOT NULL, user_id TEXT NOT NULL, qty INTEGER NOT NULL,
        state TEXT NOT NULL DEFAULT 'asked', -- until it is reserved or refused
        order_id TEXT, expires_at TEXT, code TEXT,
        payment_ref TEXT)""")
    database.execute("""CREATE TABLE IF NOT EXISTS fate ( -- what the feed has told of each order
        order_id TEXT PRIMARY KEY, state TEXT NOT NULL, version INTEGER NOT NULL)""")
    database.execute("CREATE TABLE IF NOT EXISTS feed (one INTEGER PRIMARY KEY, cursor TEXT)")
    return database


def buy(database, purchase_id, sku, user_id, qty=1):
    """The id of the order, None if it was refused. Repeat it after a crash, or after Undecided."""
    with database:
        database.execute("INSERT OR IGNORE INTO purchase (purchase_id, sku, user_id, qty)"
                         " VALUES (?, ?, ?, ?)", (purchase_id, sku, user_id, qty))
    state, order_id = database.execute("SELECT state, order_id FROM purchase"
                                       " WHERE purchase_id = ?", (purchase_id,)).fetchone()
    if state != "asked":  # an earlier run has heard the decision
        return order_id
    try:
        order = json.loads(call("POST", "/order", {"sku": sku, "user_id": user_id, "qty": qty},
                                key=purchase_id))
    except Refused as refused:
        note(database, purchase_id, "refused", refused.code)
        return None
    note(database, purchase_id, order["status"], None, order["order_id"], order.get("expires_at"))
    return order["order_id"]


def note(database, purchase_id, state, code=None, order_id=None, expires_at=None):
    """Commits the decision in one step."""
    with database:
        database.execute("UPDATE purchase SET state = ?, code = ?, order_id = ?, expires_at = ?"
                         " WHERE purchase_id = ?", (state, code, order_id, expires_at, purchase_id))


def pay(database, order_id, ref):
    """True when the order is paid: now the shop may capture the money. False: the shop owes the
    money back, and the service lists the payment as refund_due. Repeat it after a crash."""
    with database:
        database.execute("UPDATE purchase SET payment_ref = ? WHERE order_id = ?", (ref, order_id))
    try:
        call("POST", f"/order/{order_id}/pay", {"payment_ref": ref}, token=SHOP)
        return True
    except Refused as refused:
        if refused.code in ("payment_too_late", "already_paid"):
            return False
        raise


def pay_back_what_is_due(sku):
    """Returns how many payments. Either step may be repeated, so a run that dies between them does
    no harm: the service lists the payment until it hears of the refund."""
    due = payments(sku, "refund_due")
    for payment in due:
        order, ref = payment["order_id"], payment["payment_ref"]
        ask_provider_to_refund(ref, key=f"{order}:{ref}:0")  # 0 units remain
        call("POST", f"/order/{order}/refund", {"payment_ref": ref, "restock": False}, token=SHOP)
    return len(due)


def ask_provider_to_refund(_ref, key):
    """A shop calls its payment provider here, with the idempotency key, and returns when the refund
    has succeeded. Money that was only authorised is released."""
    assert key


def cancel(order_id):
    """True when the order is cancelled: its unit is on sale again."""
    try:
        call("POST", f"/order/{order_id}/cancel", token=SHOP)
        return True
    except Refused as refused:
        if refused.code == "invalid_state":  # it was paid, or it has expired
            return False
        raise


def shop(method, path):
    return call(method, path, token=SHOP)


def pages(get, path, of="orders"):
    """A whole list; pages go on while they name a next one."""
    found, after = [], ""
    while after is not None:
        page = json.loads(get("GET", path + after))
        found += page[of]
        after = "&after=" + urllib.parse.quote(page["next"], safe="") if "next" in page else None
    return found


def orders_of(user_id, sku):
    """All orders of a user in a sale."""
    user = urllib.parse.quote(user_id, safe="")
    return pages(shop, f"/user/{user}/orders?sku={sku}")


def payments(sku, state):
    """All payments of a sale that are in this state."""
    return pages(shop, f"/payments?sku={sku}&state={state}", of="payments")


def export(sku):
    """All orders of the sale, as a list of dicts."""
    return pages(admin, f"/admin/orders?limit=1000&sku={sku}")


def next_round(sku, sale):
    """Ends the sale, then begins a round that nobody can order in before the operator resumes it.
    Reserved orders of the round before expire; paid ones stay paid."""
    admin("PATCH", f"/admin/sale/{sku}", {"paused": True})
    reset = {"sku": sku, "total": sale["total"], "segments": sale["segments"], "paused": True,
             "if_round": sale["round"], "end_round": True}
    return json.loads(admin("POST", "/admin/stock/reset", reset, key=f"end-{sku}-{sale['round']}"))


STATES = {"order.accepted": "reserved", "order.paid": "paid", "order.retaken": "paid",
          "order.unpaid": "reserved",
          "order.cancelled": "cancelled", "order.expired": "expired", "order.refunded": "refunded"}


def follow(database):
    """Takes the next events. Commits what they say together with the cursor, so that a crash
    neither loses an event nor takes one twice."""
    cursor = database.execute("SELECT cursor FROM feed").fetchone()
    after = f"&after={cursor[0]}" if cursor else ""  # without it: from the oldest event on
    try:
        page = json.loads(shop("GET", f"/events?wait_s={WAIT_S}{after}"))
        fates = [(event["subject"], STATES[event["type"]], event["version"])
                 for event in page["events"] if event["type"] in STATES]
    except Refused as refused:
        if refused.code != "cursor_expired":
            raise
        page = {"next": refused.problem["oldest"]}  # events are lost: the lists replace them
        fates = [(order["order_id"], order["status"], order["version"])
                 for order in pages(admin, "/admin/orders?limit=1000")]
    with database:
        if "events" not in page:
            database.execute("DELETE FROM fate")
        database.executemany(
            "INSERT INTO fate VALUES (?, ?, ?) ON CONFLICT (order_id) DO UPDATE SET"
            " state = excluded.state, version = excluded.version"
            " WHERE excluded.version > version", fates)
        database.execute("INSERT OR REPLACE INTO feed VALUES (1, ?)", (page["next"],))


def wait_for_expiries(database, sku):
    """Follows the feed until none of the sale's orders is reserved; how many have expired."""
    while True:
        states = [state for state, in database.execute(
            "SELECT fate.state FROM purchase LEFT JOIN fate USING (order_id)"
            " WHERE sku = ? AND order_id IS NOT NULL", (sku,))]
        if not {None, "reserved"} & set(states):
            return states.count("expired")
        follow(database)


def main(sku, buyers):
    database = open_database()
    if database.execute("SELECT 1 FROM purchase WHERE state = 'asked'").fetchone():
        time.sleep(LOST_S)  # tries of a run that died may still be under way
    sale = create_sale(sku, total=buyers)
    print(f"round {sale['round']} of {sku}: {sale['total']} units")

    orders = [buy(database, f"{sku}-{i}", sku, f"buyer-{i}@example.com") for i in range(buyers)]
    print("orders", *orders)
    assert buy(database, f"{sku}-late", sku, "late@example.com") is None  # sold out
    print("paid", pay(database, orders[0], f"pi-{sku}-0"))
    print("cancelled", cancel(orders[1]))
    print("paid after the cancel", pay(database, orders[1], f"pi-{sku}-1"))
    print("paid back", pay_back_what_is_due(sku))

    order = json.loads(call("GET", "/order/" + orders[0]))
    print("order", order["order_id"], "is", order["status"])
    print("buyer-0 has", len(orders_of("buyer-0@example.com", sku)), "order")
    stock = json.loads(call("GET", "/stock/" + sku))
    print("sold", stock["sold"], "as of", stock["as_of"])
    print("exported", len(export(sku)), "orders")
    print("round", next_round(sku, sale)["round"], "waits for the operator")
    print("expired", wait_for_expiries(database, sku), "orders")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
