"""Writes the messages that the coordinator refuses to the dead-letter topic, many in one transaction."""

from typing import Any

import structlog
from kafka import KafkaProducer
from kafka import errors as kafka_errors

from streamfl.bounds import bounded
from streamfl.runtime.log.dead_letters import DeadLetter
from streamfl.runtime.log.tally import Tally
from streamfl_connectors.kafka import dead_letters
from streamfl_connectors.kafka.coordinator.transactions import NotTakenError, Transactions

LOG = structlog.get_logger("streamfl.kafka.coordinator")

# Dead letters are written together; at this many, or this many bytes, they are written at once.
MOST_LETTERS, MOST_LETTER_BYTES = 1000, 4 * 1024 * 1024

# Errors of a dead-letter topic for letters that it will never accept.
NEVER_TAKEN = (
    kafka_errors.MessageSizeTooLargeError,
    kafka_errors.RecordListTooLargeError,
    kafka_errors.TopicAuthorizationFailedError,
)


class RefusedMessages:
    """Refused messages that wait to be written as dead letters.

    Each is written before the committed offset moves past it. After a kill it may be written twice, with the same
    place.

    Attributes
    ----------
    unwritten
        How many letters the topic did not accept.
    """

    def __init__(self, transactions: Transactions, topic: str) -> None:
        self._transactions = transactions
        self._topic = topic
        self._letters: list[DeadLetter] = []
        self._bytes = 0
        self._unusable = Tally(LOG, "unusable message")
        self.unwritten = 0

    def add(self, message: Any, reason: str) -> None:
        """Keep a Kafka message, with the reason why it was refused."""
        self._unusable.note(message.topic, reason, partition=message.partition, offset=message.offset)
        place = (message.topic, message.partition, message.offset)
        letter = DeadLetter.of(*place, reason, message.key, message.value)
        self._letters.append(letter)
        self._bytes += letter.size
        if len(self._letters) >= MOST_LETTERS or self._bytes >= MOST_LETTER_BYTES:
            self.write()

    def write(self) -> None:
        """Write the waiting letters; if the topic will never accept them, they are logged, counted and dropped."""
        letters, self._letters, self._bytes = self._letters, [], 0
        if not letters:
            return

        def send(producer: KafkaProducer) -> None:
            sent = [dead_letters.write(producer, self._topic, letter) for letter in letters]
            producer.flush()
            for one in sent:
                if one.failed():
                    raise one.exception

        try:
            self._transactions.carry_out_alone(send, NEVER_TAKEN)
        except NotTakenError as error:
            self.unwritten += len(letters)
            LOG.error(  # noqa: TRY400  it is the topic's fault: a traceback adds nothing
                "dead letters were not written",
                letters=len(letters),
                in_all=self.unwritten,
                reason=bounded(str(error.__cause__)),
                remedy=f"grant WRITE on {self._topic}, or raise its max.message.bytes",
            )
