"""A block of Master-FL: its schedule, its losses so far, and the instances that have begun."""

from dataclasses import dataclass, field

from streamfl.arrays import FloatArray
from streamfl.learning.profiles.paper.schedule import PlacedInstance


@dataclass
class Instance:
    """A placed copy of the base algorithm that has begun: its model, and the rounds in which it was active.

    `records` and `served` are sums over these rounds: of records, and of the loss.
    """

    placement: PlacedInstance
    W: FloatArray
    active_rounds: list[int] = field(default_factory=list)
    records: int = 0
    served: float = 0.0


@dataclass
class Block:
    """2^order rounds with one schedule, and their losses so far. `instances` has at most one for each order."""

    order: int
    start: int
    number: int
    schedule: tuple[PlacedInstance, ...]
    instances: dict[int, Instance] = field(default_factory=dict)
    served: list[float] = field(default_factory=list)
    optimistic: list[float] = field(default_factory=list)
    sampled: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        """Return the block's last round."""
        return self.start + (1 << self.order) - 1
