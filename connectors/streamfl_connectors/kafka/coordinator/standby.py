"""A coordinator that stands by: it waits for the end of another one's heartbeats, ready to take over."""

import time
from collections import deque
from collections.abc import Callable

import structlog
from kafka import TopicPartition

from streamfl.errors import BrokenInvariantError, PeerError
from streamfl_connectors.kafka.connection import Connection, explained
from streamfl_connectors.kafka.coordinator.link import KafkaCoordinatorLink

LOG = structlog.get_logger("streamfl.kafka.heartbeats")

# A broker answers a connection's requests in turn: while it waits for messages, it says nothing else.
WAIT_MS = 50

# The gaps between heartbeats that count: those of about a minute.
GAPS = 1000

# Seconds of one wait for messages, and in which those that are on their way still count after the log did not answer.
TURN, ON_THEIR_WAY = 0.05, 0.15


class KafkaStandby:
    """`streamfl.runtime.ports.Standby` on Kafka."""

    def __init__(self, connection: Connection, topic: str, link: KafkaCoordinatorLink) -> None:
        self._connection, self._topic = connection, topic
        self._link: KafkaCoordinatorLink | None = link

    def wait(self, silence: float, *, stopped: Callable[[], bool]) -> bool:
        """Return when no heartbeat has come for so long (True; see `Silence`), or when `stopped` says so (False)."""
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


class Silence:
    """How long nothing may be heard: `least` seconds, or more where heartbeats come irregularly.

    On a machine that is short of CPU heartbeats come late, and nobody is dead. So the limit is twice the longest gap
    of the last minute or so, and at most four times the least; after Hayashibara et al., "The phi accrual failure
    detector", 2004, with a maximum in place of a distribution.

    Parameters
    ----------
    least
        Seconds.

    Examples
    --------
    >>> silence = Silence(0.3, 0.0)
    >>> silence.heard(0.05), silence.is_over(0.3), silence.is_over(0.36)
    (None, False, True)
    >>> silence.heard(0.25), silence.is_over(0.6), silence.is_over(0.66)
    (None, False, True)
    """

    def __init__(self, least: float, now: float) -> None:
        self._least, self._since = least, now
        self._gaps: deque[float] = deque([0.0], maxlen=GAPS)

    def heard(self, now: float) -> None:
        """Note that somebody was heard."""
        self._gaps.append(now - self._since)
        self._since = now

    def excused(self, now: float) -> None:
        """Note that nobody could be heard until now: that says nothing."""
        self._since = now

    @property
    def limit(self) -> float:
        """Return the seconds after which it is over."""
        return min(max(self._least, 2.0 * max(self._gaps)), 4.0 * self._least)

    def is_over(self, now: float) -> bool:
        """Tell whether nobody was heard for too long."""
        return now - self._since > self.limit


def until_silent(connection: Connection, topic: str, silence: float, stopped: Callable[[], bool]) -> bool:
    """Return when no heartbeat has come for too long (True), or when `stopped` says so (False).

    Before it calls anybody silent it asks for the end of the topic: a broker that does not answer, or that holds
    heartbeats which were not read yet, shows that nothing is known.
    """
    consumer, partition = connection.consumer(fetch_max_wait_ms=WAIT_MS), TopicPartition(topic, 0)
    try:
        with explained(connection.settings):
            consumer.assign([partition])
            consumer.seek_to_end(partition)
            consumer.position(partition)
        waited = Silence(silence, time.monotonic())
        while not stopped():
            try:
                with explained(connection.settings):
                    if consumer.poll(timeout_ms=int(1000 * TURN)):
                        waited.heard(time.monotonic())
                    elif waited.is_over(time.monotonic()):
                        asked = time.monotonic()
                        end = consumer.end_offsets([partition])[partition]
                        if end <= consumer.position(partition) and time.monotonic() - asked < silence:
                            return True
                        waited.excused(time.monotonic() - waited.limit + ON_THEIR_WAY)
            except PeerError as error:
                LOG.warning("the log does not answer", reason=str(error))
                waited.excused(time.monotonic())
        return False
    finally:
        consumer.close()
