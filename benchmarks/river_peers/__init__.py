"""Compares streamfl with the learners of River and CapyMOA, test-then-train on the same records."""
