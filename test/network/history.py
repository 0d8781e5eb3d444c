"""Are the answers to orders and look-ups those of one register for each key? (Linearizability.)

Each key is a register that is empty until an order with the key takes effect, and then has that
order's id for ever. An answer must be what the register had at one moment between request and
answer. A request whose outcome nobody was told may take effect at any later moment, or never. The
search is that of Wing and Gong, for histories of a few operations each."""

import math
from collections import defaultdict
from dataclasses import dataclass

from chaos.record import NOT_NOW, UNKNOWN

SOME = "?"  # an order whose id nobody was told


@dataclass(frozen=True)
class Op:
    """`what` is new, found, absent, unknown (of orders), seen or unseen (of look-ups)."""

    what: str
    order_id: str
    start: float
    end: float


def step(op, state):
    """What the register has after the operation; False: its answer is impossible."""
    if op.what == "unknown":
        return state or op.order_id or SOME
    if op.what == "new":
        return False if state else op.order_id
    if op.what in ("found", "seen"):
        return op.order_id if state in (op.order_id, SOME) else False
    if op.what == "absent":
        return False if state else state
    return False if state == op.order_id else state  # unseen


def is_possible(ops):
    """Whether there is an order of the operations in which each answer is right."""
    ops = sorted(ops, key=lambda op: op.start)
    every, seen = frozenset(range(len(ops))), set()
    stack = [(every, None)]
    while stack:
        left, state = stack.pop()
        if all(ops[i].what == "unknown" for i in left):
            return True
        if (left, state) in seen:
            continue
        seen.add((left, state))
        first_end = min(ops[i].end for i in left)
        for i in left:
            if ops[i].start <= first_end:
                after = step(ops[i], state)
                if after is not False:
                    stack.append((left - {i}, after))
    return False


def order_op(one):
    """Of a try with a key; None when its answer says nothing of the key."""
    if one.answer in UNKNOWN:
        return Op("unknown", one.order_id, one.start, math.inf)
    if one.answer in NOT_NOW or one.answer == "503 no_order_id":
        return None
    what = {"201": "new", "200": "found"}.get(one.answer, "absent")
    return Op(what, one.order_id, one.start, one.end)


def histories(record):
    """{key: operations}"""
    found, keys = defaultdict(list), {}
    for one in record.tries:
        if one.key:
            op = order_op(one)
            found[one.key] += [op] if op else []
            if one.order_id:
                keys[one.order_id] = one.key
    for one in record.calls:
        if one.what == "get" and one.order_id in keys and one.answer in ("200",
                                                                         "404 unknown_order"):
            found[keys[one.order_id]].append(Op("seen" if one.answer == "200" else "unseen",
                                                one.order_id, one.start, one.end))
    return found


def impossible(record):
    """The keys whose histories no register could give, and how many operations were looked at."""
    every = histories(record)
    wrong = {key: ops for key, ops in every.items() if not is_possible(ops)}
    return wrong, sum(map(len, every.values()))
