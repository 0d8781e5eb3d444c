"""Small faults for the process: HTTP, requests, workers, configuration, metrics."""

from mutant import Mutant

MUTANTS: dict[str, Mutant] = {
}
