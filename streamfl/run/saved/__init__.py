"""What stands around a saved model: where it comes from, and where a client's own file lies."""
