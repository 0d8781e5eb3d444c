"""Access: tokens of the admin and of the shop, and the origins that a browser may come from."""

import signal

import pytest

from harness.client import assert_problem
from harness.daemon import TOKEN
from harness.processes import wait_until

SHOP = "shop-token-1"


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def shop_calls(daemon):
    """The statuses of a shop's calls, by token: asked for with f(token)."""
    daemon.reset()
    order_id = daemon.order().json()["order_id"]
    calls = [("POST", f"/order/{order_id}/pay"), ("POST", f"/order/{order_id}/cancel"),
             ("GET", "/user/u1/orders")]

    def statuses(token):
        headers = bearer(token) if token else {}
        return [daemon.request(method, path, headers=headers).status for method, path in calls]
    return statuses


def test_each_of_several_admin_tokens_is_good(stack, spawn):
    daemon = spawn(stack, env={"SECKILL_ADMIN_TOKEN": f"new-token,{TOKEN}"})
    for token, status in [(TOKEN, 200), ("new-token", 200), (f"new-token,{TOKEN}", 401),
                          ("new-token,", 401), ("", 401)]:
        assert daemon.request("GET", "/admin/sales", headers=bearer(token)).status == status


def test_shop_calls_want_the_shop_token_when_there_is_one(stack, spawn):
    daemon = spawn(stack, shop_token=f"{SHOP},other")
    statuses = shop_calls(daemon)
    for token in [None, TOKEN, SHOP[:-1]]:  # the admin's token is no shop token
        assert statuses(token) == [401, 401, 401]
    assert statuses(SHOP) == [200, 409, 200]
    assert statuses("other") == [200, 409, 200]
    assert daemon.get("/stock/demo").status == 200  # buyers need none
    assert daemon.order().status == 201
    assert daemon.request("GET", "/admin/sales", headers=bearer(SHOP)).status == 401


def test_shop_calls_are_open_without_a_shop_token(daemon):
    assert shop_calls(daemon)(None) == [200, 409, 200]


def test_each_401_is_counted_and_logged_with_the_address(stack, spawn):
    daemon = spawn(stack, shop_token=SHOP, trusted_proxies="127.0.0.1")
    forwarded = {"X-Forwarded-For": "192.0.2.7", **bearer("guess")}
    assert_problem(daemon.request("GET", "/admin/sales", headers=forwarded), 401, "unauthorized")
    assert_problem(daemon.request("POST", "/order/1/pay"), 401, "unauthorized")
    assert_problem(daemon.request("POST", "/order/2/cancel"), 401, "unauthorized")
    assert daemon.metric('seckill_unauthorized_total{class="admin"}') == 1
    assert daemon.metric('seckill_unauthorized_total{class="shop"}') == 2
    lines = [line for line in daemon.log().splitlines() if "event=unauthorized" in line]
    assert len(lines) == 3
    assert "class=admin method=GET path=/admin/sales address=192.0.2.7" in lines[0]
    assert "class=shop" in lines[1] and "address=127.0.0.1" in lines[1]
    assert "guess" not in daemon.log()


@pytest.mark.parametrize("options, warned", [
    ({"listen": "0.0.0.0:0"}, True),
    ({"listen": "0.0.0.0:0", "shop_token": SHOP}, False),
    ({"listen": "127.0.0.1:0"}, False),
    ({"listen": "localhost:0"}, False),
])
def test_open_shop_calls_are_warned_of_beyond_loopback(stack, spawn, options, warned):
    daemon = spawn(stack, **options)
    assert ("event=shop_calls_open" in daemon.log()) == warned


def test_empty_admin_token_is_warned_of(stack, spawn):
    daemon = spawn(stack, env={"SECKILL_ADMIN_TOKEN": ""})
    assert "event=admin_token_empty" in daemon.log()
    assert daemon.request("GET", "/admin/sales", headers=bearer("")).status == 401


def test_tokens_are_read_again_at_sighup(stack, spawn, tmp_path):
    file = tmp_path / "shop.tokens"
    file.write_text("first\n")
    daemon = spawn(stack, shop_token_file=file)
    statuses = shop_calls(daemon)
    assert statuses("first") == [200, 409, 200]

    file.write_text("first\nsecond\n")
    daemon.signal(signal.SIGHUP)
    wait_until(lambda: "event=tokens_reloaded class=shop tokens=2" in daemon.log(), "reloaded")
    assert statuses("first") == statuses("second") == [200, 409, 200]

    file.write_text("second\n")
    daemon.signal(signal.SIGHUP)
    wait_until(lambda: "class=shop tokens=1" in daemon.log(), "reloaded")
    assert statuses("first") == [401, 401, 401]
    assert statuses("second") == [200, 409, 200]


def test_bad_file_keeps_the_tokens(stack, spawn, tmp_path):
    file = tmp_path / "admin.tokens"
    file.write_text(TOKEN)
    daemon = spawn(stack, admin_token_file=file, env={"SECKILL_ADMIN_TOKEN": ""})
    for number, content in enumerate(["", "two words", None], 1):
        if content is None:
            file.unlink()
        else:
            file.write_text(content)
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: daemon.log().count("event=not_reloaded") == number, "refused")
        assert daemon.admin("GET", "/admin/sales").status == 200


def page(daemon, method, path, body=None, **headers):
    """The answer to a browser's call: the headers that it sends beside Host, by their names."""
    host = "%s:%d" % daemon.address
    headers = {name.replace("_", "-"): value.replace("HOST", host)
               for name, value in headers.items()}
    return daemon.request(method, path, body, {**bearer(daemon.token), **headers})


FOREIGN = [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1"},
           {"Origin": "http://HOST.evil.example"}, {"Origin": "http://evil.example/HOST"},
           {"Origin": "http://u@HOST"}, {"Origin": "HOST"},
           {"Origin": "https://shop.example", "Sec_Fetch_Site": "same-site"},
           {"Origin": "http://HOST", "Sec_Fetch_Site": "cross-site"}]
OWN = [{}, {"Origin": "http://HOST"}, {"Origin": "HTTPS://HOST"},
       {"Origin": "http://HOST", "Sec_Fetch_Site": "same-origin"},
       # Behind a proxy that names itself in Host.
       {"Origin": "https://shop.example", "Sec_Fetch_Site": "same-origin"}]


def test_page_of_another_origin_changes_nothing(daemon):
    daemon.reset()
    order_id = daemon.order().json()["order_id"]
    calls = [("POST", f"/order/{order_id}/pay", None), ("POST", f"/order/{order_id}/cancel", None),
             ("POST", "/order", {"sku": "demo", "user_id": "u2", "qty": 1}),
             ("POST", "/admin/stock/add", {"sku": "demo", "units": 1}),
             ("PATCH", "/admin/sale/demo", {"paused": True}), ("DELETE", "/admin/sale/demo", None),
             ("PUT", "/admin/log-level", {"level": "debug"}), ("DELETE", "/admin/drain", None)]
    for headers in FOREIGN:
        print(headers)
        for call in calls:
            assert_problem(page(daemon, *call, **headers), 403, "origin_refused")
        assert page(daemon, "GET", "/stock/demo", **headers).status == 200  # it cannot read it
    assert daemon.get(f"/order/{order_id}").json()["status"] == "reserved"
    stock = daemon.stock()
    assert (stock["sold"], stock["total"], stock["paused"]) == (1, 1000, False)
    assert "event=origin_refused method=POST path=/order/{id}/pay origin=" in daemon.log()


def test_own_page_and_clients_without_an_origin_go_on(daemon):
    daemon.reset()
    for headers in OWN:
        print(headers)
        order_id = daemon.order().json()["order_id"]
        assert page(daemon, "POST", f"/order/{order_id}/pay", **headers).status == 200
        assert page(daemon, "PATCH", "/admin/sale/demo", {"paused": False}, **headers).status == 200


def test_body_that_is_not_called_json_is_refused(daemon):
    """A page may send a body of these kinds anywhere without being asked."""
    daemon.reset()
    body = b'{"sku":"demo","user_id":"u1","qty":1,"units":1}'
    for kind in ("text/plain", "application/x-www-form-urlencoded",
                 "multipart/form-data; boundary=x", "application/jsonx", None):
        for method, path in (("POST", "/order"), ("POST", "/admin/stock/add"),
                             ("PATCH", "/admin/sale/demo"), ("POST", "/admin/drain")):
            answer = daemon.request(method, path, body, {**bearer(TOKEN), "Content-Type": kind})
            assert_problem(answer, 415, "unsupported_media_type")
    assert daemon.stock()["total"] - daemon.stock()["sold"] == 1000
