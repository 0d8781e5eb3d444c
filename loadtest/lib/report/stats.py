"""Judges by medians and a bootstrap whether two sets of rounds differ by more than their noise."""

import functools
import math
import random
import statistics

DRAWS = 4000
CONFIDENCE = 0.99
METHOD = (f"medians of the rounds; {CONFIDENCE:.0%} interval of their ratio by a bootstrap "
          f"({DRAWS} draws) of the rounds' deviations from their median, pooled over all runs of a "
          "campaign in both results, as a run has few rounds")


def deviations(groups):
    """The logarithms of each value to its group's median, widened for the groups' smallness: a
    median of n values lies closer to them than the true one does."""
    pool = []
    for values in groups:
        if len(values) > 1:
            middle = statistics.median(values)
            wider = math.sqrt(len(values) / (len(values) - 1))
            pool += [wider * math.log(value / middle) for value in values]
    return pool


def interval(before, after, pool, seed=1):
    """(ratio of the medians, lower end, upper end); the ends are None when there is no spread to
    judge by. The same input always gives the same answer."""
    ratio = statistics.median(after) / statistics.median(before)
    if len(pool) < 2:
        return ratio, None, None
    dice = random.Random(seed)
    drawn = sorted(
        statistics.median(dice.choices(pool, k=len(after)))
        - statistics.median(dice.choices(pool, k=len(before))) for _ in range(DRAWS))
    edge = int(DRAWS * (1 - CONFIDENCE) / 2)
    return ratio, ratio * math.exp(drawn[edge]), ratio * math.exp(drawn[-1 - edge])


def around(value, count, pool, seed=1):
    """The interval of one median of `count` rounds, by the same bootstrap; None when there is no
    spread to judge by."""
    if len(pool) < 2:
        return None
    low, high = factors(count, tuple(pool), seed)
    return value * low, value * high


@functools.cache
def factors(count, pool, seed):
    """The ends of the interval as factors of the median: runs of a campaign with as many rounds
    have the same."""
    dice = random.Random(seed)
    drawn = sorted(statistics.median(dice.choices(pool, k=count)) for _ in range(DRAWS))
    edge = int(DRAWS * (1 - CONFIDENCE) / 2)
    return math.exp(drawn[edge]), math.exp(drawn[-1 - edge])


def verdict(low, high):
    if low is None:
        return "one round each: no judgement"
    if low > 1:
        return "faster"
    if high < 1:
        return "SLOWER"
    return "within the noise"
