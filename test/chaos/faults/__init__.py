"""The kinds of faults, by what they strike."""
