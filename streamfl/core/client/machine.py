"""The client machine: reads and buffers records, scores and trains on a round's, follows the ledger.

Theory of operation. A client knows the last ledger entry it has seen, its own place in the ledger, and the round
that is open. It sends one update for the entry after the last; the update's records stay in the buffer until
RoundClosed accepts them. Whenever its place is unknown (it has just started, an entry was missed, another
incarnation's update was accepted, its message was refused) or nothing was heard for a while, it asks with Join, and
Joined tells. So there is one way back from every fault. `wakes_at` says when it wants a Tick: a function of its
state, so no timer can be lost.

Whoever may write where the coordinator does can say anything. What a client believes of the ledger is therefore never
more than a guess: the answer to its newest question is the truth, even where it says less than the client knew, and
nothing that was told before may keep out what is told later. So once a forger stops, it comes back by itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from streamfl.core.arrays import FloatArray
from streamfl.core.bounds import NAMED, Limits, bounded
from streamfl.core.client.buffer import Buffer
from streamfl.core.client.comparison import Comparison
from streamfl.core.client.evaluated import coded, counted, natural, predicted
from streamfl.core.client.held_out import HeldOut
from streamfl.core.client.no_change import NoChange
from streamfl.core.client.published import Published
from streamfl.core.client.round import ClientRound, targets_in
from streamfl.core.client.usable import unusable
from streamfl.core.errors import BrokenInvariantError, PeerError, UsageError
from streamfl.core.learning.between_rounds import AtClient
from streamfl.core.learning.history import History, KeptRound
from streamfl.core.learning.local_round import Learner, RoundRecords, labels_in
from streamfl.core.learning.serving import Serving
from streamfl.core.protocol.decisions import ClientDecision, Dropped, Fetch, Finished, PostUpdate, Seek, Send
from streamfl.core.protocol.events import (
    BufferDue,
    ClientEvent,
    RecordsFetched,
    RecordsRead,
    SourceEnded,
    Stopped,
    Tick,
)
from streamfl.core.protocol.messages import (
    Accepted,
    BetweenPublished,
    FromCoordinator,
    HeldRecord,
    Join,
    Joined,
    Leave,
    Left,
    Message,
    ModelPublished,
    Refusal,
    RegistryPublished,
    RoundClosed,
    RoundOpened,
    SampledRound,
    Score,
    Scores,
    Update,
    asked_of,
)
from streamfl.core.protocol.moments import moments_of
from streamfl.core.protocol.records import Batch
from streamfl.core.protocol.registry import TargetUnit

# A client that hears nothing asks at last every 2^5 times `retry` seconds.
LEAST_OFTEN = 5


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How a client works.

    Parameters
    ----------
    learner
        How to learn; the same in the whole federation.
    round_size
        Records a round with the `records` clock, and the first records that a client introduces itself with. Several
        numbers are the sizes of rounds 1, 2, .. of a stream that was recorded by rounds; the last one goes on.
    clock
        `records`: the buffer is closed when it is full. `interval`: at the time that RoundOpened names.
    least
        Good records below which nothing of a client leaves, not even the moments of its Join: they stay pending until
        there are enough. It is each client's own protection; a smaller round size counts as it. With 1 every record
        may leave alone, and what is told of one record can be solved for it.
    capacity
        Most pending records, good and bad; None is twice the round size. It counts as `least` at least.
    retry
        Seconds without news after which it asks where it stands; twice as many each time it hears nothing new. Upon
        the answer it sends again what it had sent for the open round.
    limits
        How many names the federation registers: once it has so many, records of other labels are rejected, and other
        features left out.
    measure
        Whether to tell Predicted and PostUpdate, for whoever evaluates this client in the same process.
    """

    learner: Learner
    round_size: int | tuple[int, ...] = 100
    clock: Literal["records", "interval"] = "records"
    least: int = 1
    capacity: int | None = None
    retry: float = 5.0
    limits: Limits = NAMED
    measure: bool = False

    def size(self, t: int) -> int:
        """Return the records of round t.

        >>> from streamfl.core.learning.algorithms import FedAvg
        >>> from streamfl.models import Softmax
        >>> ClientSettings(Learner(Softmax(), FedAvg()), round_size=(10, 20)).size(7)
        20
        """
        sizes = self.round_size
        return max(self.least, sizes if isinstance(sizes, int) else sizes[min(t, len(sizes)) - 1])

    @property
    def most_pending(self) -> int:
        """Return the capacity, chosen if it is not given."""
        largest = self.round_size if isinstance(self.round_size, int) else max(self.round_size)
        return max(self.least, self.capacity or 2 * largest)


@dataclass
class Place:
    """Where this client stands in the ledger: where it reads on, by partition, and records accounted for."""

    positions: dict[str, int]
    read: int
    rejected: int


@dataclass(frozen=True)
class Sent:
    """An update that was sent and not yet closed, with what it was made from.

    Their design matrix is not kept: it is ten times the size of everything else, and seldom needed again.
    """

    update: Update
    batches: tuple[Batch, ...]
    kept: tuple[Batch, ...]
    comparison: Comparison
    truth: FloatArray
    labels: tuple[str, ...]
    scores: Scores | None = None


@dataclass
class Client:
    """One client of a federation.

    Parameters
    ----------
    settings
        How it works.
    name
        The client's name: unique in the federation, the same after a restart.
    incarnation
        Unique for every start of the client, and greater, as a string, than those of earlier starts: a message of
        an older incarnation that arrives late is told by it. Part of each attempt.
    dropped
        How often something that was told could not be used.
    evicted
        Why it was evicted; empty unless it was. Then it has finished, and its records are pending.

    Examples
    --------
    >>> from streamfl.core.learning.algorithms import FedAvg
    >>> from streamfl.core.protocol.records import Span
    >>> from streamfl.models import Softmax
    >>> client = Client(ClientSettings(Learner(Softmax(), FedAvg()), round_size=3), "c0", incarnation="1")
    >>> batch = Batch(Span("p", 0, 3), np.arange(3), ("x",), np.array([[1.0], [2.0], [6.0]]), np.zeros(3), ("a",))
    >>> (asked,) = client.handle(RecordsRead((batch,)), now=0.0)
    >>> asked.message.labels, asked.message.moments.mean, client.pending, client.wakes_at
    (('a',), array([3.]), 3, 5.0)
    """

    settings: ClientSettings
    name: str
    incarnation: str
    _buffer: Buffer = field(init=False)
    _entry: int = 0
    _place: Place | None = None
    _begun: dict[str, int] = field(default_factory=dict)
    _believed: Mapping[str, int] = field(default_factory=dict)
    _question: int = 0
    _answered: int = 0
    _opened: RoundOpened | None = None
    _ahead: RoundOpened | None = None
    _closed: RoundClosed | None = None
    _score: Score | None = None
    _sent: Sent | None = None
    _measured: Sent | None = None
    _introduced: tuple[Batch, ...] | None = None
    _published: Published = field(default_factory=Published)
    _history: History = field(default_factory=History)
    _comparison: Comparison = field(default_factory=Comparison)
    _awaited: Joined | None = None
    _between: AtClient | None = field(init=False)
    _serving: Serving | None = None
    _no_change: NoChange = field(default_factory=NoChange)
    _attempts: int = 0
    _ended: bool = False
    _due: bool = False
    _stopped: bool = False
    _left: bool = False
    _leaves: bool = False
    _refused: int = 0
    _setbacks: int = 0
    dropped: int = 0
    evicted: str = ""
    _asked: Literal["", "join", "leave"] = ""
    _news: float = 0.0
    _in_vain: int = 0

    def __post_init__(self) -> None:
        self._buffer = Buffer(self.settings.most_pending, self.settings.least)
        self._between = _nothing_learnt(self.settings.learner)

    @property
    def room(self) -> int:
        """Return how many more records it can take: what may be polled."""
        return 0 if self._stopped or self._left else self._buffer.room

    @property
    def pending(self) -> int:
        """Count the records read and not yet accepted or rejected by the ledger."""
        return self._buffer.pending

    @property
    def accounted(self) -> int | None:
        """Return how many records the ledger has accepted or rejected; None while it does not know."""
        return None if self._place is None else self._place.read

    @property
    def rejected(self) -> int:
        """Count the bad records among those accounted for."""
        return 0 if self._place is None else self._place.rejected

    @property
    def positions(self) -> Mapping[str, int]:
        """Return where the ledger goes on, by partition, as far as is known: what lies before is settled."""
        return {} if self._place is None else dict(self._place.positions)

    @property
    def wakes_at(self) -> float | None:
        """Return when it wants a Tick, if nothing happens before; None when it waits for records alone."""
        if self._left:
            return None
        if self._waits():
            return self._patience_ends
        closes = self._opened.closes if self._opened else None
        return None if closes is None else min(closes, self._silence_ends)

    @property
    def _patience_ends(self) -> float:
        return self._news + self.settings.retry * 2.0 ** min(max(self._in_vain, self._setbacks), LEAST_OFTEN)

    @property
    def _silence_ends(self) -> float:
        """Return when it asks though it waits for a time that was told: it may never come."""
        return self._news + self.settings.retry * 2.0**LEAST_OFTEN

    def handle(self, event: ClientEvent, now: float) -> list[ClientDecision]:
        """Take one event and return what is to be done, in order.

        Parameters
        ----------
        event
            What happened.
        now
            The time, in seconds of whatever clock drives the federation.
        """
        if self._left:
            return []
        if isinstance(event, ModelPublished) and not self._awaits_models():
            return self._told(event, now)  # most of what comes; nothing follows from it until its round is opened
        if self._is_news(event):
            self._news, self._in_vain = now, 0
        decisions = self._told(event, now) if isinstance(event, Message) else self._take(event)
        if isinstance(event, Tick):
            decisions += self._lose_patience(now)
        return decisions + self._guarded(lambda: self._proceed(now), now)

    def _lose_patience(self, now: float) -> list[ClientDecision]:
        """Ask, or try again what was refused, once nothing was heard for long enough."""
        if self._waits() and now >= self._patience_ends:
            self._asked = ""
            self._refused = 0
            self._in_vain += 1
        elif not self._waits() and self.wakes_at is not None and now >= self._silence_ends:
            self._news = now
            return [Send(self._join())]
        return []

    def _told(self, message: FromCoordinator, now: float) -> list[ClientDecision]:
        """Take a message, unless it cannot be used."""

        def take() -> list[ClientDecision]:
            reason = unusable(message, self.settings.learner.between)
            return self._take(message) if reason is None else self._drop(PeerError(reason))

        return self._guarded(take, now)

    def _guarded(self, do: Callable[[], list[ClientDecision]], now: float) -> list[ClientDecision]:
        """Do something with what was told; if it cannot be done, forget all that was told, and ask for it later.

        What is wrong with what this client was given itself is raised.
        """
        try:
            return do()
        except (UsageError, BrokenInvariantError, MemoryError):
            raise
        except Exception as error:  # there is no end to what can be wrong with a forged model
            self._forget_told()
            self._asked, self._news = "join", now
            return self._drop(error)

    def _drop(self, error: Exception) -> list[ClientDecision]:
        self.dropped += 1
        return [Dropped(self.name, error)]

    def _forget_told(self) -> None:
        self._setbacks += 1
        self._lose_place()
        self._opened = self._ahead = self._score = self._sent = self._serving = None
        self._published = Published()
        self._between = _nothing_learnt(self.settings.learner)

    def _lose_place(self) -> None:
        """Ask where it stands, unless it has asked already."""
        if self._place is not None:
            self._believed, self._place = self._place.positions, None
        if self._question == self._answered:
            self._asked = ""

    def _is_news(self, event: ClientEvent) -> bool:
        """Tell whether an event answers what it waits for, so that there is no need to ask yet.

        While it waits for Joined or Left, nothing else is: the others' federation goes on without it.
        """
        match event:
            case Joined():
                return self._is_mine(event) and self._is_answer(event)
            case Left():
                return self._is_mine(event) and self._leaves
            case RoundOpened() if event.entry == self._refused:
                return False  # told again and again to others, it would put off for ever what is tried again
            case RoundOpened() | RoundClosed():
                return self._place is not None and not self._done() and event.entry == self._entry + 1
            case Score():
                return self._sent is not None and event.entry == self._sent.update.entry
            case SourceEnded() | BufferDue() | Stopped() | RecordsFetched():
                return True
            case _:
                return False

    # --- events ------------------------------------------------------------------------------------------------

    def _take(self, event: ClientEvent) -> list[ClientDecision]:
        match event:
            case RegistryPublished() | ModelPublished() | BetweenPublished():
                self._keep(event)
            case RecordsRead(batches):
                for batch in batches:
                    self._begun.setdefault(batch.span.partition, batch.span.start)
                self._buffer.add([batch.sound() for batch in batches])
            case RecordsFetched(batches) if self._awaited is not None:
                self._history.restore(self._missing(self._awaited), batches)
                self._comparison = Comparison(HeldOut.restored(self._awaited.held, batches))
                self._awaited = None
            case SourceEnded() | BufferDue() | Stopped():
                self._ended |= isinstance(event, SourceEnded)
                self._due |= isinstance(event, BufferDue)
                self._stopped |= isinstance(event, Stopped)
            case Joined() if self._is_mine(event) and self._is_answer(event):
                return self._joined(event)
            case Refusal() if self._is_mine(event):
                return self._was_refused(event)
            case RoundOpened():
                return self._round_opened(event)
            case Score() if self._sent is not None and event.entry == self._sent.update.entry:
                return self._asked_to_score(event, self._sent)
            case RoundClosed() if self._place is not None:
                self._round_closed(event, self._place)
            case Left() if self._is_mine(event) and self._leaves:
                self._left = True
                return [Finished()]
            case _:
                pass  # time alone, or a message for another client, of an older entry, or for people to read
        return []

    def _keep(self, published: RegistryPublished | ModelPublished | BetweenPublished) -> None:
        match published:
            case RegistryPublished() | ModelPublished():
                self._published.add(published)
            case BetweenPublished() if self._between is not None:
                self._between.take(published)
            case _:
                pass  # of models that are not learnt here

    def _is_mine(self, answer: Joined | Left | Refusal) -> bool:
        return (answer.client, answer.incarnation) == (self.name, self.incarnation)

    def _is_answer(self, joined: Joined) -> bool:
        """Tell whether it answers the newest question, which is answered once: a late copy says what was."""
        return joined.question == self._question > self._answered

    def _was_refused(self, refusal: Refusal) -> list[ClientDecision]:
        """Keep the records, ask where it stands, and try again in the next entry, or much later in this one."""
        if refusal.evicted:
            self._left, self.evicted = True, bounded(refusal.reason) or "no reason was given"
            return [Finished()]
        if self._sent is not None and refusal.entry == self._sent.update.entry:
            self._refused = refusal.entry
            self._setbacks += 1
            self._lose_place()
        return []

    def _joined(self, joined: Joined) -> list[ClientDecision]:
        """Take the ledger's word: read on from its positions, and restore the history sample it names."""
        before = self._believed if self._place is None else self._place.positions
        self._answered = joined.question
        self._entry, self._closed = joined.entry - 1, None
        self._place = Place(dict(joined.positions), joined.read, joined.rejected)
        self._introduced = ()
        self._turn_to(self._ahead, self._opened)
        if self._sent is not None and (self._sent.update.entry != joined.entry or joined.positions != before):
            self._sent = None
        if self._sent is None or self._sent.scores is None:
            self._score = None  # what could not be answered is told again
        decisions: list[ClientDecision] = []
        if joined.positions != before:
            self._buffer.clear()
            self._ended = False
            if self._between is not None:
                self._between.forget()
            decisions.append(Seek({**self._begun, **joined.positions}))
        if self._missing(joined) or set(joined.held) != set(self._comparison.out.places()):
            self._awaited = joined
            decisions.append(Fetch(_together(self._missing(joined), joined.held)))
        if self._sent is not None and self._refused != joined.entry:
            decisions += [*_again(self._sent.update), *_again(self._sent.scores)]
        return decisions

    def _missing(self, joined: Joined) -> tuple[SampledRound, ...]:
        return tuple(kept for kept in joined.sample if kept.round not in self._history.rounds)

    def _asked_to_score(self, score: Score, sent: Sent) -> list[ClientDecision]:
        """Take the newest stage of what is asked."""
        if self._score is None or score.stage > self._score.stage:
            self._score = score
            self._sent = replace(sent, scores=None)
        return []

    def _round_opened(self, opened: RoundOpened) -> list[ClientDecision]:
        """Take the newest opening of the next entry; one that is further ahead means that entries were missed.

        While the place is unknown, the farthest one and the last are kept. A coordinator that was killed asks for
        what was sent, scores from stage 1 on.
        """
        ahead = opened.entry - self._entry - 1
        if self._place is None:
            farthest = self._opened is None or opened.entry > self._opened.entry
            self._opened, self._ahead = (opened, self._opened) if farthest else (self._opened, opened)
        elif ahead == 0:
            self._turn_to(opened)
            if opened.resumed and self._sent is not None and opened.entry == self._sent.update.entry:
                self._score, self._sent = None, replace(self._sent, scores=None)
                return _again(self._sent.update)
        elif ahead == 1:
            self._ahead = opened  # the entry before it may be on its way
        elif ahead > 1:
            self._lose_place()
        return []

    def _turn_to(self, *openings: RoundOpened | None) -> None:
        """Take the first opening that is of the next entry; one that it has already changes nothing."""
        opened = next((o for o in openings if o is not None and o.entry == self._entry + 1), None)
        if opened is None:
            return
        if opened.resumed:
            opened = replace(opened, resumed=False)
        if opened != self._opened:
            self._opened, self._score = opened, None
            if self._refused == opened.entry:
                self._sent = None  # it was made of what another one told
        if self._ahead is not None and self._ahead.entry == opened.entry:
            self._ahead = None

    def _round_closed(self, closed: RoundClosed, place: Place) -> None:
        """Move on by the next entry; after one that was missed, another's attempt, or two that differ, ask."""
        if closed.entry <= self._entry:
            known = self._closed
            if known is not None and closed.entry == known.entry and closed.accepted != known.accepted:
                self._lose_place()
            return
        own = next((a for a in closed.accepted if a.client == self.name), None)
        if closed.entry > self._entry + 1 or not (own is None or self._is_sent(own, closed)):
            self._lose_place()
            return
        sent, self._sent = self._sent, None
        self._entry, self._closed = closed.entry, closed
        if own is not None and sent is not None:
            self._accept(own, sent, closed, place)
        self._turn_to(self._ahead)

    def _is_sent(self, own: Accepted, closed: RoundClosed) -> bool:
        """Tell whether what was accepted is what this client sent."""
        if self._sent is None:
            return False
        update = self._sent.update
        said = (update.attempt, update.spans, update.records, update.rejected)
        return said == (own.attempt, own.spans, own.records, own.rejected) and closed.records >= own.records

    def _accept(self, own: Accepted, sent: Sent, closed: RoundClosed, place: Place) -> None:
        self._setbacks = 0
        self._buffer.drop(own.spans)
        place.positions.update({span.partition: span.end for span in own.spans})
        place.read += own.records + own.rejected
        place.rejected += own.rejected
        if sent.kept:
            self._history.rounds[closed.round] = KeptRound(own.records / closed.records, sent.kept)
        self._comparison = sent.comparison
        self._no_change.learn(sent.truth, sent.labels)
        self._measured = sent if self.settings.measure and sent.update.served.records else None

    # --- what there is to do -----------------------------------------------------------------------------------

    def _proceed(self, now: float) -> list[ClientDecision]:
        """Do the next thing that everything needed for is here."""
        if self._left:
            return []
        decisions = self._post_update()
        if self._may_update(now):
            decisions += self._update()
        elif self._may_score():
            decisions += self._answer_score()
        elif self._waits():
            decisions += self._ask(now)
        return decisions

    def _ask(self, now: float) -> list[ClientDecision]:
        """Send what has not been asked since something was heard: Leave when all is done, else Join."""
        question: Literal["join", "leave"] = "leave" if self._done() else "join"
        if self._asked == question:
            return []
        self._asked, self._news = question, now
        self._leaves |= question == "leave"
        return [Send(self._leave() if question == "leave" else self._join())]

    def _waits(self) -> bool:
        """Tell whether the next step is the coordinator's: to answer Join or Leave, to open or to close a round."""
        if self._place is None:
            return self._full() or self._ended or self._due or self._stopped or self.settings.clock == "interval"
        if self._sent is not None or self._awaited is not None or self._done():
            return True
        opened = self._opened
        return opened is None or not self._may_work_on(opened)

    def _may_work_on(self, opened: RoundOpened) -> bool:
        return self._is_next(opened) and opened.entry != self._refused and self._has_models(opened)

    def _full(self) -> bool:
        return self._buffer.size >= self._size() or self._buffer.room == 0

    def _size(self) -> int:
        return self.settings.size(self._opened.round if self._opened else 1)

    def _is_next(self, opened: RoundOpened) -> bool:
        return self._place is not None and opened.entry == self._entry + 1

    def _has_models(self, of: RoundOpened | Score) -> bool:
        columns, mine = self.settings.learner.model.columns, asked_of(self.name, of.slots)
        return self._published.has(of.registry, mine, columns) and self._may_go_on(of)

    def _awaits_models(self) -> bool:
        """Tell whether there may be something to do once a model is here."""
        opened = self._opened
        waits = self._measured is not None or self._score is not None
        return waits or (opened is not None and self._is_next(opened))

    def _may_go_on(self, of: RoundOpened | Score) -> bool:
        asks = isinstance(of, RoundOpened) and of.between
        return not asks or (self._between is not None and self._between.has(of.round))

    def _may_update(self, now: float) -> bool:
        opened = self._opened
        if opened is None or self._sent is not None or self._awaited is not None or not self._is_next(opened):
            return False
        if self._done() or not self._may_work_on(opened):
            return False
        # Before records are counted: those that the registry has no label for make no round full.
        self._buffer.within(self._published.registry(opened.registry), self.settings.limits)
        return self._closes(opened, now)

    def _closes(self, opened: RoundOpened, now: float) -> bool:
        if self._ended or self._due:
            return True
        return self._full() if opened.closes is None else now >= opened.closes

    def _done(self) -> bool:
        """Tell whether nothing is left to send, so that the client may leave."""
        if self._stopped:
            return self._sent is None
        return self._ended and not self._buffer.moves and self._sent is None and self._place is not None

    def _leave(self) -> Leave:
        return Leave(client=self.name, incarnation=self.incarnation)

    def _join(self) -> Join:
        """Return the question where it stands; until it is answered, it always introduces the same records."""
        if self._introduced is None and self._buffer.size >= self.settings.least:
            self._introduced = self._buffer.head(self._size())
        self._question += 1
        first = self._introduced or ()
        labels = labels_in(first)
        return Join(
            client=self.name,
            incarnation=self.incarnation,
            moments=moments_of(first),
            labels=labels,
            target=TargetUnit() if labels else TargetUnit.of(targets_in(first)),
            records=sum(map(len, first)),
            question=self._question,
        )

    # --- a round -----------------------------------------------------------------------------------------------

    def _update(self) -> list[ClientDecision]:
        opened = self._opened
        if opened is None:
            raise BrokenInvariantError("an update is due, but no round is open")
        self._published.forget_before(opened.slots)
        self._history.retain(opened.sampled)
        mine = self._part(opened, self._closed_buffer(opened), opened.registry)
        if not any(map(len, mine.batches)):
            return self._no_records(opened, mine)
        records, between = mine.records, self._between
        result = mine.work(self._weights(opened), self._history)
        if between is not None:
            self._learn_between(between, opened, mine.batches)
            result.served = coded(between.served, between.labels, records)
        truth = natural(records.y, records)
        repeated = self._no_change.predictions(truth, records.labels)
        kept, sample = mine.sample()
        update = mine.update(
            result,
            attempt=self._next_attempt(),
            served=counted(records, result.served, repeated, {} if between is None else between.shares()),
            learnt=between.learnt(self.settings.limits) if between is not None and opened.between else None,
            sample=sample,
        )
        self._sent = Sent(update, mine.batches, kept, mine.after, truth, records.labels)
        self._due = False
        self._asked = "join"  # the update itself asks: Join would only be needed if nothing is heard
        if self.settings.measure and len(result.served):
            return [Send(update), predicted(update, records, result, repeated)]
        return [Send(update)]

    def _no_records(self, opened: RoundOpened, mine: ClientRound) -> list[ClientDecision]:
        """Move past bad records, and tell of no good one: neither of those pending nor of those held back."""
        if self._between is not None:
            self._learn_between(self._between, opened, ())
        update = mine.empty_update(self._next_attempt())
        self._sent = Sent(update, mine.batches, (), self._comparison, np.zeros(0), ())
        self._due = False
        self._asked = "join"
        return [Send(update)]

    def _part(self, opened: RoundOpened, batches: tuple[Batch, ...], registry: int) -> ClientRound:
        if self._place is None:
            raise BrokenInvariantError("a round is worked on by a client that has no place in the ledger")
        return ClientRound(
            self.name,
            self.settings.learner,
            opened,
            self._published.registry(registry),
            batches,
            first=self._place.read,
            before=self._comparison,
        )

    def _weights(self, asked: RoundOpened | Score) -> dict[str, FloatArray]:
        return self._published.weights(asked_of(self.name, asked.slots))

    def _closed_buffer(self, opened: RoundOpened) -> tuple[Batch, ...]:
        """Return the round's records: the first full round, or by the clock all there are.

        Of too few good records none; bad ones before them are accounted for alone.
        """
        if self._buffer.size < self.settings.least:
            return self._buffer.leading()
        by_clock = opened.closes is not None or self._due
        return tuple(self._buffer.batches) if by_clock else self._buffer.full(self._size())

    def _next_attempt(self) -> str:
        self._attempts += 1
        return f"{self.incarnation}-{self._attempts}"

    # --- between rounds ----------------------------------------------------------------------------------------

    def learn_early(self, batch: Batch) -> None:
        """Learn the next records between rounds before they are read: later nothing is done again.

        Nothing happens where no models learn between rounds.
        """
        if self._between is not None:
            self._go_on(self._between)
            self._between.learn_next(batch, self._serving_in(self._opened))

    @property
    def held_back(self) -> Batch:
        """Return the records that it holds back from training."""
        return self._comparison.out.records

    @property
    def between_rounds(self) -> AtClient | None:
        """Return what it learns between rounds, if anything."""
        return self._between

    def answer(self, batch: Batch) -> tuple[FloatArray, tuple[str, ...]]:
        """Return what is served now of some records, whose truth is not looked at, and the labels it is of.

        Returns
        -------
        Probabilities, shape (n, labels), or targets, shape (n, 1); and the labels, none for targets.
        """
        serving = self._serving_in(self._opened)
        if self._between is not None:
            self._go_on(self._between)
            return self._between.answer(batch, serving), self._between.labels
        if serving is None:
            return np.zeros((len(batch), 0)), ()
        return serving.says(batch), serving.registry.labels

    def _go_on(self, between: AtClient) -> None:
        opened = self._opened
        if opened is not None and opened.between and self._is_next(opened) and between.has(opened.round):
            between.begin(opened.round)

    def _learn_between(self, between: AtClient, opened: RoundOpened | None, batches: Sequence[Batch]) -> None:
        """Learn pending records one by one, from the agreed models of the open round on."""
        if opened is not None and opened.between:
            between.begin(opened.round)
        between.learn(batches, self._serving_in(opened))

    def _serving_in(self, opened: RoundOpened | None) -> Serving | None:
        """Return what serves a round, once it is here; it is kept, as records may come one by one."""
        if self._serving is not None and self._serving.opened is opened:
            return self._serving
        if opened is None or opened.round == 1 or not self._has_models(opened):
            return None
        name = opened.served_by(self.name)
        W = self._published.weights([slot for slot in opened.slots if slot.name == name])[name]
        registry = self._published.registry(opened.registry)
        self._serving = Serving(opened, registry, self.settings.learner.model, W)
        return self._serving

    # --- scoring candidates ------------------------------------------------------------------------------------

    def _may_score(self) -> bool:
        score, sent, opened = self._score, self._sent, self._opened
        if score is None or sent is None or sent.scores is not None or opened is None or self._place is None:
            return False
        return opened.entry == sent.update.entry and self._has_models(score)

    def _answer_score(self) -> list[ClientDecision]:
        score, sent, opened = self._score, self._sent, self._opened
        if score is None or sent is None or opened is None:
            raise BrokenInvariantError("scores are due that nobody asked for")
        mine = self._part(opened, sent.batches, score.registry)
        attempt = sent.update.attempt
        if sent.update.records:
            scores = mine.scores(score, self._weights(score), self._history, attempt)
        else:
            scores = mine.empty_scores(score, attempt)
        self._sent = replace(sent, scores=scores)
        return [Send(scores)]

    # --- evaluation --------------------------------------------------------------------------------------------

    def _post_update(self) -> list[ClientDecision]:
        """Predict the last round's records with the model that has learnt them, once it is here."""
        sent, opened = self._measured, self._opened
        if sent is None or opened is None or opened.round <= sent.update.round:
            return []
        serves = opened.served_by(self.name)
        serving = tuple(slot for slot in opened.slots if slot.name == serves)
        if not self._published.has(opened.registry, serving, self.settings.learner.model.columns):
            return []
        self._measured = None
        records = RoundRecords.of(sent.batches, self._published.registry(opened.registry))
        W = self._published.weights(serving)[serves]
        told = natural(self.settings.learner.model.predict(records.Z @ W), records)
        return [PostUpdate(self.name, sent.update.round, natural(records.y, records), told)]


def _nothing_learnt(learner: Learner) -> AtClient | None:
    return None if learner.between is None else learner.between.at_client()


def _again(message: Update | Scores | None) -> list[ClientDecision]:
    return [] if message is None else [Send(message)]


def _together(sample: tuple[SampledRound, ...], held: tuple[HeldRecord, ...]) -> Mapping[str, tuple[int, ...]]:
    """Return the positions of all that is to be read again, in order, each once."""
    positions: dict[str, set[int]] = {}
    for kept in sample:
        for partition, places in kept.positions.items():
            positions.setdefault(partition, set()).update(places)
    for record in held:
        positions.setdefault(record.partition, set()).add(record.position)
    return {partition: tuple(sorted(places)) for partition, places in positions.items()}
