"""The topics of a federation: their names, how they are kept, and whether those that exist fit."""

from collections.abc import Mapping
from dataclasses import dataclass

from streamfl_connectors.kafka import control, dead_letters

DAY = 24 * 3600 * 1000

# A compacted topic is read from its start by whoever joins: small segments are compacted soon.
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 * 1024 * 1024),
    "segment.ms": str(DAY // 24),
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": str(DAY // 24),
}


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """How one topic should be: `partitions` is None where any number will do, `made_with` what it is created with.

    Messages have up to `part_bytes`, and up to `largest` whatever that is.
    """

    name: str
    partitions: int | None
    made_with: int
    configs: Mapping[str, str]
    largest: int = 0


@dataclass(frozen=True, slots=True)
class Topics:
    """The names of a federation's own topics.

    >>> Topics("forest").updates
    'forest.updates'
    """

    federation: str

    @property
    def control(self) -> str:
        """What the coordinator tells, for everyone to read."""
        return f"{self.federation}.control"

    @property
    def models(self) -> str:
        """Registries and models, by slot."""
        return f"{self.federation}.models"

    @property
    def updates(self) -> str:
        """What clients send, by client."""
        return f"{self.federation}.updates"

    @property
    def state(self) -> str:
        """The coordinator's standing."""
        return f"{self.federation}.state"

    @property
    def dead_letters(self) -> str:
        """Messages that could not be used, as they were."""
        return f"{self.federation}.dead-letter"

    @property
    def coordinator_group(self) -> str:
        """The group under which the coordinator's input offsets are kept."""
        return f"{self.federation}.coordinator"

    @property
    def clients_group(self) -> str:
        """The group that shares the records among hosts."""
        return f"{self.federation}.clients"

    def plans(self) -> tuple[TopicPlan, ...]:
        """Return how each should be; the order of control, models and state is one partition's."""
        week = {"cleanup.policy": "delete", "retention.ms": str(7 * DAY)}
        return (
            TopicPlan(self.control, 1, 1, week, control.MOST),
            TopicPlan(self.models, 1, 1, COMPACTED),
            TopicPlan(self.updates, None, 1, {"cleanup.policy": "delete", "retention.ms": str(DAY)}),
            TopicPlan(self.state, 1, 1, COMPACTED),
            TopicPlan(self.dead_letters, None, 1, week, dead_letters.WHOLE),
        )
