"""Where a coordinator stands: what is saved, what is not, and how it works. The one value that changes."""

from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.errors import PeerError
from streamfl.machines.coordinator.phase import Phase
from streamfl.machines.coordinator.round.clocks import RoundClock, clock_of
from streamfl.machines.coordinator.round.open_round import OpenRound
from streamfl.machines.coordinator.round.unsaved import Unsaved
from streamfl.machines.coordinator.round_kinds.base import RoundKind
from streamfl.machines.coordinator.round_kinds.chosen import round_kind
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings


@dataclass
class Standing:
    """Where a coordinator stands.

    Attributes
    ----------
    kind, clock
        What clients send of a round, and what ends one: each is chosen once, by the settings.
    """

    settings: CoordinatorSettings  # how it works
    state: CoordinatorState  # the state that every Commit saves
    unsaved: Unsaved  # what no Commit saves
    kind: RoundKind = field(init=False)
    clock: RoundClock = field(init=False)

    def __post_init__(self) -> None:
        self.kind, self.clock = round_kind(self.settings), clock_of(self.settings)

    @property
    def phase(self) -> Phase:
        """Return the phase, derived from what is known."""
        if self.unsaved.open is None:
            return Phase.GATHERING if self.state.agreement is None else Phase.STOPPED
        if self.unsaved.enquiry is not None:
            return Phase.ENQUIRING
        return Phase.COLLECTING if self.unsaved.pending_alarm is None else Phase.SCORING

    @property
    def is_scoring(self) -> bool:
        """Tell whether an alarm of the open round waits for scores, or for what has to be asked about these."""
        return self.unsaved.pending_alarm is not None

    @property
    def deadline(self) -> float | None:
        """Return for how many seconds the open round waits for each step; None without limit."""
        least = self.settings.deadline
        return None if least is None else self.unsaved.deadline.seconds(least)

    @property
    def open_round(self) -> OpenRound:
        """Return the open round.

        Raises
        ------
        PeerError
            No round has been opened.
        """
        if self.unsaved.open is None:
            raise PeerError("no round has been opened")
        return self.unsaved.open

    @property
    def untrained(self) -> FloatArray:
        """Return the weights of a model that has learnt nothing, shape (d + 1, columns)."""
        columns = self.settings.learner.model.columns(len(self.state.registry.labels))
        return np.zeros((self.state.registry.rows, columns))

    def drop_other_online_state(self) -> None:
        """Drop a saved state of online models other than the present ones, which then begin with the next round."""
        online, kept = self.settings.learner.online, self.state.online
        self.state.online = None if online is None else online.recognised(kept)
