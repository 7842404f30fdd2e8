"""The coordinator: it opens rounds, judges what clients send, adds it up, and keeps the ledger."""
