"""The client machine: it buffers records, trains on them in each round, and follows the ledger.

Theory of operation. `handle` takes one event and returns decisions. It updates the state (`_take`), then takes the
next step for which everything has arrived (`_proceed`): close the buffer and send an update, answer Score, or ask.

In the normal course a client sends Join once it has records (JOINING). Joined gives its place in the ledger. The
client waits for the next round and its models (WAITING), reads the round's records (GATHERING), sends one update for
the next entry, and waits for the ledger (SENT). RoundClosed accepts the update; only then does the buffer drop the
records. `phase.py` describes the phases. `state.py` derives the phase from the state.

There is one way to recover from every fault: a client that does not know its place sends Join, and Joined answers. It
does not know its place after it starts, after it missed an entry, after another update was accepted under its name,
after its update was refused, and after Ended, which a coordinator that continues contradicts by its answer. It also
asks when no message has come for a while (`patience.py`). `wakes_at` is the time of the next Tick; it is a function
of the state, so no timer can be lost.

Anyone who can write to the coordinator's topics can forge messages, so what a client knows of the ledger may be wrong
(`known_ledger.py`). The answer to its newest question is the truth, even if it takes the client back, and no earlier
message may block a later one. If a message cannot be used, the client forgets all it has received and asks again
(`_guard`). So it recovers by itself once a forger stops.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.bounds import bounded
from streamfl.errors import BrokenInvariantError, PeerError, UsageError
from streamfl.machines.client.intake.answering import answer_of
from streamfl.machines.client.ledger.known_ledger import LedgerPlace
from streamfl.machines.client.ledger.models import ClientModels
from streamfl.machines.client.patience import Question
from streamfl.machines.client.phase import Phase
from streamfl.machines.client.state import ClientState
from streamfl.machines.client.usable import unprotected, unusable
from streamfl.machines.client.work.clocks import Occasion, clock_of
from streamfl.machines.client.work.gathering import Gathering
from streamfl.machines.client.work.in_flight import SentUpdate
from streamfl.machines.client.work.introduction import introduction
from streamfl.machines.client.work.work import Work
from streamfl.protocol.decisions import (
    Answered,
    ClientDecision,
    Dropped,
    Fetch,
    Finished,
    Seek,
    Send,
)
from streamfl.protocol.delayed import NO_LABEL
from streamfl.protocol.events import (
    BufferDue,
    ClientEvent,
    FeaturesEnded,
    RecordsFetched,
    RecordsRead,
    SourceEnded,
    Stopped,
    Tick,
    WindowFull,
)
from streamfl.protocol.messages import (
    Accepted,
    Disclosed,
    Ended,
    Fenced,
    FromCoordinator,
    Join,
    Joined,
    Leave,
    Left,
    Message,
    ModelPublished,
    ModelsChanged,
    OnlinePublished,
    Refusal,
    RegistryPublished,
    Roster,
    RoundClosed,
    RoundOpened,
    Score,
    Scores,
    Unmask,
)
from streamfl.protocol.records import Batch

# A client whose totals fail again and again reads more records beyond those that it has told about, up to this many
# times as many as it usually holds.
MOST_DISCLOSED = 8


@dataclass
class Client(ClientState):
    """One client of a federation.

    Parameters
    ----------
    name
        The client's name: unique in the federation, the same after a restart.
    nonce
        A random text: it tells this start of the client from every other.
    secrets
        The keys of this start with which sums are masked; needed if `settings.secure_aggregation` says so.
    incarnation
        The number that the coordinator has issued to this start, 0 before. Part of each attempt: it identifies late
        messages of an earlier start.
    dropped
        How many messages could not be used.
    late
        With rounds by event time, how many records came after their period had been closed, and were learnt later.
    releases
        The most messages about the records of one round.
    evicted
        The reason of its eviction; empty unless it was evicted. Then it has finished, and its records are pending.
    superseded
        Whether another start of the client has taken its place. Then it has finished as well.

    Examples
    --------
    >>> import numpy as np
    >>> from streamfl.machines.client.settings import ClientSettings
    >>> from streamfl.learning.algorithms import FedAvg
    >>> from streamfl.learning.local_round import Learner
    >>> from streamfl.protocol.records import Span
    >>> from streamfl.models import Softmax
    >>> client = Client(ClientSettings(Learner(Softmax(), FedAvg()), round_size=3), "c0", nonce="7f")
    >>> batch = Batch(Span("p", 0, 3), np.arange(3), ("x",), np.array([[1.0], [2.0], [6.0]]), np.zeros(3), ("a",))
    >>> (asked,) = client.handle(RecordsRead((batch,)), now=0.0)
    >>> asked.message.labels, asked.message.moments.mean, client.pending, client.phase, client.wakes_at
    (('a',), array([3.]), 3, <Phase.JOINING: 'joining'>, 5.0)
    """

    def learn_early(self, batch: Batch) -> FloatArray | None:
        """Learn the next records online before they are read; they are not learnt again later.

        Returns
        -------
        The prediction of each just before it was learnt; None if no online models learn, then nothing happens.
        """
        self._models.begin_round(self._ledger.open_round)
        return self._models.learn_early(batch, self._ledger.opened)

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
        now
            The time in seconds, by the clock that drives the federation.
        """
        if self._left:
            return []
        if isinstance(event, ModelPublished | ModelsChanged) and not self._awaits_models():
            return self._receive(event, now)  # most messages; a model has no effect until its round is opened
        if self._is_awaited(event):
            self._patience = self._patience.hears(now)
        decisions = self._receive(event, now) if isinstance(event, Message) else self._take(event, now)
        if isinstance(event, Tick):
            decisions += self._lose_patience(now)
        return decisions + self._guard(now, self._proceed)

    def _awaits_models(self) -> bool:
        """Tell whether there may be something to do when a model arrives."""
        waits = self._measurement.last is not None or self._flight.score is not None
        return waits or self._ledger.open_round is not None

    def _is_awaited(self, event: ClientEvent) -> bool:
        """Tell whether an event is what the client waits for, so that it need not ask yet.

        While it waits for Joined or Left, only these count: the federation continues without it.
        """
        match event:
            case Joined():
                return self._is_own(event) and self._ledger.is_answer(event)
            case Left():
                return self._is_own(event) and self._leaves
            case Fenced():
                return self._is_fenced(event)
            case RoundOpened() if event.entry in (self._flight.refused, self._opened_entry):
                return False  # published again and again for others, it would postpone the next try for ever
            case RoundOpened() | RoundClosed():
                ledger = self._ledger
                return ledger.place is not None and event.entry == ledger.entry + 1 and not self._is_done()
            case Score():
                return self._flight.is_current(event)  # an earlier stage, published again for others, tells nothing
            case FeaturesEnded() | SourceEnded() | BufferDue() | Stopped() | RecordsFetched():
                return True
            case _:
                return False

    @property
    def _opened_entry(self) -> int | None:
        """Return the entry of the open round, if that is known."""
        opened = self._ledger.open_round
        return None if opened is None else opened.entry

    def _receive(self, message: FromCoordinator, now: float) -> list[ClientDecision]:
        """Take a message, or drop it if it cannot be used."""
        return self._guard(now, self._take_usable, message)

    def _take_usable(self, message: FromCoordinator, now: float) -> list[ClientDecision]:
        reason = unusable(message, self.settings.learner.online)
        return self._take(message, now) if reason is None else self._drop(PeerError(reason))

    def _guard(self, now: float, do: Callable[..., list[ClientDecision]], *given: object) -> list[ClientDecision]:
        """Act on received messages; if that raises, forget all that was received and ask for it later.

        Errors in this client's own settings and records are raised.

        Parameters
        ----------
        do, given
            What is done, and its arguments besides `now`, which is the last one.
        """
        try:
            return do(*given, now)
        except (UsageError, BrokenInvariantError, MemoryError):
            raise
        except Exception as error:  # a forged model can make anything raise
            self._ledger.forget()
            self._flight.forget()
            self._models = ClientModels(self.name, self.settings.learner)
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
            self._patience = self._patience.waits_again(now)
            return [Send(self._join())]
        return []

    def _take(self, event: ClientEvent, now: float) -> list[ClientDecision]:
        match event:
            case RoundClosed() if self._ledger.place is not None:
                self._round_closed(event, self._ledger.place)
            case RoundOpened():
                return self._round_opened(event, now)
            case RecordsRead(batches):
                return self._records_read(batches, now)
            case RegistryPublished() | ModelPublished() | ModelsChanged() | OnlinePublished() | Roster():
                return self._keep(event)
            case RecordsFetched(batches) if self._earlier.awaited is not None:
                self._earlier.restore(self._earlier.awaited, batches)
            case SourceEnded() | FeaturesEnded() | BufferDue() | WindowFull() | Stopped():
                self._note(event)
            case Joined() | Fenced() if event.client == self.name:
                return self._told_place(event)
            case Refusal() if (event.client, event.incarnation) == (self.name, self.incarnation):
                return self._take_refusal(event)
            case Score() | Unmask():
                return self._take_question(event)
            case Ended() if self._ledger.place is not None:
                self._in_doubt = True
                self._lose_place()
            case Left() if self._is_own(event):
                return self._told_left()
            case _:
                pass  # a Tick, or a message for another client, of an older entry, or for people
        return []

    def _keep(
        self, published: RegistryPublished | ModelPublished | ModelsChanged | OnlinePublished | Roster
    ) -> list[ClientDecision]:
        """Keep what a round needs until it is superseded."""
        if isinstance(published, Roster):
            self.sending.keep(published)
            return []
        return [drop for error in self._models.keep(published) for drop in self._drop(error)]

    def _note(self, event: SourceEnded | FeaturesEnded | BufferDue | WindowFull | Stopped) -> None:
        self._due |= isinstance(event, BufferDue)
        self._stopped |= isinstance(event, Stopped)
        self._ended |= isinstance(event, SourceEnded)
        self.intake.note(event)

    def _records_read(self, batches: tuple[Batch, ...], now: float) -> list[ClientDecision]:
        for batch in batches:
            self._begun.setdefault(batch.span.partition, batch.span.start)
        return self.intake.take(batches, lambda batch, known: self._answer_records(batch, known, now))

    # --- records whose labels come later -----------------------------------------------------------------------

    def _answer_records(
        self, batch: Batch, known: str | float | None, now: float
    ) -> tuple[Batch, list[ClientDecision]]:
        """Answer records, unless that was done before a restart; `known` is the last label that is known."""
        targets = self.settings.learner.model.link == "identity"
        if batch.answers is not None:
            # Without models the federation may not have begun, and asks for an introduction like the one before.
            had_models = bool((batch.answers.served != (0.0 if targets else NO_LABEL)).any())
            self._was_here |= had_models and self._ledger.last_answered == 0
            return batch, []

        def answers(P: FloatArray, labels: tuple[str, ...]) -> Answered:
            told = answer_of(self.name, batch, P, labels, rule=self.decision, known=known, targets=targets)
            return replace(told, opened=self._ledger.opened)

        def answer(_: float) -> list[ClientDecision]:
            self._learn_joined()
            self._models.begin_round(self._ledger.open_round)
            return [answers(*self._models.answer(batch, self._ledger.opened, late=True))]

        decisions = self._guard(now, answer) if len(batch) else []
        if not any(isinstance(one, Answered) for one in decisions):  # no records, or the models were forged
            decisions.append(answers(np.zeros((len(batch), 0)), ()))
        return next(one.batch for one in decisions if isinstance(one, Answered)), decisions

    def _learn_joined(self) -> None:
        """Learn the round's records that have their labels, before further ones are answered."""
        opened = self._ledger.open_round
        if self.phase is Phase.GATHERING and opened is not None:
            self._within(opened)
            gathering = Gathering(self.settings, self._buffer, opened, most=self._most)
            self._models.learn(opened, gathering.so_far())
        elif self._ledger.opened is None:  # before the first round
            self._models.learn_more(self._buffer.full(self._size()))

    # --- its incarnation ---------------------------------------------------------------------------------------

    def _is_own(self, answer: Joined | Left) -> bool:
        return (answer.client, answer.nonce) == (self.name, self.nonce)

    def _told_place(self, answer: Joined | Fenced) -> list[ClientDecision]:
        """Follow the answer to this start's newest question; what another start is told may make it ask."""
        if isinstance(answer, Fenced):
            return self._take_fence(answer) if self._is_fenced(answer) else []
        if self._is_own(answer):
            return self._follow_joined(answer) if self._ledger.is_answer(answer) else []
        if 0 < self.incarnation <= answer.incarnation:
            self._lose_place()  # the other start joined later, and may have taken this one's place
        return []

    def _told_left(self) -> list[ClientDecision]:
        """Finish; or if it has not sent Leave, but somebody in its name, join again as another start of the client.

        The incarnation that has left stays so, whatever copies of its messages still come.
        """
        if self._leaves:
            self._left = True
            return [Finished()]
        self.nonce = f"{self.nonce.removesuffix(f'+{self._renewals}')}+{self._renewals + 1}"
        self._in_doubt |= self.incarnation > 0
        self._after, self.incarnation = self.incarnation or self._after, 0
        self._renewals += 1
        self._flight.forget()
        self._ledger.lose()
        self._patience = self._patience.may_ask()
        return []

    def _is_fenced(self, fenced: Fenced) -> bool:
        """Tell whether a message answers its last question; it names another incarnation than asked for."""
        asked = (fenced.client, fenced.nonce, fenced.after) == (self.name, self.nonce, self._after)
        return asked and fenced.incarnation != self._after

    def _take_fence(self, fenced: Fenced) -> list[ClientDecision]:
        """Ask again with the present incarnation; end if it is not older than its own: this start was superseded.

        An older one is present again after a kill of a coordinator that had issued its own while candidates were
        scored, when nothing can be saved.
        """
        if 0 < self.incarnation <= fenced.incarnation:
            self._left = self.superseded = True
            return [Finished()]
        self._after, self._patience = fenced.incarnation, self._patience.may_ask()
        return []

    # --- following the ledger ----------------------------------------------------------------------------------

    def _follow_joined(self, joined: Joined) -> list[ClientDecision]:
        """Follow Joined: continue at its positions, and read the records that it lists again."""
        self.incarnation, self._after = joined.incarnation, joined.incarnation - 1
        moved = self._ledger.differs(joined)
        if self._ledger.take(joined):
            self._flight.turn_to(self._ledger.opened)
        again = self._flight.join(joined, moved=moved)
        self._introduced, self._in_doubt = (), False
        self._follow_totals(joined.disclosed, joined.positions)
        decisions: list[ClientDecision] = []
        if moved:
            again_at, needed = self.intake.read_again(joined)
            self._ended = False
            self._models.forget_pending()
            decisions.append(Seek({**self._begun, **joined.positions, **again_at}, needed))
        if self._earlier.differs_from(joined):
            decisions.append(Fetch(self._earlier.await_records(joined)))
        return decisions + [Send(message) for message in again]

    def _follow_totals(self, told: Disclosed | None, positions: Mapping[str, int]) -> None:
        """Follow the ledger with what is known of totals over pending records."""
        self.sending.follow(told, positions)
        self._make_room()

    def _make_room(self) -> None:
        """Read as many more records as are pending of which a total was told."""
        told, most = self.sending.disclosed, self.settings.most_pending
        self._buffer.capacity = most + (0 if told is None else min(told.records, MOST_DISCLOSED * most))

    def _round_opened(self, opened: RoundOpened, now: float) -> list[ClientDecision]:
        """Take an opening, whose `closes` becomes a time on this client's clock."""
        if opened.closes is not None:
            opened = replace(opened, closes=now + opened.closes)
        wrong = unprotected(opened, self.settings)
        if wrong is not None:
            return self._drop(PeerError(wrong))
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
            if closed.records:
                self._adapt(None if sent is None else sent.update.records, in_time=own is not None)
            if own is not None and sent is not None:
                self._accept(own, sent, closed, place)
            if self._ledger.close(closed):
                self._flight.turn_to(self._ledger.opened)

    def _adapt(self, records: int | None, *, in_time: bool) -> None:
        """Send half as many records after an update that came too late, then a quarter or a round's more each time.

        So a backlog of records, with which no client of a busy host would be done in time, teaches all rounds. A
        client whose turn has not come at all (`records` None) sends half of what it has. One that has
        nothing to send has no backlog, and keeps its limit.
        """
        least = self.settings.min_records
        if records is None:
            records = self._buffer.size if self._most is None else 2 * self._most
        if not in_time:
            self._most = max(least, records // 2) if records >= least else self._most
        elif self._most is not None and records >= self._most:
            more = self._most + max(self._most // 4, self._size())
            self._most = more if more < self.settings.most_pending else None

    def _accept(self, own: Accepted, sent: SentUpdate, closed: RoundClosed, place: LedgerPlace) -> None:
        self._patience = self._patience.succeeds()
        self._buffer.drop(own.spans)
        if own.records:
            self._models.release()
        place.move(own)
        self._follow_totals(self.sending.disclosed, place.positions)
        self.intake.follow(place, sent.update)
        self._earlier.accept(sent, own, closed)
        self._measurement.accept(sent)

    def _take_refusal(self, refusal: Refusal) -> list[ClientDecision]:
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
        if self._ledger.question == self._ledger.last_answered:
            self._patience = self._patience.may_ask()

    # --- the next step --------------------------------------------------------------------------------------------

    def _proceed(self, now: float) -> list[ClientDecision]:
        """Take the next step for which everything has arrived."""
        if self._left:
            return []
        decisions: list[ClientDecision] = [*self._measurement.after(self._ledger.opened, self._models)]
        phase = self.phase
        if phase is Phase.LEAVING:
            decisions += self._answer_last()
        if phase is Phase.GATHERING:
            self._was_here = False
            return decisions + self._gather(now)
        if phase is Phase.SCORING and (scores := self._scores()) is not None:
            return [*decisions, Send(scores)]
        return decisions + self._ask(phase, now) if phase.waits else decisions

    def _gather(self, now: float) -> list[ClientDecision]:
        """Close the buffer and send an update, if the round is full or due."""
        opened = self._ledger.open_round
        if opened is None:
            raise BrokenInvariantError("records are gathered, but no round is open")
        self._within(opened)
        gathering = Gathering(self.settings, self._buffer, opened, self.sending.disclosed, self._most)
        taken = gathering.take(
            Occasion(now, is_full=self._is_full(), ended=self._ended, due=self._due, stuck=self.intake.must_move)
        )
        if taken is None:
            return []
        self.late += taken.late
        predicted = self._answer_waiting(opened, taken.waiting)
        attempt = self._attempts + 1
        name = f"{self.incarnation}-{attempt}"
        self.sending.begin(opened)
        sent, told = self._work().update(opened, taken.batches, name, period=taken.period)
        self._flight.sent = replace(sent, resumed=opened.resumed)
        self._attempts, self._due = attempt, False
        self._patience = self._patience.asks("join", now)
        self._release(opened.round)
        return [*predicted, Send(sent.update), *told]

    def _answer_waiting(self, opened: RoundOpened, waiting: tuple[Batch, ...]) -> list[ClientDecision]:
        """Answer records of a round that are too few to be sent: no later round, which knows more, is to do that."""
        if all(batch.answers is not None for batch in waiting if len(batch)):
            return []
        answers, told = self._work().answer(opened, waiting)
        self._buffer.keep(answers)
        return [*told]

    def _answer_last(self) -> list[ClientDecision]:
        """Answer the last records, which are never sent, if anybody measures."""
        opened = self._ledger.open_round
        if not self.settings.measure or opened is None or not self._models.has(opened):
            return []
        return self._answer_waiting(opened, tuple(self._buffer.batches))

    def _take_question(self, asked: Score | Unmask) -> list[ClientDecision]:
        """Keep a Score; tell the seeds of masks if they may be told."""
        if isinstance(asked, Score):
            self._flight.ask(asked)
            return []
        answer = self.sending.seeds(asked, self._flight.sent, self._ledger.open_round)
        self._make_room()
        return [] if answer is None else [Send(answer)]

    def _within(self, opened: RoundOpened) -> None:
        """Reject records whose label the registry cannot take, before they are counted: they do not fill a round."""
        self._buffer.drop_unregistered_names(self._models.published.registry(opened.registry), self.settings.limits)

    def _scores(self) -> Scores | None:
        """Score the candidates on the records of the update, once the candidates have arrived."""
        score, sent, opened = self._flight.score, self._flight.sent, self._ledger.opened
        if score is None or sent is None or opened is None:
            return None
        if opened.entry != sent.update.entry or not self._models.has(score):
            return None
        scores = self._work().scores(opened, score, sent)
        self._flight.sent = replace(sent, scores=scores)
        self._release(opened.round)
        return scores

    def _release(self, t: int) -> None:
        """Count the messages about the records of one round, attempts included: noise hides a record in each."""
        last, count = self._released
        again = last == t or self.sending.disclosed is not None
        self._released = t, (count + 1 if again else 1)
        self.releases = max(self.releases, self._released[1])

    def _work(self) -> Work:
        place = self._ledger.place
        if place is None:
            raise BrokenInvariantError("a client works on a round without a place in the ledger")
        return Work(
            self.settings,
            self._models,
            self._earlier,
            self._measurement,
            place.read,
            self._taken,
            self.intake,
            self.sending,
        )

    def _ask(self, phase: Phase, now: float) -> list[ClientDecision]:
        """Send Leave when all is done, else Join, unless it waits for an answer already."""
        question: Question = "leave" if phase is Phase.LEAVING else "join"
        if self._patience.asked == question:
            return []
        self._patience = self._patience.asks(question, now)
        if question == "join":
            return [Send(self._join())]
        self._leaves = True
        return [Send(Leave(client=self.name, nonce=self.nonce, after=self._after))]

    def _join(self) -> Join:
        """Return a Join; until one is answered, it always describes the same records."""
        if self._introduced is None and self._buffer.size >= self.settings.min_records:
            self._introduced = self._buffer.head(self._first())
        first, question = self._introduced or (), self._ledger.ask()
        return introduction(
            self.name,
            self.nonce,
            self._after,
            first,
            question,
            period=clock_of(self.settings).period_after(first),
            pooled=self.sending.are_sums,
            key=self.sending.key,
        )
