"""The links of all clients of one process: the coordinator's messages are read once, and passed to each of them."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from streamfl.protocol.memory import MOST_AT_ONCE
from streamfl.protocol.messages import Fenced, FromClient, FromCoordinator, Joined, Left, Refusal


class Links(ABC):
    """Makes the links of clients and distributes the coordinator's messages; a log sends and receives."""

    def __init__(self) -> None:
        self._links: dict[str, Link] = {}
        self._arrived: list[FromCoordinator] = []
        self._taken = 0  # bytes of those that arrived, as decoded

    @abstractmethod
    def send(self, message: FromClient) -> None:
        """Send a client's message; if it is lost, the client asks again."""

    @abstractmethod
    def received(self) -> list[FromCoordinator]:
        """Return the messages that arrived since the last call."""

    @abstractmethod
    def current(self) -> Iterable[FromCoordinator]:
        """Return the current models, with which a new link starts."""

    def link(self, client: str) -> "Link":
        """Return a new link for a client: it starts with the current models, then gets all further messages."""
        self.deliver()
        link = self._links[client] = Link(self, deque(self.current()))
        return link

    def drop(self, client: str) -> None:
        """Forget the link of a client that has left this process."""
        self._links.pop(client, None)

    def receive(self) -> list[FromCoordinator]:
        """Pass on new messages; return all that were passed on since the last call, also by a link."""
        self.deliver()
        arrived, self._arrived, self._taken = self._arrived, [], 0
        return arrived

    def deliver(self) -> None:
        """Pass new messages to every link, an answer to one client to its link only.

        Once `MOST_AT_ONCE` bytes have arrived, others wait in the log until the process has had these.
        """
        if self._taken >= MOST_AT_ONCE:
            return
        received = self.received()
        self._taken += sum(message.memory for message in received)
        self._arrived += received
        for message in received:
            if not isinstance(message, Joined | Fenced | Left | Refusal):
                for link in self._links.values():
                    link.inbox.append(message)
            elif message.client in self._links:
                self._links[message.client].inbox.append(message)


@dataclass
class Link:
    """`streamfl.runtime.ports.ClientLink` of one client."""

    links: Links
    inbox: deque[FromCoordinator] = field(default_factory=deque)

    def send(self, message: FromClient) -> None:
        """Send a message to the coordinator."""
        self.links.send(message)

    def receive(self) -> Sequence[FromCoordinator]:
        """Return the messages that have arrived, in the order of each topic."""
        self.links.deliver()
        arrived = list(self.inbox)
        self.inbox.clear()
        return arrived
