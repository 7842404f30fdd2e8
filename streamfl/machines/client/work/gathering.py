"""Which pending records a round takes, and whether it has all of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from streamfl.machines.client.intake.buffer import Buffer
from streamfl.machines.client.settings import ClientSettings
from streamfl.machines.client.work.clocks import BufferClock, Occasion, RoundBatches, clock_of
from streamfl.machines.client.work.disclosure import are_new, repeats
from streamfl.protocol.messages import Disclosed, RoundOpened
from streamfl.protocol.records import Batch


@dataclass(frozen=True)
class Gathering:
    """A client's records for the open round."""

    settings: ClientSettings  # how the client works
    buffer: Buffer  # its pending records
    opened: RoundOpened  # the open round
    disclosed: Disclosed | None = None  # the pending records over which a total was told
    most: int | None = None  # how many further records a round takes at most that a time closes; None: all

    def take(self, occasion: Occasion) -> RoundBatches | None:
        """Return the round's records; None if more may come."""
        clock = self._clock
        if self.disclosed is not None and repeats(self.opened, self.disclosed):
            batches = self.buffer.until(self.disclosed.ends)
            return None if batches is None else clock.again(self.buffer, batches)
        made = clock.take(self.buffer, self._size, occasion)
        if made is None or are_new(made.batches, self.disclosed, self.settings.min_records):
            return made
        return RoundBatches(self.buffer.leading_bad_records(), made.period, waiting=made.waiting)

    def so_far(self) -> Sequence[Batch]:
        """Return the first records of the round, of which more may come."""
        return self._clock.so_far(self.buffer, self._size)

    @property
    def _clock(self) -> BufferClock:
        return clock_of(self.settings, self.opened, None if self.most is None else self.most + self._disclosed)

    @property
    def _size(self) -> int:
        return self.settings.size(self.opened.round) + self._disclosed

    @property
    def _disclosed(self) -> int:
        return 0 if self.disclosed is None else self.disclosed.records
