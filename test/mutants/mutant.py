"""What a small fault is."""

from typing import NamedTuple

NO_PART = "not simulated"
NOT_SEEN = "not seen"  # 10,000 seeds did not show it


class Mutant(NamedTuple):
    promise: str  # what it breaks
    edits: tuple  # (file, text, text instead)...; the text is in the file exactly once
    unit: str = ""  # program/test
    system: str = ""  # file.py::test
    simulated: str = ""  # why the simulation need not be tried: NO_PART or NOT_SEEN
