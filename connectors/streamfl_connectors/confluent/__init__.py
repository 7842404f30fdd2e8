"""The federation on Apache Kafka, whose records are read by librdkafka."""
