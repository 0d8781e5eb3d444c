"""Small faults for the lock library and its scripts."""

from mutant import Mutant

MUTANTS: dict[str, Mutant] = {
}
