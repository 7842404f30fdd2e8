"""The interfaces through which the machines reach the world: records, links, connectors, time."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

from pydantic import BaseModel

from streamfl.core.arrays import FloatArray, IntArray
from streamfl.core.coordinator.state import CoordinatorState
from streamfl.core.protocol.events import Unusable
from streamfl.core.protocol.messages import FromClient, FromCoordinator
from streamfl.core.protocol.records import Batch, Rejection


class Source(Protocol):
    """The records of one client, in order, one or more partitions."""

    def poll(self, limit: int) -> Sequence[Batch]:
        """Return the next records, at most `limit` good and bad ones; empty if there are none yet."""
        ...

    @property
    def ended(self) -> bool:
        """Whether no record can ever come again (a file read to its end; never a topic)."""
        ...

    def seek(self, positions: Mapping[str, int]) -> None:
        """Continue each named partition at its position, and leave the others where they are."""
        ...

    def fetch(self, positions: Mapping[str, Sequence[int]]) -> Sequence[Batch]:
        """Read single old records again, one batch per partition, without moving; deleted ones are left out."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """The records in some messages of one partition, as columns.

    Parameters
    ----------
    positions
        The position of each good record, shape (n,), strictly increasing: offset of its message x `stride` of the
        format + its number within the message.
    features, X, y, labels
        As in `streamfl.core.protocol.records.Batch`.
    clients
        The client of each good record, length n; empty if the format names none.
    rejected
        The bad records, by increasing position.
    rejected_clients
        The client of each bad record, "" where it is unknown; empty if the format names none.
    times
        When each good record was measured, in seconds since 1970, NaN where unknown; shape (n,), or (0,) if the
        format names no time.
    ignored
        Number of values of good records that were left out: of features beyond a reader's limit, or of undeclared
        fields.
    unknown
        By field, how many good records have an undeclared category.
    remarks
        Notes for people about the records, each once per reader.
    """

    positions: IntArray
    features: tuple[str, ...]
    X: FloatArray
    y: FloatArray
    labels: tuple[str, ...]
    clients: tuple[str, ...]
    rejected: tuple[Rejection, ...]
    rejected_clients: tuple[str, ...]
    times: FloatArray
    ignored: int = 0
    unknown: Mapping[str, int] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


class RecordFormat(Protocol):
    """The encoding of records in the messages of a log."""

    stride: int
    """Positions per message: 1, or the most records that a message of the format may hold."""

    def decode(self, offsets: Sequence[int], values: Sequence[bytes | None]) -> Decoded:
        """Return the records of consecutive messages; what cannot be read becomes a rejection, never an error."""
        ...

    def fresh(self) -> "RecordFormat":
        """Return the same format for another partition: it has no names yet, so others do not use up its limit."""
        ...


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the records are in a log, and which client each belongs to.

    Parameters
    ----------
    topics
        Names of topics; with `by="topic"` a name may hold one `*`, which stands for the client's name.
    by
        `topic`: every topic is a client and has one partition. `partition`: every partition is a client, named
        `topic/number`. `key`: every value of a field of the records is a client, whose records are in one partition.
    partitions
        How many partitions each topic must have; None allows any number.
    start
        Where a client that is new to the ledger begins.
    lost
        What to do if records were deleted before they were accepted: `stop`, or `skip` them.
    late_after
        A record counts as late if it was measured so many seconds before an earlier record in the log.
    """

    topics: tuple[str, ...]
    by: Literal["topic", "partition", "key"] = "topic"
    partitions: int | None = None
    start: Literal["earliest", "latest"] = "earliest"
    lost: Literal["stop", "skip"] = "stop"
    late_after: float = 60.0


class ClientLink(Protocol):
    """A client's connection to the coordinator."""

    def send(self, message: FromClient) -> None:
        """Send to the coordinator."""
        ...

    def receive(self) -> Sequence[FromCoordinator]:
        """Return the messages that have arrived, in the order of each topic."""
        ...


class CoordinatorLink(Protocol):
    """The coordinator's connection to all clients, and the store of its state."""

    def publish(self, messages: Sequence[FromCoordinator]) -> None:
        """Publish messages to all clients, all or nothing."""
        ...

    def commit(self, messages: Sequence[FromCoordinator], state: CoordinatorState) -> None:
        """Publish messages to all clients and save the state, all or nothing."""
        ...

    def receive(self) -> Iterable[FromClient | Unusable]:
        """Yield the messages that have arrived; a message that was yielded counts as handled at the next commit."""
        ...

    def refuse(self, reason: str) -> None:
        """Keep the last received message unchanged, as a dead letter for people to inspect."""
        ...

    def restore(self) -> CoordinatorState | None:
        """Return the last committed state, if any."""
        ...


class ServedCoordinatorLink(CoordinatorLink, Protocol):
    """The link of a coordinator that runs as a service."""

    def ends(self, partitions: Collection[str]) -> Mapping[str, int | None]:
        """Return the position after the last record of each of some partitions, by their names in the ledger.

        Positions count as in `Decoded`: offset x stride. 0 if there is no such partition; None if it is unknown, for
        lack of a right or of an answer: then no position is refused.
        """
        ...

    def listen(self, seconds: float) -> None:
        """Return when a message may have arrived, or after so many seconds."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


@dataclass(frozen=True, slots=True)
class ClientProgress:
    """How far a hosted client has come, from which the group's offsets are committed.

    `positions` are the next positions in the ledger, `pending` the records read and not yet accounted for.
    """

    positions: Mapping[str, int]
    pending: int


@dataclass(slots=True)
class ReadingCounts:
    """Counts of a host that are in no ledger.

    `unrouted`: bad records that name no client. `late`: good records measured long before earlier records of the log.
    `dead_letters`: messages with bad records, written to the dead-letter topic. `foreign`: messages on the
    coordinator's topics that could not be read. `ignored`: values left out of good records, see `Decoded`. `unknown`:
    by field, good records with an undeclared category.
    """

    unrouted: int = 0
    late: int = 0
    dead_letters: int = 0
    foreign: int = 0
    ignored: int = 0
    unknown: dict[str, int] = field(default_factory=dict)

    def add(self, decoded: Decoded) -> None:
        """Add the counts of newly read records."""
        self.ignored += decoded.ignored
        for name, records in decoded.unknown.items():
            self.unknown[name] = self.unknown.get(name, 0) + records


class Host(Protocol):
    """The clients of one process, which is a member of the group of all hosts."""

    counts: ReadingCounts

    def hosted(self) -> Mapping[str, Source]:
        """Read records, and return this host's clients with their sources; they change as the group does."""
        ...

    def link(self, client: str) -> ClientLink:
        """Return a new link for a client of this host; it receives what is published from now on."""
        ...

    def drop(self, client: str) -> None:
        """Drop the link of a client that has moved to another host or has finished."""
        ...

    def receive(self) -> Sequence[FromCoordinator]:
        """Deliver new messages of the coordinator to the links, and return them."""
        ...

    def settle(self, progress: Mapping[str, ClientProgress]) -> None:
        """Report the clients' progress to the group: a hint for the next host, and for tools that show lag."""
        ...

    def listen(self, seconds: float) -> None:
        """Return when something may have arrived, or after so many seconds."""
        ...

    def close(self) -> None:
        """Release the clients and close the connection."""
        ...


class RecordWriter(Protocol):
    """Writes records to the topics that clients read."""

    def write(self, client: str, value: bytes) -> None:
        """Write one message for a client; it may arrive later."""
        ...

    def end(self) -> None:
        """Mark the end of the stream of every client that was written to."""
        ...

    def close(self) -> None:
        """Wait until all messages have arrived, and close the writer."""
        ...


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; `remedy` is empty if all is well."""

    subject: str
    state: Literal["ok", "warning", "error"]
    found: str
    remedy: str = ""


class Connector(Protocol):
    """A kind of log on which federations run: a class named by the entry point `streamfl.connectors`.

    It is built from a federation's name and its own settings.
    """

    Settings: ClassVar[type[BaseModel]]
    """The model of the connector's section in the settings file; the section has the connector's name."""

    def __init__(self, federation: str, settings: Any) -> None: ...

    def prepare(self) -> None:
        """Create the federation's missing topics, check the others, and wait for the log for a bounded time."""
        ...

    def coordinator(self, placement: Placement, records: RecordFormat) -> ServedCoordinatorLink:
        """Return the coordinator's link; it fences any other coordinator, and knows where the records end."""
        ...

    def host(self, name: str, placement: Placement, records: RecordFormat) -> Host:
        """Join the group of hosts under a name that is the same after a restart."""
        ...

    def writer(self, placement: Placement, clients: Sequence[str]) -> RecordWriter:
        """Return a writer, after creating missing topics of the clients."""
        ...

    def control(self, *, from_start: bool) -> Iterator[FromCoordinator]:
        """Yield the coordinator's messages without end, except models."""
        ...

    def findings(self, placement: Placement, records: RecordFormat) -> Sequence[Finding]:
        """Check everything that a federation needs, also on real records."""
        ...


class Clock(Protocol):
    """Time, in seconds."""

    def now(self) -> float:
        """Return the time."""
        ...

    def sleep_until(self, time: float) -> None:
        """Wait until that time."""
        ...
