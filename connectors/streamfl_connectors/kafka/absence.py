"""Tolerates unreachable brokers for a while, while a service runs."""

import time
from dataclasses import dataclass

import structlog
from kafka import KafkaProducer
from kafka import errors as kafka_errors

from streamfl.errors import PeerError

LOG = structlog.get_logger("streamfl.kafka")


# Errors that end by themselves, or when somebody sets a clock right.
PASSING = (kafka_errors.RetriableError, kafka_errors.InvalidTimestampError)


@dataclass
class Absence:
    """The time for which the brokers have not answered one reader."""

    patience: float  # the seconds after which the error is raised
    _since: float | None = None

    def bear(self, error: PeerError) -> None:
        """Tolerate an error; raise it if it has another cause, or the brokers have been away for too long."""
        if not isinstance(error.__cause__, PASSING):
            raise error
        if self._since is None:
            self._since = time.monotonic()
            LOG.warning("waiting", what="the brokers", reason=str(error), most_seconds=self.patience)
        if time.monotonic() - self._since >= self.patience:
            raise error

    def over(self) -> None:
        """Note that the brokers have answered."""
        self._since = None


def let_go(producer: KafkaProducer, seconds: float) -> None:
    """Close a producer within this many seconds, even if it has messages that it cannot send."""
    try:
        producer.close(timeout=seconds)
    except kafka_errors.KafkaTimeoutError:
        # kafka-python then stops halfway: its thread continues, and raises when the process ends.
        producer._sender.force_close()
        producer._sender.join(1.0)
        producer.close(timeout=1.0)
