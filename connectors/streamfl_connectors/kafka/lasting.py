"""A producer for messages of which each may be lost, but not all that come after one."""

import time
from typing import Any

import structlog
from kafka import KafkaProducer
from kafka import errors as kafka_errors
from kafka.producer.future import FutureRecordMetadata

from streamfl.core.errors import PeerError
from streamfl_connectors.kafka.absence import let_go
from streamfl_connectors.kafka.connection import Connection

LOG = structlog.get_logger("streamfl.kafka")

# Seconds before a producer is replaced again: if every message is refused, each would take a new connection.
PAUSE = 1.0


class LastingProducer:
    """A producer that is replaced after an error that would end it for good.

    An idempotent producer of kafka-python sends nothing any more after an error that is not temporary: a message with
    the time of a clock that was an hour ahead for a second, or one that is too large for its topic. Transactions and
    readers that must not lose a message handle such an error themselves.

    Parameters
    ----------
    connection
        To the brokers.
    own
        Settings of the producer.
    """

    def __init__(self, connection: Connection, **own: Any) -> None:
        self._connection, self._own = connection, own
        self._producer: KafkaProducer = connection.producer(**own)
        self._ended_by: Exception | None = None
        self._again_at = 0.0

    def send(self, topic: str, value: bytes | None, **more: Any) -> FutureRecordMetadata:
        """Send a message; the future that is returned says whether it was stored."""
        if self._ended_by is not None and time.monotonic() >= self._again_at:
            self._replace(self._ended_by)
        sent = self._producer.send(topic, value, **more)
        sent.add_errback(self._note, self._producer)
        return sent

    def _note(self, producer: KafkaProducer, error: Exception) -> None:
        """Note an error of a message; called in the producer's thread."""
        if producer is self._producer and not isinstance(error, kafka_errors.RetriableError):
            self._ended_by = error

    def _replace(self, error: Exception) -> None:
        self._again_at = time.monotonic() + PAUSE
        try:
            producer = self._connection.producer(**self._own)
        except PeerError as why:
            LOG.warning("the log does not answer", reason=str(why))
            return
        LOG.warning("a producer is replaced: it would send nothing any more", reason=repr(error))
        old, self._producer, self._ended_by = self._producer, producer, None
        let_go(old, 0.0)

    def flush(self, seconds: float) -> None:
        """Wait until all messages are stored or lost, or for so many seconds."""
        self._producer.flush(timeout=seconds)

    def close(self, seconds: float) -> None:
        """Close the connection within so many seconds."""
        let_go(self._producer, seconds)
