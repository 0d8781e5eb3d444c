"""A service on hosts of its own, while the network between them fails. README.md tells how."""
