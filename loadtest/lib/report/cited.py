"""Figures in pages: each is followed by a comment that names its campaign, run and figure.

    44,018<!-- steady; a shop's order; per_s -->     as the tables show such a figure
    44,000<!-- steady; a shop's order; per_s ~000 --> rounded down to thousands
    4.4<!-- steady; a shop's order; per_s ~万 -->     the same in units of 10,000
    0.7<!-- steady; a shop's order; cpu_us.server ~@50000 --> cores for so many orders a second
"""

import re

from lib.report.table import ratio

NUMBER = r"[\d][\d,.]*"
CITED = re.compile(rf"({NUMBER})(<!-- ([^;<>]+); ([^;<>]*); ([\w.]+)(?: ~(\S+))? -->)")
CODE = re.compile(r"`[^`]*`")  # in which a page may explain this
COMMENT = re.compile(r"<!-- [^;<>]+; [^;<>]*; [^<>]* -->")


class UnknownFigure(Exception):
    """The sample has no such figure."""


def find(sample, campaign, label, name):
    runs = [run for one in sample["campaigns"] if one["campaign"] == campaign
            for run in one["runs"] if run["run"] == label]
    value = runs[0] if len(runs) == 1 else {}
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UnknownFigure(f"the sample has no figure {campaign}; {label}; {name}")
    return value


def shown(name, value, unit=None):
    """A figure as the tables show it."""
    if unit == "000":
        return f"{value // 1000 * 1000:,.0f}"
    if unit == "万":
        return f"{value // 1000 / 10:.1f}"
    if unit and unit.startswith("@"):
        return f"{value * int(unit[1:]) / 1e6:.2g}"
    if name.startswith("of_"):
        return ratio(value)
    return f"{value:.1f}" if name.endswith("_ms") else f"{value:,.0f}"


def replace(text, sample):
    """The text with every such figure as the sample has it."""
    def one(found):
        _, rest, campaign, label, name, unit = found.groups()
        return shown(name, find(sample, campaign, label, name), unit) + rest
    return CITED.sub(one, text)


def findings(text, sample):
    """(line, what is wrong) of each figure that is not the sample's."""
    for number, line in enumerate(text.split("\n"), 1):
        line = CODE.sub("", line)
        cited = list(CITED.finditer(line))
        for found in cited:
            try:
                wanted = replace(found[0], sample)
            except UnknownFigure as error:
                yield number, str(error)
                continue
            if wanted != found[0]:
                yield number, f"{found[1]} is {wanted.split('<')[0]} in the sample"
        for _ in range(len(COMMENT.findall(line)) - len(cited)):
            yield number, "a comment names a figure, and no number stands before it"
