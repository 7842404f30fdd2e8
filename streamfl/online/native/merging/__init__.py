"""How what clients' native models learnt in a round becomes the next agreed state."""
