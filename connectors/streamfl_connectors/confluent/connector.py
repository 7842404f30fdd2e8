"""The connector for Kafka that reads records through librdkafka; all else is that of kafka-python."""

from typing import ClassVar

from pydantic import BaseModel

from streamfl_connectors.confluent.connection import ConfluentConnection
from streamfl_connectors.confluent.settings import ConfluentSettings
from streamfl_connectors.kafka.connection import Connection
from streamfl_connectors.kafka.connector import KafkaConnector


class ConfluentConnector(KafkaConnector):
    """`streamfl.runtime.ports.Connector` for Apache Kafka, with records read through librdkafka."""

    Settings: ClassVar[type[BaseModel]] = ConfluentSettings
    connection: ClassVar[type[Connection]] = ConfluentConnection
