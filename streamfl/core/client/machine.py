"""The client machine: it buffers records, trains on them in each round, and follows the ledger.

Theory of operation. `handle` takes one event and returns decisions. It updates the state (`_take`), then takes the
next step for which everything has arrived (`_proceed`): close the buffer and send an update, answer Score, or ask.

In the normal course a client sends Join once it has records (JOINING). Joined gives its place in the ledger. The
client waits for the next round and its models (WAITING), reads the round's records (GATHERING), sends one update for
the next entry, and waits for the ledger (SENT). RoundClosed accepts the update; only then does the buffer drop the
records. `phase.py` has the whole table. `state.py` derives the phase from the state.

There is one way to recover from every fault: a client that does not know its place sends Join, and Joined answers. It
does not know its place after it starts, after it missed an entry, after another update was accepted under its name,
and after its update was refused. It also asks when no message has come for a while (`patience.py`). `wakes_at` is the
time of the next Tick; it is a function of the state, so no timer can be lost.

Anyone who can write to the coordinator's topics can forge messages, so what a client knows of the ledger may be wrong
(`known_ledger.py`). The answer to its newest question is the truth, even if it takes the client back, and no earlier
message may block a later one. If a message cannot be used, the client forgets all it has received and asks again
(`_guarded`). So it recovers by itself once a forger stops.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from streamfl.core.arrays import FloatArray
from streamfl.core.bounds import bounded
from streamfl.core.client.in_flight import Sent
from streamfl.core.client.introduction import introduction
from streamfl.core.client.known_ledger import LedgerPlace
from streamfl.core.client.models import Models
from streamfl.core.client.patience import Question
from streamfl.core.client.phase import Phase
from streamfl.core.client.state import ClientState
from streamfl.core.client.usable import unusable
from streamfl.core.client.work import Work
from streamfl.core.errors import BrokenInvariantError, PeerError, UsageError
from streamfl.core.protocol.decisions import ClientDecision, Dropped, Fetch, Finished, Seek, Send
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
    Join,
    Joined,
    Leave,
    Left,
    Message,
    ModelPublished,
    ModelsChanged,
    Refusal,
    RegistryPublished,
    RoundClosed,
    RoundOpened,
    Score,
    Scores,
)
from streamfl.core.protocol.records import Batch


@dataclass
class Client(ClientState):
    """One client of a federation.

    Parameters
    ----------
    settings
        How it works.
    name
        The client's name: unique in the federation, the same after a restart.
    incarnation
        Unique for every start of the client, and greater, as a string, than those of earlier starts: it identifies
        late messages of an older incarnation. Part of each attempt.
    dropped
        How many messages could not be used.
    evicted
        The reason of its eviction; empty unless it was evicted. Then it has finished, and its records are pending.

    Examples
    --------
    >>> import numpy as np
    >>> from streamfl.core.client.settings import ClientSettings
    >>> from streamfl.core.learning.algorithms import FedAvg
    >>> from streamfl.core.learning.local_round import Learner
    >>> from streamfl.core.protocol.records import Span
    >>> from streamfl.models import Softmax
    >>> client = Client(ClientSettings(Learner(Softmax(), FedAvg()), round_size=3), "c0", incarnation="1")
    >>> batch = Batch(Span("p", 0, 3), np.arange(3), ("x",), np.array([[1.0], [2.0], [6.0]]), np.zeros(3), ("a",))
    >>> (asked,) = client.handle(RecordsRead((batch,)), now=0.0)
    >>> asked.message.labels, asked.message.moments.mean, client.pending, client.phase, client.wakes_at
    (('a',), array([3.]), 3, <Phase.JOINING: 'joining'>, 5.0)
    """

    def learn_early(self, batch: Batch) -> None:
        """Learn the next records between rounds before they are read; they are not learnt again later.

        Does nothing if no models learn between rounds.
        """
        self._models.begin_round(self._ledger.open_round)
        self._models.learn_early(batch, self._ledger.opened)

    def answer(self, batch: Batch) -> tuple[FloatArray, tuple[str, ...]]:
        """Return predictions of some records, without using their truth, and the labels.

        Returns
        -------
        Probabilities, shape (n, labels), or targets, shape (n, 1); and the labels, empty for targets.
        """
        self._models.begin_round(self._ledger.open_round)
        return self._models.answer(batch, self._ledger.opened)

    # --- one event ---------------------------------------------------------------------------------------------

    def handle(self, event: ClientEvent, now: float) -> list[ClientDecision]:
        """Handle one event and return the decisions, in order.

        Parameters
        ----------
        event
            What happened.
        now
            The time in seconds, by the clock that drives the federation.
        """
        if self._left:
            return []
        if isinstance(event, ModelPublished | ModelsChanged) and not self._awaits_models():
            return self._receive(event, now)  # most messages; a model has no effect until its round is opened
        if self._is_awaited(event):
            self._patience = self._patience.answered(now)
        decisions = self._receive(event, now) if isinstance(event, Message) else self._take(event)
        if isinstance(event, Tick):
            decisions += self._lose_patience(now)
        return decisions + self._guarded(lambda: self._proceed(now), now)

    def _awaits_models(self) -> bool:
        """Tell whether there may be something to do when a model arrives."""
        waits = self._measurement.last is not None or self._flight.score is not None
        return waits or self._ledger.open_round is not None

    def _is_awaited(self, event: ClientEvent) -> bool:
        """Tell whether an event is what the client waits for, so that it need not ask yet.

        While it waits for Joined or Left, only these count: the federation goes on without it.
        """
        match event:
            case Joined():
                return self._is_own(event) and self._ledger.is_answer(event)
            case Left():
                return self._is_own(event) and self._leaves
            case RoundOpened() if event.entry == self._flight.refused:
                return False  # published again and again for others, it would postpone the next try for ever
            case RoundOpened() | RoundClosed():
                ledger = self._ledger
                return ledger.place is not None and event.entry == ledger.entry + 1 and not self._is_done()
            case Score():
                return self._flight.is_for(event.entry)
            case SourceEnded() | BufferDue() | Stopped() | RecordsFetched():
                return True
            case _:
                return False

    def _receive(self, message: FromCoordinator, now: float) -> list[ClientDecision]:
        """Take a message, or drop it if it cannot be used."""

        def take() -> list[ClientDecision]:
            reason = unusable(message, self.settings.learner.between)
            return self._take(message) if reason is None else self._drop(PeerError(reason))

        return self._guarded(take, now)

    def _guarded(self, do: Callable[[], list[ClientDecision]], now: float) -> list[ClientDecision]:
        """Act on received messages; if that raises, forget all that was received and ask for it later.

        Errors in this client's own settings and records are raised.
        """
        try:
            return do()
        except (UsageError, BrokenInvariantError, MemoryError):
            raise
        except Exception as error:  # a forged model can make anything raise
            self._ledger.forget()
            self._flight.forget()
            self._models = Models(self.name, self.settings.learner)
            self._patience = self._patience.set_back().asks("join", now)
            return self._drop(error)

    def _drop(self, error: Exception) -> list[ClientDecision]:
        self.dropped += 1
        return [Dropped(self.name, error)]

    def _lose_patience(self, now: float) -> list[ClientDecision]:
        """Ask, or try a refused entry again, when the wait has run out."""
        if self.phase.waits:
            if now >= self._patience.ends:
                self._patience = self._patience.loses()
                self._flight.refused = 0
        elif self.wakes_at is not None and now >= self._patience.ends_at_last:
            self._patience = self._patience.waits_anew(now)
            return [Send(self._join())]
        return []

    def _take(self, event: ClientEvent) -> list[ClientDecision]:
        match event:
            case RegistryPublished() | ModelPublished() | ModelsChanged() | BetweenPublished():
                return [drop for error in self._models.keep(event) for drop in self._drop(error)]
            case RecordsRead(batches):
                for batch in batches:
                    self._begun.setdefault(batch.span.partition, batch.span.start)
                self._buffer.add([batch.sound() for batch in batches])
            case RecordsFetched(batches) if self._earlier.awaited is not None:
                self._earlier.restore(self._earlier.awaited, batches)
            case SourceEnded() | BufferDue() | Stopped():
                self._ended |= isinstance(event, SourceEnded)
                self._due |= isinstance(event, BufferDue)
                self._stopped |= isinstance(event, Stopped)
            case Joined() if self._is_own(event) and self._ledger.is_answer(event):
                return self._joined(event)
            case Refusal() if self._is_own(event):
                return self._refused(event)
            case RoundOpened():
                return self._round_opened(event)
            case Score():
                self._flight.ask(event)
            case RoundClosed() if self._ledger.place is not None:
                self._round_closed(event, self._ledger.place)
            case Left() if self._is_own(event) and self._leaves:
                self._left = True
                return [Finished()]
            case _:
                pass  # a Tick, or a message for another client, of an older entry, or for people
        return []

    def _is_own(self, answer: Joined | Left | Refusal) -> bool:
        return (answer.client, answer.incarnation) == (self.name, self.incarnation)

    # --- following the ledger ----------------------------------------------------------------------------------

    def _joined(self, joined: Joined) -> list[ClientDecision]:
        """Follow Joined: continue at its positions, and read the records that it lists again."""
        moved = self._ledger.differs(joined)
        if self._ledger.take(joined):
            self._flight.turn_to(self._ledger.opened)
        again = self._flight.join(joined, moved=moved)
        self._introduced = ()
        decisions: list[ClientDecision] = []
        if moved:
            self._buffer.clear()
            self._ended = False
            self._models.forget_pending()
            decisions.append(Seek({**self._begun, **joined.positions}))
        if self._earlier.lacks(joined):
            decisions.append(Fetch(self._earlier.await_records(joined)))
        return decisions + [Send(message) for message in again]

    def _round_opened(self, opened: RoundOpened) -> list[ClientDecision]:
        if self._ledger.misses(opened):
            self._lose_place()
        elif self._ledger.open(opened):
            self._flight.turn_to(opened)
        return [Send(update) for update in self._flight.resume(opened)] if self._ledger.place is not None else []

    def _round_closed(self, closed: RoundClosed, place: LedgerPlace) -> None:
        """Move to the next entry; ask after a missed entry, a foreign attempt, or two entries that differ."""
        own = closed.accepted_of(self.name)
        sent, is_next = self._flight.sent, closed.entry == self._ledger.entry + 1
        is_strange = own is not None and (sent is None or not sent.is_accepted_by(own, closed))
        if self._ledger.contradicts(closed) or (is_next and is_strange):
            self._lose_place()
        elif is_next:
            self._flight.sent = None
            if own is not None and sent is not None:
                self._accept(own, sent, closed, place)
            if self._ledger.close(closed):
                self._flight.turn_to(self._ledger.opened)

    def _accept(self, own: Accepted, sent: Sent, closed: RoundClosed, place: LedgerPlace) -> None:
        self._patience = self._patience.succeeds()
        self._buffer.drop(own.spans)
        place.move(own)
        self._earlier.accept(sent, own, closed)
        self._measurement.accept(sent)

    def _refused(self, refusal: Refusal) -> list[ClientDecision]:
        """Keep the records, ask for the place, and try again in the next entry, or much later in this one."""
        if refusal.evicted:
            self._left, self.evicted = True, bounded(refusal.reason) or "no reason was given"
            return [Finished()]
        if self._flight.refuse(refusal.entry):
            self._patience = self._patience.set_back()
            self._lose_place()
        return []

    def _lose_place(self) -> None:
        """Make the place unknown, and ask for it unless that was done already."""
        self._ledger.lose()
        if self._ledger.question == self._ledger.answered:
            self._patience = self._patience.may_ask()

    # --- the next step --------------------------------------------------------------------------------------------

    def _proceed(self, now: float) -> list[ClientDecision]:
        """Take the next step for which everything has arrived."""
        if self._left:
            return []
        decisions: list[ClientDecision] = [*self._measurement.after(self._ledger.opened, self._models)]
        phase = self.phase
        if phase is Phase.GATHERING:
            return decisions + self._gather(now)
        if phase is Phase.SCORING and (scores := self._scores()) is not None:
            return [*decisions, Send(scores)]
        return decisions + self._ask(phase, now) if phase.waits else decisions

    def _gather(self, now: float) -> list[ClientDecision]:
        """Close the buffer and send an update, if the round is full or due."""
        opened = self._ledger.open_round
        if opened is None:
            raise BrokenInvariantError("records are gathered, but no round is open")
        # Before counting: records whose label the registry cannot take do not fill a round.
        self._buffer.within(self._models.published.registry(opened.registry), self.settings.limits)
        is_time = self._is_full() if opened.closes is None else now >= opened.closes
        if not (self._ended or self._due or is_time):
            return []
        batches = self._buffer.closed(self._size(), by_clock=opened.closes is not None or self._due)
        attempt = self._attempts + 1
        sent, predicted = self._work().update(opened, batches, f"{self.incarnation}-{attempt}")
        self._flight.sent, self._attempts, self._due = sent, attempt, False
        self._patience = self._patience.has_asked("join")
        return [Send(sent.update), *predicted]

    def _scores(self) -> Scores | None:
        """Score the candidates on the records of the update, once the candidates have arrived."""
        score, sent, opened = self._flight.score, self._flight.sent, self._ledger.opened
        if score is None or sent is None or opened is None:
            return None
        if opened.entry != sent.update.entry or not self._models.has(score):
            return None
        scores = self._work().scores(opened, score, sent)
        self._flight.sent = replace(sent, scores=scores)
        return scores

    def _work(self) -> Work:
        place = self._ledger.place
        if place is None:
            raise BrokenInvariantError("a client works on a round without a place in the ledger")
        return Work(self.settings, self._models, self._earlier, self._measurement, place.read)

    def _ask(self, phase: Phase, now: float) -> list[ClientDecision]:
        """Send Leave when all is done, else Join, unless it waits for an answer already."""
        question: Question = "leave" if phase is Phase.LEAVING else "join"
        if self._patience.asked == question:
            return []
        self._patience = self._patience.asks(question, now)
        if question == "join":
            return [Send(self._join())]
        self._leaves = True
        return [Send(Leave(client=self.name, incarnation=self.incarnation))]

    def _join(self) -> Join:
        """Return a Join; until one is answered, it always describes the same records."""
        if self._introduced is None and self._buffer.size >= self.settings.least:
            self._introduced = self._buffer.head(self._size())
        return introduction(self.name, self.incarnation, self._introduced or (), self._ledger.ask())
