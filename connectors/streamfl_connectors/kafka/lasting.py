"""A producer for messages of which each may be lost, but not all that come after one."""

import math
import time
from typing import Any

import structlog
from kafka import KafkaProducer
from kafka import errors as kafka_errors
from kafka.future import Future

from streamfl.errors import PeerError
from streamfl_connectors.kafka.absence import let_go
from streamfl_connectors.kafka.connection import Connection

LOG = structlog.get_logger("streamfl.kafka")

# Seconds before a producer is replaced again, doubled up to the longest: while every message is refused, for example
# for lack of a right, each would take a new connection.
PAUSE, LONGEST = 1.0, 10.0


class LastingProducer:
    """A producer that is replaced after an error that would end it for good.

    An idempotent producer of kafka-python sends nothing any more after an error that is not temporary: a message with
    the time of a clock that was an hour ahead for a second, or one that is too large for its topic. Transactions and
    readers that must not lose a message handle such an error themselves.
    """

    def __init__(self, connection: Connection, **own: Any) -> None:
        self._connection, self._own = connection, own
        self._producer: KafkaProducer = connection.producer(**own)
        self._ended_by: Exception | None = None
        self._told: type[Exception] | None = None
        self._pause, self._again_at = PAUSE, -math.inf

    def send(self, topic: str, value: bytes | None, **more: Any) -> Future:
        """Send a message; the future that is returned says whether it was stored.

        Between an error that has ended the producer and the next one, messages fail with that error.
        """
        ended_by = self._ended_by
        if ended_by is not None and not self._is_replaced(ended_by):
            return Future().failure(ended_by)
        sent = self._producer.send(topic, value, **more)
        sent.add_errback(self._note, self._producer)
        return sent

    def _note(self, producer: KafkaProducer, error: Exception) -> None:
        """Note an error of a message; called in the producer's thread."""
        if producer is self._producer and not isinstance(error, kafka_errors.RetriableError):
            self._ended_by = error

    def _is_replaced(self, error: Exception) -> bool:
        """Replace the producer, if it is time, and tell whether that was done."""
        now = time.monotonic()
        if now < self._again_at:
            return False
        self._pause = PAUSE if now - self._again_at > LONGEST else min(2.0 * self._pause, LONGEST)
        self._again_at = now + self._pause
        try:
            producer = self._connection.producer(**self._own)
        except PeerError as why:
            LOG.warning("the log does not answer", reason=str(why))
            return False
        if type(error) is not self._told:
            self._told = type(error)
            LOG.warning("a producer is replaced, because it cannot send any more", reason=repr(error))
        old, self._producer, self._ended_by = self._producer, producer, None
        let_go(old, 0.0)
        return True

    def flush(self, seconds: float) -> None:
        """Wait until all messages are stored or lost, or for this many seconds."""
        self._producer.flush(timeout=seconds)

    def close(self, seconds: float) -> None:
        """Close the connection within this many seconds."""
        let_go(self._producer, seconds)
