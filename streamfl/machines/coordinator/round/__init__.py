"""The round that is open, and how it closes: what has come, what of it counts, what it shows."""
