"""Learning between rounds, record by record."""
