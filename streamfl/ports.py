"""What the machines need from the world: records, a link to the other side, time."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from streamfl.core.coordinator import Standing
from streamfl.core.messages import FromClient, FromCoordinator
from streamfl.core.records import Batch


class Source(Protocol):
    """The records of one client, in order, one or more partitions."""

    def poll(self, limit: int) -> Sequence[Batch]:
        """Return the next records, at most `limit` good and bad ones; empty when none are there now."""
        ...

    @property
    def ended(self) -> bool:
        """Whether no record can ever come again (a file read to its end; never a topic)."""
        ...

    def seek(self, positions: Mapping[str, int]) -> None:
        """Go on reading each named partition at its position; the others where they are."""
        ...

    def fetch(self, positions: Mapping[str, Sequence[int]]) -> Sequence[Batch]:
        """Read single old records again, one batch a partition, without moving; what is gone is left out."""
        ...


class ClientLink(Protocol):
    """A client's way to the coordinator and back."""

    def send(self, message: FromClient) -> None:
        """Send to the coordinator."""
        ...

    def receive(self) -> Sequence[FromCoordinator]:
        """Return the messages that have arrived, in the order of each topic."""
        ...


class CoordinatorLink(Protocol):
    """The coordinator's way to all clients and back, and its memory."""

    def publish(self, messages: Sequence[FromCoordinator]) -> None:
        """Tell all clients, all or nothing."""
        ...

    def commit(self, messages: Sequence[FromCoordinator], standing: Standing) -> None:
        """Tell all clients and save the standing, all or nothing."""
        ...

    def receive(self) -> Sequence[FromClient]:
        """Return the messages that have arrived."""
        ...

    def restore(self) -> Standing | None:
        """Return the standing that was committed last, if any."""
        ...


class Clock(Protocol):
    """Time, in seconds."""

    def now(self) -> float:
        """Return the time."""
        ...

    def sleep_until(self, time: float) -> None:
        """Return when it is that time."""
        ...
