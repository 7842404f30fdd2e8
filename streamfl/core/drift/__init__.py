"""Noticing that the world has changed."""
