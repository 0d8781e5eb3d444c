"""The pages for browsers come out of the program, with the headers that keep them to themselves."""

import re

from harness.client import assert_problem
from harness.processes import ROOT

FILES = {"/dashboard": ("dashboard.html", "text/html"),
         "/dashboard/dashboard.css": ("dashboard.css", "text/css"),
         "/dashboard/dashboard.js": ("dashboard.js", "text/javascript"),
         "/dashboard/feed.js": ("feed.js", "text/javascript"),
         "/dashboard/icon.svg": ("icon.svg", "image/svg+xml")}


def test_file_is_served_as_it_is(daemon):
    for path, (name, kind) in FILES.items():
        answer = daemon.get(path)
        text = (ROOT / "service/web" / name).read_bytes()
        assert answer.status == 200, path
        assert answer.body.rstrip(b"\n") == text.rstrip(b"\n")
        assert answer.headers["Content-Type"] == f"{kind}; charset=utf-8"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "same-origin"
        assert daemon.request("HEAD", path).headers["Content-Length"] == str(len(answer.body))


def test_library_of_the_curves_is_served(daemon):
    answer = daemon.get("/dashboard/dygraph.js")
    assert answer.status == 200
    assert b"danvk/dygraphs" in answer.body.split(b"\n", 1)[0]


def test_every_module_that_a_page_imports_is_served(daemon):
    imports = re.compile(r'^import .* from "./([a-z_]+[.]js)";$', re.M)
    ahead, seen = ["dashboard.js"], set()
    while ahead:
        name = ahead.pop()
        if name not in seen:
            seen.add(name)
            answer = daemon.get(f"/dashboard/{name}")
            assert answer.status == 200, name
            ahead += imports.findall(answer.body.decode())
    assert len(seen) > 5


def test_policy_lets_nothing_in_from_elsewhere(daemon):
    policy = dict(part.split(" ", 1) for part in
                  daemon.get("/dashboard").headers["Content-Security-Policy"].split("; "))
    assert policy == {"default-src": "'none'", "script-src": "'self'", "style-src": "'self'",
                      "connect-src": "'self'", "img-src": "'self' data:", "base-uri": "'none'",
                      "form-action": "'none'", "frame-ancestors": "'none'"}


def test_pages_have_no_script_of_their_own():
    """The policy forbids scripts and styles within a page: they would be dead text."""
    for page in (ROOT / "service/web").glob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=)", text), page


def test_copy_that_is_the_latest_is_not_sent_again(daemon):
    first = daemon.get("/dashboard")
    tag = first.headers["ETag"]
    for given in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = daemon.request("GET", "/dashboard", None, {"If-None-Match": given})
        assert (again.status, again.body, again.headers["ETag"]) == (304, b"", tag), given
    other = daemon.request("GET", "/dashboard", None, {"If-None-Match": '"other"'})
    assert other.status == 200 and other.body == first.body


def test_what_is_not_there(daemon):
    for path in ("/dashboard/", "/dashboard/nothing.js", "/dashboard/dashboard.html"):
        assert_problem(daemon.get(path), 404, "not_found")
    for path in ("/dashboard", "/dashboard/dashboard.js"):
        answer = daemon.request("POST", path)
        assert_problem(answer, 405, "method_not_allowed")
        assert answer.headers["Allow"] == "GET, HEAD"
