"""The coordinator: it opens rounds, checks the clients' messages, aggregates their updates, and keeps the ledger."""
