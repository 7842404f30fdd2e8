"""Learning record by record between rounds: fast models, local experts, and how their predictions are mixed."""
