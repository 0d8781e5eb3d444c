"""/demo in a headless Chromium: a shopper buys, whatever happens in between, exactly once."""

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from chrome import DESKTOP, PHONE
from harness.audit import answered
from harness.daemon import STEADY
from harness.processes import free_port, wait_until
from harness.proxy import COMMIT, WRITE

BUYER = "ada@example.com"
STATUS = "#order-status"
# Chromium's own lines about calls that were refused or had no answer: both are expected here.
NETWORK = "Failed to load resource"


@pytest.fixture
def shop(stack, spawn):
    daemon = spawn(stack, demo="on", **STEADY)
    daemon.reset()
    return daemon


def url(daemon, sku="demo"):
    host, port = daemon.address
    return f"http://{host}:{port}/demo?sku={sku}"


def enter(chrome, daemon, **how):
    page = chrome.open(url(daemon), **how)
    page.fill("#user", BUYER)
    page.wait_for("#buy:enabled")
    return page


def buy(page, qty=1):
    page.fill("#qty", str(qty))
    page.click("#buy")


def wait_text(page, selector, *texts):
    """Until it has one of the texts."""
    page.wait(f"{list(texts)}.some((text) => "
              f"document.querySelector({selector!r}).textContent.includes(text))")


def bought(page):
    """Waits for an order; its id."""
    page.wait("!document.querySelector('#order').hidden")
    wait_text(page, "#result", "Bought")
    return page.text("#order-id")


def orders(daemon):
    return daemon.stack.ledger.number("SELECT COUNT(*) FROM orders WHERE status <> 'cancelled'")


def payments(daemon):
    return daemon.admin("GET", "/admin/payments").json()["payments"]


def assert_clean(page):
    assert [error for error in page.errors() if not error.startswith(NETWORK)] == []


def test_shopper_buys_pays_and_finds_the_order_again(chrome, shop):
    page = enter(chrome, shop)
    buy(page, 2)
    order_id = bought(page)
    assert page.text(STATUS) == "reserved"
    assert shop.get(f"/order/{order_id}").json()["user_id"] == BUYER
    wait_text(page, "#left", "998 of 1000 units left")
    page.click("#pay")
    wait_text(page, STATUS, "paid")
    wait_text(page, "#order-result", "Paid.")
    assert shop.get(f"/order/{order_id}").json()["status"] == "paid"
    assert [(row["payment_ref"], row["outcome"]) for row in payments(shop)] == [
        (f"demo-{order_id}", "in_time")]
    page.reload()
    wait_text(page, STATUS, "paid")
    assert page.text("#order-id") == order_id
    assert page.eval("document.querySelector('#pay').disabled")
    assert_clean(page)


def test_cancelled_units_can_be_bought_by_another(chrome, shop):
    shop.reset(total=1, segments=1)
    page = enter(chrome, shop)
    buy(page)
    bought(page)
    wait_text(page, "#phase", "Sold out")
    other = chrome.open(url(shop), name="other")
    other.wait_for("#buy:enabled")
    other.click("#buy")
    wait_text(other, "#result", "Sold out. You bought nothing.")
    page.click("#cancel")
    wait_text(page, STATUS, "cancelled")
    other.wait_for("#buy:enabled")
    other.click("#buy")
    bought(other)
    assert orders(shop) == 1
    for one in (page, other):
        assert_clean(one)


def test_limit_shows_the_orders_that_count(chrome, shop):
    shop.reset(per_user_limit=1)
    page = enter(chrome, shop)
    buy(page)
    order_id = bought(page)
    page.click("#forget")
    buy(page)
    wait_text(page, "#result", "all you may have of this sale: 1 unit")
    page.click(f'text="Order {order_id}"')
    wait_text(page, STATUS, "reserved")
    assert orders(shop) == 1


def test_sale_opens_under_the_eyes_of_the_shopper(chrome, shop):
    shop.reset(starts_at="2099-11-11T12:00:00Z")
    page = chrome.open(url(shop))
    wait_text(page, "#phase", "Opens soon")
    wait_text(page, "#countdown", "in ")
    assert page.eval("document.querySelector('#buy').disabled")
    opening = datetime.now(timezone.utc) + timedelta(seconds=3)
    shop.change(starts_at=opening.isoformat(), ends_at="2099-11-11T12:00:00Z")
    wait_text(page, "#phase", "Open now")
    assert datetime.now(timezone.utc) >= opening  # by the service's clock
    wait_text(page, "#countdown", "ends in ")
    page.wait_for("#buy:enabled")
    page.click("#buy")
    bought(page)
    shop.change(paused=True)
    wait_text(page, "#phase", "Paused")
    shop.change(paused=False, ends_at="2020-01-01T00:00:00Z", starts_at=None)
    wait_text(page, "#phase", "over")
    assert page.eval("document.querySelector('#buy').disabled")


def test_unpaid_order_expires(chrome, shop):
    shop.reset(pay_within_s=2, late_payment="refund")
    page = enter(chrome, shop)
    buy(page)
    bought(page)
    wait_text(page, STATUS, "expired")
    wait_text(page, "#pay-by", "Too late to pay.")
    assert page.eval("document.querySelector('#pay').disabled")


def too_late(chrome, shop, **how):
    """A page whose order has expired, and its id."""
    shop.reset(total=3, segments=1, pay_within_s=2)
    page = enter(chrome, shop, **how)
    buy(page, 2)
    order_id = bought(page)
    wait_text(page, STATUS, "expired")
    wait_text(page, "#pay-by", "You can still try")
    page.wait_for("#pay:enabled")
    assert page.text("#pay") == "Pay late"
    assert page.eval("document.querySelector('#cancel').disabled")
    return page, order_id


def test_late_payment_gets_the_units_again(chrome, shop):
    page, order_id = too_late(chrome, shop)
    assert shop.stock()["sold"] == 0
    page.click("#pay")
    wait_text(page, "#order-result", "Paid, though late: you have your units again.")
    wait_text(page, STATUS, "paid")
    assert shop.stock()["sold"] == 2
    assert [row["outcome"] for row in payments(shop)] == ["retaken"]
    page.reload()
    wait_text(page, STATUS, "paid")
    assert page.text("#order-id") == order_id
    assert_clean(page)


def test_late_payment_that_finds_no_units_goes_back(chrome, shop):
    page, order_id = too_late(chrome, shop)
    shop.change(pay_within_s=None)
    assert shop.order(user_id="quicker", qty=2).status == 201
    page.click("#pay")
    wait_text(page, "#order-result", "Too late")
    wait_text(page, "#order-result", "The shop pays your money back.")
    assert page.text(STATUS) == "expired"
    assert page.eval("document.querySelector('#pay').disabled")
    assert [row["state"] for row in payments(shop)] == ["refund_due"]
    assert page.axe() == []
    assert shop.refund(order_id, f"demo-{order_id}").status == 200
    page.reload()
    page.wait_for("#pay:enabled")
    page.click("#pay")  # the same payment: it is told what has become of it
    wait_text(page, "#order-result", "The shop has paid your money back.")
    assert_clean(page)


def test_order_that_another_payment_has_paid(chrome, shop):
    page = enter(chrome, shop)
    buy(page)
    order_id = bought(page)
    assert shop.pay(order_id, "by-phone").status == 200
    page.click("#pay")
    wait_text(page, "#order-result", "Another payment had paid it already.")
    wait_text(page, STATUS, "paid")
    assert [row["state"] for row in payments(shop)] == ["taken", "refund_due"]
    assert_clean(page)


def test_too_many_attempts_wait_as_long_as_they_are_told(chrome, stack, spawn):
    daemon = spawn(stack, demo="on", rate_user_per_min=1, rate_user_burst=1, **STEADY)
    daemon.reset()
    page = enter(chrome, daemon)
    buy(page)
    bought(page)
    page.click("#forget")
    buy(page)
    wait_text(page, "#result", "Too many attempts")
    wait_text(page, "#buy", "Buy again in")
    assert page.eval("document.querySelector('#buy').disabled")


def test_shop_token_stays_with_the_shop(chrome, stack, spawn):
    daemon = spawn(stack, demo="on", shop_token="shop-token-0123456789", **STEADY)
    daemon.reset()
    page = enter(chrome, daemon)
    buy(page)
    order_id = bought(page)
    page.click("#pay")
    wait_text(page, "#order-result", "shop token, which only the shop")
    assert page.eval("document.querySelector('#cancel').disabled")
    assert daemon.get(f"/order/{order_id}").json()["status"] == "reserved"
    assert_clean(page)


# --- Exactly once, whatever happens -------------------------------------------------------------


@pytest.fixture
def fragile(stack, spawn, proxies):
    """A daemon that comes back at the address where it was, and the proxy before its ledger."""
    proxy = proxies(stack.ledger.port)
    spawn(stack, **STEADY).reset()  # it has more time for that
    daemon = spawn(stack, demo="on", listen=f"127.0.0.1:{free_port()}", deadline_ms=3000,
                   mysql_url=proxy.url(stack.mysql_url))
    assert answered(lambda: daemon.order(user_id="before", key="before")).status in (200, 201)
    return daemon, proxy


@pytest.mark.parametrize("moment", ["before its commit", "after its commit"])
def test_daemon_killed_in_mid_order_and_restarted(chrome, fragile, moment):
    daemon, proxy = fragile
    page = enter(chrome, daemon)
    if moment == "before its commit":
        trap = proxy.once(WRITE, before=lambda _: daemon.kill())
    else:
        trap = proxy.once(COMMIT, after=lambda _: daemon.kill())
    buy(page)
    trap.wait()
    wait_text(page, "#result", "no answer: trying again")
    daemon.start()
    order_id = bought(page)
    assert orders(daemon) == 2
    assert daemon.get(f"/order/{order_id}").json()["user_id"] == BUYER
    assert_clean(page)


def test_outcome_unknown_is_asked_again_with_the_same_key(chrome, fragile):
    daemon, proxy = fragile
    page = enter(chrome, daemon)
    proxy.once(COMMIT, after=lambda _: proxy.refuse())
    buy(page)
    wait_text(page, "#result", "trying again")
    proxy.admit()
    bought(page)
    assert orders(daemon) == 2
    asked = page.eval("[...document.querySelectorAll('#calls li')]"
                      ".map((line) => line.textContent).filter((line) => line.includes('key'))"
                      ".map((line) => line.split('→')[0].split('key')[1])")
    assert len(asked) >= 2 and len(set(asked)) == 1


def test_page_reloaded_in_mid_order_goes_on(chrome, fragile):
    daemon, proxy = fragile
    page = enter(chrome, daemon)
    proxy.hold()
    buy(page)
    wait_text(page, "#result", "Sending", "trying again")  # which follows in 3 s
    page.reload()
    proxy.resume()
    bought(page)
    assert orders(daemon) == 2
    assert page.eval("document.querySelector('#user').value") == BUYER


# --- For everybody ------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible_and_within_the_screen(chrome, shop, size, scheme, tmp_path):
    shop.reset(total=100, segments=4, pay_within_s=900, per_user_limit=2)
    page = enter(chrome, shop, size=size, colorScheme=scheme)
    assert page.axe() == []
    buy(page)
    bought(page)
    wait_text(page, "#pay-by", "Pay within")
    assert page.axe() == []
    page.click("summary")
    assert page.axe() == []
    page.click("summary")
    assert page.eval("document.documentElement.scrollWidth <= innerWidth")
    kept = os.environ.get("PICTURES")
    page.screenshot(Path(kept or tmp_path, f"demo-{scheme}-{size[0]}.png"), fullPage=True)


def test_by_keyboard_alone(chrome, shop):
    page = enter(chrome, shop)
    page.eval("document.querySelector('#qty').focus()")
    page.press("Tab")
    assert page.eval("document.activeElement.id") == "buy"
    page.press("Enter")
    order_id = bought(page)
    page.eval("document.querySelector('#pay').focus()")
    page.press("Enter")
    wait_until(lambda: shop.get(f"/order/{order_id}").json()["status"] == "paid", "the payment")
