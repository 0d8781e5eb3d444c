"""The dashboard in a browser: what it shows during a rush, when things break, and what it does."""

import json
import time

import pytest

from chrome import DESKTOP, PHONE
from harness.daemon import STEADY, TOKEN
from harness.processes import free_port, wait_until

LIVE = "document.querySelector('#link').dataset.state === 'good'"
WELL = "document.querySelector('#alarms').dataset.state === 'good'"
UNAVAILABLE = "Failed to load resource: the server responded with a status of 503"
NETWORK = ("Failed to load resource: net::",)  # a browser says so of a dead server


def dashboard(chrome, daemon, size=DESKTOP, **options):
    """The page of this daemon, once it has figures."""
    host, port = daemon.admin_address()
    page = chrome.open(f"http://{host}:{port}/dashboard", size, **options)
    page.wait(LIVE)
    return page


def js(text):
    return json.dumps(text)


def card(sku):
    return f'article[data-sku="{sku}"]'


def text_has(selector, text):
    """An expression: the element is there and shows the text."""
    return f"(document.querySelector({js(selector)})?.innerText ?? '').includes({js(text)})"


def number(selector):
    """An expression: the number that an element shows."""
    return (f"Number((document.querySelector({js(selector)})?.innerText ?? '')"
            ".replace(/[^0-9.]/g, ''))")


ACCEPTED = '#figures [data-name="accepted"] .value'
LEFT = f'{card("demo")} .left .large'


def begin(page, action, sku="demo"):
    """Presses the button of an action, wherever it stands, once the page shows the sale."""
    button = f'{card(sku)} button[data-action="{action}"]'
    page.wait(f"document.querySelector({js(button)}) !== null")
    if not page.eval(f"document.querySelector({js(button)}).checkVisibility()"):
        page.click(f"{card(sku)} summary")
    page.click(button)


def hand_over(page, secret=TOKEN):
    page.wait_for("dialog input[name=token]")
    page.fill("dialog input[name=token]", secret)
    page.click("dialog button[type=submit]")


def enter_token(page):
    page.click("#token")
    hand_over(page)
    page.wait(text_has("#token", "Forget token"))


def no_errors(page, *expected):
    """No console error, except errors that begin with one of `expected`."""
    assert [error for error in page.errors() if not error.startswith(expected or ("\0",))] == []


def test_page_elsewhere_asks_for_the_token_once(chrome, daemon):
    """A proxy names the machine that the browser is on; nobody asks without a token again."""
    host, port = daemon.admin_address()
    page = chrome.open(f"http://{host}:{port}/dashboard",
                       extraHTTPHeaders={"X-Forwarded-For": "192.0.2.9"})
    page.wait(text_has("#link", "wants the token"))
    page.wait(text_has("#alarms", "holders of the admin token"))
    page.wait("performance.now() > 4000")  # four questions of a page that lost its daemon
    assert daemon.metric('seckill_unauthorized_total{class="admin"}') == 1
    enter_token(page)
    page.wait(LIVE)
    page.click("#token")
    page.wait(text_has("#link", "wants the token"))
    no_errors(page, "Failed to load resource: the server responded with a status of 401")


# what it shows

def test_rush_moves_figures_bars_and_curves(chrome, stack, spawn, load):
    daemon = spawn(stack, **STEADY)
    daemon.reset("demo", 1_000_000, 20)
    page = dashboard(chrome, daemon)
    page.wait(f"{number(LEFT)} === 1000000")
    assert page.count(f"{card('demo')} .segments .segment") == 20
    running = load(daemon, connections=16, stop_after=10**9, seconds=100)
    page.wait(f"{number(ACCEPTED)} > 0")
    page.wait(f"{number(LEFT)} < 1000000 && (globalThis.seen ??= {number(LEFT)}) > {number(LEFT)}")
    page.wait(text_has(f"{card('demo')} .pace", "sold out in"))
    page.wait(f"{number('#figures [data-name=p99_ms] .value')} > 0")
    page.wait("/accepted [1-9]/.test(document.querySelector('#rates').ariaLabel)")
    page.wait("document.querySelectorAll('.chart:has(canvas)').length === 2")
    running.stop()
    page.wait(f"{number(ACCEPTED)} === 0")
    wait_until(lambda: page.eval(number(LEFT)) == daemon.stock()["available"], "what is left")
    no_errors(page)


def listen(page, region):
    """Keeps all that a screen reader is told; in the page each text takes the place of the last."""
    page.eval(f"""(() => {{
        const region = document.querySelector('{region}');
        const observer = new MutationObserver(() => window.heard.push(region.textContent));
        window.heard = [];
        observer.observe(region, {{ childList: true }});
    }})()""")


def heard(words):
    return f"window.heard.some((text) => text.includes('{words}'))"


def test_sold_out_sale_has_empty_bars_and_is_told(chrome, daemon):
    daemon.reset("demo", 4, 4)
    page = dashboard(chrome, daemon)
    page.wait_for(card("demo"))
    listen(page, "#polite")
    for number_of_user in range(4):
        assert daemon.order(user_id=f"u{number_of_user}").status == 201
    page.wait(text_has(f"{card('demo')} .pill", "sold out"))
    page.wait(f"document.querySelectorAll('{card('demo')} [data-empty=true]').length === 4")
    page.wait(text_has("#events", "Sale demo is sold out"))
    page.wait(heard("Sale demo is sold out"))


def test_settings_of_a_sale_are_shown(chrome, daemon):
    daemon.reset("demo", 40, 4, per_user_limit=3, pay_within_s=600, paused=True,
                 ends_at="2099-01-01T00:00:00Z", late_payment="refund", hold_max_s=7200, grace_s=30)
    page = dashboard(chrome, daemon)
    page.wait(text_has(card("demo"), "at most 3 units a user"))
    page.wait(text_has(card("demo"), "paid within 10 min · 30 s of grace · held up to 2 h"))
    page.wait(text_has(card("demo"), "late payments go back"))
    page.wait(text_has(f"{card('demo')} .pill", "paused"))
    page.wait(text_has(f"{card('demo')} .countdown", "ends in"))


def test_second_daemon_comes_and_goes(chrome, stack, spawn):
    first = spawn(stack, **STEADY)
    page = dashboard(chrome, first)
    page.wait("document.querySelectorAll('.daemon').length === 1")
    second = spawn(stack, **STEADY)
    page.wait("document.querySelectorAll('.daemon[data-state=ready]').length === 2")
    page.wait("document.querySelector('#scope').options.length === 3")
    second.stop()
    second.end_expected = True
    page.wait("document.querySelectorAll('.daemon').length === 1")
    page.wait(text_has("#events", "is gone"))
    no_errors(page)


def test_silent_daemon_is_named(chrome, pair):
    page = dashboard(chrome, pair[0])
    page.wait("document.querySelectorAll('.daemon').length === 2")
    pair[1].pause()
    try:
        page.wait("document.querySelectorAll('.daemon[data-state=silent]').length === 1")
        page.wait(text_has("#alarms", "is silent since"))
        assert page.axe() == []
    finally:
        pair[1].cont()
    page.wait(WELL)


def owe(daemon, number):
    """So many payments to be paid back: [(order id, payment)], sorted."""
    owed = []
    for one in range(number):
        order_id = daemon.order(user_id=f"late{one}").json()["order_id"]
        assert daemon.cancel(order_id).status == 200
        assert daemon.pay(order_id, f"pi_{one:02}").code == "payment_too_late"
        owed.append((order_id, f"pi_{one:02}"))
    return sorted(owed, key=lambda pair: int(pair[0]))


def listed(page):
    return page.eval("[...document.querySelectorAll('#refunds-rows tr')].map((row) => "
                     "[...row.cells].slice(0, 2).map((cell) => cell.innerText))")


def wait_listed(page, pairs):
    wait_until(lambda: listed(page) == [list(pair) for pair in pairs], "these refunds")


def test_refunds_are_counted_and_listed(chrome, daemon):
    daemon.reset("demo", 100, 4)
    page = dashboard(chrome, daemon)
    page.wait(f"{number('#refunds-due')} === 0 && {text_has('#refunds-note', 'There are none')}")
    owed = owe(daemon, 45)
    page.wait(f"{number('#refunds-due')} === 45")
    page.wait(text_has("#refunds-note", "Enter the token"))
    assert listed(page) == []
    enter_token(page)
    wait_listed(page, owed[:20])
    assert page.text("#refunds-rows tr:first-child").split("\t")[2:5] == [
        "demo", "too late", "cancelled"]
    page.click("#refunds-next")
    wait_listed(page, owed[20:40])
    page.click("#refunds-next")
    wait_listed(page, owed[40:])
    assert page.eval("document.querySelector('#refunds-next').disabled")
    for order_id, ref in owed[40:]:
        assert daemon.refund(order_id, ref).status == 200
    wait_listed(page, owed[:20])  # the last page is no more
    page.wait(f"{number('#refunds-due')} === 40")
    page.click("#token")
    page.wait(text_has("#refunds-note", "Enter the token"))
    assert listed(page) == []
    no_errors(page)


def test_refund_that_waits_for_an_hour_is_an_alarm(chrome, stack, daemon):
    daemon.reset("demo", 100, 4)
    [(order_id, ref)] = owe(daemon, 1)
    page = dashboard(chrome, daemon)
    page.wait(f"{number('#refunds-due')} === 1 && {WELL}")
    stack.ledger.run("UPDATE refund_due SET due_at=due_at-INTERVAL 150 MINUTE")
    page.wait(text_has("#refunds-oldest", "3 h"))  # to the next hour
    page.wait(text_has("#alarms", "1 payment is to be paid back, the oldest for 3 h"))
    assert page.eval("document.querySelector('#alarms').dataset.state") == "warn"
    assert page.axe() == []
    assert daemon.refund(order_id, ref).status == 200
    page.wait(WELL)
    page.wait(text_has("#refunds-oldest", "–"))
    page.wait(text_has("#events", "No longer: 1 payment is to be paid back"))


def test_events_and_receivers_are_shown_and_failures_are_alarms(chrome, stack, spawn):
    daemon = spawn(stack, events_retention_h=24, webhook_networks="127.0.0.0/8", **STEADY)
    daemon.reset("demo", 100, 4)
    page = dashboard(chrome, daemon)
    page.wait(text_has("#receivers", "There are no webhooks."))
    url = f"http://127.0.0.1:{free_port()}/hook"  # nobody listens
    assert daemon.admin("PUT", "/admin/webhooks/erp", {"url": url}).status == 201
    assert daemon.order().status == 201
    page.wait(text_has("#receivers-rows", "erp"))
    page.wait(f"{number('#events-kept')} >= 2")
    page.wait("document.querySelector('#receivers-rows td[data-state=warn]') !== null")
    assert page.eval(WELL)

    def has_failed_for_hours():  # a try under way writes what it knew at its beginning
        stack.ledger.run("UPDATE webhook SET failing_since=UTC_TIMESTAMP(6)-INTERVAL 2 HOUR")
        return page.eval(text_has("#alarms", "Webhook erp fails for 2 h"))
    wait_until(has_failed_for_hours, "alarm of a webhook that fails")
    stack.ledger.run("UPDATE webhook SET state='disabled',reason='failing'")
    page.wait(text_has("#alarms", "Webhook erp is disabled: failing"))
    assert page.eval("document.querySelector('#alarms').dataset.state") == "bad"
    assert page.axe() == []
    assert daemon.admin("DELETE", "/admin/webhooks/erp").status == 200
    page.wait(WELL)
    no_errors(page)


# when things break

def test_page_survives_a_restart_of_its_daemon(chrome, stack, spawn):
    daemon = spawn(stack, listen=f"127.0.0.1:{free_port()}", **STEADY)
    daemon.reset("demo", 100, 4)
    page = dashboard(chrome, daemon)
    page.wait_for(card("demo"))
    daemon.kill()
    page.wait(text_has("#alarms", "No answer since"))
    page.wait("document.title.startsWith('✕')")
    assert page.text(LEFT) == "100"  # still legible, and marked as old
    assert page.eval("document.body.dataset.lost") == "true"
    assert page.axe() == []
    daemon.start()
    page.wait(LIVE)
    page.wait("document.body.dataset.lost === 'false'")
    assert daemon.order().status == 201
    page.wait(f"{number(LEFT)} === 99")
    no_errors(page, *NETWORK, UNAVAILABLE)  # it listens before it has reached its ledger


def test_broken_redis_shows(chrome, private_stack, spawn, record_property):
    daemon = spawn(private_stack, **STEADY)
    daemon.reset("demo", 100, 4)
    page = dashboard(chrome, daemon)
    page.wait(WELL)
    listen(page, "#urgent")
    private_stack.redis_server.kill()
    broken = time.monotonic()
    page.wait(text_has("#alarms", "Redis"))
    seconds = time.monotonic() - broken
    print(f"a broken Redis shows after {seconds:.1f} s")
    record_property("broken_redis_shows_after_s", round(seconds, 1))
    page.wait("document.querySelector('#servers tr[data-state=bad]') !== null")
    page.wait(heard("Redis"))
    assert page.axe() == []
    private_stack.redis_server.start()
    page.wait(WELL)
    page.wait(text_has("#events", "No longer"))
    no_errors(page)


# actions

def test_reset_needs_the_token_and_names_what_it_ends(chrome, daemon):
    daemon.reset("demo", 100, 4)
    orders = [daemon.order(user_id=f"u{n}").json()["order_id"] for n in range(5)]
    for order_id in orders[:3]:
        assert daemon.pay(order_id).status == 200
    page = dashboard(chrome, daemon)
    page.wait_for(card("demo"))
    begin(page, "reset")
    hand_over(page, "not-the-token-0123456789")
    page.wait(text_has("dialog", "The token was refused."))
    assert daemon.stock()["round"] == 1
    hand_over(page)
    page.wait_for("dialog input[name=units]")
    page.wait(text_has("dialog .told", "Begins round 2 of demo: 100 units in 4 segments"))
    page.fill("dialog input[name=units]", "50")
    page.wait(text_has("dialog .told", "50 units in 4 segments"))
    page.click("dialog button[type=submit]")
    page.wait(text_has("dialog .told", "Ends round 1 with 3 paid orders and 2 reserved."))
    assert daemon.stock()["round"] == 1
    page.click("dialog button[type=submit]")
    page.wait("document.querySelector('dialog') === null")
    stock = daemon.stock()
    assert (stock["round"], stock["total"], stock["available"]) == (2, 50, 50)
    page.wait(text_has(card("demo"), "round 2"))
    page.wait(text_has("#actions", "reset"))
    page.wait(text_has("#actions", "127.0.0.1"))
    no_errors(page, "Failed to load resource: the server responded with a status of 4")


def test_sale_is_created_restocked_limited_and_retired(chrome, daemon):
    page = dashboard(chrome, daemon)
    enter_token(page)
    page.click("#create")
    page.fill("dialog input[name=sku]", "tea-1")
    page.fill("dialog input[name=units]", "40")
    page.click("dialog button[type=submit]")
    page.wait_for(card("tea-1"))
    assert (daemon.stock("tea-1")["total"], len(daemon.stock("tea-1")["segments"])) == (40, 20)
    begin(page, "restock", "tea-1")
    page.fill("dialog input[name=units]", "20")
    page.wait(text_has("dialog .told", "60 of 60 are left then"))
    page.click("dialog button[type=submit]")
    wait_until(lambda: daemon.stock("tea-1")["total"] == 60, "the units")
    page.wait("document.querySelector('dialog') === null")
    begin(page, "limit", "tea-1")
    page.fill("dialog input[name=per_user_limit]", "2")
    page.click("dialog button[type=submit]")
    wait_until(lambda: daemon.stock("tea-1").get("per_user_limit") == 2, "the limit")
    page.wait("document.querySelector('dialog') === null")
    begin(page, "pay", "tea-1")
    page.fill("dialog input[name=pay_within_s]", "900")
    page.fill("dialog input[name=grace_s]", "60")
    page.fill("dialog input[name=hold_max_s]", "7200")
    page.click("dialog input[name=refund_late]")
    page.wait(text_has("dialog .told", "sold again 60 s later"))
    page.wait(text_has("dialog .told", "to 2 h after it was placed"))
    page.click("dialog button[type=submit]")
    page.wait("document.querySelector('dialog') === null")
    assert [daemon.stock("tea-1")[name] for name in
            ("pay_within_s", "grace_s", "hold_max_s", "late_payment")] == [900, 60, 7200, "refund"]
    begin(page, "window", "tea-1")
    page.fill("dialog input[name=ends_at]", "2099-12-31T23:59:59")
    page.wait(text_has("dialog .told", "2099-12-31 23:59:59 UTC"))
    page.click("dialog button[type=submit]")
    wait_until(lambda: daemon.stock("tea-1").get("ends_at", "").startswith("2099-12-31T23:59:59"),
               "the window")
    page.wait("document.querySelector('dialog') === null")
    begin(page, "reconcile", "tea-1")
    page.click("dialog button[type=submit]")
    page.wait(text_has("#done", "0 differences in 20 segments"))
    begin(page, "retire", "tea-1")
    page.wait(text_has("dialog .told", "Retires tea-1: ends its round 1, 0 of 60 units sold."))
    page.click("dialog button[type=submit]")
    page.wait(f"document.querySelector('{card('tea-1')}') === null")
    no_errors(page)


def test_sale_that_owes_money_is_retired_when_asked_again(chrome, daemon):
    daemon.reset("demo", 10, 2)
    owe(daemon, 2)
    page = dashboard(chrome, daemon)
    enter_token(page)
    begin(page, "retire")
    page.click("dialog button[type=submit]")
    page.wait(text_has("dialog .told", "2 payments of this sale are to be paid back."))
    assert daemon.stock()["total"] == 10
    page.click("dialog button[type=submit]")
    page.wait("document.querySelector('dialog') === null")
    page.wait(f"document.querySelector('{card('demo')}') === null")
    page.wait(f"{number('#refunds-due')} === 0")


def test_bad_input_and_refusals_are_said_in_words(chrome, daemon):
    daemon.reset("demo", 10, 2)
    page = dashboard(chrome, daemon)
    enter_token(page)
    page.click("#create")
    page.fill("dialog input[name=sku]", "demo")
    page.fill("dialog input[name=units]", "40")
    page.click("dialog button[type=submit]")
    page.wait(text_has("dialog .result", "This sale is there already, in round 1."))
    page.press("Escape")
    begin(page, "window")
    page.fill("dialog input[name=starts_at]", "2099-01-02T00:00:01")
    page.fill("dialog input[name=ends_at]", "2099-01-01T00:00:01")
    page.click("dialog button[type=submit]")
    page.wait(text_has("dialog .result", "(400 invalid_request)"))
    assert daemon.stock().get("starts_at") is None
    no_errors(page, "Failed to load resource: the server responded with a status of 4")


def test_action_without_an_answer_is_repeated_with_its_key(chrome, daemon, proxies):
    """The answer is lost after the units were added: a repeat must not add them again."""
    daemon.reset("demo", 10, 2)
    proxy = proxies(daemon.address[1])
    page = chrome.open(proxy.url(daemon.url("/dashboard")))
    page.wait(LIVE)
    enter_token(page)
    begin(page, "restock")
    page.fill("dialog input[name=units]", "7")
    lost = proxy.once(rb"POST /admin/stock/add", after=lambda _: proxy.refuse())
    page.click("dialog button[type=submit]")
    lost.wait()
    page.wait(text_has("dialog .result", "It is unknown whether this was done."))
    assert daemon.stock()["total"] == 17
    proxy.heal()
    page.click("dialog button[type=submit]")
    page.wait("document.querySelector('dialog') === null")
    assert daemon.stock()["total"] == 17
    page.wait(LIVE)
    no_errors(page, *NETWORK)


def test_token_is_forgotten(chrome, daemon):
    daemon.reset("demo", 10, 2)
    page = dashboard(chrome, daemon)
    enter_token(page)
    page.wait(text_has("#actions", "reset"))
    page.click("#token")
    page.wait(text_has("#token", "Enter token"))
    page.wait("document.querySelector('#actions').childElementCount === 0")
    assert page.eval("sessionStorage.length") == 0
    assert TOKEN not in page.eval("JSON.stringify({...localStorage})")


# for everybody

def tab_to(page, selector):
    for _ in range(60):
        if page.eval(f"document.activeElement.matches({js(selector)})"):
            return
        page.press("Tab")
    raise AssertionError(f"the Tab key does not lead to {selector}")


def test_sale_is_paused_without_a_mouse(chrome, daemon):
    daemon.reset("demo", 10, 2)
    page = dashboard(chrome, daemon)
    page.wait_for(card("demo"))
    tab_to(page, f'{card("demo")} button[data-action="pause"]')
    page.press("Enter")
    page.wait("document.activeElement.name === 'token'")
    page.type(TOKEN)
    page.press("Enter")
    page.wait(text_has("dialog h2", "Pause demo"))
    page.wait("document.activeElement.matches('dialog button')")
    assert page.text(":focus") == "Cancel"  # a second Enter must not pause a sale by accident
    tab_to(page, "dialog button[type=submit]")
    page.press("Enter")
    page.wait(text_has(f"{card('demo')} .pill", "paused"))
    assert daemon.stock()["paused"] is True
    page.wait("document.querySelector('dialog') === null")  # the news may come before the answer
    begin(page, "resume")
    page.wait(text_has("dialog h2", "Resume demo"))  # it opens once the sale is read
    page.press("Escape")
    page.wait("document.activeElement.dataset.action === 'resume'")
    assert daemon.stock()["paused"] is True


def test_screen_readers_are_told_of_changes_alone(chrome, daemon):
    daemon.reset("demo", 1000, 4)
    page = dashboard(chrome, daemon)
    page.wait_for(card("demo"))
    page.eval("""(() => {
        globalThis.told = [];
        const see = (records) => told.push(...records.map(({target}) => target.textContent));
        for (const region of document.querySelectorAll('[role=status], [role=alert], [aria-live]'))
            new MutationObserver(see).observe(region, {childList: true, subtree: true,
                                                       characterData: true});
    })()""")
    for user in range(3):
        left = page.eval(number(LEFT))
        assert daemon.order(user_id=f"u{user}").status == 201
        page.wait(f"{number(LEFT)} === {left - 1}")
    # A machine that stood still is told of, too.
    assert page.eval("told.filter((text) => text.includes('demo'))") == []
    daemon.change(paused=True)
    page.wait("told.includes('Sale demo is paused')")


@pytest.mark.parametrize("size, scheme", [(DESKTOP, "light"), (DESKTOP, "dark"),
                                          (PHONE, "light"), (PHONE, "dark")])
def test_nothing_serious_for_axe(chrome, daemon, size, scheme):
    daemon.reset("demo", 1000, 20, per_user_limit=2)
    daemon.reset("later", 300, 64, starts_at="2099-01-01T00:00:00Z")
    owed = owe(daemon, 3)
    order_id = daemon.order(user_id="long").json()["order_id"]
    assert daemon.cancel(order_id).status == 200
    assert daemon.pay(order_id, "p" * 128).code == "payment_too_late"
    page = dashboard(chrome, daemon, size, colorScheme=scheme)
    page.wait_for(card("later"))
    assert page.axe() == []
    enter_token(page)
    wait_listed(page, [*owed, (order_id, "p" * 128)])
    assert page.axe() == []
    assert page.eval("document.documentElement.scrollWidth") <= size[0]
    begin(page, "reset")
    page.wait_for("dialog input[name=units]")
    assert page.axe() == []
    no_errors(page)


def test_answer_that_is_cut_off_is_no_answer(chrome, daemon):
    """As on a line that fails, or by a daemon that is too slow for the page's patience."""
    reply = dashboard(chrome, daemon).eval("""(async () => {
        const { call } = await import("/dashboard/admin.js");
        window.fetch = async () => new Response('{"payments":[', { status: 200 });
        return call({ method: "GET", path: "admin/payments" });
    })()""")
    assert reply["outcome"] == "unknown" and "cut off" in reply["error"]


def test_nothing_moves_for_those_who_want_that(chrome, daemon):
    daemon.reset("demo", 10, 2)
    page = dashboard(chrome, daemon, reducedMotion="reduce")
    page.wait_for(card("demo"))
    moving = """[...document.querySelectorAll('*')].filter((element) => {
        const {transitionDuration, animationName} = getComputedStyle(element);
        return transitionDuration !== '0s' || animationName !== 'none';
    }).length"""
    assert page.eval(moving) == 0
    page.media(reducedMotion="no-preference")
    assert page.eval(moving) > 0


# what others may put into it

EVIL = "<img src=x onerror=hacked=1>"


def impersonate(redis):
    """Another member of the group and an action, as whoever can write to Redis may put them there:
    every text of theirs is markup."""
    prefix = redis("KEYS", "*{live}:daemons")[0].decode().removesuffix("daemons")
    said = json.loads(redis("GET", redis("KEYS", f"{prefix}daemon:*")[0]))
    evil = {key: EVIL if isinstance(value, str) else value for key, value in said.items()}
    evil["servers"] = [{"kind": EVIL, "name": EVIL, "state": EVIL, "ms": 1}]
    redis("SET", f"{prefix}daemon:{EVIL}", json.dumps(evil), "PX", 60_000)
    redis("SADD", f"{prefix}daemons", EVIL)
    redis("LPUSH", f"{prefix}actions", json.dumps(
        {"at": "2026-11-22T20:00:00.000Z", "daemon": EVIL, "action": EVIL, "sku": EVIL,
         "detail": EVIL, "status": 200, "address": EVIL}))


def test_markup_of_others_stays_text(chrome, stack, daemon):
    daemon.reset("demo", 10, 2)
    daemon.order(user_id=EVIL.replace(" ", "/"))
    page = dashboard(chrome, daemon)
    impersonate(stack.redis)
    enter_token(page)
    page.wait(f"[...document.querySelectorAll('.daemon')].some((one) => one.innerText.includes("
              f"{js(EVIL)}))")
    page.wait(text_has("#servers", EVIL))
    page.wait(text_has("#alarms", EVIL))
    page.wait(text_has("#actions", EVIL))
    assert page.count("main img, main script") == 0
    assert page.eval("typeof hacked") == "undefined"
    no_errors(page)


def test_policy_stops_what_is_not_the_pages_own(chrome, daemon):
    page = dashboard(chrome, daemon)
    page.eval("""(() => {
        const script = document.createElement('script');
        script.textContent = 'globalThis.hacked = 1';
        document.body.append(script);
        const image = new Image();
        image.src = 'http://192.0.2.1/';
        document.body.append(image);
    })()""")
    assert page.eval("typeof hacked") == "undefined"
    wait_until(lambda: any("Content Security Policy" in error for error in page.errors()),
               "the policy's word")
