"""A service manager as far as sd_notify goes: a socket that collects what a daemon says."""

import socket
import threading

from harness.processes import wait_until


class Supervisor:
    """Context manager. `name`: a path, or @… for an abstract socket, as NOTIFY_SOCKET has it."""

    def __init__(self, name):
        self.name = str(name)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.messages = []  # each a dict of one datagram
        self.thread = threading.Thread(target=self.collect, daemon=True)

    def __enter__(self):
        self.socket.bind("\0" + self.name[1:] if self.name[0] == "@" else self.name)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RD)
        self.thread.join()  # when the machine goes on after a standstill, the kernel asks again by
        self.socket.close()  # the number of the descriptor, which may be another's by then

    def collect(self):
        while text := self.socket.recv(4096).decode():
            self.messages.append(dict(line.split("=", 1) for line in text.splitlines()))

    def told(self, name):
        """All values of one variable so far, in order."""
        return [message[name] for message in list(self.messages) if name in message]

    def wait(self, name, wanted=None, after=0):
        """Until the variable was told, with this value, more than `after` times."""
        def heard():
            values = [value for value in self.told(name) if wanted in (None, value)]
            return values[-1] if len(values) > after else None
        return wait_until(heard, f"{name}={wanted or ''}")
