"""Messages framed as Confluent does: Avro, JSON Schema, Protobuf. They need the extra `registry`."""
