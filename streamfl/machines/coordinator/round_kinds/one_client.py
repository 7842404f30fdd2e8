"""Rounds of a federation of one: what the client sends counts as it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from streamfl.machines.coordinator.round.closing import Closing, CountedUpdates
from streamfl.machines.coordinator.round.unsaved import Enquiry, PendingAlarm
from streamfl.machines.coordinator.round_kinds.base import RoundKind
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.messages import Scores, Update
from streamfl.protocol.registry import Registry


@dataclass(frozen=True)
class OneClient(RoundKind):
    """There is one client, in the same process and for good: nobody is protected from it, and nothing made small."""

    on_grids: ClassVar[bool] = False

    def count(self, closing: Closing, state: CoordinatorState) -> CountedUpdates:
        """Return the update of the client."""
        return CountedUpdates(tuple(closing.granted_updates))

    def count_scores(
        self, alarm: PendingAlarm, scores: Mapping[str, Scores], enquiry: Enquiry | None, registry: Registry
    ) -> Sequence[tuple[Update, Scores]]:
        """Return the scores of the client."""
        sent = alarm.closing.counted.updates
        return [(update, scores[update.client]) for update in sent if update.client in scores]
