"""The state of the page: a fold over events, of bounded size whatever they hold.

`View` is a value of plain fields, so that it can be kept as bytes and taken up again: see `history.py`.
"""

import math
from collections.abc import Sequence

import msgspec

from streamfl.bounds import NAMED
from streamfl.protocol.digits import significant
from streamfl.protocol.messages import APART, LOCAL_STATES
from streamfl.run.page.events import (
    GREATEST,
    LARGEST,
    SPANS,
    AnnouncedChange,
    AnyEvent,
    Entry,
    Measured,
    MemberEvent,
    Opened,
    Over,
    Scoring,
    Taken,
)
from streamfl.run.report.barren import Barren
from streamfl.run.report.lateness import Lateness
from streamfl.run.report.pace import Pace
from streamfl.run.report.waiting import LearntSpan
from streamfl.run.summary import RoundSummary

# Rounds that are kept, and how many of the newest of them are kept each for itself: older ones are merged in pairs.
POINTS, RECENT = 4096, 2048

# Announcements, epochs, and entries of the ledger that are kept.
CHANGES, EPOCHS, ENTRIES = 200, 500, 50

# Rounds whose mean is told next to the last round's.
LATELY = 20

# What a client is told to be right in lately: twice this many of its rounds at most, and more than half of that.
HALF = 10

# What later states of a local drift a card keeps.
STATES = 10

# States in which clients that have drifted alone are no longer apart.
ENDED = frozenset({*LOCAL_STATES, "restarted"}) - set(APART)


def total(one: int, other: int) -> int:
    """Return a sum that stays within what a browser can read.

    >>> total(1, 2), total(LARGEST, LARGEST) == LARGEST
    (3, True)
    """
    return min(one + other, LARGEST)


def added(one: Measured, other: Measured) -> Measured:
    """Return what was measured of the records of both.

    >>> added(Measured(10, 7.0, 0.0, 4.0), Measured(30, 15.0, 0.0, 12.0))
    Measured(records=40, right=22.0, error=0.0, naive=16.0)
    """
    return Measured(
        total(one.records, other.records),
        min(one.right + other.right, GREATEST),
        min(one.error + other.error, GREATEST),
        min(one.naive + other.naive, GREATEST),
    )


def means(parts: Sequence[Measured], *, of_errors: bool) -> tuple[float | None, float | None]:
    """Return how good predictions were, in all parts together, and NoChange's.

    >>> means([Measured(30, right=24.0, naive=9.0), Measured(10, right=8.0, naive=1.0)], of_errors=False)
    (0.8, 0.25)
    """
    records = [part.records for part in parts]
    good = [part.error if of_errors else part.right for part in parts]
    return _mean(records, good), _mean(records, [part.naive for part in parts])


def _mean(records: Sequence[int], sums: Sequence[float]) -> float | None:
    return short(sum(sums) / sum(records)) if sum(records) else None


def short(number: float | None) -> float | None:
    """Return a number with the digits that a page can show; None for none."""
    return None if number is None or math.isnan(number) else significant(number)


class Point(msgspec.Struct, array_like=True):
    """One round, or several that follow one another in one epoch, as sums; `time` is of the last of its entries."""

    first: int
    last: int
    entry: int
    epoch: int
    records: int
    measured: Measured
    time: int = 0

    def __add__(self, later: "Point") -> "Point":
        records = total(self.records, later.records)
        measured = added(self.measured, later.measured)
        return Point(self.first, later.last, later.entry, self.epoch, records, measured, later.time)


class ClientView(msgspec.Struct, array_like=True):
    """A client as the ledger and the refusals show it.

    `learnt` is the last round of which its records count, `waits_since` how many rounds had closed then, or when it
    joined; `refused_in` the round that was open when a message of it was last refused. `recent` adds up its newest
    `rounds` rounds, at most HALF, and `earlier` the HALF rounds before them. For `rejected_labels` see `Taken`.
    """

    name: str
    state: str
    waits_since: int
    learnt: int = 0
    records: int = 0
    rejected: int = 0
    refused: int = 0
    refused_in: int = 0
    reason: str = ""
    rounds: int = 0
    recent: Measured = Measured()
    earlier: Measured = Measured()
    rejected_labels: tuple[int, int, int, int] = (0, 0, 0, 0)
    pace: Pace = msgspec.field(default_factory=Pace)
    spans: dict[str, LearntSpan] = {}

    @property
    def lately(self) -> Measured:
        """Return how right its predictions were lately."""
        return added(self.earlier, self.recent)

    def learn(self, taken: Taken) -> None:
        """Note how far its partitions are learnt; of several, its records are spread over them as positions are."""
        of_all = sum(end - start for _, start, end in taken.spans)
        for name, start, end in taken.spans:
            if name in self.spans or len(self.spans) < SPANS:
                records = (taken.records + taken.rejected) * (end - start) / max(1, of_all)
                self.spans.setdefault(name, LearntSpan()).take(start, end, round(records))

    def measure(self, measured: Measured) -> None:
        """Take one more of its rounds into account."""
        if self.rounds == HALF:
            self.rounds, self.recent, self.earlier = 0, Measured(), self.recent
        self.rounds, self.recent = self.rounds + 1, added(self.recent, measured)


class Card(msgspec.Struct, array_like=True):
    """An announcement with what became of it: each later state, and the round in which it began.

    `decided` is the announcement of the later state that told of candidates, if there was one.
    """

    entry: int
    change: AnnouncedChange
    states: list[tuple[str, int]]
    decided: AnnouncedChange | None = None

    @property
    def choice(self) -> AnnouncedChange:
        """Return the announcement that tells of candidates."""
        return self.decided or self.change

    @property
    def is_apart(self) -> bool:
        """Tell whether its clients are still apart."""
        return self.change.kind == "local drift" and self.states[-1][0] not in ENDED

    def add(self, state: str, round_: int) -> None:
        """Add a later state; of many, the first and the newest are kept."""
        self.states.append((state, round_))
        del self.states[1 : 1 - STATES]


class Epoch(msgspec.Struct, array_like=True):
    """The rounds between two restarts."""

    epoch: int
    first: int
    last: int
    cause: str
    chosen: str


class View(msgspec.Struct):
    """What the page shows as of an entry. `last` is the last round with records, `lines` are the newest entries.

    Examples
    --------
    >>> view = View()
    >>> view.fold(Opened(0, entry=1, round=1, epoch=1, resumed=False))
    >>> view.phase, view.open_round
    ('gathering', 1)
    """

    phase: str = "waiting"
    open_round: int = 0
    closes: int = 0
    epoch: int = 0
    entry: int = 0
    time: int = 0
    first_entry: int = 0
    closed: int = 0
    records: int = 0
    rejected: int = 0
    restarts: int = 0
    local_drifts: int = 0
    is_regression: bool = False
    serves: str = ""
    serves_since: int = 0
    promotions: int = 0
    last: RoundSummary | None = None
    candidates: int = 0
    others: int = 0
    strangers: int = 0
    strangers_reason: str = ""
    points: list[Point] = []
    lately: list[Measured] = []
    cards: list[Card] = []
    epochs: list[Epoch] = []
    lines: list[Entry] = []
    barren: Barren = msgspec.field(default_factory=Barren)
    lateness: Lateness = msgspec.field(default_factory=Lateness)
    clients: dict[str, ClientView] = {}

    @property
    def present(self) -> int:
        """Return how many clients take part."""
        return sum(client.state == "present" for client in self.clients.values())

    @property
    def mean_lately(self) -> tuple[float | None, float | None]:
        """Return how good the predictions of the last rounds were, and NoChange's."""
        return means(self.lately, of_errors=self.is_regression)

    def fold(self, event: AnyEvent) -> None:
        """Take one event more into account."""
        match event:
            case Entry():
                self._close(event)
            case Opened():
                self.phase, self.open_round, self.epoch = "gathering", event.round, event.epoch
                self.closes = event.closes
                self._begin(event.epoch, event.round)
            case Scoring():
                self.phase, self.candidates = "scoring", event.candidates
            case MemberEvent():
                self._member(event)
            case AnnouncedChange():
                self._change(event)
            case Over():
                self.phase = "ended"

    def _close(self, event: Entry) -> None:
        closed = event.summary
        if not self.first_entry:
            self._begin_with(closed)
        self.entry, self.time, self.phase = closed.entry, event.time, "closed"
        self.records = total(self.records, closed.records)
        self.rejected = total(self.rejected, closed.rejected)
        if closed.records:
            self._round(closed, event.measured, event.time)
        for taken in event.taken:
            client = self._client(taken.client)
            if client is None:
                self.others += 1
                continue
            client.records = total(client.records, taken.records)
            client.rejected = total(client.rejected, taken.rejected)
            unmatched, repeated, unusable, expired = map(total, client.rejected_labels, taken.rejected_labels)
            client.rejected_labels = unmatched, repeated, unusable, expired
            if taken.records:
                client.learnt, client.waits_since = closed.round, self.closed
                client.pace.take(taken.records, event.time)
            if taken.measured.records:
                client.measure(taken.measured)
            client.learn(taken)
        self.barren.take(closed)
        self.lateness.take(closed)
        self.lines.append(msgspec.structs.replace(event, taken=()))
        del self.lines[:-ENTRIES]

    def _begin_with(self, closed: RoundSummary) -> None:
        """Forget what cannot have come before the first entry that is known."""
        self.first_entry = closed.entry
        self.epochs = [one for one in self.epochs if one.epoch <= closed.epoch and one.first <= closed.entry]
        self.cards = [card for card in self.cards if card.change.round <= closed.entry]
        for client in self.clients.values():
            client.refused_in = min(client.refused_in, closed.round)

    def _round(self, closed: RoundSummary, measured: Measured, time: int) -> None:
        """Take a round with records into account."""
        self.closed += 1
        self.last = closed
        self._measure(measured)
        self._begin(closed.epoch, closed.round)
        self.epochs[-1].last = closed.round
        if (closed.serves, closed.promotions) != (self.serves, self.promotions):
            self.serves, self.promotions, self.serves_since = closed.serves, closed.promotions, closed.round
        self.lately.append(measured)
        del self.lately[:-LATELY]
        at = closed.round
        self.points.append(Point(at, at, closed.entry, closed.epoch, closed.records, measured, time))
        if len(self.points) > POINTS:
            self.points = [*_halved(self.points[:-RECENT]), *self.points[-RECENT:]][-POINTS:]

    def _measure(self, measured: Measured) -> None:
        """Tell labels from targets by each round again: of labels some are right, of targets errors are added up."""
        if measured.records:
            self.is_regression = measured.error > 0.0 or (self.is_regression and measured.right == 0.0)

    def _begin(self, epoch: int, round_: int) -> None:
        """Note that an epoch has begun, if it is a new one."""
        if not self.epochs or self.epochs[-1].epoch != epoch:
            self.epochs.append(Epoch(epoch, round_, round_, "", ""))
            del self.epochs[:-EPOCHS]

    def _client(self, name: str) -> ClientView | None:
        """Return a client, a new one if it is not known; None if there are too many."""
        if name not in self.clients and len(self.clients) < NAMED.clients:
            self.clients[name] = ClientView(name, "present", self.closed)
        return self.clients.get(name)

    def _member(self, event: MemberEvent) -> None:
        is_new = event.client not in self.clients
        client = self._client(event.client) if event.what in {"joined", "admit"} else self.clients.get(event.client)
        if client is None:
            if event.what == "refused":  # anybody may be refused, under any name
                self.strangers += 1
                self.strangers_reason = event.reason
            return
        match event.what:
            case "joined":
                if client.state != "present":
                    client.state, client.waits_since = "present", self.closed
            case "left":
                client.state = "left"
            case "admit" if is_new or client.state == "evicted":
                client.state = "admitted"
            case "refused":
                client.refused += 1
                client.refused_in = self.open_round
                client.reason = event.reason
        if event.evicted:
            client.state = "evicted"

    def _change(self, change: AnnouncedChange) -> None:
        if change.kind == "local drift" and change.state != "latched":
            card = self._card_of(change)
            if card is not None:
                card.add(change.state, change.round)
                card.decided = change if change.candidates else card.decided
                return
        self.restarts += change.kind == "restart"
        self.local_drifts += change.kind == "local drift"
        if change.kind == "restart":
            for card in self.cards:
                if card.is_apart:  # a new epoch has no branches
                    card.add("restarted", change.round)
            self.epochs.append(Epoch(change.epoch, change.round + 1, change.round + 1, change.cause, change.chosen))
            del self.epochs[:-EPOCHS]
        self.cards.append(Card(self.entry, change, [(change.state, change.round)]))
        del self.cards[:-CHANGES]

    def _card_of(self, change: AnnouncedChange) -> Card | None:
        """Return the newest local drift of these clients, or else of some of them, that has not ended."""
        apart = [card for card in reversed(self.cards) if card.is_apart]
        names = set(change.clients)
        same = (card for card in apart if set(card.change.clients) == names)
        some = (card for card in apart if not names.isdisjoint(card.change.clients))
        return next(same, None) or next(some, None)


def _halved(points: list[Point]) -> list[Point]:
    """Return points with neighbours of one epoch added up.

    >>> one = Point(1, 1, 1, 1, 10, Measured(10, 7.0, 0.0, 4.0))
    >>> two = Point(2, 2, 2, 1, 30, Measured(30, 15.0, 0.0, 12.0))
    >>> [both] = _halved([one, two])
    >>> both.first, both.last, both.measured
    (1, 2, Measured(records=40, right=22.0, error=0.0, naive=16.0))
    """
    found: list[Point] = []
    at = 0
    while at < len(points):
        pair = points[at : at + 2]
        joins = len(pair) == 2 and pair[0].epoch == pair[1].epoch
        found.append(pair[0] + pair[1] if joins else pair[0])
        at += 2 if joins else 1
    return found
