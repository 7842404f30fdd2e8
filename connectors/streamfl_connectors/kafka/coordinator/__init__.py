"""The coordinator on Kafka: transactions, its state, and standing by."""
