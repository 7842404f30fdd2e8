"""The client machine: reads and buffers records, scores and trains on a round's, follows the ledger.

Theory of operation. A client knows the last ledger entry it has seen, its own place in the ledger, and the round
that is open. It sends one update for the entry after the last; the update's records stay in the buffer until
RoundClosed accepts them. Whenever its place is unknown (it has just started, an entry was missed, another
incarnation's update was accepted) or nothing was heard for a while, it asks with Join, and Joined tells. So there is
one way back from every fault. `wakes_at` says when it wants a Tick: a function of its state, so no timer can be lost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from streamfl.core.arrays import FloatArray
from streamfl.core.buffer import Buffer
from streamfl.core.client_round import ClientRound, targets_in
from streamfl.core.comparison import Comparison
from streamfl.core.decisions import ClientDecision, Fetch, Finished, PostUpdate, Seek, Send
from streamfl.core.errors import BrokenInvariantError
from streamfl.core.evaluated import coded, counted, natural, predicted
from streamfl.core.events import BufferDue, ClientEvent, RecordsFetched, RecordsRead, SourceEnded, Stopped, Tick
from streamfl.core.guest.between_rounds import GuestBetweenRounds
from streamfl.core.held_out import HeldOut
from streamfl.core.history import History, KeptRound
from streamfl.core.local_round import Learner, RoundRecords, labels_in
from streamfl.core.messages import (
    Accepted,
    GuestPublished,
    HeldRecord,
    Join,
    Joined,
    Leave,
    Left,
    ModelPublished,
    OnlinePublished,
    RegistryPublished,
    RoundClosed,
    RoundOpened,
    SampledRound,
    Score,
    Scores,
    Update,
    asked_of,
)
from streamfl.core.moments import moments_of
from streamfl.core.no_change import NoChange
from streamfl.core.online.between_rounds import BetweenRounds
from streamfl.core.published import Published
from streamfl.core.records import Batch
from streamfl.core.registry import TargetUnit
from streamfl.core.serving import Serving

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
    capacity
        Most pending records, good and bad; None is twice the round size.
    retry
        Seconds without news after which it asks where it stands; twice as many each time it hears nothing new. Upon
        the answer it sends again what it had sent for the open round.
    measure
        Whether to tell Predicted and PostUpdate, for whoever evaluates this client in the same process.
    """

    learner: Learner
    round_size: int | tuple[int, ...] = 100
    clock: Literal["records", "interval"] = "records"
    capacity: int | None = None
    retry: float = 5.0
    measure: bool = False

    def size(self, t: int) -> int:
        """Return the records of round t.

        >>> from streamfl.core.algorithms import FedAvg
        >>> from streamfl.models import Softmax
        >>> ClientSettings(Learner(Softmax(), FedAvg()), round_size=(10, 20)).size(7)
        20
        """
        sizes = self.round_size
        return sizes if isinstance(sizes, int) else sizes[min(t, len(sizes)) - 1]

    @property
    def most_pending(self) -> int:
        """Return the capacity, chosen if it is not given."""
        largest = self.round_size if isinstance(self.round_size, int) else max(self.round_size)
        return self.capacity or 2 * largest


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

    Examples
    --------
    >>> from streamfl.core.algorithms import FedAvg
    >>> from streamfl.core.records import Span
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
    _opened: RoundOpened | None = None
    _score: Score | None = None
    _sent: Sent | None = None
    _measured: Sent | None = None
    _published: Published = field(default_factory=Published)
    _history: History = field(default_factory=History)
    _comparison: Comparison = field(default_factory=Comparison)
    _awaited: Joined | None = None
    _between: BetweenRounds | GuestBetweenRounds | None = field(init=False)
    _serving: Serving | None = None
    _no_change: NoChange = field(default_factory=NoChange)
    _attempts: int = 0
    _ended: bool = False
    _due: bool = False
    _stopped: bool = False
    _left: bool = False
    _asked: Literal["", "join", "leave"] = ""
    _news: float = 0.0
    _in_vain: int = 0

    def __post_init__(self) -> None:
        self._buffer = Buffer(self.settings.most_pending)
        self._between = _between_rounds(self.settings.learner)

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
        return self._opened.closes if self._opened else None

    @property
    def _patience_ends(self) -> float:
        return self._news + self.settings.retry * 2.0 ** min(self._in_vain, LEAST_OFTEN)

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
            self._published.add(event)  # most of what comes; nothing follows from it until its round is opened
            return []
        if self._is_news(event):
            self._news, self._in_vain = now, 0
        decisions = self._take(event)
        if isinstance(event, Tick) and self._waits() and now >= self._patience_ends:
            self._asked = ""
            self._in_vain += 1
        return decisions + self._proceed(now)

    def _is_news(self, event: ClientEvent) -> bool:
        """Tell whether an event answers what it waits for, so that there is no need to ask yet.

        While it waits for Joined or Left, nothing else is: the others' federation goes on without it.
        """
        match event:
            case Joined() | Left():
                return self._is_mine(event)
            case RoundOpened() | RoundClosed() | Score():
                return self._place is not None and not self._done() and event.entry > self._entry
            case SourceEnded() | BufferDue() | Stopped() | RecordsFetched():
                return True
            case _:
                return False

    # --- events ------------------------------------------------------------------------------------------------

    def _take(self, event: ClientEvent) -> list[ClientDecision]:
        match event:
            case RecordsRead(batches):
                self._buffer.add([batch.sound() for batch in batches])
            case RecordsFetched(batches) if self._awaited is not None:
                self._history.restore(self._missing(self._awaited), batches)
                self._comparison = Comparison(HeldOut.restored(self._awaited.held, batches))
                self._awaited = None
            case SourceEnded() | BufferDue() | Stopped():
                self._ended |= isinstance(event, SourceEnded)
                self._due |= isinstance(event, BufferDue)
                self._stopped |= isinstance(event, Stopped)
            case RegistryPublished() | ModelPublished() | OnlinePublished() | GuestPublished():
                self._keep(event)
            case Joined() if self._is_mine(event):
                return self._joined(event)
            case RoundOpened():
                return self._round_opened(event)
            case Score() if self._sent is not None and event.entry == self._sent.update.entry:
                return self._asked_to_score(event, self._sent)
            case RoundClosed() if event.entry > self._entry:
                self._round_closed(event)
            case Left() if self._is_mine(event):
                self._left = True
                return [Finished()]
            case _:
                pass  # time alone, or a message for another client, of an older entry, or for people to read
        return []

    def _keep(self, published: RegistryPublished | ModelPublished | OnlinePublished | GuestPublished) -> None:
        match published:
            case RegistryPublished() | ModelPublished():
                self._published.add(published)
            case OnlinePublished() if isinstance(self._between, BetweenRounds):
                self._between.take(published)
            case GuestPublished() if isinstance(self._between, GuestBetweenRounds):
                self._between.take(published.version, published.agreed)
            case _:
                pass  # of models that are not learnt here

    def _is_mine(self, answer: Joined | Left) -> bool:
        return (answer.client, answer.incarnation) == (self.name, self.incarnation)

    def _joined(self, joined: Joined) -> list[ClientDecision]:
        """Take the ledger's word: read on from its positions, and restore the history sample it names."""
        if joined.entry <= self._entry:
            return []
        before = self._place.positions if self._place else {}
        self._entry = joined.entry - 1
        self._place = Place(dict(joined.positions), joined.read, joined.rejected)
        if self._sent is not None and self._sent.update.entry < joined.entry:
            self._sent = None
        decisions: list[ClientDecision] = []
        if joined.positions != before:
            self._buffer.clear()
            self._ended = False
            if self._between is not None:
                self._between.forget()
            decisions.append(Seek(joined.positions))
        if self._missing(joined) or set(joined.held) != set(self._comparison.out.places()):
            self._awaited = joined
            decisions.append(Fetch(_together(self._missing(joined), joined.held)))
        if self._sent is not None:
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
        """Take the newest opening; a coordinator that was killed asks for what was sent, scores from stage 1 on."""
        if self._opened is None or opened.entry > self._opened.entry:
            self._opened = opened
            self._score = None
        elif opened.resumed and self._sent is not None and opened.entry == self._sent.update.entry:
            self._score, self._sent = None, replace(self._sent, scores=None)
            return _again(self._sent.update)
        return []

    def _round_closed(self, closed: RoundClosed) -> None:
        """Move on by the next entry; after one that was missed, or another's attempt, the place is unknown."""
        sent, self._sent = self._sent, None
        in_step = closed.entry == self._entry + 1
        self._entry = closed.entry if in_step else self._entry
        own = next((a for a in closed.accepted if a.client == self.name), None)
        if in_step and own is None:
            return
        if in_step and own is not None and sent is not None and own.attempt == sent.update.attempt:
            self._accept(own, sent, closed)
        else:
            self._place = None
            self._asked = ""

    def _accept(self, own: Accepted, sent: Sent, closed: RoundClosed) -> None:
        if self._place is None:
            raise BrokenInvariantError("an update was accepted of a client that has no place in the ledger")
        self._buffer.drop(own.spans)
        self._place.positions.update({span.partition: span.end for span in own.spans})
        self._place.read += own.records + own.rejected
        self._place.rejected += own.rejected
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
        return [Send(self._leave() if question == "leave" else self._join())]

    def _waits(self) -> bool:
        """Tell whether the next step is the coordinator's: to answer Join or Leave, to open or to close a round."""
        if self._place is None:
            return self._full() or self._ended or self._due or self._stopped or self.settings.clock == "interval"
        if self._sent is not None or self._awaited is not None or self._done():
            return True
        opened = self._opened
        return opened is None or not self._is_next(opened) or not self._has_models(opened)

    def _full(self) -> bool:
        return self._buffer.size >= self._size() or self._buffer.room == 0

    def _size(self) -> int:
        return self.settings.size(self._opened.round if self._opened else 1)

    def _is_next(self, opened: RoundOpened) -> bool:
        return self._place is not None and opened.entry == self._entry + 1

    def _has_models(self, of: RoundOpened | Score) -> bool:
        return self._published.has(of.registry, asked_of(self.name, of.slots)) and self._may_go_on(of)

    def _awaits_models(self) -> bool:
        """Tell whether there may be something to do once a model is here."""
        opened = self._opened
        waits = self._measured is not None or self._score is not None
        return waits or (opened is not None and self._is_next(opened))

    def _may_go_on(self, of: RoundOpened | Score) -> bool:
        asks = isinstance(of, RoundOpened) and of.online
        return not asks or (self._between is not None and self._between.has(of.round))

    def _may_update(self, now: float) -> bool:
        opened = self._opened
        if opened is None or self._sent is not None or self._awaited is not None or not self._is_next(opened):
            return False
        return not self._done() and self._has_models(opened) and self._closes(opened, now)

    def _closes(self, opened: RoundOpened, now: float) -> bool:
        if self._ended or self._due:
            return True
        return self._full() if opened.closes is None else now >= opened.closes

    def _done(self) -> bool:
        """Tell whether nothing is left to send, so that the client may leave."""
        if self._stopped:
            return self._sent is None
        return self._ended and not self._buffer.pending and self._sent is None and self._place is not None

    def _leave(self) -> Leave:
        return Leave(client=self.name, incarnation=self.incarnation)

    def _join(self) -> Join:
        first = self._buffer.head(self._size())
        labels = labels_in(first)
        return Join(
            client=self.name,
            incarnation=self.incarnation,
            moments=moments_of(first),
            labels=labels,
            target=TargetUnit() if labels else TargetUnit.of(targets_in(first)),
            records=sum(map(len, first)),
        )

    # --- a round -----------------------------------------------------------------------------------------------

    def _update(self) -> list[ClientDecision]:
        opened = self._opened
        if opened is None:
            raise BrokenInvariantError("an update is due, but no round is open")
        self._published.forget_before(opened.slots)
        self._history.retain(opened.sampled)
        mine = self._part(opened, self._closed_buffer(opened), opened.registry)
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
            learnt=between.learnt() if between is not None and opened.online else None,
            sample=sample,
        )
        self._sent = Sent(update, mine.batches, kept, mine.after, truth, records.labels)
        self._due = False
        self._asked = "join"  # the update itself asks: Join would only be needed if nothing is heard
        if self.settings.measure and len(result.served):
            return [Send(update), predicted(update, records, result, repeated)]
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
        """Return the round's records: the first full round, or by the clock all there are."""
        size = self._size()
        by_clock = opened.closes is not None or self._due or self._buffer.size < size
        return tuple(self._buffer.batches) if by_clock else self._buffer.head(size)

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
    def between_rounds(self) -> BetweenRounds | GuestBetweenRounds | None:
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

    def _go_on(self, between: BetweenRounds | GuestBetweenRounds) -> None:
        opened = self._opened
        if opened is not None and opened.online and self._is_next(opened) and between.has(opened.round):
            between.begin(opened.round)

    def _learn_between(
        self, between: BetweenRounds | GuestBetweenRounds, opened: RoundOpened | None, batches: Sequence[Batch]
    ) -> None:
        """Learn pending records one by one, from the agreed models of the open round on."""
        if opened is not None and opened.online:
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
        score, sent = self._score, self._sent
        if score is None or sent is None or sent.scores is not None:
            return False
        return self._has_models(score)

    def _answer_score(self) -> list[ClientDecision]:
        score, sent, opened = self._score, self._sent, self._opened
        if score is None or sent is None or opened is None:
            raise BrokenInvariantError("scores are due that nobody asked for")
        mine = self._part(opened, sent.batches, score.registry)
        scores = mine.scores(score, self._weights(score), self._history, sent.update.attempt)
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
        if not self._published.has(opened.registry, serving):
            return []
        self._measured = None
        records = RoundRecords.of(sent.batches, self._published.registry(opened.registry))
        W = self._published.weights(serving)[serves]
        told = natural(self.settings.learner.model.predict(records.Z @ W), records)
        return [PostUpdate(self.name, sent.update.round, natural(records.y, records), told)]


def _between_rounds(learner: Learner) -> BetweenRounds | GuestBetweenRounds | None:
    if learner.guest is not None:
        return GuestBetweenRounds(learner.guest)
    return None if learner.online is None else BetweenRounds(learner.online)


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
