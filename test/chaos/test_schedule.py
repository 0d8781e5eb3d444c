"""The schedule repeats by its seed, has every kind, and no two faults get in each other's way."""

import itertools

from chaos import injector  # noqa: F401  its imports register the kinds
from chaos.kinds import KINDS
from chaos.schedule import schedule

TURNS = 300


def turns(seed):
    return list(itertools.islice(schedule(seed), TURNS))


def test_a_seed_repeats_its_schedule():
    assert list(map(str, turns(7))) == list(map(str, turns(7)))
    assert list(map(str, turns(7))) != list(map(str, turns(8)))


def test_every_kind_comes_before_any_comes_three_times():
    names = [fault.kind for turn in turns(7) for fault in turn.faults]
    for name in KINDS:
        third = [place for place, other in enumerate(names) if other == name][2]
        assert set(names[:third]) == set(KINDS)


def test_two_faults_at_once_strike_different_things():
    pairs = [turn.faults for turn in turns(7) if len(turn.faults) > 1]
    assert pairs
    assert all(KINDS[one.kind].strikes != KINDS[other.kind].strikes for one, other in pairs)


def test_a_schedule_of_few_kinds_has_no_other():
    few = ["maria_kill", "maria_pause"]
    some = itertools.islice(schedule(7, few), TURNS)
    assert {fault.kind for turn in some for fault in turn.faults} == set(few)
