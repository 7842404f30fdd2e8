"""Links between clients and the coordinator that need no network."""
