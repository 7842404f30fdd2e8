"""Heartbeats of a coordinator on its own topic: a thread writes some twenty small messages per second.

The brokers themselves tell of a dead process only after the timeout of a group, which is six seconds or more.
"""

import json
import threading
import time

import structlog
from kafka import errors as kafka_errors

from streamfl.errors import StreamflError
from streamfl_connectors.kafka.connection import Connection
from streamfl_connectors.kafka.lasting import LastingProducer

LOG = structlog.get_logger("streamfl.kafka.heartbeats")

# Heartbeats within the time after which a coordinator counts as silent.
WITHIN_SILENCE = 6

# Seconds after which a loop that stands still sends none: its process lives, and does no work.
STUCK = 60.0


class KafkaHeartbeat:
    """Heartbeats, from a thread of their own: a long round is no silence.

    Parameters
    ----------
    silence
        Seconds after which a coordinator counts as silent.
    """

    def __init__(self, connection: Connection, topic: str, silence: float) -> None:
        self._connection, self._topic, self._pause = connection, topic, silence / WITHIN_SILENCE
        self._ended, self._last_turn = threading.Event(), time.monotonic()
        self._wrong: type[Exception] | None = None
        self._thread = threading.Thread(target=self._beat, name="heartbeats", daemon=True)
        self._thread.start()

    def turned(self) -> None:
        """Note that the coordinator's loop continues; if it stands still for long, the heartbeats end."""
        self._last_turn = time.monotonic()

    def _beat(self) -> None:
        """Write heartbeats until the end; what goes wrong is logged once, and a standby takes over."""
        try:
            producer = LastingProducer(self._connection, linger_ms=0)
        except Exception as error:  # a thread that raised would only end with a traceback
            LOG.warning("no heartbeats", reason=str(error), consequence="a coordinator that stands by takes over")
            return
        number = 0
        while not self._ended.wait(self._pause):
            if time.monotonic() - self._last_turn > STUCK:
                continue
            number += 1
            beat = json.dumps({"type": "heartbeat", "number": number}).encode()
            try:
                producer.send(self._topic, beat, partition=0).add_errback(self._not_written)
            except (kafka_errors.KafkaError, StreamflError) as error:
                self._not_written(error)
        producer.close(0.0)

    def _not_written(self, error: Exception) -> None:
        """Log an error, if it is of another kind than the one before; not that the last one is cut off at the end."""
        if type(error) is not self._wrong and not self._ended.is_set():
            self._wrong = type(error)
            LOG.warning("a heartbeat was not written", reason=repr(error))

    def close(self) -> None:
        """Send no more."""
        self._ended.set()
        self._thread.join(5.0)
