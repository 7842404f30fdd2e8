"""How a coordinator works."""

from dataclasses import dataclass

from streamfl.bounds import NAMED, Limits
from streamfl.learning.influence import Secret
from streamfl.learning.local_round import Learner
from streamfl.learning.model import Task
from streamfl.learning.pooling.masks import FEWEST, Expand, Sums
from streamfl.learning.pooling.noise import Noise
from streamfl.machines.coordinator.aggregators import Aggregator


@dataclass(frozen=True, slots=True)
class CoordinatorSettings:
    """How the coordinator works.

    Parameters
    ----------
    learner
        How to learn; the same for all clients of a federation.
    min_clients
        Clients that must have joined before round 1 opens.
    quorum
        Updates that close a round; None waits for every member.
    deadline
        Seconds after the opening (or after clients close their buffers) at which a round closes with the updates it
        has; None waits for the quorum.
    expire_after
        Closed rounds without an update after which a member is no longer waited for, until it sends one; None waits
        for ever. It matters only if a deadline or a quorum closes rounds without all members.
    interval
        Seconds a round lasts with the `interval` clock; None is the `records` clock.
    by_event_time
        Whether rounds take the records of one period of event time, of which clients know the length.
    aggregation
        How the differences of models that rounds train are combined.
    round_size
        The records of a client's round with the `records` clock: an update counts as of no more. None: unknown.
    task
        `classification` or `regression`.
    scaling
        Whether features are standardised.
    warm_up
        Rounds after which the scaler freezes, and for which it follows features that have moved after a restart; None
        never freezes.
    limits
        How many names are registered.
    partitions
        Patterns of a client's partition, see `wrong_partitions`; without patterns every partition is allowed.
    features
        Likewise, of the partition of the features of a client whose labels come later, which are then in
        its partition. Without patterns, but with some of `partitions`, no labels come later.
    secure_aggregation, min_clients_per_sum
        As of clients, see `ClientSettings`.
    noise
        The noise on sums, as clients add it; None: there is none.
    expand
        From the seed of a mask, its numbers: see `Secrets.expand`; needed where sums are masked.
    secret
        What bounds on influence are drawn from; None: from the learner's seed, which liars may know.
    alone
        Whether there is one client, in the same process and for good, which sends no sums.
    """

    learner: Learner
    min_clients: int
    quorum: int | None = None
    deadline: float | None = None
    expire_after: int | None = None
    interval: float | None = None
    by_event_time: bool = False
    aggregation: Aggregator = "mean"
    round_size: int | None = None
    task: Task = "classification"
    scaling: bool = True
    warm_up: int | None = 8
    limits: Limits = NAMED
    partitions: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    secure_aggregation: Sums = "off"
    min_clients_per_sum: int = FEWEST
    noise: Noise | None = None
    expand: Expand | None = None
    secret: Secret | None = None
    alone: bool = False
