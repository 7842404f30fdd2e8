"""A real Apache Kafka of one node on loopback, for development and tests: Java, its jars, and nothing else."""

from deploy.broker.node import Broker

__all__ = ["Broker"]
