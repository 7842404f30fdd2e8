"""What a machine asks the world to do, in the order given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streamfl.core.arrays import FloatArray
from streamfl.core.protocol.messages import FromClient, FromCoordinator
from streamfl.core.protocol.records import Span


@dataclass(frozen=True, slots=True)
class Send:
    """Client: send a message to the coordinator."""

    message: FromClient


@dataclass(frozen=True, slots=True)
class Seek:
    """Client: go on reading at these positions, by partition; every other partition from its start."""

    positions: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Fetch:
    """Client: read these old records again, and hand them over as RecordsFetched."""

    positions: Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True, eq=False)
class Predicted:
    """Client: what it predicted of a round's records, for whoever measures or answers locally.

    `served`: just before each record was learnt; `at_start`: by the round's first model; `no_change`: the label
    before. All are indices of `labels`, or targets in their own unit; one entry a record, in the order read.
    """

    client: str
    round: int
    attempt: str
    spans: tuple[Span, ...]
    truth: FloatArray
    served: FloatArray
    at_start: FloatArray
    no_change: FloatArray
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class PostUpdate:
    """Client: what the model after a round predicts of that round's records."""

    client: str
    round: int
    truth: FloatArray
    predicted: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Dropped:
    """Client: something that a coordinator told, or what was done with it, cannot be used, and was forgotten.

    Whoever runs a live client tells it and goes on. Where nobody else can write it is a defect: `error` is raised.
    """

    client: str
    error: Exception


@dataclass(frozen=True, slots=True)
class Publish:
    """Coordinator: tell all clients, atomically."""

    messages: tuple[FromCoordinator, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """Coordinator: tell all clients and save the checkpoint, in one transaction."""

    messages: tuple[FromCoordinator, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """Coordinator: a message does not count, and why.

    `is_fault` tells one that says what no honest client says, and is kept for people to look at, from one that came
    too late.
    """

    client: str
    reason: str
    is_fault: bool = False


@dataclass(frozen=True, slots=True)
class Finished:
    """Either: there is nothing left to do, ever."""


ClientDecision = Send | Seek | Fetch | Predicted | PostUpdate | Dropped | Finished
CoordinatorDecision = Publish | Commit | Refused | Finished
