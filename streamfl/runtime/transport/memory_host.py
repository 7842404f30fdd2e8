"""A host of clients whose records are appended in this process: `streamfl.runtime.ports.Host`, without a log."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from streamfl.protocol.decisions import Answered
from streamfl.protocol.messages import FromCoordinator
from streamfl.runtime.log.intake import LogIntake
from streamfl.runtime.log.partition import PartitionReader
from streamfl.runtime.ports import (
    ClientLink,
    ClientProgress,
    Decoded,
    Placement,
    ReadingCounts,
    RecordFormat,
    Source,
)
from streamfl.runtime.transport.memory import MemoryTransport

# Messages that are decoded together.
BLOCK = 1000

# The last rejected records that are kept.
MOST_REJECTED = 100


@dataclass(frozen=True, slots=True)
class AppendedMessage:
    """One message: `streamfl.runtime.log.intake.LogMessage`."""

    offset: int
    value: bytes
    timestamp: int
    key: bytes | None = None


@dataclass(eq=False)
class _Partition:
    """The messages of one client that may be read again, from an offset on."""

    reader: PartitionReader
    begin: int = 0
    messages: deque[AppendedMessage] = field(default_factory=deque)

    @property
    def end(self) -> int:
        return self.begin + len(self.messages)

    def between(self, start: int, end: int) -> list[AppendedMessage]:
        return list(islice(self.messages, max(0, start - self.begin), max(0, end - self.begin)))

    def forget(self, before: int) -> None:
        while self.messages and self.begin < before:
            self.messages.popleft()
            self.begin += 1


class MemoryHost:
    """The clients of a program: each has a partition, from which it reads what the program appends.

    Parameters
    ----------
    records
        How messages hold records: one a message.
    keep
        How many messages are kept that no client needs any more, because those after them are read with them.

    Attributes
    ----------
    rejected
        The last records that cannot be used: the client, the offset, and the reason.
    """

    def __init__(self, transport: MemoryTransport, records: RecordFormat, keep: int = 0) -> None:
        self.counts = ReadingCounts()
        self.rejected: deque[tuple[str, int, str]] = deque(maxlen=MOST_REJECTED)
        self._transport = transport
        self._records = records
        self._keep = keep
        self._intake = LogIntake(Placement(("*",)), records, self.counts)
        self._partitions: dict[str, _Partition] = {}

    def append(self, client: str, values: Sequence[bytes], now: float) -> None:
        """Append messages for a client."""
        if client not in self._partitions:
            reader = self._intake.begin(client, 0, 0, lambda offsets: self._again(client, offsets), only=client)
            self._partitions[client] = _Partition(reader)
        partition = self._partitions[client]
        partition.messages.extend(
            AppendedMessage(offset, value, int(now * 1000.0)) for offset, value in enumerate(values, partition.end)
        )

    def poll_clients(self) -> Mapping[str, Source]:
        """Decode what there is room for, and return the clients with their sources."""
        for client, partition in self._partitions.items():
            self._decode(client, partition)
        return {client: partition.reader.clients[client] for client, partition in self._partitions.items()}

    def _decode(self, client: str, partition: _Partition) -> None:
        reader = partition.reader
        at = reader.wanted()
        messages = [] if at is None else partition.between(at, at + BLOCK)
        if messages:
            reader.head = messages[0].offset
            for letter in self._intake.take(reader, messages, ()):
                headers = dict(letter.headers)
                self.rejected.append((client, int(headers["offset"]), headers["reason"].decode()))

    def _again(self, client: str, offsets: Sequence[int]) -> Decoded:
        partition = self._partitions[client]
        found = [one for offset in offsets for one in partition.between(offset, offset + 1)]
        return self._records.quiet().decode([one.offset for one in found], [one.value for one in found])

    def link(self, client: str) -> ClientLink:
        """Return a new link for a client."""
        return self._transport.client(client)

    def drop(self, client: str) -> None:
        """Drop the link of a client that has finished."""
        self._transport.drop(client)

    def receive(self) -> Sequence[FromCoordinator]:
        """Return nothing: the transport delivers to the links itself."""
        return ()

    def answer(self, answered: Answered) -> None:
        """Do nothing: labels come with their records here."""

    @property
    def is_divided(self) -> bool:
        """Whether the clients are divided: there is one host."""
        return True

    def backlog(self) -> Mapping[str, int]:
        """Return how many messages of each partition were not read yet."""
        return {one.reader.name: max(0, one.end - one.reader.head) for one in self._partitions.values()}

    def settle(self, progress: Mapping[str, ClientProgress]) -> None:
        """Forget the messages that no client needs any more."""
        for client, partition in self._partitions.items():
            settled = partition.reader.settled({client: progress[client]} if client in progress else {})
            partition.forget(settled - self._keep)

    def forget(self, client: str) -> None:
        """Forget all messages of a client that has failed, and read none of them."""
        partition = self._partitions[client]
        partition.reader.stopped = True
        partition.forget(partition.end)

    def listen(self, seconds: float) -> None:
        """Return at once: nothing arrives by itself."""

    def close(self) -> None:
        """Do nothing: there is no connection."""
