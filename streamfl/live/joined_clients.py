"""Which clients take part, so that people are told once that one has joined."""

from dataclasses import dataclass, field

from streamfl.bounds import NAMED
from streamfl.protocol.messages import Joined, Left, Refusal


@dataclass
class JoinedClients:
    """Remembers the clients that have joined and not left.

    A client is answered more than once: it asks until it is, and again when it starts again or moves to another host.

    Examples
    --------
    >>> answer = Joined(client="c0", nonce="7f", incarnation=1, entry=1, positions={}, read=0)
    >>> again = Joined(client="c0", nonce="a0", incarnation=2, entry=5, positions={}, read=0)
    >>> clients = JoinedClients()
    >>> [clients.is_known(message) for message in (answer, again, Left(client="c0", nonce="a0"), again)]
    [False, True, False, False]
    """

    _clients: set[str] = field(default_factory=set)

    def is_known(self, message: object) -> bool:
        """Tell whether a message only repeats that a client has joined, and note it; of too many clients none is."""
        match message:
            case Joined(client=client) if client in self._clients:
                return True
            case Joined(client=client) if len(self._clients) < NAMED.clients:
                self._clients.add(client)
            case Left(client=client) | Refusal(client=client, evicted=True):
                self._clients.discard(client)
        return False

    def forget(self, client: str) -> None:
        """Forget a client: that it joins is news again."""
        self._clients.discard(client)
