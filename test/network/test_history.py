"""The checker of histories finds those that no register could give."""

import math

import pytest

from network.history import Op, is_possible

LATER = math.inf


@pytest.mark.parametrize("possible, ops", [
    (True, [("new", "a", 1, 2), ("found", "a", 3, 4), ("seen", "a", 3, 4)]),
    (False, [("new", "a", 1, 2), ("new", "a", 3, 4)]),
    (False, [("new", "a", 1, 2), ("new", "b", 1, 4)]),
    (False, [("new", "a", 1, 2), ("found", "b", 3, 4)]),
    (False, [("new", "a", 1, 2), ("unseen", "a", 3, 4)]),
    (True, [("new", "a", 1, 3), ("unseen", "a", 2, 4)]),
    (True, [("absent", None, 1, 2), ("new", "a", 3, 4)]),
    (False, [("new", "a", 1, 2), ("absent", None, 3, 4)]),
    (True, [("unknown", "a", 1, LATER), ("unseen", "a", 3, 4), ("seen", "a", 5, 6)]),
    (False, [("unknown", "a", 1, LATER), ("seen", "a", 3, 4), ("unseen", "a", 5, 6)]),
    (True, [("unknown", None, 1, LATER), ("found", "a", 3, 4)]),
    (False, [("unknown", None, 1, LATER), ("found", "a", 3, 4), ("found", "b", 3, 4)]),
    (True, [("unknown", None, 1, LATER), ("absent", None, 3, 4), ("new", "b", 5, 6)]),
    (False, [("unknown", "a", 5, LATER), ("seen", "a", 1, 2)]),
    (False, [("found", "a", 1, 2)]),
])
def test_checker(possible, ops):
    assert is_possible([Op(*one) for one in ops]) == possible
