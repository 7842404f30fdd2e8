"""Every event that is still held, with a snapshot of the view now and then: the view as of any entry.

Events are kept packed, in chunks; each chunk begins with the view as it was before its first event. So a view of
the past is found by folding again at most one chunk, by the same fold that made it when it was the present.
"""

import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from threading import Lock

import msgspec

from streamfl.protocol.messages import Finding, FromCoordinator
from streamfl.run.page.events import AnnouncedChange, AnyEvent, Entry, Opened, event_of, packed, unpacked
from streamfl.run.page.view import View

# A chunk has at most this many events, and its entries at most this many updates and spans of positions.
EVENTS, UPDATES = 1000, 20_000

# Bytes of chunks; beyond them the oldest are forgotten.
MOST_BYTES = 256 * 1024 * 1024

# Events next to one entry; what is beyond them is counted, and not shown. Ten thousand clients may join.
BESIDE = 50_000

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(View)


@dataclass(slots=True)
class _Chunk:
    """Events after a view, and the numbers of the entries among them."""

    before: bytes
    entries: list[int] = field(default_factory=list)
    events: list[AnyEvent] = field(default_factory=list)
    data: bytes = b""
    weight: int = 0

    @classmethod
    def after(cls, view: View) -> "_Chunk":
        return cls(zlib.compress(_ENCODER.encode(view), 1))

    @property
    def is_full(self) -> bool:
        return len(self.events) >= EVENTS or self.weight >= UPDATES

    @property
    def size(self) -> int:
        return len(self.before) + len(self.data) + 8 * len(self.entries)

    def add(self, event: AnyEvent) -> None:
        self.events.append(event)
        if isinstance(event, Entry):
            self.entries.append(event.summary.entry)
            self.weight += sum(1 + len(one.spans) for one in event.taken)

    def pack(self) -> None:
        self.data, self.events = zlib.compress(packed(self.events), 1), []

    def view(self) -> View:
        return _DECODER.decode(zlib.decompress(self.before))

    def all_events(self) -> list[AnyEvent]:
        return unpacked(zlib.decompress(self.data)) if self.data else self.events


@dataclass(eq=False)
class PageHistory:
    """The view as it is now, and as it was.

    A thread adds events; others may ask meanwhile.

    Attributes
    ----------
    now
        The view with all events.
    changes
        How many events were added: it grows with every change of the view.
    bytes
        Bytes of the chunks that are held.
    out_of_order, beyond
        Messages that do not follow the ledger, and events beyond the bound, which are not shown.

    Examples
    --------
    >>> from streamfl.run.page.events import Opened
    >>> history = PageHistory()
    >>> history.add(Opened(0, entry=1, round=1, epoch=1, resumed=False))
    >>> history.now.open_round, history.first, history.as_of(1)
    (1, None, None)
    """

    most_bytes: int = MOST_BYTES
    now: View = field(default_factory=View)
    changes: int = 0
    out_of_order: int = 0
    beyond: int = 0
    lock: Lock = field(default_factory=Lock)
    _chunks: deque[_Chunk] = field(default_factory=deque)
    bytes: int = 0
    _beside: int = 0
    _strange: Entry | None = None

    def __post_init__(self) -> None:
        self._chunks.append(_Chunk.after(self.now))

    def hear(self, message: FromCoordinator, time: int | None = None) -> None:
        """Add what the page keeps of the next message of the log, which took it at a time in milliseconds."""
        event = event_of(message, time, self.now.present if isinstance(message, Finding) else None)
        if event is not None:
            self.add(event)

    def add(self, event: AnyEvent) -> None:
        """Add the next event of the log."""
        with self.lock:
            for one in self._in_order(event):
                self._add(one)

    def _in_order(self, event: AnyEvent) -> list[AnyEvent]:
        """Return the events that follow: an entry that does not follow the last waits for one that follows it.

        One forged entry so moves nothing, and a coordinator that began again is followed from its second entry on.
        """
        if not _is_possible(event, self.now.entry):
            self.out_of_order += 1
            return []
        if not isinstance(event, Entry):
            self._beside += 1
            self.beyond += self._beside > BESIDE
            return [event] if self._beside <= BESIDE else []
        entry = event.summary.entry
        if self.now.first_entry == 0 or entry == self.now.entry + 1:
            self._beside, self._strange = 0, None
            return [event]
        self.out_of_order += 1
        before, self._strange = self._strange, event
        if before is None or entry != before.summary.entry + 1:
            return []
        self._beside, self._strange = 0, None
        self.out_of_order -= 2
        if before.summary.entry <= self.now.entry:
            self.now = View()  # a ledger that began again has nothing in common with the one before
        self._next_chunk()  # no chunk has two entries of one number
        return [before, event]

    def _add(self, event: AnyEvent) -> None:
        if self._chunks[-1].is_full:
            self._next_chunk()
        self._chunks[-1].add(event)
        self.now.fold(event)
        self.changes += 1

    def _next_chunk(self) -> None:
        self._chunks[-1].pack()
        self.bytes += self._chunks[-1].size
        self._chunks.append(_Chunk.after(self.now))
        while self.bytes > self.most_bytes and len(self._chunks) > 1:
            self.bytes -= self._chunks.popleft().size

    @property
    def first(self) -> int | None:
        """Return the oldest entry that can be viewed; None before any entry."""
        return next((chunk.entries[0] for chunk in self._chunks if chunk.entries), None)

    def as_of(self, entry: int) -> tuple[View, int | None] | None:
        """Return the view as it was just before the entry after this one, and when that one came, if it did.

        None if the entry is not held. The view is made by folding again what is held, so it is the one that was live.
        """
        with self.lock:
            found = self._chunk_of(entry)
            if found is None:
                return None
            chunks = list(self._chunks)[found:]
            copies = [chunk.events.copy() for chunk in chunks[-1:]]
        view, reached = chunks[0].view(), False
        for event in _events(chunks[:-1], copies[0]):
            if reached and isinstance(event, Entry):
                return view, event.time
            reached |= isinstance(event, Entry) and event.summary.entry == entry
            view.fold(event)
        return view, None

    def entry(self, number: int) -> Entry | None:
        """Return an entry, None if it is not held."""
        with self.lock:
            found = self._chunk_of(number)
            chunk = None if found is None else replace(self._chunks[found])
            events = [] if chunk is None else chunk.events.copy()
        if chunk is not None and not events:
            events = chunk.all_events()  # unpacked without the lock: the reader of the log continues
        return next((one for one in events if isinstance(one, Entry) and one.summary.entry == number), None)

    def _chunk_of(self, entry: int) -> int | None:
        """Return which chunk holds an entry, the newest if several do."""
        numbers = range(len(self._chunks) - 1, -1, -1)
        return next((i for i in numbers if entry in self._chunks[i].entries), None)


def _is_possible(event: AnyEvent, entry: int) -> bool:
    """Tell whether an event can be true, next to the last entry: an entry closes at most a round and ends an epoch.

    >>> from streamfl.run.page.events import Opened
    >>> _is_possible(Opened(0, entry=8, round=7, epoch=2, resumed=False), 7)
    True
    >>> _is_possible(Opened(0, entry=8, round=9, epoch=2, resumed=False), 7)
    False
    """
    match event:
        case Entry(summary=closed):
            return closed.round <= closed.entry and closed.epoch <= closed.entry + 1
        case Opened() if entry:
            return event.round <= event.entry == entry + 1 and event.epoch <= event.entry + 1
        case AnnouncedChange() if entry:
            return event.since <= event.round <= entry + 1 and event.epoch <= entry + 2
        case _:
            return True  # before the first entry nothing is known: the view checks again when that comes


def _events(chunks: list[_Chunk], last: list[AnyEvent]) -> Iterator[AnyEvent]:
    for chunk in chunks:
        yield from chunk.all_events()
    yield from last
