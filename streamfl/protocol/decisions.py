"""Decisions: what a machine asks its runtime to do, in the order given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from streamfl.arrays import FloatArray
from streamfl.protocol.messages import FromClient, FromCoordinator, RoundOpened
from streamfl.protocol.records import Batch, Span


@dataclass(frozen=True, slots=True)
class Send:
    """Client: send a message to the coordinator."""

    message: FromClient


@dataclass(frozen=True, slots=True)
class Seek:
    """Client: continue reading at these positions, by partition; every other partition from its start.

    Parameters
    ----------
    needed
        If labels come later: the positions from which no label may be lacking. What lies before tells which records
        wait; of what the log has deleted nothing waits.
    """

    positions: Mapping[str, int]
    needed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fetch:
    """Client: read these old records again and return them as RecordsFetched."""

    positions: Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """Client: what it answers to records whose labels come later; they are scored as they were answered.

    Parameters
    ----------
    batch
        The records, with `answers`.
    predictions
        Probabilities of `labels`, shape (n, labels), or targets, shape (n, 1); no columns before there are models.
    labels
        The labels; empty in regression.
    opened
        The round whose models answer; None before there are any.
    """

    client: str
    batch: Batch
    predictions: FloatArray
    labels: tuple[str, ...]
    opened: RoundOpened | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Predicted:
    """Client: its predictions of a round's records, for local measurement.

    Parameters
    ----------
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
class OverBudget:
    """Client: its latest updates take more bytes per record than the budget allows, however coarse; they were sent.

    Parameters
    ----------
    client, round
        Those of the last one.
    bytes_per_record
        Their bytes for each good record.
    budget
        The most that they may take.
    """

    client: str
    round: int
    bytes_per_record: float
    budget: float


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
        Its sender; "" if no message is to blame.
    reason
        What is wrong with it, for people.
    is_fault
        Whether no correct client sends such a message; it is then kept as a dead letter. Otherwise it was only late.
    """

    client: str
    reason: str
    is_fault: bool = False

    @property
    def is_late(self) -> bool:
        """Tell whether the message only came too late, as honest clients' messages do."""
        return bool(self.client) and not self.is_fault


@dataclass(frozen=True, slots=True)
class Finished:
    """Client or coordinator: there is nothing left to do, ever."""


ClientDecision = Send | Seek | Fetch | Answered | Predicted | PostUpdate | Dropped | OverBudget | Finished
CoordinatorDecision = Publish | Commit | Refused | Finished
