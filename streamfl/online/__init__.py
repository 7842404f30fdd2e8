"""Online learning, record by record."""
