"""A coordinator that stands by: it waits for the end of another one's heartbeats, ready to take over."""

import time
from collections.abc import Callable

import structlog
from kafka import TopicPartition

from streamfl.core.errors import BrokenInvariantError, PeerError
from streamfl_connectors.kafka.connection import Connection, explained
from streamfl_connectors.kafka.coordinator_link import KafkaCoordinatorLink

LOG = structlog.get_logger("streamfl.kafka.heartbeats")

# A broker answers a connection's requests in turn: while it waits for messages, it says nothing else.
WAIT_MS = 50

# Seconds of one wait for messages, and in which those that are on their way still count after the log did not answer.
TURN, ON_THEIR_WAY = 0.05, 0.15


class KafkaStandby:
    """`streamfl.ports.Standby` on Kafka.

    Parameters
    ----------
    connection
        To the brokers.
    topic
        Where heartbeats go.
    link
        The link that has yet to begin, ready to do so.
    """

    def __init__(self, connection: Connection, topic: str, link: KafkaCoordinatorLink) -> None:
        self._connection, self._topic = connection, topic
        self._link: KafkaCoordinatorLink | None = link

    def wait(self, silence: float, *, stopped: Callable[[], bool]) -> bool:
        """Return when no heartbeat has come for so many seconds (True), or when `stopped` says so (False)."""
        return until_silent(self._connection, self._topic, silence, stopped)

    def take_over(self) -> KafkaCoordinatorLink:
        """Fence every other coordinator, and return the link.

        Raises
        ------
        BrokenInvariantError
            It was returned before, or this standby is closed.
        """
        link = self._link
        if link is None:
            raise BrokenInvariantError("a standby takes over once")
        link.begin()
        self._link = None
        return link

    def close(self) -> None:
        """Close the connections, unless the link was taken."""
        link, self._link = self._link, None
        if link is not None:
            link.close()


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
