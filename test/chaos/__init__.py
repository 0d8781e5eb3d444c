"""Faults for as long as you like: a seeded schedule of them, clients that note every answer, and
checks of every answer against the ledger. README.md tells how."""
