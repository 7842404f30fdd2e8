"""A round that closes: a frozen value to which each step of closing adds what it has found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from streamfl.learning.drift.evidence import RoundEvidence
from streamfl.learning.drift.spread_baseline import Spread
from streamfl.learning.influence import Influence
from streamfl.machines.coordinator.names import Grant
from streamfl.machines.coordinator.round.aggregation import RoundAggregation
from streamfl.machines.coordinator.round.open_round import OpenRound
from streamfl.protocol.alarm import Reading
from streamfl.protocol.messages import Update
from streamfl.protocol.moments import Moments


@dataclass(frozen=True, eq=False)
class CountedUpdates:
    """What counts of a round's updates."""

    # Those of the clients, in the order of their names, with bounded influence; or one of all clients together.
    updates: tuple[Update, ...] = ()
    # How much of each client's steps counts, from 0 to 1; 1 for a client that is not named.
    shares: Mapping[str, float] = field(default_factory=dict)
    influence: Influence | None = None  # the histories of clients after the round; None if no influence was bounded
    pooled: tuple[str, ...] = ()  # the clients of which `updates` has the total; empty if it has an update of each


@dataclass(frozen=True, eq=False)
class Closing:
    """A round that closes."""

    opened: OpenRound  # the open round
    updates: Mapping[str, Update]  # the accepted updates, by client, in the order of the clients' names
    grant: Grant  # the names that the round may register
    counted: CountedUpdates = field(default_factory=CountedUpdates)  # what counts of the updates
    # What the round has shown; None as long as nothing is counted, or if it has no records.
    observed: RoundEvidence | None = None
    # How contributions to the round are combined, also those of candidates.
    aggregation: RoundAggregation | None = None
    readings: Mapping[str, Reading] = field(default_factory=dict)  # the detectors' readings after the round
    # By client, the moments of features in the form that updates always have; and how far records lie from the
    # middle.
    means: Mapping[str, Moments] = field(default_factory=dict)
    spreads: Mapping[str, Spread] = field(default_factory=dict)
    # The clients whose updates are put off to the next entry, because nothing is learnt in this one; else None.
    excluded: frozenset[str] | None = None

    @cached_property
    def granted_updates(self) -> list[Update]:
        """Return the updates with granted names only."""
        return [self.grant.update(update) for update in self.updates.values()]

    @cached_property
    def senders(self) -> list[Update]:
        """Return the updates that are about records, with granted names only."""
        return [update for update in self.granted_updates if update.records]
