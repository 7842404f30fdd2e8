"""Connectors of streamfl that need a broker."""
