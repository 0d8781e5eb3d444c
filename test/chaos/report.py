"""Prints what happens while it happens, and the summary."""

from collections import Counter, defaultdict

STORY_RECORDS = 12   # of a violation's records
STORIES_PER_CHECK = 5


class Printer:
    """Lines of progress, each at once, so that a log shows how far a run has come."""

    def __init__(self, record):
        self.record = record

    def line(self, text):
        print(f"{self.record.now():7.1f} s  {text}", flush=True)

    def struck(self, struck, bound):
        slow = "  LATE" if struck.worst > bound else ""
        length = struck.end - struck.start
        self.line(f"{struck.turn.number:4d}  {' | '.join(map(str, struck.turn.faults))}: lasted"
                  f" {length:.2f} s, serving again after {struck.worst:.2f} s{slow}")

    def progress(self, injector):
        answers = self.record.answers
        counts = Counter(fault.kind for one in injector.struck for fault in one.turn.faults)
        orders = sum(count for answer, count in answers.items() if answer.startswith("order "))
        self.line(f"---- {sum(counts.values())} faults of {len(counts)} kinds, {orders} orders,"
                  f" {answers['order 201']} accepted, {answers['pay 200']} paid,"
                  f" {answers['cancel 200']} cancelled, {answers['refund 200']} refunded,"
                  f" {answers['unpay 200']} failed")

    def payments(self, books):
        counts = Counter(f"{one.outcome} and {one.state}" for one in books.payments.values())
        self.line(f"{len(books.payments)} payments: " + ", ".join(
            f"{count} {text}" for text, count in sorted(counts.items())))
        rows = books.orders.values()
        self.line(f"{sum(row.ordered is not None for row in rows)} orders kept a part,"
                  f" {sum(row.unreturned for row in rows)} refunded units are not on sale again")


def print_summary(seed, duration, injector, record, results):
    """The tables, the violations with their stories, and the last line. Returns the failures."""
    by_kind = defaultdict(list)
    for struck in injector.struck:
        for fault in struck.turn.faults:
            by_kind[fault.kind].append(struck)
    faults = sum(map(len, by_kind.values()))
    print(f"\nseed {seed}, {duration:.0f} s: {faults} faults of {len(by_kind)} kinds in"
          f" {len(injector.struck)} turns\n")
    print(f"{'fault':<28}{'times':>6}{'serving again, worst':>22}")
    for name, struck in sorted(by_kind.items()):
        print(f"{name:<28}{len(struck):>6}{max(one.worst for one in struck):>20.2f} s")
    quiet = injector.quiet
    print(f"{'without a fault':<28}{len(quiet):>6}{max(quiet, default=0):>20.2f} s\n")
    for answer, count in sorted(record.answers.items()):
        print(f"{count:>8}  {answer}")
    print_counts(record)
    return print_results(results, injector, seed)


def print_counts(record):
    orders = {one.order_id for one in record.tries if one.answer in ("200", "201")}
    done = Counter(one.what for one in record.calls if one.answer == "200")
    print(f"\nchecked: {len(record.tries)} answers to orders, {len(orders)} accepted orders,"
          f" {done['pay']} payments, {done['cancel']} cancels, {done['refund']} refunds,"
          f" {done['unpay']} failures, {done['extend']} extensions, {done['get']} look-ups,"
          f" {len(record.listings)} lists of refunds due, {len(record.changes)} operators' calls\n")


def print_results(results, injector, seed):
    """The checks that failed come last, for those who read only the end of a log."""
    for title, violations in results.items():
        if not violations:
            print(f"ok  {title}")
    failures = {title: violations for title, violations in results.items() if violations}
    for title, violations in failures.items():
        print(f"--- failed: {title}: {len(violations)} violations")
        for violation in violations[:STORIES_PER_CHECK]:
            print_story(violation, injector)
    print(f"\nviolations: {sum(map(len, failures.values()))}; seed {seed}")
    print(f"{len(results) - len(failures)} passed, {len(failures)} failed")
    return len(failures)


def print_story(violation, injector):
    print(f"      at {violation.at:.2f} s: {violation.text}")
    for one in violation.told[:STORY_RECORDS]:
        print(f"        told: {one}")
    for struck in injector.near(violation.at):
        print(f"        fault: {struck.start:.2f} s to {struck.end:.2f} s:"
              f" {' | '.join(map(str, struck.turn.faults))}")
