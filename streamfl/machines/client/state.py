"""The state of a client, and what follows from it alone: its phase, when it wakes, how many records it can take."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

import numpy as np

from streamfl.learning.online_models import AtClient
from streamfl.learning.pooling.masks import Secrets
from streamfl.learning.serving import Serving
from streamfl.machines.client.budget import SentSizes
from streamfl.machines.client.intake.buffer import Buffer
from streamfl.machines.client.intake.intake import Intake, intake
from streamfl.machines.client.intake.period import periods
from streamfl.machines.client.ledger.known_ledger import KnownLedger
from streamfl.machines.client.ledger.models import ClientModels
from streamfl.machines.client.patience import Patience
from streamfl.machines.client.phase import Phase
from streamfl.machines.client.settings import ClientSettings
from streamfl.machines.client.work.clocks import clock_of
from streamfl.machines.client.work.disclosure import are_new, repeats
from streamfl.machines.client.work.earlier_rounds import EarlierRounds
from streamfl.machines.client.work.in_flight import InFlight
from streamfl.machines.client.work.measurement import Measurement
from streamfl.machines.client.work.sending import PlainNumbers, sending
from streamfl.protocol.messages import RoundOpened
from streamfl.protocol.messages.decision_rule import LIKELIEST, DecisionRule
from streamfl.protocol.records import Batch


@dataclass
class ClientState:
    """The state of a client: see `Client` for the parameters."""

    settings: ClientSettings
    name: str
    nonce: str
    secrets: Secrets | None = None
    incarnation: int = 0
    dropped: int = 0
    late: int = 0
    releases: int = 0
    evicted: str = ""
    superseded: bool = False
    intake: Intake = field(init=False)
    sending: PlainNumbers = field(init=False)
    _buffer: Buffer = field(init=False)
    _models: ClientModels = field(init=False)
    _measurement: Measurement = field(init=False)
    _patience: Patience = field(init=False)
    _ledger: KnownLedger = field(default_factory=KnownLedger)
    _earlier: EarlierRounds = field(default_factory=EarlierRounds)
    _flight: InFlight = field(default_factory=InFlight)
    _released: tuple[int, int] = (0, 0)  # a round, and the messages about its records
    _begun: dict[str, int] = field(default_factory=dict)  # the first position read of each partition
    _introduced: tuple[Batch, ...] | None = None
    _taken: SentSizes = field(default_factory=SentSizes)
    _after: int = 0  # the incarnation whose place it takes
    _renewals: int = 0  # how often it was told that it had left, which it had not asked for
    _attempts: int = 0
    _most: int | None = None  # the most records of an update that a time closes, since a larger one came too late
    _ended: bool = False
    _due: bool = False
    _stopped: bool = False
    _leaves: bool = False  # it has sent Leave
    _in_doubt: bool = False  # the coordinator is said to have ended, or that this has left; it has not answered since
    _left: bool = False
    _was_here: bool = False  # an earlier start has answered by models, and those of this round are not here yet

    def __post_init__(self) -> None:
        self._buffer = Buffer(self.settings.most_pending, self.settings.min_records)
        self.sending = sending(self.settings, self.name, self.secrets)
        self._models = ClientModels(self.name, self.settings.learner)
        self._measurement = Measurement(self.settings.measure)
        self._patience = Patience(self.settings.retry)
        self.intake = intake(self._buffer, window=self.settings.window, by_size=self.settings.clock == "records")

    # --- what follows from it ----------------------------------------------------------------------------------

    @property
    def phase(self) -> Phase:
        """Return the phase: see `Phase`. The order of these conditions defines the phases."""
        if self._left:
            return Phase.LEFT
        if self._is_done():
            return Phase.LEAVING
        if self._ledger.place is None:
            return Phase.JOINING if self._has_to_join() else Phase.FILLING
        if self._flight.sent is not None:
            return Phase.SCORING if self._flight.is_to_score else Phase.SENT
        if self._earlier.awaited is not None:
            return Phase.RESTORING
        opened = self._ledger.open_round
        if opened is None or opened.entry == self._flight.refused or not self._models.has(opened):
            return Phase.WAITING
        return Phase.GATHERING if self.sending.may_work(opened) else Phase.WAITING

    @property
    def room(self) -> int:
        """Return how many more records may be polled."""
        return 0 if self._stopped or self._left else self.intake.room(self._size)

    @property
    def features_room(self) -> int:
        """Return how many more positions of features may be read, if labels come later."""
        if self._left or self._was_here:
            return 0  # records that it has not answered yet wait for the models, which an earlier start has had
        return self.intake.features_room

    @property
    def pending(self) -> int:
        """Count the records, or labels, that were read and not yet accepted or rejected by the ledger."""
        return self._buffer.pending + self.intake.queued

    @property
    def answered(self) -> int:
        """Count the pending records that were answered where they are, because they were too few to be sent."""
        return self._buffer.answered_early

    @property
    def over_budget(self) -> int:
        """Count the updates after which the latest ones had taken more bytes than their budgets."""
        return self._taken.over

    @property
    def made_coarser(self) -> int:
        """Count the updates that were rounded more coarsely than without a budget."""
        return self._taken.coarser

    @property
    def expired(self) -> int:
        """Count the records that were written off, because no label came in time, as the ledger says."""
        place = self._ledger.place
        return 0 if place is None or place.watermark is None else place.watermark.expired

    @property
    def unpaired(self) -> tuple[int, int, int]:
        """Count the labels that the ledger has rejected because they had no record; see `Watermark.released`."""
        place = self._ledger.place
        return (0, 0, 0) if place is None or place.watermark is None else place.watermark.released

    @property
    def entry(self) -> int:
        """Return the entry that was opened last, 0 before the first."""
        opened = self._ledger.opened
        return 0 if opened is None else opened.entry

    @property
    def has_too_few_peers(self) -> bool:
        """Tell whether it has left because too few clients take part for their sums to be masked."""
        return self._left and self._is_alone()

    @property
    def accounted(self) -> int | None:
        """Return how many records the ledger has accepted or rejected; None while the place is unknown."""
        return None if self._ledger.place is None else self._ledger.place.read

    @property
    def rejected(self) -> int:
        """Count the bad records among those accounted for."""
        return 0 if self._ledger.place is None else self._ledger.place.rejected

    @property
    def positions(self) -> Mapping[str, int]:
        """Return the ledger's next position by partition, as far as known; earlier records are accounted for."""
        return {} if self._ledger.place is None else dict(self._ledger.place.positions)

    @property
    def needed(self) -> Mapping[str, int]:
        """Return the position by partition before which nothing is needed, as far as known: it may be forgotten."""
        place = self._ledger.place
        return {} if place is None else self.intake.needed(place)

    @property
    def held_back(self) -> Batch:
        """Return the held-out records."""
        return self._earlier.comparison.holdout.records

    @property
    def online_models(self) -> AtClient | None:
        """Return the online models; None if there are none."""
        return self._models.online

    def serving(self) -> Serving | None:
        """Return the model of rounds with which the client predicts now; None in the first round.

        Its online models continue from the same round.
        """
        self._models.begin_round(self._ledger.open_round)
        return self._models.serving(self._ledger.opened)

    @property
    def decision(self) -> DecisionRule:
        """Return which label answers in the open round; the likeliest if none is known."""
        opened = self._ledger.opened
        return LIKELIEST if opened is None else opened.decision

    @property
    def features(self) -> tuple[str, ...]:
        """Return the features of the pending records, in order of appearance."""
        return tuple(dict.fromkeys(name for batch in self._buffer.batches for name in batch.features))

    @property
    def registered(self) -> tuple[str, ...]:
        """Return the features that all know in the open round; empty until its models have arrived."""
        opened = self._ledger.opened
        if opened is None or not self._models.has(opened):
            return ()
        return self._models.published.registry(opened.registry).features

    def serving_all(self) -> Serving | None:
        """Return the model of rounds of the clients without a branch; None in the first round."""
        own = self.serving()
        return None if own is None else self._models.serving_all(own.opened)

    @property
    def wakes_at(self) -> float | None:
        """Return when the client wants a Tick, if no event comes first; None if it waits for records alone."""
        phase = self.phase
        if phase is Phase.LEFT:
            return None
        if phase.waits:
            return self._patience.ends
        opened = self._ledger.opened
        ends = inf if opened is None else clock_of(self.settings, opened).ends
        return None if ends == inf else min(ends, self._patience.ends_at_last)

    # --- what the phase is derived from ------------------------------------------------------------------------

    def _is_alone(self) -> bool:
        """Tell whether too few clients take part: then nothing can be sent."""
        opened = self._ledger.open_round
        return opened is not None and self.sending.has_too_few_peers(opened)

    def _is_done(self) -> bool:
        """Tell whether the client has nothing left to send and may leave."""
        if self._stopped:
            return self._flight.sent is None
        if self._ledger.place is None or self._flight.sent is not None:
            return False
        if self._is_alone():
            return self._ended or not self.settings.waits
        return self._ended and not (self._has_sendable() or self.intake.queued or self._has_to_answer())

    def _has_to_answer(self) -> bool:
        """Tell whether it stays for its last records, which are too few to be sent, until it has answered them.

        By event time they are answered in the rounds of their periods, else in the next round.
        """
        opened = self._ledger.open_round
        if self.settings.clock == "event_time":
            return bool(self._buffer.unanswered) or self._has_later(self._ledger.opened)
        waits = opened is None or not self._models.has(opened)
        return self.settings.measure and bool(self._buffer.unanswered) and waits

    def _has_later(self, opened: RoundOpened | None) -> bool:
        """Tell whether records that have been answered, as their labels came later, are of a later period."""
        of = periods(self._buffer.batches, self.settings.period)
        return bool((of > -np.inf if opened is None or opened.period is None else of > opened.period).any())

    def _has_sendable(self) -> bool:
        """Tell whether an update can be sent, or its total may be asked for again."""
        opened, told = self._ledger.open_round, self.sending.disclosed
        if opened is None or told is None or repeats(opened, told):
            return self._buffer.has_sendable
        is_new = are_new(self._buffer.batches, told, self.settings.min_records)
        return self._buffer.has_sendable and (
            is_new or any(batch.read for batch in self._buffer.leading_bad_records())
        )

    def _has_to_join(self) -> bool:
        """Tell whether the client has the records for Join, or cannot wait for them."""
        cannot_wait = self._ended or self._due or self._stopped or self._in_doubt or self._was_here
        return self._is_full() or cannot_wait or clock_of(self.settings).joins_with(self._buffer.size)

    def _first(self) -> int:
        """Return how many records Join describes: those it waits for, as nobody knows how many others are here."""
        return clock_of(self.settings).first(self._size())

    def _is_full(self) -> bool:
        return self._buffer.size >= self._size() or self._buffer.room == 0 or self.intake.must_move

    def _size(self) -> int:
        opened, told = self._ledger.opened, self.sending.disclosed
        size = self.settings.size(opened.round if opened else 1)
        return size if told is None or (opened and repeats(opened, told)) else size + told.records
