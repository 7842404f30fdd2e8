"""The links of all clients of one process, which share one listener and one producer."""

from collections.abc import Callable, Iterable

import structlog
from kafka import errors as kafka_errors

from streamfl.protocol.messages import FromClient, FromCoordinator, Update
from streamfl.runtime.log.links import Links
from streamfl.runtime.log.parts import cut
from streamfl.runtime.log.signatures import stamp_of
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.log.updates import PLACE
from streamfl.wire import messages
from streamfl_connectors.kafka.connection import Connection, explained
from streamfl_connectors.kafka.hosts.listener import Listener
from streamfl_connectors.kafka.lasting import LastingProducer

LOG = structlog.get_logger("streamfl.kafka.client")


class ClientLinks(Links):
    """Makes the links of clients, and distributes the coordinator's messages."""

    def __init__(
        self,
        connection: Connection,
        topics: Topics,
        wake: Callable[[], None] = lambda: None,
        before_update: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self._updates = topics.updates
        self._signer = connection.signatures.own
        self._settings = connection.settings
        self._denied: list[kafka_errors.AuthorizationError] = []
        self._before_update = before_update
        self._part_bytes = connection.settings.part_bytes
        self._listener = Listener(connection, topics, wake)
        self._producer = LastingProducer(connection, linger_ms=0, retry_backoff_ms=20)

    @property
    def foreign(self) -> int:
        """Count the messages that could not be decoded."""
        return self._listener.foreign

    @property
    def silence(self) -> str:
        """Return why the brokers do not answer; empty if they do."""
        return self._listener.silence

    def received(self) -> list[FromCoordinator]:
        """Return the messages that the listener has received since the last call."""
        return self._listener.take()

    def current(self) -> Iterable[FromCoordinator]:
        """Return the current models."""
        return self._listener.current.values()

    def send(self, message: FromClient) -> None:
        """Send a client's message; if it is lost, the client asks again.

        Raises
        ------
        UsageError
            This log-in may not write updates any more: asking again would be in vain.
        """
        if self._denied:
            with explained(self._settings):
                raise self._denied[-1]
        if isinstance(message, Update):
            self._before_update()
        try:
            data = messages.encode(message)
            stamp = stamp_of(self._signer, PLACE, data)
            for part in cut(data, self._part_bytes):
                headers = [*part.headers, *stamp]
                sent = self._producer.send(self._updates, part.value, key=message.client.encode(), headers=headers)
                sent.add_errback(self._lost, message.client)
        except kafka_errors.KafkaError as error:
            self._lost(message.client, error)

    def flush(self, seconds: float) -> None:
        """Wait until all messages are stored, or for this many seconds."""
        try:
            self._producer.flush(seconds)
        except kafka_errors.KafkaError as error:
            LOG.warning("not all was sent", reason=repr(error))

    def close(self) -> None:
        """Close the connections."""
        self.flush(5.0)
        self._listener.close()
        self._producer.close(1.0)

    def _lost(self, client: str, error: Exception) -> None:
        LOG.warning("a message was not sent; the client will ask again", client=client, reason=repr(error))
        if isinstance(error, kafka_errors.AuthorizationError):
            self._denied.append(error)
