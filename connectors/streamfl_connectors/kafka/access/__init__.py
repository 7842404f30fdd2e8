"""What each role may do on Kafka, and whether it can."""
