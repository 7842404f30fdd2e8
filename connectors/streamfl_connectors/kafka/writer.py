"""Writes records to the topics from which clients read them."""

from collections.abc import Mapping

from kafka import KafkaProducer

from streamfl_connectors.kafka.connection import Connection, explained

END_OF_STREAM = "end-of-stream"
"""The header of an end-of-stream mark: a message without a value, after which its partition has no more records."""


class KafkaRecordWriter:
    """`streamfl.runtime.ports.RecordWriter` on Kafka.

    Parameters
    ----------
    places
        The topic and partition of each client; with None, the client's name is the key that decides.
    """

    def __init__(
        self, connection: Connection, places: Mapping[str, tuple[str, int | None]], partitions: Mapping[str, int]
    ) -> None:
        self._settings = connection.settings
        self._places = places
        self._partitions = partitions
        self._failed: list[BaseException] = []
        self._producer: KafkaProducer = connection.producer(linger_ms=20, batch_size=256 * 1024, acks="all")

    def write(self, client: str, value: bytes) -> None:
        """Write one message of a client."""
        topic, partition = self._places[client]
        with explained(self._settings):
            sent = self._producer.send(topic, value, key=client.encode(), partition=partition)
        sent.add_errback(self._failed.append)
        self._raise_failure()

    def end(self) -> None:
        """Write an end-of-stream mark to every partition of the clients."""
        written = {self._places[client] for client in self._places}
        ends = {(topic, n) for topic, n in written if n is not None}
        ends |= {(topic, n) for topic, number in written if number is None for n in range(self._partitions[topic])}
        with explained(self._settings):
            for topic, partition in sorted(ends):
                key = END_OF_STREAM.encode()  # kafka-python sends no message without key and value
                mark = self._producer.send(topic, None, key=key, partition=partition, headers=[(END_OF_STREAM, b"")])
                mark.add_errback(self._failed.append)

    def close(self) -> None:
        """Wait until all messages are stored, then close the connection."""
        with explained(self._settings):
            self._producer.flush()
            self._producer.close()
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failed:
            with explained(self._settings):
                raise self._failed[0]
