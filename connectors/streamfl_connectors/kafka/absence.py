"""Brokers that are away while a service runs: borne for a while, then told."""

import time
from dataclasses import dataclass

import structlog
from kafka import KafkaProducer
from kafka import errors as kafka_errors

from streamfl.core.errors import PeerError

LOG = structlog.get_logger("streamfl.kafka")


@dataclass
class Absence:
    """How long the brokers have not answered one reader.

    Parameters
    ----------
    patience
        Seconds after which it is too long.
    """

    patience: float
    _since: float | None = None

    def bear(self, error: PeerError) -> None:
        """Go on after an error; raise it if it is of another kind, or the brokers have been away too long."""
        if not isinstance(error.__cause__, kafka_errors.RetriableError):
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
    """Close a producer after so many seconds at most, also if it cannot send what it still has."""
    try:
        producer.close(timeout=seconds)
    except kafka_errors.KafkaTimeoutError:
        # kafka-python gives up halfway then, its thread goes on, and a traceback follows when the process ends.
        producer._sender.force_close()
        producer._sender.join(1.0)
        producer.close(timeout=1.0)
