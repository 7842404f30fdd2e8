"""What comes with the product: a broker for development and tests, and an example of a federation's settings."""
