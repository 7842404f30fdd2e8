"""Learning: a model's scores and steps on one client's records, and the aggregation of clients' results."""
