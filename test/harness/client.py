"""HTTP as the tests speak it: whole requests by http.client, and raw bytes over a socket."""

import functools
import http.client
import io
import json
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass


@dataclass
class Response:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        """The stable code of a problem document, None for anything else."""
        if not self.headers.get("Content-Type", "").startswith("application/problem+json"):
            return None
        return self.json()["code"]

    @property
    def answer(self):
        """Status and problem code in one, for comparing many answers at once."""
        return f"{self.status} {self.code}" if self.code else str(self.status)


class UnixConnection(http.client.HTTPConnection):
    """Over a Unix socket."""

    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def connect(address, timeout):
    """`address` is (host, port), or the path of a Unix socket."""
    if isinstance(address, str):
        return UnixConnection(address, timeout)
    return http.client.HTTPConnection(*address, timeout=timeout)


def send(address, method, path, body=None, headers=(), timeout=30):
    """One request over a connection of its own; a body that is not bytes is sent as JSON."""
    headers = dict(headers)
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    if body is not None:
        headers.setdefault("Content-Type", "application/json")
    connection = connect(address, timeout)
    try:
        connection.connect()
        with suppress(BrokenPipeError, ConnectionResetError):  # an answer came early
            connection.request(method, path, body,
                               {k: v for k, v in headers.items() if v is not None})
        reply = connection.getresponse()
        return Response(reply.status, reply.headers, reply.read())
    finally:
        connection.close()


def reset_at_close(sock):
    """Makes the end of a connection a reset, also of what was sent and not read yet."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def read_response(sock, method="GET"):
    """Reads one response from a socket that the test wrote to. It may read ahead into the next."""
    reply = http.client.HTTPResponse(sock, method=method)
    reply.begin()
    return Response(reply.status, reply.headers, reply.read())


def parse_response(received):
    """The one response in these bytes, which must be whole, and nothing else."""
    head, _, body = received.partition(b"\r\n\r\n")
    first, _, headers = head.partition(b"\r\n")
    response = Response(int(first.split()[1]), parse_headers(headers + b"\r\n\r\n"), body)
    assert body == b"" or len(body) == int(response.headers["Content-Length"]), received
    return response


def read_to_end(sock, limit=1 << 20):
    """Everything that the server sends until it closes; a reset counts as closing."""
    received = b""
    try:
        while len(received) < limit:
            piece = sock.recv(65536)
            if not piece:
                break
            received += piece
    except ConnectionResetError:
        pass
    return received


def send_raw(address, data, timeout=30):
    """Sends bytes as they are and returns everything up to the server's close."""
    with socket.create_connection(address, timeout=timeout) as sock:
        with suppress(BrokenPipeError, ConnectionResetError):
            sock.sendall(data)
        return read_to_end(sock)


@functools.lru_cache(1000)
def parse_headers(lines):
    """Of many answers most have the same."""
    return http.client.parse_headers(io.BytesIO(lines))


def read_head(stream):
    """The lines of an answer's head."""
    lines = []
    while (line := stream.readline()) != b"\r\n":
        if not line:
            raise ConnectionError(f"no whole head: {b''.join(lines)!r}")
        lines.append(line)
    return lines


def send_many(address, requests, timeout=60, source=""):
    """Sends all requests, given as bytes, over one connection at once and reads their answers."""
    answers = []
    with socket.create_connection(address, timeout=timeout, source_address=(source, 0)) as sock:
        sock.sendall(b"".join(requests))
        with sock.makefile("rb") as stream:
            for _ in requests:
                first, *lines = read_head(stream)
                headers = parse_headers(b"".join(lines) + b"\r\n")
                answers.append(Response(int(first.split()[1]), headers,
                                        stream.read(int(headers["Content-Length"]))))
    return answers


def order_bytes(sku="demo", user_id="u1", qty=1, key=None):
    """The request of an order, to be sent by hand."""
    body = json.dumps({"sku": sku, "user_id": user_id, "qty": qty})
    head = f"Idempotency-Key: {key}\r\n" if key else ""
    return (f"POST /order HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{head}"
            f"Content-Length: {len(body)}\r\n\r\n{body}").encode()


def assert_problem(response, status, code):
    """Checks the whole contract of an error answer."""
    assert response.status == status, response
    kind = response.headers.get("Content-Type", "")
    assert kind.startswith("application/problem+json"), response
    problem = response.json()
    assert problem["code"] == code, problem
    assert problem["status"] == status
    assert problem["type"] == f"urn:seckill:problem:{code}"
    assert problem["title"] and problem["detail"]
    if status == 401:
        assert response.headers["WWW-Authenticate"].startswith("Bearer")
    if status == 405:
        assert response.headers["Allow"]
    if status == 503:
        assert int(response.headers["Retry-After"]) >= 1


REFUSALS = {  # what the calls that an order's status refuses are told
    ("pay", "cancelled"): "The order was cancelled before it was paid; its units went back.",
    ("pay", "expired"):
        "The payment came too late: the order has expired, and its units went back.",
    ("pay", "reserved"): "The payment came too late: the order's time to pay is over.",
    ("cancel", "paid"): "The order is paid already; a paid order cannot be cancelled.",
}


def assert_refused(response, call, order_status):
    """Checks the refusal of a call by the status of its order."""
    assert_problem(response, 409, "invalid_state")
    body = response.json()
    assert (body["order_status"], body["detail"]) == (order_status, REFUSALS[call, order_status])
