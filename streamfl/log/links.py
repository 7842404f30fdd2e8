"""The links of all clients of one process: what the coordinator says is read once, and handed to each of them."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from streamfl.core.protocol.messages import FromClient, FromCoordinator, Joined, Left


class Links(ABC):
    """Makes the links of clients, and hands out what the coordinator says. A log says how to send and to hear."""

    def __init__(self) -> None:
        self._links: dict[str, Link] = {}

    @abstractmethod
    def send(self, message: FromClient) -> None:
        """Send a client's message; if it is lost, the client asks again."""

    @abstractmethod
    def hear(self) -> list[FromCoordinator]:
        """Return what has arrived since the last time."""

    @abstractmethod
    def current(self) -> Iterable[FromCoordinator]:
        """Return the current models, with which a new link starts."""

    def link(self, client: str) -> "Link":
        """Return a new link for a client: it starts with the current models, and hears what is said from now on."""
        self.told()
        link = self._links[client] = Link(self, deque(self.current()))
        return link

    def drop(self, client: str) -> None:
        """Forget the link of a client that is not here any more."""
        self._links.pop(client, None)

    def told(self) -> list[FromCoordinator]:
        """Give every link what has arrived, an answer to one client only to that one; return all of it."""
        heard = self.hear()
        for message in heard:
            if not isinstance(message, Joined | Left):
                for link in self._links.values():
                    link.inbox.append(message)
            elif message.client in self._links:
                self._links[message.client].inbox.append(message)
        return heard


@dataclass
class Link:
    """`streamfl.ports.ClientLink` of one of the clients."""

    links: Links
    inbox: deque[FromCoordinator] = field(default_factory=deque)

    def send(self, message: FromClient) -> None:
        """Send to the coordinator."""
        self.links.send(message)

    def receive(self) -> Sequence[FromCoordinator]:
        """Return the messages that have arrived, in the order of each topic."""
        self.links.told()
        arrived = list(self.inbox)
        self.inbox.clear()
        return arrived
