"""How the federation's own topics are made and kept on Kafka."""

from collections.abc import Mapping
from dataclasses import dataclass

from streamfl.log import control, dead_letters
from streamfl.log.topics import Topics

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


def plans(topics: Topics) -> tuple[TopicPlan, ...]:
    """Return how each should be; the order of control, models and state is one partition's."""
    week = {"cleanup.policy": "delete", "retention.ms": str(7 * DAY)}
    return (
        TopicPlan(topics.control, 1, 1, week, control.MOST),
        TopicPlan(topics.models, 1, 1, COMPACTED),
        TopicPlan(topics.updates, None, 1, {"cleanup.policy": "delete", "retention.ms": str(DAY)}),
        TopicPlan(topics.state, 1, 1, COMPACTED),
        TopicPlan(topics.dead_letters, None, 1, week, dead_letters.WHOLE),
    )
