"""/demo is there only when it is asked for, on the buyers' side, and holds no secret."""

from harness.client import assert_problem
from harness.daemon import STEADY

SHOP_TOKEN = "shop-token-0123456789"
FILES = {"/demo": "text/html", "/demo/demo.css": "text/css", "/demo/demo.js": "text/javascript"}


def test_off_unless_asked_for(daemon):
    for path in FILES:
        assert_problem(daemon.get(path), 404, "not_found")


def test_on_beside_the_calls_of_buyers(stack, spawn):
    daemon = spawn(stack, demo="on", admin_listen="127.0.0.1:0", shop_token=SHOP_TOKEN, **STEADY)
    for path, kind in FILES.items():
        answer = daemon.get(path)
        assert answer.status == 200
        assert answer.headers["Content-Type"] == f"{kind}; charset=utf-8"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert SHOP_TOKEN not in answer.body.decode() and daemon.token not in answer.body.decode()
    assert_problem(daemon.get("/demo/nothing.js"), 404, "not_found")
    assert_problem(daemon.request("POST", "/demo"), 405, "method_not_allowed")
