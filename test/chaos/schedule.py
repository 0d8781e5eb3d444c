"""The schedule of faults: a seed decides which, in which order, how long, and which two at once."""

import random
from dataclasses import dataclass

from chaos.kinds import KINDS

TWO_AT_ONCE = 0.2        # of the turns
QUIET_SECONDS = (0.05, 0.6)  # from when everything serves again to the next fault


@dataclass(frozen=True)
class Fault:
    kind: str
    parameters: tuple  # of (name, value)

    def __str__(self):
        return " ".join([self.kind, *(f"{name}={value}" for name, value in self.parameters)])


@dataclass(frozen=True)
class Turn:
    """Faults that strike at the same time; the turn is over when every daemon serves again."""

    number: int
    quiet: float  # seconds before it
    faults: tuple

    def __str__(self):
        return f"turn {self.number}: after {self.quiet} s " + " | ".join(map(str, self.faults))


def schedule(seed, kinds=None):
    """The turns of a seed, without end, of all kinds or of these. Each kind comes once before any
    comes again."""
    generator = random.Random(f"chaos {seed}")
    kinds = sorted(kinds or KINDS)
    apart = len({KINDS[name].strikes for name in kinds}) > 1
    deck = []
    number = 0
    while True:
        number += 1
        names = [next_kind(generator, kinds, deck, set())]
        if generator.random() < TWO_AT_ONCE and apart:
            names.append(next_kind(generator, kinds, deck, {KINDS[names[0]].strikes}))
        yield Turn(number, round(generator.uniform(*QUIET_SECONDS), 2),
                   tuple(draw(generator, name) for name in names))


def next_kind(generator, kinds, deck, taken):
    """Takes the next kind that strikes none of what is taken off the deck."""
    while True:
        for place, name in enumerate(deck):
            if KINDS[name].strikes not in taken:
                return deck.pop(place)
        fresh = list(kinds)
        generator.shuffle(fresh)
        deck.extend(fresh)


def draw(generator, name):
    return Fault(name, tuple((parameter, how(generator))
                             for parameter, how in KINDS[name].draws.items()))
