"""The kinds of rounds: what clients send of what they learnt, and what of it counts."""
