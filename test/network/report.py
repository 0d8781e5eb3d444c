"""The table of what came out, and the closing line."""

import statistics
from dataclasses import dataclass, field

BEHAVIOURS = {
    "A": "orders are accepted while a Redis master is cut off with the sentinel named first",
    "B": "sessions at a primary that waits for replicas stay bounded",
    "C": "the wrong side of a split never calls an acknowledged order unknown",
    "D": "/readyz says no while no commit can succeed",
}
HEAD = ("| set-up | fault | violations | rounds | without service in the cut, s: any daemon | "
        "the worst daemon | after the heal, s | what health said | notes |\n"
        "|---|---|---|---|---|---|---|---|---|")


@dataclass
class Result:
    """All rounds of one fault in one set-up."""

    setup: str
    fault: object
    rounds: list = field(default_factory=list)

    @property
    def violations(self):
        return [text for one in self.rounds for text in one.violations]

    def failed_behaviours(self):
        """{letter: what was not so}"""
        found = {}
        for one in self.rounds:
            for letter, what, is_so in one.behaviours:
                if not is_so:
                    found.setdefault(letter, set()).add(what)
        return found

    def letters(self):
        return {letter for one in self.rounds for letter, _, _ in one.behaviours}


def median_and_worst(values):
    values = [value for value in values if value is not None]
    if not values:
        return "–"
    return f"{statistics.median(values):.1f} / {max(values):.1f}"


def row(result):
    failed = result.failed_behaviours()
    notes = [text for one in result.rounds[-1:] for text in one.notes]
    notes = [f"**{letter}: not so: {'; '.join(sorted(what))}**"
             for letter, what in sorted(failed.items())] + notes
    cells = [result.setup, result.fault.name, str(len(result.violations)), str(len(result.rounds)),
             median_and_worst([one.without for one in result.rounds]),
             median_and_worst([one.without_worst for one in result.rounds]),
             median_and_worst([one.after for one in result.rounds]),
             result.rounds[-1].health if result.rounds else "", "; ".join(notes)]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def write(path, results, about):
    lines = ["# Cuts between hosts", "", about, "",
             "Two figures are the median and the worst of the rounds; health and notes are of the "
             "last round.", "", HEAD, *map(row, results), ""]
    for result in results:
        lines += [f"- {result.setup}, {result.fault.name}: {text}" for text in result.violations]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def close(results, reasons):
    """Prints what was wrong, and the last line; returns the number of failures. `reasons`: why
    something was left out."""
    passed = failed = skipped = 0
    for result in results:
        where = f"{result.setup}: {result.fault.name}"
        for text in result.violations:
            print(f"--- failed: {where}: {text}")
        failed += bool(result.violations)
        passed += not result.violations
        wrong = result.failed_behaviours()
        for letter in sorted(result.letters()):
            if letter not in wrong:
                passed += 1
            else:
                failed += 1
                print(f"--- failed: {where}: {letter}, {BEHAVIOURS[letter]}: not so:"
                      f" {'; '.join(sorted(wrong[letter]))}")
    for reason in reasons:
        skipped += 1
        print(f"--- skipped: {reason}")
    rounds = [one for result in results for one in result.rounds]
    print(f"{len(rounds)} rounds of {len(results)} faults in"
          f" {len({result.setup for result in results})} set-ups,"
          f" {sum(one.accepted for one in rounds)} accepted orders,"
          f" {sum(one.operations for one in rounds)} operations in histories")
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return failed
