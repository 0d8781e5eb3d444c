"""A server for findings, on port argv[1] of the loopback. It carries out every POST, answers the
first of a connection with 201, and hangs up on the next, or on any whose body is hang."""

import http.server
import sys


class Shop(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answered = False

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        print("carried out", body.decode(), flush=True)
        if self.answered or body == b"hang":
            self.close_connection = True
            return
        self.answered = True
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Shop).serve_forever()
