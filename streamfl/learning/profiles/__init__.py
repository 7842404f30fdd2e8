"""Profiles: which models are live in a round, which one serves, and what follows an alarm."""
