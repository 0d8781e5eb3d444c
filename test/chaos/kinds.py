"""The registry of fault kinds: each has what it strikes, its random parameters, and a function."""

from dataclasses import dataclass
from typing import Callable

KINDS = {}


@dataclass(frozen=True)
class Kind:
    """`strikes`: two faults at once strike different things. `draws`: {parameter: draw(random)}."""

    name: str
    strikes: str
    draws: dict
    act: Callable


def kind(strikes, **draws):
    """Registers act(cluster, **parameters), which returns at the moment when its fault is over:
    whoever was killed is being started, a server answers, the line is whole."""
    def register(act):
        KINDS[act.__name__] = Kind(act.__name__, strikes, draws, act)
        return act
    return register


def seconds(least, most):
    return lambda random: round(random.uniform(least, most), 2)


def one_of(*values):
    return lambda random: random.choice(values)


def times(least, most):
    return lambda random: random.randint(least, most)
