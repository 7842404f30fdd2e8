"""Shared by connectors to any log: partitions read for their clients, values in parts, topic names, dead letters."""
