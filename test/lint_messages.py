#!/usr/bin/python3
"""Compares docs/messages.md with the events that the daemon logs: both have the same, with the same
levels, and the page names the keys of each. Prints "file:line: what" for each finding."""

import re
import sys

PAGE = "docs/messages.md"
CALL = re.compile(r"\b(log_event|log_each|log_failure|call_end_action|faults_log|faults_log_ledger|"
                  r"faults_log_redis)\(")
NAME = re.compile(r'"([a-z_]+)"')
ELECTION = re.compile(r'\.(?:won|lost|failed) = "([a-z_]+)"')
# Events whose names are in a table.
TABLES = {"service/request/request.c": re.compile(r'"([a-z]+_failed)"'),
          "service/workers/health.c": re.compile(r'\.(?:up|down) = "([a-z_]+)"'),
          "service/workers/expiry.c": ELECTION, "service/workers/publisher.c": ELECTION,
          "service/calls/daemon.c": re.compile(r'refuse_late\(request, "([a-z_]+)"'),
          "service/log/log.c": re.compile(r'LOG_WARN, "(log_lines_dropped)"')}
RESULTS = {"info", "warn"}


def arguments(text, start):
    """The arguments of the call whose parenthesis opens before `start`."""
    depth, quoted, last, found = 0, False, start, []
    for at in range(start, len(text)):
        letter = text[at]
        if letter == '"' and text[at - 1] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif letter in "([{":
            depth += 1
        elif letter == "," and depth == 0 or letter in ")]}" and depth == 0:
            found.append(text[last:at])
            last = at + 1
            if letter != ",":
                break
        elif letter in ")]}":
            depth -= 1
    return found


def levels_of(function, first):
    if function.startswith("faults"):
        return {"warn"}
    return {name.lower() for name in re.findall(r"LOG_([A-Z]+)", first)} or RESULTS


def read_code(paths):
    """{event: (where, levels, keys)}"""
    events = {}

    def note(event, where, levels, keys):
        _, had, known = events.get(event, (where, set(), set()))
        events[event] = (where, had | levels, known | keys)
    for path in paths:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for match in CALL.finditer(text):
            where = f"{path}:{text.count(chr(10), 0, match.start()) + 1}"
            given = arguments(text, match.end())
            format_at = {"log_failure": 3, "call_end_action": 5}.get(match[1], 2)
            keys = set()
            if not match[1].startswith("faults") and len(given) > format_at:
                keys = set(re.findall(r"(?<![%\w])([a-z0-9_]+)=%", given[format_at]))
            names = NAME.findall(given[1]) if len(given) > 1 else []
            levels = levels_of(match[1], given[0])
            for name in names:
                exact = {"request": {"info"}, "request_failed": {"warn"}}.get(name, levels)
                note(name, where, exact, keys)
        if path in TABLES:
            for match in TABLES[path].finditer(text):
                where = f"{path}:{text.count(chr(10), 0, match.start()) + 1}"
                up = match[1].endswith("_up") or match[0].startswith(".won")
                note(match[1], where, {"info"} if up else {"warn"}, set())
    return events


def read_page():
    """{event: (line, levels, keys)}"""
    rows = {}
    with open(PAGE, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if len(cells) != 5 or not cells[0].startswith("`"):
                continue
            for event in re.findall(r"`([a-z_]+)`", cells[0]):
                rows[event] = (number, set(cells[1].split(", ")),
                               set(re.findall(r"`([a-z0-9_]+)`", cells[4])))
    return rows


def main():
    code, page = read_code(sys.argv[1:]), read_page()
    for event in sorted(code.keys() - page.keys()):
        print(f"{code[event][0]}: {PAGE} has no event {event}")
    for event in sorted(page.keys() - code.keys()):
        print(f"{PAGE}:{page[event][0]}: nothing logs the event {event}")
    for event in sorted(code.keys() & page.keys()):
        where, levels, keys = code[event]
        number, told, named = page[event]
        if levels != told:
            print(f"{PAGE}:{number}: {event} is of the levels {', '.join(sorted(levels))}")
        for key in sorted(keys - named - {"suppressed"}):
            print(f"{where}: {PAGE} names no key {key} of {event}")


main()
