"""What runs beside the product: a broker for development and tests, a federation's settings to begin with."""
