"""Messages that could not be used, kept as they were, with where they came from and why."""

from dataclasses import dataclass

from kafka import KafkaProducer


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One unusable message. A repeat, after records are read again, has the same topic, partition and offset."""

    topic: str
    partition: int
    offset: int
    reason: str
    key: bytes | None
    value: bytes | None

    @property
    def headers(self) -> list[tuple[str, bytes]]:
        """Return where it came from and what is wrong with it."""
        told = {"topic": self.topic, "partition": self.partition, "offset": self.offset, "reason": self.reason}
        return [(name, str(value).encode()) for name, value in told.items()]


def write(producer: KafkaProducer, topic: str, letter: DeadLetter) -> None:
    """Write a letter; the raw bytes stay what they were."""
    key = b"" if letter.key is None and letter.value is None else letter.key
    producer.send(topic, letter.value, key=key, headers=letter.headers)
