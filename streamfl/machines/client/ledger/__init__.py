"""What a client knows from the coordinator: its place in the ledger, and the models."""
