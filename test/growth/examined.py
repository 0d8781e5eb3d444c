"""Counts the rows that a ledger's server examines while something is done."""

from typing import NamedTuple

TRIES = 4
# What has read most since the last TRUNCATE, by the server's own count of each kind of statement.
READERS = ("SELECT sum_rows_examined, count_star, digest_text FROM"
           " performance_schema.events_statements_summary_by_digest"
           " WHERE schema_name = DATABASE() ORDER BY 1 DESC LIMIT 3")
FORGET = "TRUNCATE performance_schema.events_statements_summary_by_digest"


class Line(NamedTuple):
    what: str
    count: int  # how many of them at once
    rows: int  # examined, all together
    bound: int  # of all together


class Examined:
    """What was counted, a line each."""

    def __init__(self, ledger):
        self.ledger = ledger
        self.lines = []
        self.own = min(-self.total() + self.total() for _ in range(TRIES))  # what counting reads

    def total(self):
        """Of all threads since the server's start."""
        return sum(int(value) for _, value in
                   self.ledger.run("SHOW GLOBAL STATUS LIKE 'Handler_read%'"))

    def check(self, what, bound, do, prepare=lambda: None, count=1):
        """Prepares, does, and counts; the bound is of each of the `count` elements. The daemon's
        threads go on beside it and only ever add rows, so the smallest of some tries is taken."""
        fewest = None
        for _ in range(TRIES):
            prepared = prepare()
            self.ledger.run(FORGET)
            before = self.total()
            do(prepared)
            rows = self.total() - before - self.own
            fewest = rows if fewest is None else min(fewest, rows)
            if fewest <= bound * count:
                break
        self.note(what, fewest, bound * count, count)

    def note(self, what, rows, bound, count=1):
        self.lines.append(Line(what, count, rows, bound))
        if rows > bound:
            most = "\n".join(f"{read} rows in {times} times: {text}"
                             for read, times, text in self.ledger.run(READERS))
            raise AssertionError(f"{what}: {rows:,} rows, the bound is {bound:,}\n{most}")

    def table(self):
        return "\n".join(["| what | at once | rows examined | bound |", "|---|---|---|---|"] +
                         [f"| {line.what} | {line.count:,} | {line.rows:,} | {line.bound:,} |"
                          for line in self.lines]) + "\n"
