"""Hosts and scorers on Kafka: records in, messages out."""
