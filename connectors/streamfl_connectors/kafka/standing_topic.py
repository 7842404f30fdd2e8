"""The `.state` topic: reading the coordinator's last standing from its end."""

from kafka import KafkaConsumer, TopicPartition

from streamfl_connectors.kafka.parts import Assembly
from streamfl_connectors.kafka.reading import bounds, read_to

KEY = "standing"

# Messages read back from the end at first; most standings have a few parts. Doubled until one is found.
WINDOW = 64


def last_standing(consumer: KafkaConsumer, topic: str, most_bytes: int) -> bytes | None:
    """Return the standing that was committed last, as it was written; None if there is none."""
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    begin, end = bounds(consumer, partition)
    window = WINDOW
    while begin < end:
        start = max(begin, end - window)
        data = _last_whole(consumer, partition, start, end, most_bytes)
        if data is not None or start == begin:
            return data
        window *= 2
    return None


def _last_whole(
    consumer: KafkaConsumer, partition: TopicPartition, start: int, end: int, most_bytes: int
) -> bytes | None:
    consumer.seek(partition, start)
    assembly, last = Assembly(most_bytes), None
    for messages in read_to(consumer, partition, end):
        for message in messages:
            if message.value is not None:
                last = assembly.add(KEY, message.headers, message.value) or last
    return last
