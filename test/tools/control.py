"""Runs seckillctl as an operator does, against a daemon or a server that only says it is one."""

import contextlib
import json
import os
import pty
import re
import shlex
import socket
import subprocess
import threading

from harness.daemon import TOKEN
from harness.processes import BUILD, clean_environment

CONTROL = BUILD / "seckillctl"
REFUSED, USAGE, DATAERR, NOINPUT, UNAVAILABLE = 1, 64, 65, 66, 69
CANTCREAT, IOERR, TEMPFAIL, PROTOCOL, NOPERM, CONFIG = 73, 74, 75, 76, 77, 78
SECONDS_MAX = 60


class OtherStatus(AssertionError):
    """The program has ended with another exit status than expected."""


class Control:
    """Runs the program with a home of its own."""

    def __init__(self, home):
        self.home = home
        self.env = {**{name: value for name, value in clean_environment().items()
                       if not name.startswith(("SECKILLCTL_", "XDG_"))},
                    "HOME": str(home), "LC_ALL": "C.UTF-8"}

    def aim(self, *daemons, token=TOKEN):
        self.env["SECKILLCTL_ADMIN"] = " ".join("%s:%d" % daemon.address for daemon in daemons)
        self.env["SECKILLCTL_ADMIN_TOKEN"] = token

    def __call__(self, line, status=0, stdout=subprocess.PIPE):
        done = subprocess.run([CONTROL, *shlex.split(line)], env=self.env, cwd=self.home,
                              stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
                              timeout=SECONDS_MAX)
        done.stderr = done.stderr.decode()
        assert "Sanitizer" not in done.stderr and TOKEN not in done.stderr, done
        if done.returncode != status:
            raise OtherStatus(done)
        if stdout == subprocess.PIPE:
            done.stdout = done.stdout.decode()
            assert TOKEN not in done.stdout, done
        return done

    def json(self, line, status=0):
        return json.loads(self(line + " --json", status).stdout)

    def rows(self, line, status=0):
        """The first table, as dicts: no cell of ours holds two blanks."""
        lines = self(line, status).stdout.split("\n\n")[0].splitlines()
        head, *rows = [re.split(r" {2,}", row.strip()) for row in lines]
        return [dict(zip(head, row)) for row in rows]

    def type(self, line, *answers):
        """Runs seckillctl on a terminal, where the operator types answers to its questions."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.home)
            os.execve(CONTROL, [CONTROL, *shlex.split(line)], {**self.env, "TERM": "xterm"})
        shown, answers = b"", list(answers)
        while True:
            try:
                piece = os.read(terminal, 65536)
            except OSError:  # it has ended
                break
            if not piece:
                break
            shown += piece
            if answers and answers[0][0] in shown.decode(errors="replace"):
                os.write(terminal, answers.pop(0)[1].encode())
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
        return os.waitstatus_to_exitcode(status), shown.decode()


def read_call(client):
    """The head of a call; its body is read, too, so that the end of the connection is no reset."""
    head, body = b"", b""
    while b"\r\n\r\n" not in head:
        head += client.recv(65536)
    head, body = head.split(b"\r\n\r\n", 1)
    length = re.search(rb"Content-Length: (\d+)", head)
    while length and len(body) < int(length[1]):
        body += client.recv(65536)
    return head.decode()


@contextlib.contextmanager
def impostor(ctl, answer):
    """A server that gives every call `answer(its head)`: the body of a 200 that says it is JSON, or
    another status and its body, or None: then it hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        def serve():
            with contextlib.suppress(OSError):
                while True:
                    client, _ = server.accept()
                    with client:
                        told = answer(read_call(client))
                        status, body = told if isinstance(told, tuple) else (200, told)
                        if body is not None:
                            client.sendall(b"HTTP/1.1 %d Said\r\nConnection: close\r\n"
                                           b"Content-Length: %d\r\n\r\n"
                                           % (status, len(body)) + body)
        thread = threading.Thread(target=serve)
        thread.start()
        ctl.env["SECKILLCTL_ADMIN"] = "127.0.0.1:%d" % server.getsockname()[1]
        try:
            yield
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
