"""service/openapi.json describes what the service has: its calls, and every problem it answers."""

import json
import re

import pytest

from daemon import TOKEN
from harness.processes import ROOT

METHODS = ("get", "post", "put", "patch", "delete")
PROBLEM = re.compile(r'X\(\w+, (\d+), "(\w+)"')
ROUTE = re.compile(r'^    \{"(\w+)", "([^"]+)", (true|false), ROUTE_(\w+), (true|false),', re.M)
WORDS = re.compile(r"[a-z]+(?:_[a-z]+)*")
TAILS = {"/order/": "{order_id}", "/stock/": "{sku}", "/admin/stock/": "{sku}",
         "/admin/sale/": "{sku}"}


@pytest.fixture(scope="module")
def document():
    return json.loads((ROOT / "service/openapi.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def statuses():
    """{code: status} of every problem that the service knows."""
    text = (ROOT / "service/answer.h").read_text(encoding="utf-8")
    return {code: status for status, code in PROBLEM.findall(text)}


def routes():
    """{(method, path as the document writes it): (class, whether it takes a body)}"""
    text = (ROOT / "service/http/route.c").read_text(encoding="utf-8")
    return {(method.lower(), path.replace("{id}", "{order_id}") + TAILS.get(path, "")):
            (kind, body == "true") for method, path, _, kind, body in ROUTE.findall(text)}


def nodes(value):
    """Every object in a JSON value."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    for item in value if isinstance(value, list) else ():
        yield from nodes(item)


def operations(document):
    """{(method, path): operation}"""
    return {(method, path): item[method] for path, item in document["paths"].items()
            for method in METHODS if method in item}


def resolve(document, node):
    """The node itself, or what its $ref names."""
    while "$ref" in node:
        assert node["$ref"].startswith("#/components/"), node
        kind, name = node["$ref"].split("/")[2:]
        node = document["components"][kind][name]
    return node


def parameters(document, path, operation):
    own = operation.get("parameters", []) + document["paths"][path].get("parameters", [])
    return [resolve(document, parameter) for parameter in own]


def test_calls_are_those_of_the_service(document):
    calls = routes()
    assert len(calls) > 15
    assert operations(document).keys() == calls.keys()


def test_calls_have_their_credentials_and_bodies(document):
    wanted = {"ADMIN": [{"admin": []}], "SHOP": [{"shop": []}, {}]}
    found = operations(document)
    for call, (kind, body) in routes().items():
        assert found[call].get("security") == wanted.get(kind), call
        assert ("requestBody" in found[call]) == body, call


def test_codes_are_those_of_the_service(document, statuses):
    codes = document["components"]["schemas"]["Problem"]["properties"]["code"]["enum"]
    assert len(codes) == len(set(codes))
    assert set(codes) == statuses.keys()


def test_codes_stand_at_their_status(document, statuses):
    """Every code is described where it is answered, with its status or among all others."""
    described = set()
    for call, operation in operations(document).items():
        for status, response in operation["responses"].items():
            response = resolve(document, response)
            words = set(WORDS.findall(response["description"])) & statuses.keys()
            described |= words
            if status == "default":
                continue
            if "application/problem+json" in response["content"]:
                assert words, (call, status)
                assert {statuses[word] for word in words} == {status}, (call, status, words)
    assert described == statuses.keys()


def test_codes_among_all_others_have_their_status(document, statuses):
    text = document["components"]["responses"]["Problem"]["description"]
    said = dict(reversed(pair) for pair in re.findall(r"(\d{3}) (\w+)", text))
    assert said and said == {code: statuses.get(code) for code in said}


def test_references_lead_somewhere_and_nothing_is_left_over(document):
    used = {node["$ref"] for node in nodes(document) if "$ref" in node}
    assert all(resolve(document, {"$ref": ref}) for ref in used)
    there = {f"#/components/{kind}/{name}" for kind, parts in document["components"].items()
             if kind != "securitySchemes" for name in parts}
    assert used == there


def test_document_has_the_form_of_openapi(document):
    assert document["openapi"].startswith("3.0.")
    assert document["info"].keys() >= {"title", "version"}
    for item in document["paths"].values():
        assert item.keys() <= {"parameters", *METHODS}
    names = [operation["operationId"] for operation in operations(document).values()]
    assert len(set(names)) == len(names)
    for (method, path), operation in operations(document).items():
        assert operation["summary"], path
        assert {status[0] for status in operation["responses"]} >= {"2", "d"}, path
        assert "requestBody" not in operation or method in ("post", "put", "patch"), path
        for response in operation["responses"].values():
            assert resolve(document, response).keys() <= {"description", "headers", "content"}
        for content in nodes(operation):
            assert "$ref" not in content or len(content) == 1, content


def test_parameters_are_declared(document):
    for (_, path), operation in operations(document).items():
        declared = parameters(document, path, operation)
        in_path = {p["name"] for p in declared if p["in"] == "path"}
        assert in_path == set(re.findall(r"\{(\w+)\}", path)), path
        assert all(p["schema"] and p["in"] in ("path", "query", "header") for p in declared)
        assert all(p.get("required", False) == (p["in"] == "path") for p in declared)
        assert len({(p["in"], p["name"]) for p in declared}) == len(declared), path


def test_schemas_are_of_known_types(document):
    types = {"object", "array", "string", "integer", "boolean"}
    for schema in document["components"]["schemas"].values():
        for node in nodes(schema):
            if isinstance(node.get("type"), str):
                assert node["type"] in types, node
                assert (node["type"] == "array") == ("items" in node), node
            if isinstance(node.get("required"), list):
                assert set(node["required"]) <= node["properties"].keys(), node


def test_served_as_it_is(daemon, document):
    text = daemon.get("/openapi.json").body
    assert json.loads(text, object_pairs_hook=only_once) == document


def only_once(pairs):
    assert len(dict(pairs)) == len(pairs), pairs
    return dict(pairs)


def test_refusals_are_told(daemon, document):
    """Without its token, or with a bad body, a call answers what is described for it."""
    for (method, path), operation in operations(document).items():
        told = {status: resolve(document, response)
                for status, response in operation["responses"].items()}
        bodies = []
        if path.startswith("/admin/"):
            assert daemon.request(method.upper(), path).headers["WWW-Authenticate"]
            assert "WWW-Authenticate" in told["401"]["headers"]
        if "requestBody" in operation:
            bodies = [(b"x", "text/plain"), (b"x", "application/json"),
                      (b"x" * 4097, "application/json")]
        for body, kind in bodies:
            answer = daemon.request(method.upper(), path, body, {
                "Content-Type": kind, "Authorization": f"Bearer {TOKEN}"})
            assert str(answer.status) in told, (path, answer)
        if "503" in told:
            assert "Retry-After" in told["503"]["headers"], path
