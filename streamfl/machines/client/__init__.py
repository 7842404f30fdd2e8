"""A client: it buffers records, trains on them in each round, and predicts with the model that serves."""
