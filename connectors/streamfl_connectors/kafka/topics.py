"""How the federation's own topics are configured on Kafka."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from streamfl.runtime.log import commands, control, dead_letters
from streamfl.runtime.log.topics import Topics

DAY = 24 * 3600 * 1000

WEEK = {"cleanup.policy": "delete", "retention.ms": str(7 * DAY)}

# The most bytes of a repartitioned message: topics of records may take more than the megabyte of Kafka's default.
REPARTITIONED_BYTES = 8 * 1024 * 1024

# Nobody reads old heartbeats.
MINUTES = {"cleanup.policy": "delete", "retention.ms": str(DAY // 288), "segment.ms": str(DAY // 288)}

# The broker's clock dates messages, and nobody reads the dates but people and the retention: a process whose clock is
# hours ahead would be refused, or keep its messages for too long.
STAMPED = {"message.timestamp.type": "LogAppendTime"}

# Every process that joins reads a compacted topic from its start: small segments are compacted soon.
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 * 1024 * 1024),
    "segment.ms": str(DAY // 24),
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": str(DAY // 24),
}


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """The wanted configuration of a topic."""

    name: str
    partitions: int | None  # the number of partitions; None if any number will do
    made_with: int  # the number of partitions with which it is made
    configs: Mapping[str, str]  # its settings
    largest: int = 0  # the most bytes of a message, if that is more than `part_bytes`


def repartitioned(topics: Topics, partitions: int, *, with_labels: bool) -> tuple[TopicPlan, ...]:
    """Return the wanted configurations of repartitioned records and labels; times are those of the broker's clock."""
    names = (topics.client_records, *((topics.client_labels,) if with_labels else ()))
    configs = WEEK | STAMPED | {"max.message.bytes": str(REPARTITIONED_BYTES)}
    return tuple(TopicPlan(name, None, partitions, configs) for name in names)


def plans(topics: Topics) -> tuple[TopicPlan, ...]:
    """Return the wanted configurations; control, models and state need an order, so they have one partition."""
    # Entries of the ledger are JSON for people, and every client reads them: the broker compresses them.
    zipped = {"compression.type": "gzip"}
    own = (
        TopicPlan(topics.control, 1, 1, WEEK | zipped, control.MOST),
        TopicPlan(topics.models, 1, 1, COMPACTED),
        TopicPlan(topics.updates, None, 1, {"cleanup.policy": "delete", "retention.ms": str(DAY)}),
        TopicPlan(topics.commands, 1, 1, WEEK, commands.MOST),
        TopicPlan(topics.heartbeats, 1, 1, MINUTES),
        TopicPlan(topics.state, 1, 1, COMPACTED),
        TopicPlan(topics.dead_letters, None, 1, WEEK, dead_letters.WHOLE),
    )
    return tuple(replace(plan, configs={**plan.configs, **STAMPED}) for plan in own)
