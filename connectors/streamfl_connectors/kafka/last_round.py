"""Finds the rounds that were opened last, at the end of the control topic."""

from collections import deque

from kafka import KafkaConsumer, TopicPartition

from streamfl.errors import PeerError
from streamfl.protocol.messages import RoundOpened
from streamfl.runtime.log.control import ControlReader
from streamfl.wire.signing import Verifier
from streamfl_connectors.kafka.reading import bounds, read_to

# The first number of messages that are read from the end, doubled until a round is among them.
WINDOW = 64


def last_opened(consumer: KafkaConsumer, topic: str, verifier: Verifier | None = None) -> tuple[RoundOpened, ...]:
    """Return the rounds that were opened last, a few if they are close together; none if the topic names none.

    Of several, those that were forged shut out none before them.

    Parameters
    ----------
    consumer
        A consumer that reads committed messages only; it is assigned to the topic and moved.
    topic
        The control topic. Messages that cannot be read are skipped: whoever listens counts them.
    """
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    begin, end = bounds(consumer, partition)
    window = WINDOW
    while True:
        start = max(begin, end - window)
        found = _last_between(consumer, partition, start, end, verifier)
        if found or start == begin:
            return found
        window *= 2


def _last_between(
    consumer: KafkaConsumer, partition: TopicPartition, start: int, end: int, verifier: Verifier | None
) -> tuple[RoundOpened, ...]:
    consumer.seek(partition, start)
    reader, found = ControlReader(verifier=verifier), deque[RoundOpened](maxlen=WINDOW)
    for messages in read_to(consumer, partition, end):
        for message in messages:
            try:
                whole = reader.read(message.value, message.headers)
            except PeerError:
                continue
            if isinstance(whole, RoundOpened):
                found.append(whole)
    return tuple(found)
