"""Clients on the clients' host: a steady pulse of orders at each daemon, which shows when it
serves, and shoppers, who order, repeat, pay, cancel and look up. Each answer is recorded."""

import time

from chaos.clients import Client
from chaos.record import UNKNOWN

CLIENTS = "clients"
PULSE_S = 0.1         # between two orders at a daemon
PULSES = 40           # orders that may wait at once: those of four seconds
PATIENCE_S = 6.0      # more than a daemon may take for an answer
SHOPPERS_EACH = 3     # of every daemon
PAUSE_S = (0.02, 0.08)
USERS = 40


class Asker(Client):
    """A client that may ask a proxy, which has a status of its own for what is not known."""

    def send(self, *what, **how):
        answer, content = super().send(*what, **how)
        if answer in ("502 outcome_unknown", "504 outcome_unknown"):
            answer = "503 outcome_unknown"
        return answer, content


class HostClient(Asker):
    """Its thread is on the clients' host."""

    def __init__(self, case, seed):
        super().__init__(case.asked, case.record, seed)
        self.case = case

    def run(self, stop):
        self.case.setup.network.enter(CLIENTS)
        try:
            self.act(stop)
        finally:
            self.close()

    def act(self, stop):
        raise NotImplementedError

    def new_order(self, daemon):
        number = self.record.number()
        return self.order(daemon, self.case.skus[daemon], f"u{number % USERS}",
                          self.random.randint(1, 5), f"k{number}", PATIENCE_S)


class Pulse(HostClient):
    """One of PULSES threads that order at one daemon, each at its own moments. While its order
    waits for an answer the others go on, so that no wait hides that the daemon serves again."""

    def __init__(self, case, daemon, place):
        super().__init__(case, f"pulse {daemon} {place}")
        self.daemon, self.place = daemon, place

    def act(self, stop):
        period = PULSE_S * PULSES
        due = self.case.began_load + self.place * PULSE_S
        while not stop.is_set():
            now = time.monotonic()
            if now < due:
                stop.wait(due - now)
                continue
            if not self.case.idle.is_set():
                self.new_order(self.daemon)
            due += period * max(1, -(-(time.monotonic() - due) // period))


class Shopper(HostClient):
    """Belongs to a daemon; when it asks again it may ask another one."""

    def __init__(self, case, number):
        super().__init__(case, f"shopper {case.seed} {number}")
        self.home = number % len(case.asked.daemons)

    def act(self, stop):
        acts = {self.buy: 40, self.repeat: 20, self.look: 20, self.pay: 12, self.cancel: 8}
        while not stop.is_set():
            if not self.case.idle.is_set():
                self.random.choices(list(acts), acts.values())[0]()
            stop.wait(self.random.uniform(*PAUSE_S))

    def anywhere(self):
        return self.random.randrange(len(self.cluster.daemons))

    def buy(self):
        self.new_order(self.home)

    def repeat(self):
        """Of a few recent keys the first whose outcome is not known, if there is one."""
        some = self.record.some(self.random, self.record.recent_tries, 5)
        unclear = [one for one in some if one.answer in UNKNOWN]
        for one in (unclear or some)[:1]:
            self.order(self.anywhere(), one.sku, one.user, one.qty, one.key, PATIENCE_S)

    def ask(self, what, **asked):
        for one in self.record.some(self.random, self.record.recent_orders):
            self.call(what, self.anywhere(), one.order_id, PATIENCE_S, **asked)

    def look(self):
        self.ask("get")

    def pay(self):
        self.ask("pay", ref=f"pi{self.record.number()}")

    def cancel(self):
        self.ask("cancel")


class OneOrder(HostClient):
    """Orders once, at a daemon in turn."""

    def __init__(self, case, number):
        super().__init__(case, f"burst {number}")
        self.daemon = number % len(case.asked.daemons)

    def act(self, stop):
        self.new_order(self.daemon)


def clients_of(case):
    daemons = range(len(case.asked.daemons))
    return [*(Pulse(case, daemon, place) for daemon in daemons for place in range(PULSES)),
            *(Shopper(case, number) for number in range(SHOPPERS_EACH * len(daemons)))]
