"""Makes what reads records through librdkafka, next to kafka-python's clients."""

from importlib.util import find_spec
from typing import Any, cast

from streamfl.errors import UsageError
from streamfl.wire.signing import OPEN, Signatures
from streamfl_connectors.confluent.settings import ConfluentSettings, fetch_config
from streamfl_connectors.kafka.batches import MOST_UNPACKED
from streamfl_connectors.kafka.connection import FETCH_CONFIG, MAX_FETCHED, MAX_FETCHED_OF_PARTITION, Connection
from streamfl_connectors.kafka.record_reader import RecordReader
from streamfl_connectors.kafka.settings import KafkaSettings

# Bytes of an answer beyond its messages.
ENVELOPE = 1024 * 1024


class ConfluentConnection(Connection):
    """Makes readers of librdkafka, and kafka-python's clients for all else.

    Raises
    ------
    UsageError
        The extra is not installed.
    """

    def __init__(self, settings: KafkaSettings, signatures: Signatures = OPEN) -> None:
        if find_spec("confluent_kafka") is None:
            what = '[federation] connector: "confluent" needs the package confluent-kafka'
            raise UsageError(f"{what}; install it (pip install 'streamfl[confluent]')")
        super().__init__(settings, signatures)

    def record_reader(self, group: str, member: str | None = None) -> RecordReader:
        """Return what reads records in bulk: see `Connection.record_reader`."""
        from streamfl_connectors.confluent.reader import LibrdkafkaReader  # noqa: PLC0415  needs the extra

        return LibrdkafkaReader(self._config(group, member), lambda: self.consumer(group_id=group, **FETCH_CONFIG))

    def _config(self, group: str, member: str | None) -> dict[str, Any]:
        settings = cast("ConfluentSettings", self.settings)
        ahead = fetch_config(settings.passed_through, MAX_FETCHED_OF_PARTITION, MAX_FETCHED)
        config = {
            **settings.librdkafka_config,
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
        if member is None:
            return config
        timeout = settings.session_timeout_ms
        joined = {"group.instance.id": member, "session.timeout.ms": timeout, "heartbeat.interval.ms": timeout // 4}
        return config | joined
