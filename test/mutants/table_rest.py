"""Small faults for the ledger, the operator's tool and base/, beside the core."""

from mutant import Mutant

MUTANTS: dict[str, Mutant] = {
}
