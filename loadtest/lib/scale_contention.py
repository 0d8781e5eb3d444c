"""How often a try for a segment's lock meets one that another batch holds."""


def shares_missed(segments, held):
    """The probability that a random segment is one of those that others hold."""
    return min(1.0, held / segments)


def tries(segments, held):
    """The mean number of segments that a batch tries until it finds a free one: from a random one
    on, in turn, as in open addressing with linear probing. Holders gather in runs, as each of them
    sits behind those that it met, so it is more than with independent tries (Knuth, The Art of
    Computer Programming 6.4, theorem K). held may be a mean. None when no segment is free."""
    if held >= segments:
        return None
    total, term = 0.0, 1.0
    for k in range(segments):
        total += (k + 1) * term
        term *= max(0.0, held - k) / segments
        if term == 0.0:
            break
    return (1 + total) / 2
