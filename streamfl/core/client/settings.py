"""How a client works."""

from dataclasses import dataclass
from typing import Literal

from streamfl.core.bounds import NAMED, Limits
from streamfl.core.learning.local_round import Learner


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How a client works.

    Parameters
    ----------
    learner
        How to learn; the same in the whole federation.
    round_size
        Records a round with the `records` clock, and the first records that a client introduces itself with. Several
        numbers are the sizes of rounds 1, 2, .. of a stream that was recorded by rounds; the last one goes on.
    clock
        `records`: the buffer is closed when it is full. `interval`: at the time that RoundOpened names.
    least
        Good records below which nothing of a client leaves, not even the moments of its Join: they stay pending until
        there are enough. It is each client's own protection; a smaller round size counts as it. With 1 every record
        may leave alone, and what is told of one record can be solved for it.
    capacity
        Most pending records, good and bad; None is twice the round size. It counts as `least` at least.
    retry
        Seconds without news after which it asks where it stands; twice as many each time it hears nothing new. Upon
        the answer it sends again what it had sent for the open round.
    limits
        How many names the federation registers: once it has so many, records of other labels are rejected, and other
        features left out.
    measure
        Whether to tell Predicted and PostUpdate, for whoever evaluates this client in the same process.
    """

    learner: Learner
    round_size: int | tuple[int, ...] = 100
    clock: Literal["records", "interval"] = "records"
    least: int = 1
    capacity: int | None = None
    retry: float = 5.0
    limits: Limits = NAMED
    measure: bool = False

    def size(self, t: int) -> int:
        """Return the records of round t.

        >>> from streamfl.core.learning.algorithms import FedAvg
        >>> from streamfl.models import Softmax
        >>> ClientSettings(Learner(Softmax(), FedAvg()), round_size=(10, 20)).size(7)
        20
        """
        sizes = self.round_size
        return max(self.least, sizes if isinstance(sizes, int) else sizes[min(t, len(sizes)) - 1])

    @property
    def most_pending(self) -> int:
        """Return the capacity, chosen if it is not given."""
        largest = self.round_size if isinstance(self.round_size, int) else max(self.round_size)
        return max(self.least, self.capacity or 2 * largest)
