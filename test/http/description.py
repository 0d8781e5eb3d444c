"""service/openapi.json as the tests read it: its calls, what it says of an answer, its examples."""

import json
import re
from urllib.parse import quote, urlencode

from jsonschema import Draft202012Validator, RefResolver

from harness.processes import ROOT

METHODS = ("get", "post", "put", "patch", "delete")
# Fields that differ from run to run; the ids of orders are compared by themselves.
VOLATILE = {"as_of", "at", "created_at", "expires_at", "lag", "latency_ms", "latest", "order_id",
            "orders", "position", "refunded_at", "retrying_since", "segment", "stops_in_ms",
            "subject", "time", "told_at"}


def no_other(value):
    """A shape: what stays of a text when every number is the same one."""
    return re.sub(r"\d+", "0", value) if isinstance(value, str) else type(value)


def alike(told, got, path=()):
    """True when an answer equals its example, apart from fields that differ from run to run."""
    if isinstance(told, dict):
        return (isinstance(got, dict) and told.keys() == got.keys()
                and all(alike(told[name], got[name], path + (name,)) for name in told))
    if isinstance(told, list):
        return (isinstance(got, list) and len(told) == len(got)
                and all(alike(*pair, path) for pair in zip(told, got)))
    if path[-1] == "daemon":  # the machine's name is in it
        return type(told) is type(got)
    if path[-1] == "next" and "." in told:  # a cursor: behind the dot it has a time
        return told.split(".")[0] == got.split(".")[0]
    if path[-1] == "secret":
        return re.fullmatch("whsec_[A-Za-z0-9+/]{43}=", got)
    if path[-1] == "request_id":
        return re.fullmatch("[0-9a-f]{16}", got)
    if path[-1] in VOLATILE or "segments" in path[:-1]:
        return no_other(told) == no_other(got)
    return told == got and type(told) is type(got)


class Description:
    def __init__(self):
        text = (ROOT / "service/openapi.json").read_text(encoding="utf-8")
        self.document = json.loads(text)
        self.resolver = RefResolver("", self.document)  # remembers where it has found what
        self.operations = {}  # {(method, path): operation}
        self.by_id = {}  # {operationId: (method, path, operation)}
        for path, item in self.document["paths"].items():
            for method in METHODS:
                if method in item:
                    operation = item[method]
                    self.operations[method, path] = operation
                    self.by_id[operation["operationId"]] = (method, path, operation)

    def resolve(self, node):
        """The node itself, or what its $ref names."""
        while "$ref" in node:
            assert node["$ref"].startswith("#/components/"), node
            kind, name = node["$ref"].split("/")[2:]
            node = self.document["components"][kind][name]
        return node

    def parameters(self, operation_id):
        _, path, operation = self.by_id[operation_id]
        own = operation.get("parameters", []) + self.document["paths"][path].get("parameters", [])
        return [self.resolve(parameter) for parameter in own]

    def responses(self, operation_id):
        """{status: response}"""
        return {status: self.resolve(response)
                for status, response in self.by_id[operation_id][2]["responses"].items()}

    def request_examples(self, operation_id):
        """{name: body}"""
        body = self.by_id[operation_id][2].get("requestBody", {"content": {}})
        return {name: example["value"] for content in body["content"].values()
                for name, example in content["examples"].items()}

    def response_examples(self, response):
        """{name: body}"""
        return {name: self.resolve(example)["value"]
                for content in response.get("content", {}).values()
                for name, example in content.get("examples", {}).items()}

    def validate(self, schema, value):
        Draft202012Validator(schema, resolver=self.resolver).validate(value)

    def check_headers(self, response, headers):
        """An answer has the headers that its description names."""
        for name, header in response.get("headers", {}).items():
            header, text = self.resolve(header), headers.get(name)
            assert text is not None or not header.get("required"), (name, dict(headers))
            if text is not None:
                number = header["schema"]["type"] == "integer"
                self.validate(header["schema"], int(text) if number else text)

    def check(self, response, answer):
        """An answer is what its description says of it; returns its body."""
        self.check_headers(response, answer.headers)
        (kind, content), = response["content"].items()
        assert answer.headers["Content-Type"].split(";")[0] == kind, answer
        body = answer.json() if kind.endswith("json") else answer.body.decode()
        self.validate(content["schema"], body)
        return body

    def request(self, operation_id, example=None, **other):
        """(method, path with query, body, headers) as the examples have them, but for `other`
        values of parameters; None leaves one out."""
        method, path, _ = self.by_id[operation_id]
        headers, query = {}, {}
        for parameter in self.parameters(operation_id):
            value = other.get(parameter["name"], parameter["example"])
            if value is not None:
                self.validate(parameter["schema"], value)
            if parameter["in"] == "path":
                path = path.replace(f"{{{parameter['name']}}}", quote(value, safe=""))
            elif value is not None:
                (query if parameter["in"] == "query" else headers)[parameter["name"]] = value
        path += f"?{urlencode(query)}" if query else ""
        body = self.request_examples(operation_id)[example] if example else None
        return method.upper(), path, body, headers
