"""Events other than messages; every event comes with the time at which it is handled."""

from dataclasses import dataclass

from streamfl.protocol.messages import Command, FromClient, FromCoordinator
from streamfl.protocol.records import Batch


@dataclass(frozen=True, slots=True)
class RecordsRead:
    """The client's source returned records, in order."""

    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class RecordsFetched:
    """Old records were read again, for the history sample and the holdout."""

    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class SourceEnded:
    """The client's source has ended: no record will follow."""


@dataclass(frozen=True, slots=True)
class FeaturesEnded:
    """The features of records whose labels come later have ended: only labels may follow."""


@dataclass(frozen=True, slots=True)
class BufferDue:
    """The client is to close its buffer for the open round; a client that has not joined joins."""


@dataclass(frozen=True, slots=True)
class WindowFull:
    """Labels come later, and the next to be read are features beyond the window: an entry has to move it."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The machine is to end cleanly."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: a deadline may be due."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """A message under a client's name could not be decoded; `reason` says why, `signer` who has signed it, if any."""

    client: str
    reason: str
    signer: str = ""


@dataclass(frozen=True, slots=True)
class Signed:
    """A client's message whose signature was checked; `signer` names the key that made it."""

    message: FromClient
    signer: str

    @property
    def client(self) -> str:
        """Return the client in whose name the message is."""
        return self.message.client


@dataclass(frozen=True, slots=True)
class Ordered:
    """An operator's command; `by` names the key that has signed it, empty if nothing is signed."""

    command: Command
    by: str = ""

    @property
    def client(self) -> str:
        """Return the client that it is about."""
        return self.command.client


ClientEvent = (
    RecordsRead
    | RecordsFetched
    | SourceEnded
    | FeaturesEnded
    | BufferDue
    | WindowFull
    | Stopped
    | Tick
    | FromCoordinator
)
CoordinatorEvent = Tick | FromClient | Signed | Unusable | Ordered
