"""The links of all clients of one process: one listener and one producer between them."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog
from kafka import KafkaProducer
from kafka import errors as kafka_errors

from streamfl import messages
from streamfl.core.protocol.messages import FromClient, FromCoordinator, Joined, Left
from streamfl_connectors.kafka.absence import let_go
from streamfl_connectors.kafka.connection import Connection
from streamfl_connectors.kafka.listener import Listener
from streamfl_connectors.kafka.parts import cut
from streamfl_connectors.kafka.topics import Topics

LOG = structlog.get_logger("streamfl.kafka.client")


class ClientLinks:
    """Makes the links of clients, and hands out what the coordinator tells.

    Parameters
    ----------
    connection, topics
        Where to read and write.
    wake
        Called when something may have arrived.
    """

    def __init__(self, connection: Connection, topics: Topics, wake: Callable[[], None] = lambda: None) -> None:
        self._updates = topics.updates
        self._part_bytes = connection.settings.part_bytes
        self._listener = Listener(connection, topics, wake)
        self._producer: KafkaProducer = connection.producer(linger_ms=0, retry_backoff_ms=20)
        self._links: dict[str, KafkaClientLink] = {}

    @property
    def foreign(self) -> int:
        """Count the messages that could not be understood."""
        return self._listener.foreign

    def link(self, client: str) -> "KafkaClientLink":
        """Return a new link for a client: it starts with the current models, and hears what is told from now on."""
        self.hand_out()
        link = self._links[client] = KafkaClientLink(self, deque(self._listener.current.values()))
        return link

    def drop(self, client: str) -> None:
        """Forget the link of a client that is not here any more."""
        self._links.pop(client, None)

    def hand_out(self) -> list[FromCoordinator]:
        """Give every link what has arrived, an answer to one client only to that one; return all of it."""
        heard = self._listener.take()
        for message in heard:
            if not isinstance(message, Joined | Left):
                for link in self._links.values():
                    link.inbox.append(message)
            elif message.client in self._links:
                self._links[message.client].inbox.append(message)
        return heard

    def send(self, message: FromClient) -> None:
        """Send a client's message; if it is lost, the client asks again."""
        try:
            for part in cut(messages.encode(message), self._part_bytes):
                sent = self._producer.send(
                    self._updates, part.value, key=message.client.encode(), headers=list(part.headers)
                )
                sent.add_errback(_lost, message.client)
        except kafka_errors.KafkaError as error:
            _lost(message.client, error)

    def flush(self, seconds: float) -> None:
        """Return when all that was sent has arrived, or after so many seconds."""
        try:
            self._producer.flush(timeout=seconds)
        except kafka_errors.KafkaError as error:
            LOG.warning("not all was sent", reason=repr(error))

    def close(self) -> None:
        """Let go of the connection."""
        self.flush(5.0)
        self._listener.close()
        let_go(self._producer, 1.0)


def _lost(client: str, error: Exception) -> None:
    LOG.warning("a message was not sent; the client will ask again", client=client, reason=repr(error))


@dataclass
class KafkaClientLink:
    """`streamfl.ports.ClientLink` on Kafka."""

    links: ClientLinks
    inbox: deque[FromCoordinator] = field(default_factory=deque)

    def send(self, message: FromClient) -> None:
        """Send to the coordinator."""
        self.links.send(message)

    def receive(self) -> Sequence[FromCoordinator]:
        """Return the messages that have arrived, in the order of each topic."""
        self.links.hand_out()
        arrived = list(self.inbox)
        self.inbox.clear()
        return arrived
