"""The state of a client, and what follows from it alone: its phase, when it wakes, how many records it can take."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from streamfl.core.client.buffer import Buffer
from streamfl.core.client.earlier_rounds import EarlierRounds
from streamfl.core.client.in_flight import InFlight
from streamfl.core.client.known_ledger import KnownLedger
from streamfl.core.client.measurement import Measurement
from streamfl.core.client.models import Models
from streamfl.core.client.patience import Patience
from streamfl.core.client.phase import Phase
from streamfl.core.client.settings import ClientSettings
from streamfl.core.learning.between_rounds import AtClient
from streamfl.core.protocol.records import Batch


@dataclass
class ClientState:
    """The state of a client: see `Client` for the parameters."""

    settings: ClientSettings
    name: str
    incarnation: str
    dropped: int = 0
    evicted: str = ""
    _buffer: Buffer = field(init=False)
    _models: Models = field(init=False)
    _measurement: Measurement = field(init=False)
    _patience: Patience = field(init=False)
    _ledger: KnownLedger = field(default_factory=KnownLedger)
    _earlier: EarlierRounds = field(default_factory=EarlierRounds)
    _flight: InFlight = field(default_factory=InFlight)
    _begun: dict[str, int] = field(default_factory=dict)  # the first position read of each partition
    _introduced: tuple[Batch, ...] | None = None
    _attempts: int = 0
    _ended: bool = False
    _due: bool = False
    _stopped: bool = False
    _leaves: bool = False  # it has sent Leave
    _left: bool = False

    def __post_init__(self) -> None:
        self._buffer = Buffer(self.settings.most_pending, self.settings.least)
        self._models = Models(self.name, self.settings.learner)
        self._measurement = Measurement(self.settings.measure)
        self._patience = Patience(self.settings.retry)

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
        may_work = opened is not None and opened.entry != self._flight.refused and self._models.has(opened)
        return Phase.GATHERING if may_work else Phase.WAITING

    @property
    def room(self) -> int:
        """Return how many more records may be polled."""
        return 0 if self._stopped or self._left else self._buffer.room

    @property
    def pending(self) -> int:
        """Count the records read and not yet accepted or rejected by the ledger."""
        return self._buffer.pending

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
    def held_back(self) -> Batch:
        """Return the held-out records."""
        return self._earlier.comparison.holdout.records

    @property
    def between_rounds(self) -> AtClient | None:
        """Return the models that learn between rounds; None if there are none."""
        return self._models.between

    @property
    def wakes_at(self) -> float | None:
        """Return when the client wants a Tick, if no event comes first; None if it waits for records alone."""
        phase = self.phase
        if phase is Phase.LEFT:
            return None
        if phase.waits:
            return self._patience.ends
        opened = self._ledger.opened
        return None if opened is None or opened.closes is None else min(opened.closes, self._patience.ends_at_last)

    # --- what the phase is derived from ------------------------------------------------------------------------

    def _is_done(self) -> bool:
        """Tell whether the client has nothing left to send and may leave."""
        if self._stopped:
            return self._flight.sent is None
        is_empty = self._ended and not self._buffer.has_sendable and self._flight.sent is None
        return is_empty and self._ledger.place is not None

    def _has_to_join(self) -> bool:
        """Tell whether the client has the records for Join, or cannot wait for them."""
        by_clock = self.settings.clock == "interval"
        return self._is_full() or self._ended or self._due or self._stopped or by_clock

    def _is_full(self) -> bool:
        return self._buffer.size >= self._size() or self._buffer.room == 0

    def _size(self) -> int:
        return self.settings.size(self._ledger.opened.round if self._ledger.opened else 1)
