"""What happens to a machine besides messages; every event comes with the time at which it is handled."""

from dataclasses import dataclass

from streamfl.core.protocol.messages import FromClient, FromCoordinator
from streamfl.core.protocol.records import Batch


@dataclass(frozen=True, slots=True)
class RecordsRead:
    """The client's source gave records, in order."""

    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class RecordsFetched:
    """Old records were read again, for the history sample."""

    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class SourceEnded:
    """No record can ever come again."""


@dataclass(frozen=True, slots=True)
class BufferDue:
    """The open round is to be closed with what there is; a client that has not joined does so."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The machine was told to end cleanly."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: something that was waited for may be due."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """Something arrived in the name of a client, and is no message that can be taken: why."""

    client: str
    reason: str


ClientEvent = RecordsRead | RecordsFetched | SourceEnded | BufferDue | Stopped | Tick | FromCoordinator
CoordinatorEvent = Tick | FromClient | Unusable
