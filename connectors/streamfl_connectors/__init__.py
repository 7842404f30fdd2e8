"""Transports of streamfl that need a broker."""
