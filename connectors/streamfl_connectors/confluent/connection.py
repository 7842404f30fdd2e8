"""Makes what reads records through librdkafka, next to kafka-python's clients."""

from typing import Any, cast

from streamfl_connectors.confluent.settings import ConfluentSettings, fetches
from streamfl_connectors.kafka.batches import MOST_UNPACKED
from streamfl_connectors.kafka.connection import FETCHED, FETCHED_OF_ONE, FETCHES, Connection
from streamfl_connectors.kafka.record_reader import RecordReader

try:
    from streamfl_connectors.confluent.reader import LibrdkafkaReader
except ModuleNotFoundError as error:
    raise ImportError("its extra is missing: pip install 'streamfl[confluent]'") from error

# Bytes of an answer beyond its messages.
ENVELOPE = 1024 * 1024


class ConfluentConnection(Connection):
    """Makes readers of librdkafka, and kafka-python's clients for all else."""

    def record_reader(self, group: str, member: str | None = None) -> RecordReader:
        """Return what reads records in bulk: see `Connection.record_reader`."""
        settings = cast("ConfluentSettings", self.settings)
        ahead = fetches(settings.passed_through, FETCHED_OF_ONE, FETCHED)
        config: dict[str, Any] = {
            **settings.of_librdkafka,
            **ahead,
            "receive.message.max.bytes": max(MOST_UNPACKED, ahead["fetch.max.bytes"] + ENVELOPE),
            "group.id": group,
            "partition.assignment.strategy": "cooperative-sticky",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "allow.auto.create.topics": False,
            "enable.partition.eof": True,
        }
        if member is not None:
            timeout = settings.session_timeout_ms
            config |= {"group.instance.id": member, "session.timeout.ms": timeout}
            config |= {"heartbeat.interval.ms": timeout // 4}
        return LibrdkafkaReader(config, lambda: self.consumer(**FETCHES))
