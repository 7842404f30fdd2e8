"""The processes of a live federation: they only assemble machines, ports and settings."""
