"""Notices that the brokers do not answer a consumer: its polls then return nothing, as if there were nothing."""

import time
from collections.abc import Callable

import structlog
from kafka import KafkaConsumer

from streamfl.errors import PeerError
from streamfl_connectors.kafka.connection import explained
from streamfl_connectors.kafka.settings import KafkaSettings

LOG = structlog.get_logger("streamfl.kafka")

# Seconds without a message after which the brokers are asked, and milliseconds within which they have to answer: far
# more than they take, and short enough for a loop that waits for it.
ASK_AFTER, ANSWER_MS = 5.0, 2000


class BrokerSilence:
    """Whether the brokers of a consumer answer.

    Parameters
    ----------
    consumer
        What is polled; its partitions are assigned by hand.

    Attributes
    ----------
    reason
        Why they do not answer; empty if they do.
    """

    def __init__(
        self, settings: KafkaSettings, consumer: KafkaConsumer, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.reason = ""
        self._settings, self._consumer, self._now = settings, consumer, now
        self._answered = self._asked = now()

    def polled(self, *, any_came: bool) -> None:
        """Note a poll; if nothing has come for long, ask the brokers where the partitions end."""
        now = self._now()
        if any_came:
            self._answer(now)
        elif now >= self._asked + ASK_AFTER:
            self._ask()

    def failed(self, error: PeerError) -> None:
        """Note an error of a poll, or of a question."""
        if not self.reason:
            LOG.warning("the log does not answer", reason=str(error), consequence="this process waits for it")
        self.reason, self._asked = str(error), self._now()

    def _ask(self) -> None:
        try:
            with explained(self._settings):
                self._consumer.end_offsets(list(self._consumer.assignment()), timeout_ms=ANSWER_MS)
        except PeerError as error:
            self.failed(error)
        else:
            self._answer(self._now())

    def _answer(self, now: float) -> None:
        """Note an answer."""
        if self.reason:
            LOG.info("the log answers again", seconds=round(now - self._answered))
        self.reason, self._answered, self._asked = "", now, now
