"""Counts the bytes that the messages of a replay would take on a log; a link to a log counts what it writes."""

from dataclasses import dataclass

from streamfl.protocol.changes import WHOLE_EVERY
from streamfl.protocol.messages import (
    FromClient,
    FromCoordinator,
    ModelPublished,
    ModelsChanged,
    OnlinePublished,
    RoundClosed,
    RoundOpened,
)
from streamfl.wire import messages

OfRound = ModelPublished | ModelsChanged | OnlinePublished

# The first entries are all encoded, and from then on one in so many: to encode all would slow a replay down.
FIRST, EVERY = 4, 8

# Of an entry this many messages of clients are encoded, then one in `ONE_IN`, and after `MANY` one in its square. One
# client in eight in turn sends more than others: with seven, all turns are counted.
MOST, ONE_IN, MANY = 64, 7, 512


@dataclass
class Traffic:
    """The bytes per record of what clients send and of what the coordinator publishes.

    The messages of some rounds are encoded to be counted: of the first four entries all, then of every eighth, with
    eight times the weight. Of these the messages of 64 clients; of further ones every seventh with seven times the
    weight, and after 512 every 49th. Rounds that are published whole are all counted. What the coordinator writes as
    JSON is counted as gzip makes it, each message alone; a log may put several together. Parts and headers of a log
    are not counted. Records are those of the ledger.

    Examples
    --------
    >>> from streamfl.protocol.messages import Leave
    >>> traffic = Traffic()
    >>> traffic.add(Leave(client="c0", nonce="7f"))
    >>> traffic.up, traffic.bytes_per_record
    (53, (0.0, 0.0))
    """

    up: int = 0
    down: int = 0
    records: int = 0
    _entry: int = 1
    _sent: int = 0

    def add(self, message: FromClient | FromCoordinator) -> None:
        """Count a message."""
        weight = 1 if self._entry <= FIRST else EVERY if self._entry % EVERY == 0 else 0
        if isinstance(message, FromClient):
            self._sent += 1
            weight *= self._stands_for()
        elif isinstance(message, OfRound) and message.version % WHOLE_EVERY == 0:
            weight = 1
        if weight:
            data = messages.encode(message)
            if isinstance(message, FromClient):
                self.up += weight * len(data)
            else:
                self.down += weight * messages.size_on_log(message, data)
            if isinstance(message, RoundClosed):
                self.records += weight * message.records
        if isinstance(message, RoundOpened):
            self._entry, self._sent = message.entry, 0

    def _stands_for(self) -> int:
        """Return for how many messages of clients the last one is counted, 0 if it is not encoded."""
        if self._sent <= MOST:
            return 1
        one_in = ONE_IN if self._sent <= MANY else ONE_IN**2
        return one_in if self._sent % one_in == 0 else 0

    @property
    def bytes_per_record(self) -> tuple[float, float]:
        """Return the bytes that clients sent and that the coordinator published, each over the records of all."""
        return (self.up / self.records, self.down / self.records) if self.records else (0.0, 0.0)
