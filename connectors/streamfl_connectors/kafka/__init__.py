"""The federation on Apache Kafka."""
