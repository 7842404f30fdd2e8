"""The one loop that drives the machines, and the clocks it reads."""
