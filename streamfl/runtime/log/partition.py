"""One partition of records, routed to its clients.

Theory of operation. A partition is read in blocks from `head` on. Each client needs the records from its own `next`
position on; it already has those before. A client without room skips a block and lags: its `next` stays, and once it
has room again the partition is read again from there, which does not affect the others. A partition with one client
is paused instead. So a full buffer stops no other client, no record is lost, and memory is bounded.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.errors import UsageError
from streamfl.protocol.batch_queue import BatchQueue
from streamfl.protocol.records import Batch, Rejection, Span
from streamfl.runtime.ports import ClientProgress, Decoded

TOO_MANY = "more clients in this partition than one host may serve"

# Beyond every position of a log.
NOWHERE = 2**63

_NO_ROWS: IntArray = np.zeros(0, np.int64)

Fetch = Callable[[Sequence[int]], Decoded]


@dataclass(eq=False)
class LogSource:
    """One client's records of one partition: `streamfl.runtime.ports.Source`."""

    partition: str  # its name in the ledger
    next: int  # the first position that this client has not received
    read_again: Fetch  # reads single old records by position
    lags: bool = False
    end: int | None = None
    sought: bool = False
    failed: bool = False
    may_lack: int = 0  # records before it may have been deleted
    at_end: bool = False  # all that has been written was read
    begun: int = field(init=False)
    _given: int = field(init=False)
    _inbox: BatchQueue = field(default_factory=BatchQueue)
    _failure: str | None = None

    def __post_init__(self) -> None:
        self.begun = self._given = self.next

    @property
    def waiting(self) -> int:
        """Count the records that are not polled yet."""
        return self._inbox.read

    @property
    def position(self) -> int:
        """Return the position that is polled next."""
        return self._inbox.first.span.start if self._inbox else self._given

    @property
    def ended(self) -> bool:
        """Tell whether an end-of-stream mark has been read, and all records before it were polled."""
        return self.end is not None and self.next >= self.end and not self._inbox

    def poll(self, limit: int) -> Sequence[Batch]:
        """Return the next records, at most `limit` good and bad ones.

        Raises
        ------
        UsageError
            Once, if its records cannot be read; no more will come.
        """
        if self._failure is not None and not self._inbox:
            reason, self._failure = self._failure, None
            raise UsageError(reason)
        taken: list[Batch] = []
        while self._inbox and limit > 0:
            batch = self._inbox.take()
            if batch.read > limit:
                cut = _position_after(batch, limit)
                self._inbox.put_back([batch.after(cut)])
                batch = batch.before(cut)
            taken.append(batch)
            limit -= batch.read
        return taken

    def put_back(self, batches: Sequence[Batch]) -> None:
        """Take back the last batches that were polled; they are polled again."""
        self._inbox.put_back(batches)

    def seek(self, positions: Mapping[str, int], may_lack: int = 0) -> None:
        """Continue reading at a position, if this partition is named; records before `may_lack` may be gone."""
        if self.partition in positions:
            self.may_lack = may_lack
            self.next = self.begun = self._given = positions[self.partition]
            self._inbox.clear()
            self.lags, self.sought, self.end, self.at_end = True, True, None, False

    def fail(self, reason: str) -> None:
        """Fail: this client's records cannot be read, and its next poll raises the reason."""
        self._inbox.clear()
        self.failed, self._failure = True, reason

    def fetch(self, positions: Mapping[str, Sequence[int]]) -> Sequence[Batch]:
        """Read old records again, without those that the log no longer holds."""
        wanted = sorted(positions.get(self.partition, ()))
        if not wanted:
            return ()
        decoded = self.read_again(wanted)
        rows = np.flatnonzero(np.isin(decoded.positions, wanted))
        if not len(rows):
            return ()
        span = Span(self.partition, int(decoded.positions[rows[0]]), int(decoded.positions[rows[-1]]) + 1)
        return (_batch(span, decoded, rows, ()),)

    def give(self, start: int, end: int, decoded: Decoded, rows: IntArray, bad: Sequence[Rejection]) -> None:
        """Store this client's records of a block `[start, end)`, from `next` on, if the block reaches it."""
        if start > self.next or end <= self.next:
            return
        rows = rows[decoded.positions[rows] >= self.next]
        bad = [rejection for rejection in bad if rejection.position >= self.next]
        self.next, self.lags = end, False
        if len(rows) or bad:
            batch = _batch(Span(self.partition, self._given, end), decoded, rows, tuple(bad))
            self._inbox.add(batch)
            self._given = end

    def pass_by(self, end: int) -> None:
        """Skip a block for which there is no room."""
        self.lags = self.lags or end > self.next


@dataclass(eq=False)
class PartitionReader:
    """Routes the blocks of one partition."""

    name: str  # the partition's name in the ledger
    head: int  # the position that is read next
    room: int  # the records that each client holds before it skips blocks
    read_again: Fetch  # reads single old records by position
    only: str | None = None  # the partition's only client; None if the records name their clients
    most_clients: int = 1000  # the most clients of the partition; records of further ones count as naming no client
    wait: bool = False  # whether records that have been read are needed still, because their labels come later
    dead_letters_before: int = 0  # the position before which all bad records became dead letters
    clients: dict[str, LogSource] = field(default_factory=dict)
    stopped: bool = False

    def __post_init__(self) -> None:
        if self.only is not None:
            self._welcome(self.only, self.head)

    def source_of(self, client: str) -> LogSource:
        """Return the source of a client; of one that is new here there are no records before the head."""
        if client not in self.clients:
            self._welcome(client, self.head)
        return self.clients[client]

    def _welcome(self, client: str, start: int) -> None:
        self.clients[client] = LogSource(self.name, start, self.read_again)

    def wanted(self) -> int | None:
        """Return the position to read next, None while no client has room, or if it is stopped."""
        if self.stopped:
            return None
        if not self.clients:
            return self.head
        live = [source for source in self.clients.values() if not source.failed]
        with_room = [source.next for source in live if source.waiting < self.room]
        if not with_room:
            return None
        behind = [source.next for source in live if source.lags and source.waiting == 0]
        return min([*behind, self.head]) if self.only is None else min(with_room)

    @property
    def sought(self) -> bool:
        """Tell whether the ledger has set a position since the last `check_sought`."""
        return any(source.sought for source in self.clients.values())

    def check_sought(self, begin: int, end: int, stride: int) -> None:
        """Fail the clients whose position in the ledger lies beyond the end of the log; pass by what may be gone.

        Parameters
        ----------
        begin, end
            The first offset that the log still holds, and its next offset.
        stride
            The positions that a message takes up.
        """
        for source in self.clients.values():
            if source.sought and source.next > end * stride:
                source.fail(not_held(self.name, source.next // stride, begin, end))
            elif source.sought:
                source.next = max(source.next, min(begin * stride, source.may_lack))
            source.sought = False

    def take(self, end: int, decoded: Decoded) -> list[Rejection]:
        """Route the block from `head` to `end`; return the records that belong to no client."""
        start, self.head = self.head, end
        shares = self._shares(decoded)
        strays: list[Rejection] = []
        for client, (rows, bad) in shares.items():
            if client and client not in self.clients and len(self.clients) < self.most_clients:
                self._welcome(client, start)
            if client not in self.clients:
                strays += [*bad, *(Rejection(int(p), TOO_MANY) for p in decoded.positions[rows])]
        for client, source in self.clients.items():
            if source.failed:
                continue
            if self.only is None and source.waiting >= self.room:
                source.pass_by(end)
            else:
                source.give(start, end, decoded, *shares.get(client, (_NO_ROWS, [])))
        return strays

    def _shares(self, decoded: Decoded) -> dict[str, tuple[IntArray, list[Rejection]]]:
        """Return the rows and the bad records of each client; "" is the name for records without one."""
        if self.only is not None:
            return {self.only: (np.arange(len(decoded.positions)), list(decoded.rejected))}
        bad: dict[str, list[Rejection]] = {}
        for client, rejection in zip(decoded.rejected_clients, decoded.rejected, strict=True):
            bad.setdefault(client, []).append(rejection)
        rows: dict[str, list[int]] = {}
        for row, client in enumerate(decoded.clients):
            rows.setdefault(client, []).append(row)
        present = dict.fromkeys((*rows, *bad))
        return {client: (np.array(rows.get(client, ()), np.int64), bad.get(client, [])) for client in present}

    def ends_at(self, position: int) -> None:
        """Note the position of the end-of-stream mark in the last block, except for clients that have read beyond."""
        for source in self.clients.values():
            if source.next <= self.head:
                source.end = position

    def goes_on(self, position: int) -> None:
        """Note that there are records up to a position: a mark before it was not the end."""
        for source in self.clients.values():
            if source.end is not None and source.end < position:
                source.end = None

    def settled(self, progress: Mapping[str, ClientProgress]) -> int:
        """Return the position before which no client of this process needs a record any more."""
        needed = [self.head]
        for client, source in self.clients.items():
            at = progress.get(client)
            if at is None or self.wait or at.pending or source.waiting or source.lags:
                needed.append(at.positions.get(self.name, source.begun) if at else source.begun)
        return min(needed)


def not_held(name: str, offset: int, begin: int, end: int) -> str:
    """Return why a client fails if the log does not hold its next record, and what to do.

    >>> not_held("a/0", 7, 0, 5)
    'a/0: the ledger continues at offset 7, but the log holds 0 to 5; the topic is not the one that was read before; \
choose another [federation] name'
    """
    what = f"{name}: the ledger continues at offset {offset}, but the log holds {begin} to {end}"
    if offset >= end:
        return f"{what}; the topic is not the one that was read before; choose another [federation] name"
    remedy = 'raise the topic\'s retention; to continue without them, say lost = "skip" in [records]'
    return f"{what}: records were deleted before they were accepted; {remedy}"


def _batch(span: Span, decoded: Decoded, rows: IntArray, bad: tuple[Rejection, ...]) -> Batch:
    every = len(rows) == len(decoded.positions)
    return Batch(
        span,
        decoded.positions if every else decoded.positions[rows],
        decoded.features,
        decoded.X if every else decoded.X[rows],
        decoded.y if every else decoded.y[rows],
        decoded.labels,
        bad,
        _times(decoded, rows),
        None if decoded.half is None else decoded.half.of(rows),
    )


def _times(decoded: Decoded, rows: IntArray) -> FloatArray | None:
    return decoded.times[rows] if len(decoded.times) else None


def _position_after(batch: Batch, n: int) -> int:
    """Return the position after the n-th record, good or bad."""
    bad = [rejection.position for rejection in batch.rejected]
    every = np.sort(np.concatenate([batch.positions, np.array(bad, np.int64)]))
    return int(every[n - 1]) + 1
