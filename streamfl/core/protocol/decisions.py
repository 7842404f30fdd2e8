"""Decisions: what a machine asks its runtime to do, in the order given."""

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
    """Client: continue reading at these positions, by partition; every other partition from its start."""

    positions: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Fetch:
    """Client: read these old records again and return them as RecordsFetched."""

    positions: Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True, eq=False)
class Predicted:
    """Client: its predictions of a round's records, for local measurement.

    Parameters
    ----------
    client, round, attempt, spans
        Those of the update.
    truth
        The labels or targets, shape (n,), in the order read.
    served
        The predictions made just before each record was learnt.
    at_start
        The predictions of the model with which the round began.
    no_change
        The truth of the record before.
    labels
        Classification: what the numbers above index. In regression they are targets in the unit of the records.
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
    """Client: the predictions of a round's records by the model after that round, shape (n,)."""

    client: str
    round: int
    truth: FloatArray
    predicted: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Dropped:
    """Client: a message of the coordinator, or the work that it caused, failed and was dropped.

    A live client logs it and continues. Where no other process can write to the log it is a defect, and `error` is
    raised.
    """

    client: str
    error: Exception


@dataclass(frozen=True, slots=True)
class Publish:
    """Coordinator: publish messages to all clients, atomically."""

    messages: tuple[FromCoordinator, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """Coordinator: publish messages and save the coordinator state, in one transaction."""

    messages: tuple[FromCoordinator, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """Coordinator: a message does not count.

    Parameters
    ----------
    client
        Its sender.
    reason
        What is wrong with it, for people.
    is_fault
        Whether no correct client sends such a message; it is then kept as a dead letter. Otherwise it was only late.
    """

    client: str
    reason: str
    is_fault: bool = False


@dataclass(frozen=True, slots=True)
class Finished:
    """Client or coordinator: there is nothing left to do, ever."""


ClientDecision = Send | Seek | Fetch | Predicted | PostUpdate | Dropped | Finished
CoordinatorDecision = Publish | Commit | Refused | Finished
