"""Reads recorded streams from files."""
