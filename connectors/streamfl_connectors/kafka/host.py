"""One process that serves clients: their records, their links, and its place in the group of hosts."""

import threading
from collections.abc import Mapping, Sequence

from streamfl.core.protocol.messages import FromCoordinator
from streamfl.log.topics import Topics
from streamfl.ports import ClientLink, ClientProgress, Placement, ReadingCounts, RecordFormat, Source
from streamfl_connectors.kafka.client_links import ClientLinks
from streamfl_connectors.kafka.connection import Connection
from streamfl_connectors.kafka.records import RecordConsumer

# While records are waited for, they are polled ever more seldom, between these (seconds): a poll of nothing costs
# half a millisecond, so the shortest all the time would be a tenth of a core.
SHORTEST, LONGEST = 0.002, 0.1


class KafkaHost:
    """`streamfl.ports.Host` on Kafka.

    What the coordinator tells wakes `listen` at once, from the listener's thread; records are polled.

    Parameters
    ----------
    connection, topics
        Where to read and write.
    name
        Of this host, the same after a restart.
    placement, records
        Which topics hold records, whose they are, and how messages hold them.
    """

    def __init__(
        self, connection: Connection, topics: Topics, name: str, placement: Placement, records: RecordFormat
    ) -> None:
        self.counts = ReadingCounts()
        self._heard = threading.Event()
        self._links = ClientLinks(connection, topics, self._heard.set)
        self._records = RecordConsumer(connection, topics, name, placement, records, self.counts)
        self._pause = SHORTEST

    def hosted(self) -> Mapping[str, Source]:
        """Read on, and return the clients that are here now with their records."""
        if self._records.read():
            self._pause = SHORTEST
        self.counts.foreign = self._links.foreign
        return self._records.sources

    def link(self, client: str) -> ClientLink:
        """Return a new link for a client that is here."""
        return self._links.link(client)

    def drop(self, client: str) -> None:
        """Forget the link of a client that is here no more."""
        self._links.drop(client)

    def told(self) -> Sequence[FromCoordinator]:
        """Hand out what the coordinator tells, and return it."""
        return self._links.told()

    def settle(self, progress: Mapping[str, ClientProgress]) -> None:
        """Tell the group how far the clients are."""
        self._records.settle(progress)

    def listen(self, seconds: float) -> None:
        """Return when the coordinator told something, or it is time to look for records, at last after so long."""
        if self._records.hungry:
            seconds = min(seconds, self._pause)
            self._pause = min(2.0 * self._pause, LONGEST)
        self._heard.wait(seconds)
        self._heard.clear()

    def close(self) -> None:
        """Let go of the clients and of the connection."""
        self._links.close()
        self._records.close()
