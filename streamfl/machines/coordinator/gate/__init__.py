"""The gate: every check of a client's message."""
