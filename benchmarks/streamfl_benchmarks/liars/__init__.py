"""Hostile members, and messages that are no longer what was sent."""
