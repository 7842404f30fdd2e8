"""Heartbeats of a coordinator on its own topic, and the wait of one that stands by for their end.

The brokers themselves tell of a dead process only after the timeout of a group, which is six seconds or more. Here a
thread writes some ten small messages a second, and a reader counts the time since the last one that it has read.
"""

import json
import threading
import time
from collections.abc import Callable

import structlog
from kafka import TopicPartition
from kafka import errors as kafka_errors

from streamfl.core.errors import PeerError
from streamfl_connectors.kafka.absence import let_go
from streamfl_connectors.kafka.connection import Connection, explained

LOG = structlog.get_logger("streamfl.kafka.heartbeats")

# Heartbeats within the time after which a coordinator counts as silent.
WITHIN_SILENCE = 6

# Seconds after which a loop that stands still sends none: its process lives, and does no work.
STUCK = 60.0

# A broker answers a connection's requests in turn: while it waits for messages, it says nothing else.
WAIT_MS = 50

# Seconds of one wait for messages, and in which those that are on their way still count after the log did not answer.
TURN, ON_THEIR_WAY = 0.05, 0.15


class KafkaHeartbeat:
    """Heartbeats, from a thread of their own: a long round is no silence.

    Parameters
    ----------
    connection
        To the brokers.
    topic
        Where they go.
    silence
        Seconds after which a coordinator counts as silent.
    """

    def __init__(self, connection: Connection, topic: str, silence: float) -> None:
        self._connection, self._topic, self._pause = connection, topic, silence / WITHIN_SILENCE
        self._ended, self._last_turn = threading.Event(), time.monotonic()
        self._thread = threading.Thread(target=self._beat, name="heartbeats", daemon=True)
        self._thread.start()

    def turned(self) -> None:
        """Note that the coordinator's loop goes on; if it stands still for long, the heartbeats end."""
        self._last_turn = time.monotonic()

    def _beat(self) -> None:
        """Write heartbeats until the end; what goes wrong is logged once, and a standby takes over."""
        try:
            producer = self._connection.producer(linger_ms=0)
        except Exception as error:  # a thread that raised would only end with a traceback
            LOG.warning("no heartbeats", reason=str(error), consequence="a coordinator that stands by takes over")
            return
        number, refused = 0, ""
        while not self._ended.wait(self._pause):
            if time.monotonic() - self._last_turn > STUCK:
                continue
            number += 1
            try:
                producer.send(self._topic, json.dumps({"type": "heartbeat", "number": number}).encode(), partition=0)
            except kafka_errors.KafkaError as error:
                if str(error) != refused:
                    refused = str(error)
                    LOG.warning("a heartbeat was not written", reason=refused)
        let_go(producer, 0.0)

    def close(self) -> None:
        """Send no more."""
        self._ended.set()
        self._thread.join(5.0)


def until_silent(connection: Connection, topic: str, silence: float, stopped: Callable[[], bool]) -> bool:
    """Return when no heartbeat has come for so many seconds (True), or when `stopped` says so (False).

    Before it calls anybody silent it asks for the end of the topic: a broker that does not answer, or that holds
    heartbeats which were not read yet, shows that nothing is known.
    """
    consumer, partition = connection.consumer(fetch_max_wait_ms=WAIT_MS), TopicPartition(topic, 0)
    try:
        with explained(connection.settings.bootstrap_servers):
            consumer.assign([partition])
            consumer.seek_to_end(partition)
            consumer.position(partition)
        heard = time.monotonic()
        while not stopped():
            try:
                with explained(connection.settings.bootstrap_servers):
                    if consumer.poll(timeout_ms=int(1000 * TURN)):
                        heard = time.monotonic()
                    elif time.monotonic() - heard > silence:
                        asked = time.monotonic()
                        end = consumer.end_offsets([partition])[partition]
                        if end <= consumer.position(partition) and time.monotonic() - asked < silence:
                            return True
                        heard = time.monotonic() - silence + ON_THEIR_WAY
            except PeerError as error:
                LOG.warning("the log does not answer", reason=str(error))
                heard = time.monotonic()
        return False
    finally:
        consumer.close()
