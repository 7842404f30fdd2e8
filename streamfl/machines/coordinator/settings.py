"""How a coordinator works."""

from dataclasses import dataclass

from streamfl.bounds import NAMED, Limits
from streamfl.learning.influence import Secret
from streamfl.learning.local_round import Learner
from streamfl.learning.model import Task
from streamfl.learning.objectives import ACCURACY, Objective
from streamfl.learning.pooling.masks import FEWEST, Expand, Sums
from streamfl.learning.pooling.noise import Noise
from streamfl.machines.coordinator.aggregators import Aggregator


@dataclass(frozen=True, slots=True)
class CoordinatorSettings:
    """How the coordinator works."""

    learner: Learner  # how to learn; the same for all clients of a federation
    min_clients: int  # clients that must have joined before round 1 opens
    quorum: int | None = None  # updates that close a round; None waits for every member

    # Seconds after the opening (or after clients close their buffers) at which a round closes with the updates it
    # has; None waits for the quorum.
    deadline: float | None = None

    # Closed rounds without an update after which a member is no longer waited for, until it sends one; None waits for
    # ever. It matters only if a deadline or a quorum closes rounds without all members.
    expire_after: int | None = None
    interval: float | None = None  # seconds a round lasts with the `interval` clock; None is the `records` clock
    # Whether rounds take the records of one period of event time, of which clients know the length.
    by_event_time: bool = False
    aggregation: Aggregator = "mean"  # how the differences of models that rounds train are combined
    # The records of a client's round with the `records` clock: an update counts as of no more. None: unknown.
    round_size: int | None = None
    task: Task = "classification"  # `classification` or `regression`
    scaling: bool = True  # whether features are standardised
    objective: Objective = ACCURACY  # what answers are to be good at

    # Rounds after which the scaler freezes, and for which it follows features that have moved after a restart; None
    # never freezes.
    warm_up: int | None = 8
    limits: Limits = NAMED  # how many names are registered
    # Patterns of a client's partition, see `wrong_partitions`; without patterns every partition is allowed.
    partitions: tuple[str, ...] = ()

    # Likewise, of the partition of the features of a client whose labels come later, which are then in its partition.
    # Without patterns, but with some of `partitions`, no labels come later.
    features: tuple[str, ...] = ()
    # As of clients, see `ClientSettings`.
    secure_aggregation: Sums = "off"
    min_clients_per_sum: int = FEWEST
    noise: Noise | None = None  # the noise on sums, as clients add it; None: there is none
    # From the seed of a mask, its numbers: see `Secrets.expand`; needed where sums are masked.
    expand: Expand | None = None
    # What bounds on influence are drawn from; None: from the learner's seed, which liars may know.
    secret: Secret | None = None
    alone: bool = False  # whether there is one client, in the same process and for good, which sends no sums
