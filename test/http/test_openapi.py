"""service/openapi.json describes what the service has: its calls, and every problem it answers."""

import json
import re

import pytest
from jsonschema import Draft202012Validator

from harness.daemon import STEADY, TOKEN
from harness.processes import ROOT, wait_until
from harness.receiver import Receiver
from description import METHODS, Description

EVENTS = ROOT / "sql/events/events.h"
PROBLEM = re.compile(r'X\(\w+, (\d+), "(\w+)"')
ROUTE = re.compile(r'^    \{"(\w+)", "([^"]+)", ROUTE_(\w+), (true|false),', re.M)
TAILS = {"/order/": "{order_id}", "/stock/": "{sku}", "/admin/stock/": "{sku}",
         "/admin/sale/": "{sku}", "/admin/audit/": "{sku}", "/admin/webhooks/": "{webhook}"}
NO_EXAMPLES = {"text/html", "text/css", "text/javascript"}
# Statuses that any call may answer, besides its own.
ALWAYS = {"400", "408", "413", "414", "431", "505", "default"}


@pytest.fixture(scope="module")
def description():
    return Description()


@pytest.fixture(scope="module")
def document(description):
    return description.document


@pytest.fixture(scope="module")
def statuses():
    """{code: status} of every problem that the service knows."""
    text = (ROOT / "service/request/answer.h").read_text(encoding="utf-8")
    return {code: status for status, code in PROBLEM.findall(text)}


def routes():
    """{(method, path as the document writes it): (class, whether it takes a body)}"""
    text = (ROOT / "service/http/route.c").read_text(encoding="utf-8")
    return {(method.lower(), path.replace("{id}", "{order_id}") + TAILS.get(path, "")):
            (kind, body == "true") for method, path, kind, body in ROUTE.findall(text)}


def nodes(value):
    """Every object in a JSON value."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    for item in value if isinstance(value, list) else ():
        yield from nodes(item)


def codes_of(content):
    """The problem codes that a content may have; None: it is no problem."""
    problem = content.get("application/problem+json")
    return problem and set(problem["schema"]["allOf"][1]["properties"]["code"]["enum"])


def test_calls_are_those_of_the_service(description):
    calls = routes()
    assert len(calls) > 15
    assert description.operations.keys() == calls.keys()


def test_calls_have_their_classes_credentials_and_bodies(description):
    wanted = {"ADMIN": [{"admin": []}], "SHOP": [{"shop": []}, {}],
              "LIVE": [{"admin": []}, {}]}
    assert description.document["security"] == []
    tags = [tag["name"] for tag in description.document["tags"]]
    for call, (kind, body) in routes().items():
        operation = description.operations[call]
        assert operation.get("security") == wanted.get(kind), call
        assert operation.get("requestBody", {}).get("required", False) == body, call
        assert operation["tags"] == [kind.lower()], call
        assert kind.lower() in tags


def test_codes_are_those_of_the_service(document, statuses):
    codes = document["components"]["schemas"]["Problem"]["properties"]["code"]["enum"]
    assert len(codes) == len(set(codes))
    assert set(codes) == statuses.keys()


def test_codes_stand_at_their_status(description, statuses):
    """Every code is described where it is answered, in words and as an example."""
    described = set()
    for operation_id, (*call, _) in description.by_id.items():
        for status, response in description.responses(operation_id).items():
            codes = codes_of(response["content"])
            if not codes:
                continue
            described |= codes
            assert status == "default" or {statuses[code] for code in codes} == {status}, call
            assert all(re.search(rf"\b{code}\b", response["description"]) for code in codes), call
            examples = description.response_examples(response)
            assert examples.keys() == codes, (call, status)
            assert all(examples[code]["code"] == code for code in codes)
    assert described == statuses.keys()


def test_every_answer_has_an_example(description):
    """Only pages for people, what they load, and streams of events have none."""
    for operation_id, (method, path, operation) in description.by_id.items():
        assert ALWAYS <= operation["responses"].keys(), path
        assert ("401" in operation["responses"]) == ("security" in operation), path
        assert ("403" in operation["responses"]) == (method != "get"), path
        assert ("415" in operation["responses"]) == ("requestBody" in operation), path
        for status, response in description.responses(operation_id).items():
            kinds = response.get("content", {}).keys()
            assert kinds <= NO_EXAMPLES or description.response_examples(response), (path, status)
        if "requestBody" in operation:
            assert description.request_examples(operation_id), path


def test_examples_fit_their_schemas(description):
    for operation_id, (_, path, operation) in description.by_id.items():
        contents = [*operation.get("requestBody", {"content": {}})["content"].values()]
        for response in description.responses(operation_id).values():
            contents += response.get("content", {}).values()
        for content in contents:
            for example in content.get("examples", {}).values():
                description.validate(content["schema"], description.resolve(example)["value"])
        for parameter in description.parameters(operation_id):
            description.validate(parameter["schema"], parameter["example"])


def test_references_lead_somewhere_and_nothing_is_left_over(description):
    document = description.document
    used = {node["$ref"] for node in nodes(document) if "$ref" in node}
    assert all(description.resolve({"$ref": ref}) for ref in used)
    there = {f"#/components/{kind}/{name}" for kind, parts in document["components"].items()
             if kind != "securitySchemes" for name in parts}
    assert used == there


def test_document_has_the_form_of_openapi(description):
    document = description.document
    assert document["openapi"].startswith("3.1.")
    assert document["info"].keys() >= {"title", "version"}
    for item in document["paths"].values():
        assert item.keys() <= {"parameters", *METHODS}
    assert len(description.by_id) == len(description.operations)
    for (method, path), operation in description.operations.items():
        assert operation["summary"], path
        assert {status[0] for status in operation["responses"]} >= {"2", "d"}, path
        assert "requestBody" not in operation or method != "get", path
        for response in description.responses(operation["operationId"]).values():
            assert response.keys() <= {"description", "headers", "content", "links"}
        for content in nodes(operation):
            assert "$ref" not in content or len(content) == 1, content


def test_every_event_is_a_webhook(document):
    known = re.findall(r'^    X\(\w+, \'\w\', "([a-z_.]+)"', EVENTS.read_text(), re.M)
    assert list(document["webhooks"]) == [*known, "webhook.test"]
    schemas, bodies = (document["components"][kind] for kind in ("schemas", "requestBodies"))
    for name, item in document["webhooks"].items():
        body = bodies[item["post"]["requestBody"]["$ref"].rsplit("/", 1)[1]]
        plain, one, several = body["content"].values()
        assert plain["schema"]["anyOf"] == [one["schema"], several["schema"]]
        schema = schemas[one["schema"]["$ref"].rsplit("/", 1)[1]]
        assert name in schema["properties"]["type"]["enum"]
        assert several["schema"]["type"] == "array"


@pytest.mark.parametrize("kind", ["application/json", "application/cloudevents+json"])
@pytest.mark.parametrize("batch", [1, 5])
def test_webhooks_send_what_is_said(description, stack, spawn, batch, kind):
    daemon = spawn(stack, events_retention_h=1, webhook_networks="127.0.0.0/8", **STEADY)
    with Receiver() as receiver:
        settings = {"url": receiver.url, "batch": batch, "content_type": kind}
        assert daemon.admin("PUT", "/admin/webhooks/w", settings).status == 201
        assert daemon.admin("POST", "/admin/webhooks/w/test").json()["status"] == 204
        daemon.reset("demo", 2, 1)
        daemon.pay(daemon.order(qty=2).json()["order_id"], "pi_1")
        types = {"webhook.test", "sale.changed", "order.accepted", "order.paid"}
        wait_until(lambda: types <= {event["type"] for event in receiver.events}, "the events")
        for delivery in receiver.deliveries:
            item = description.document["webhooks"][delivery.events[0]["type"]]["post"]
            for parameter in map(description.resolve, item["parameters"]):
                description.validate(parameter["schema"], delivery.headers[parameter["name"]])
            contents = description.resolve(item["requestBody"])["content"]
            schema = contents[delivery.headers["content-type"]]["schema"]
            description.validate(schema, json.loads(delivery.body))


def test_parameters_are_declared(description):
    for operation_id, (_, path, _) in description.by_id.items():
        declared = description.parameters(operation_id)
        in_path = {p["name"] for p in declared if p["in"] == "path"}
        assert in_path == set(re.findall(r"\{(\w+)\}", path)), path
        assert all(p["schema"] and p["in"] in ("path", "query", "header") for p in declared)
        assert all(p.get("required", False) == (p["in"] == "path") for p in declared)
        assert len({(p["in"], p["name"]) for p in declared}) == len(declared), path


def test_schemas_are_schemas(document):
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
        for node in nodes(schema):
            assert (node.get("type") == "array") == ("items" in node), node
            if isinstance(node.get("required"), list):
                assert set(node["required"]) <= node["properties"].keys(), node


def test_served_as_it_is(daemon, document):
    text = daemon.get("/openapi.json").body
    assert json.loads(text, object_pairs_hook=only_once) == document


def only_once(pairs):
    assert len(dict(pairs)) == len(pairs), pairs
    return dict(pairs)


def test_refusals_are_told(daemon, description):
    """Without its token, or with a bad body, a call answers what is described for it."""
    for operation_id, (method, path, operation) in description.by_id.items():
        told = description.responses(operation_id)
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
