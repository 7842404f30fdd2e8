"""What the machines need from the world: records, a link to the other side, time."""

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
        """Return the next records, at most `limit` good and bad ones; empty when none are there now."""
        ...

    @property
    def ended(self) -> bool:
        """Whether no record can ever come again (a file read to its end; never a topic)."""
        ...

    def seek(self, positions: Mapping[str, int]) -> None:
        """Go on reading each named partition at its position; the others where they are."""
        ...

    def fetch(self, positions: Mapping[str, Sequence[int]]) -> Sequence[Batch]:
        """Read single old records again, one batch a partition, without moving; what is gone is left out."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """The records that some messages of one partition hold, as columns.

    Parameters
    ----------
    positions
        The position of each good record, shape (n,), strictly increasing: offset of its message x `stride` of the
        format + its number within the message.
    features, X, y, labels
        As in `streamfl.core.protocol.records.Batch`.
    clients
        The client of each good record, length n; empty where the format names none.
    rejected
        The bad records, by increasing position.
    rejected_clients
        The client of each bad record, "" where it cannot be told; empty where the format names none.
    times
        When each good record was measured, seconds since 1970, NaN where it does not say; shape (n,), or (0,) where
        the format names no time.
    ignored
        Values of good records that were left out: of more features than a reader takes, or of fields that are not
        declared.
    unknown
        How many good records have a value of a category that is not declared, by field.
    remarks
        What people should know of what was read, each thing once for a reader.
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
    """How the messages of a log hold records."""

    stride: int
    """Positions that a message takes up: 1, or the most records a message of the format may hold."""

    def decode(self, offsets: Sequence[int], values: Sequence[bytes | None]) -> Decoded:
        """Return the records of consecutive messages; whatever is no record becomes a rejection, never an error."""
        ...

    def fresh(self) -> "RecordFormat":
        """Return the same format for another partition: it knows no names yet, so nobody else's count against it."""
        ...


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the records of clients are, and whose they are.

    Parameters
    ----------
    topics
        Names of topics; with `by="topic"` a name may hold one `*`, and what it stands for is the client's name.
    by
        `topic`: every topic, of one partition, is a client. `partition`: every partition is one, named
        `topic/number`. `key`: every value of a field of the record is one; all its records are in one partition.
    partitions
        How many partitions each topic must have; None takes what there is.
    start
        Where a client begins that the ledger does not know yet.
    lost
        What to do when records were deleted before they were accepted: `stop`, or `skip` them.
    late_after
        A record counts as late if it was measured so many seconds before another one that came earlier.
    """

    topics: tuple[str, ...]
    by: Literal["topic", "partition", "key"] = "topic"
    partitions: int | None = None
    start: Literal["earliest", "latest"] = "earliest"
    lost: Literal["stop", "skip"] = "stop"
    late_after: float = 60.0


class ClientLink(Protocol):
    """A client's way to the coordinator and back."""

    def send(self, message: FromClient) -> None:
        """Send to the coordinator."""
        ...

    def receive(self) -> Sequence[FromCoordinator]:
        """Return the messages that have arrived, in the order of each topic."""
        ...


class CoordinatorLink(Protocol):
    """The coordinator's way to all clients and back, and its memory."""

    def publish(self, messages: Sequence[FromCoordinator]) -> None:
        """Tell all clients, all or nothing."""
        ...

    def commit(self, messages: Sequence[FromCoordinator], state: CoordinatorState) -> None:
        """Tell all clients and save the state, all or nothing."""
        ...

    def receive(self) -> Iterable[FromClient | Unusable]:
        """Return the messages that have arrived; one that is taken out counts as handled at the next commit."""
        ...

    def refuse(self, reason: str) -> None:
        """Keep the message that was taken out last, as it was, where people can look at it."""
        ...

    def restore(self) -> CoordinatorState | None:
        """Return the state that was committed last, if any."""
        ...


class ServedCoordinatorLink(CoordinatorLink, Protocol):
    """The link of a coordinator that runs as a service."""

    def ends(self, partitions: Collection[str]) -> Mapping[str, int | None]:
        """Return the position behind the last record of each of some partitions, by their names in the ledger.

        Positions count as in `Decoded`: offset x stride. 0 where there is no such partition; None where it cannot be
        told, for lack of a right or of an answer: no client is refused for that.
        """
        ...

    def listen(self, seconds: float) -> None:
        """Return when a message may have arrived, or after so many seconds."""
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...


@dataclass(frozen=True, slots=True)
class Standpoint:
    """How far a hosted client is: what its group may forget.

    `positions` are where the ledger goes on, `pending` the records read and not yet accounted for.
    """

    positions: Mapping[str, int]
    pending: int


@dataclass(slots=True)
class ReadingCounts:
    """What a host has read that is in no ledger.

    `unrouted`: bad records that name no client. `late`: good ones measured long before others that came earlier.
    `dead_letters`: messages with bad records, written to the dead-letter topic. `foreign`: messages on the control
    side that could not be understood. `ignored`: values left out of good records, see `Decoded`. `unknown`: good
    records with a value of a category that is not declared, by field.
    """

    unrouted: int = 0
    late: int = 0
    dead_letters: int = 0
    foreign: int = 0
    ignored: int = 0
    unknown: dict[str, int] = field(default_factory=dict)

    def add(self, decoded: Decoded) -> None:
        """Count what was left out of records that were not read before."""
        self.ignored += decoded.ignored
        for name, records in decoded.unknown.items():
            self.unknown[name] = self.unknown.get(name, 0) + records


class Host(Protocol):
    """The clients that one process serves, as a member of the group of all hosts."""

    counts: ReadingCounts

    def hosted(self) -> Mapping[str, Source]:
        """Read on, and return the clients that are here now with their records; it changes as the group does."""
        ...

    def link(self, client: str) -> ClientLink:
        """Return a new link for a client that is here; it hears what is published from now on."""
        ...

    def drop(self, client: str) -> None:
        """Forget the link of a client that is here no more."""
        ...

    def told(self) -> Sequence[FromCoordinator]:
        """Hand what the coordinator told to the links, and return it."""
        ...

    def settle(self, standpoints: Mapping[str, Standpoint]) -> None:
        """Tell the group how far the clients are, now and then: a hint for whoever takes over, and for lag tools."""
        ...

    def listen(self, seconds: float) -> None:
        """Return when something may have arrived, or after so many seconds."""
        ...

    def close(self) -> None:
        """Let go of the clients and of the connection."""
        ...


class RecordWriter(Protocol):
    """Writes records to where clients read them."""

    def write(self, client: str, value: bytes) -> None:
        """Write one message of a client's; it may take a while to arrive."""
        ...

    def end(self) -> None:
        """Tell the readers of every client that was written to that nothing more will come."""
        ...

    def close(self) -> None:
        """Return when all has arrived."""
        ...


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked: `remedy` is empty when it is as it should be."""

    subject: str
    state: Literal["ok", "warning", "error"]
    found: str
    remedy: str = ""


class Connector(Protocol):
    """A kind of log that carries federations: a class that the entry point `streamfl.connectors` names.

    It is made of a federation's name and of its own settings.
    """

    Settings: ClassVar[type[BaseModel]]
    """The model of the section of the settings file that is named like the connector."""

    def __init__(self, federation: str, settings: Any) -> None: ...

    def prepare(self) -> None:
        """Make the federation's own topics where they are missing, check the others, wait for the log, bounded."""
        ...

    def coordinator(self, placement: Placement, records: RecordFormat) -> ServedCoordinatorLink:
        """Return the coordinator's link; it takes over from any other one, and knows where the records end."""
        ...

    def host(self, name: str, placement: Placement, records: RecordFormat) -> Host:
        """Join the hosts' group under a name that is the same after a restart."""
        ...

    def writer(self, placement: Placement, clients: Sequence[str]) -> RecordWriter:
        """Return a writer, after making the clients' topics where they are missing."""
        ...

    def control(self, *, from_start: bool) -> Iterator[FromCoordinator]:
        """Return what the coordinator tells, without end; only what people may read, no models."""
        ...

    def findings(self, placement: Placement, records: RecordFormat) -> Sequence[Finding]:
        """Check everything that a federation needs, and try it on real records."""
        ...


class Clock(Protocol):
    """Time, in seconds."""

    def now(self) -> float:
        """Return the time."""
        ...

    def sleep_until(self, time: float) -> None:
        """Return when it is that time."""
        ...
