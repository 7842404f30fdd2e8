"""Predictions: of a saved model for a file, and a file of them read back."""
