"""Writes dead letters to their topic."""

from kafka import KafkaProducer
from kafka.future import Future

from streamfl.runtime.log.dead_letters import DeadLetter
from streamfl_connectors.kafka.lasting import LastingProducer


def write(producer: KafkaProducer | LastingProducer, topic: str, letter: DeadLetter) -> Future:
    """Write a letter; the future that is returned says whether it was stored."""
    key = b"" if letter.key is None and letter.value is None else letter.key
    return producer.send(topic, letter.value, key=key, headers=list(letter.headers))
