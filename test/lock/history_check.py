#!/usr/bin/python3
"""Checks what history.c wrote against the models that the locks promise.

usage: history_check.py MODEL FILE...     MODEL: mutex, reentrant, read-write, semaphore, fenced

A hold counts from the end of its acquisition, unless it was lost by then, to the last moment at
which its holder still saw it as held; both are times of its own process, so two holds that overlap
were really valid at once.
"""

import heapq
import json
import sys

LIMIT = 3  # permits of the semaphore in history.c
MODELS = ("mutex", "reentrant", "read-write", "semaphore", "fenced")


class Hold:
    def __init__(self, event):
        self.name, self.owner, self.mode = event["hold"], event["owner"], event["mode"]
        self.permits, self.fence = event["permits"], event["fence"]
        self.begin, self.end = event["begin"], event["end"]  # of the acquisition
        self.until = self.end  # its process may have been killed before it said more
        self.acquired = event["result"] == "ok"  # else it is unknown
        self.held = event["held"]  # at the end of its acquisition
        self.left_behind = not self.acquired  # the server may have it though its process has not

    def __repr__(self):
        return (f"{self.mode} hold {self.name} of {self.owner}, fence {self.fence}, "
                f"{self.end}..{self.until}")


def read(lines):
    """The holds of all processes' lines, also of an unknown outcome. A last line that was cut
    off by a kill counts for nothing."""
    holds = {}
    for line in lines:
        if not line.endswith("\n"):
            continue
        event = json.loads(line)
        if event["event"] == "release":
            hold = holds[event["hold"]]
            hold.until = event["seen"]
            hold.left_behind = event["result"] in ("failed", "unknown")
        else:
            holds[event["hold"]] = Hold(event)
    return list(holds.values())


def excluded(model, one, two):
    """True when the model forbids the two holds at once; it leaves permits aside."""
    if model in ("semaphore", "fenced"):
        return False
    if model == "mutex":
        return True
    if one.owner == two.owner:
        return False
    return model == "reentrant" or "write" in (one.mode, two.mode)


def overlaps(model, holds, limit):
    """Sweeps over time; `valid` are the holds valid at the moment, by their end."""
    found, valid, permits = [], [], 0
    held = [hold for hold in holds if hold.held]
    for number, hold in enumerate(sorted(held, key=lambda hold: hold.end)):
        while valid and valid[0][0] <= hold.end:
            permits -= heapq.heappop(valid)[2].permits
        found += [f"valid at once: {other} and {hold}"
                  for _, _, other in valid if excluded(model, other, hold)]
        heapq.heappush(valid, (hold.until, number, hold))
        permits += hold.permits
        if model == "semaphore" and permits > limit:
            found.append(f"{permits} permits taken, {limit} there are, with {hold}")
    return found


def backward_fences(holds, same):
    """Acquisitions that began after another had ended must have a greater fence; `same(one, two)`
    says which may have an equal one."""
    found, ended, last = [], 0, []
    by_end = sorted(holds, key=lambda hold: hold.end)
    for hold in sorted(holds, key=lambda hold: hold.begin):
        while ended < len(by_end) and by_end[ended].end < hold.begin:
            one = by_end[ended]
            if not last or one.fence > last[0].fence:
                last = [one]
            elif one.fence == last[0].fence:
                last.append(one)
            ended += 1
        if last and (hold.fence < last[0].fence or
                     hold.fence == last[0].fence and not same(last[-1], hold)):
            found.append(f"the fence did not grow: {last[-1]}, then {hold}")
    return found


def shared_fences(holds):
    """Holds of different owners with one fence."""
    owners = {}
    return [f"one fence twice: {hold}" for hold in holds
            if owners.setdefault(hold.fence, hold.owner) != hold.owner]


def changed_fences(holds):
    """Holds taken while their owner had another all the time must have the same fence."""
    found, by_owner = [], {}
    for hold in holds:
        by_owner.setdefault(hold.owner, []).append(hold)
    for mine in by_owner.values():
        mine.sort(key=lambda hold: hold.end)
        for i, outer in enumerate(mine):
            for inner in mine[i + 1:]:
                if inner.end >= outer.until:
                    break
                if inner.fence != outer.fence:
                    found.append(f"entered again with another fence: {outer}, then {inner}")
    return found


def entered_again(holds, left_behind):
    """Says of two holds of one owner whether the second may have the fence of the first: a try or a
    release that was not answered leaves a hold behind, which its owner enters again."""
    def entered(one, two):
        since = max((hold.begin for hold in holds
                     if hold.owner == two.owner and hold.fence < two.fence), default=0)
        return any(hold.owner == one.owner == two.owner and since < hold.begin < two.begin
                   for hold in left_behind)
    return entered


def fences(model, holds, left_behind):
    if model == "read-write":
        writes = [hold for hold in holds if hold.mode == "write"]
        found = backward_fences(writes, lambda one, two: one.owner == two.owner)
        # Readers have the fence of the last writer; none may have one older than that.
        return found + backward_fences(
            holds, lambda one, two: "read" in (one.mode, two.mode) or one.owner == two.owner)
    if model == "reentrant":
        return (backward_fences(holds, lambda one, two: one.owner == two.owner) +
                shared_fences(holds) + changed_fences(holds))
    return backward_fences(holds, entered_again(holds, left_behind))


def check(model, holds, limit=LIMIT):
    """Every violation found, in words. Kinds without fences give 0, which is not checked."""
    assert model in MODELS
    left_behind = [hold for hold in holds if hold.left_behind]
    holds = [hold for hold in holds if hold.acquired]
    found = overlaps(model, holds, limit)
    if any(hold.fence for hold in holds):
        found += fences(model, holds, left_behind)
    return found


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in MODELS:
        sys.exit(__doc__)
    lines = []
    for name in sys.argv[2:]:
        with open(name, encoding="ascii") as file:
            lines += file
    holds = read(lines)
    found = check(sys.argv[1], holds)
    print(*found, f"{len(holds)} holds, {len(found)} violations", sep="\n")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
