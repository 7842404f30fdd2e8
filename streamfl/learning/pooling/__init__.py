"""Sums over clients of which the coordinator sees the total alone: what is added up, and the masks that hide it."""
