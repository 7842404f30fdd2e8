"""How a client works."""

from dataclasses import dataclass
from typing import Literal

from streamfl.bounds import NAMED, Limits
from streamfl.learning.local_round import Learner
from streamfl.learning.pooling.masks import FEWEST, Sums
from streamfl.learning.pooling.noise import Noise
from streamfl.machines.client.budget import Budget


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How a client works."""

    learner: Learner  # how to learn; the same for all clients of a federation

    # Records per round with the `records` clock, and the number of first records in Join, which by event time is
    # `min_records` and at least 5. Several numbers are the sizes of rounds 1, 2, .. of a stream that was recorded by
    # rounds; the last one is used from then on.
    round_size: int | tuple[int, ...] = 100

    # `records`: the buffer is closed when it is full. `interval`: at the time that RoundOpened names. `event_time`:
    # when its records reach the end of the period that RoundOpened names, see
    # `streamfl.machines.client.intake.period`.
    clock: Literal["records", "interval", "event_time"] = "records"
    period: float = 60.0  # seconds of a period

    # With fewer good records than this the client sends nothing about them, not even the moments in Join: they stay
    # pending until there are enough. Each client sets it to protect its own records; a smaller round size is raised
    # to it. With 1, sums over a single record may be sent, and the record can be solved for from them.
    min_records: int = 1
    # The most pending records, good and bad; None is twice the round size. At least `min_records`.
    capacity: int | None = None

    # Seconds without an answer after which the client asks for its place in the ledger; the interval doubles each
    # time. After the answer it sends its messages for the open round again.
    retry: float = 5.0

    # How many names the federation registers. Beyond that, records of other labels are rejected and other features
    # left out.
    limits: Limits = NAMED
    measure: bool = False  # whether to report Predicted and PostUpdate, for evaluation in the same process

    # If labels come later: how many positions of features before the watermark, and after the newest record that has
    # its label, a label may find its record in; see `streamfl.machines.client.intake.waiting`. None: records come
    # with their labels.
    window: int | None = None
    # The budget of bytes of updates; None: they take what they take. The same for all clients of a federation.
    budget: Budget | None = None

    # What the coordinator may know of the numbers about this client's records: each of them (`off`), or their sums
    # over all clients, sent in the clear (`pooled`, for comparison) or `masked`. A client takes part in no round that
    # is opened otherwise.
    secure_aggregation: Sums = "off"
    min_clients_per_sum: int = FEWEST  # minimum number of clients in a total of masked sums that it allows
    noise: Noise | None = None  # the noise on sums; None: there is none
    # Whether it waits for others while fewer than these take part; else it leaves, and its records stay pending.
    waits: bool = True

    def size(self, t: int) -> int:
        """Return the number of records in round t; a round that was recorded without records stays so.

        >>> from streamfl.learning.algorithms import FedAvg
        >>> from streamfl.models import Softmax
        >>> ClientSettings(Learner(Softmax(), FedAvg()), round_size=(10, 20)).size(7)
        20
        """
        sizes = self.round_size
        size = sizes if isinstance(sizes, int) else sizes[min(t, len(sizes)) - 1]
        return max(self.min_records, size) if size else 0

    @property
    def most_pending(self) -> int:
        """Return the capacity, or its default."""
        largest = self.round_size if isinstance(self.round_size, int) else max(self.round_size)
        return max(self.min_records, self.capacity or 2 * largest)
