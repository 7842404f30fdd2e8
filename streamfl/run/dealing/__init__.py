"""Deals a table's records to the clients of a federation, and imposes drift."""
