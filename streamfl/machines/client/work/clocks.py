"""The clocks of rounds at a client: what closes its part of a round."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from streamfl.machines.client.intake.buffer import Buffer
from streamfl.machines.client.intake.period import AGREEING, count_before_end, count_late, next_period, periods
from streamfl.machines.client.settings import ClientSettings
from streamfl.protocol.messages import RoundOpened
from streamfl.protocol.records import Batch


@dataclass(frozen=True)
class Occasion:
    """What may close a client's part of a round."""

    now: float  # the time, in seconds
    is_full: bool = False  # whether there are as many records as a round takes, or as there is room for
    ended: bool = False  # whether no records can follow
    due: bool = False  # whether the round is to be closed with the records that are there
    stuck: bool = False  # whether no more come before an entry has moved the watermark: see `Waiting`


@dataclass(frozen=True)
class RoundBatches:
    """The records of a round."""

    batches: tuple[Batch, ...]  # the records
    period: int | None = None  # with rounds by event time, the period of the record after them, if that is known
    late: int = 0  # how many of them were measured in earlier periods
    # The records of the round if they are too few to be sent: they are answered, and wait for more.
    waiting: tuple[Batch, ...] = ()


@dataclass(frozen=True)
class BufferClock(ABC):
    """What closes a client's part of a round."""

    settings: ClientSettings  # how the client works

    # --- before the first round ------------------------------------------------------------------------------------

    def first(self, size: int) -> int:
        """Return how many records Join describes, where a round takes this many."""
        return size

    def joins_with(self, pending: int) -> bool:
        """Tell whether the client joins with this many pending records, though its buffer is not full."""
        return False

    def period_after(self, batches: Sequence[Batch]) -> int | None:
        """Return the period of the next records, given those that follow; None if rounds have no periods."""
        return None

    # --- a round ---------------------------------------------------------------------------------------------------

    @property
    def ends(self) -> float:
        """Return when the round ends, in seconds; infinite if no time ends it."""
        return inf

    @abstractmethod
    def take(self, buffer: Buffer, size: int, occasion: Occasion) -> RoundBatches | None:
        """Return the round's records; None if more may come."""

    @abstractmethod
    def so_far(self, buffer: Buffer, size: int) -> Sequence[Batch]:
        """Return the first records of the round, of which more may come."""

    def _close(self, buffer: Buffer, size: int, *, is_full: bool, by_clock: bool) -> RoundBatches:
        """Return what a closed buffer sends, or what waits because it is too little."""
        few = buffer.size < self.settings.min_records
        waiting = tuple(buffer.batches) if few and not is_full else ()
        return RoundBatches(buffer.closed(size, by_clock=by_clock), waiting=waiting)

    def again(self, buffer: Buffer, batches: tuple[Batch, ...]) -> RoundBatches:
        """Return the first pending records as those of the round, because they were so before."""
        return RoundBatches(batches)


@dataclass(frozen=True)
class ByRecords(BufferClock):
    """A round takes a number of records: each client closes its buffer when it is full."""

    def take(self, buffer: Buffer, size: int, occasion: Occasion) -> RoundBatches | None:
        """Return as many records as a round takes, once they are there."""
        is_over = occasion.ended or occasion.due or occasion.is_full
        return self._close(buffer, size, is_full=occasion.is_full, by_clock=occasion.due) if is_over else None

    def so_far(self, buffer: Buffer, size: int) -> Sequence[Batch]:
        """Return at most as many as a round takes."""
        return buffer.full(size)


@dataclass(frozen=True)
class BySeconds(BufferClock):
    """A round takes what has come until a time, at which all clients close their buffers.

    Parameters
    ----------
    most
        How many records it takes at most, if there are more than can be learnt in time; None: all.
    """

    closes: float = inf
    most: int | None = None

    def joins_with(self, pending: int) -> bool:
        """Join at once: the first round may have no records."""
        return True

    @property
    def ends(self) -> float:
        """Return that time."""
        return self.closes

    def take(self, buffer: Buffer, size: int, occasion: Occasion) -> RoundBatches | None:
        """Return all records, or as many as can be learnt in time, when it is time."""
        if not (occasion.ended or occasion.due or occasion.now >= self.closes):
            return None
        n = size if self.most is None else self.most
        return self._close(buffer, n, is_full=occasion.is_full, by_clock=self.most is None)

    def so_far(self, buffer: Buffer, size: int) -> Sequence[Batch]:
        """Return all records, or as many as the round takes."""
        return buffer.batches if self.most is None else buffer.full(self.most)


@dataclass(frozen=True)
class ByEventTime(BufferClock):
    """A round takes the records of one period of event time: see `streamfl.machines.client.intake.period`."""

    period: int = 0

    def first(self, size: int) -> int:
        """Return how many records tell the period."""
        return max(self.settings.min_records, AGREEING)

    def joins_with(self, pending: int) -> bool:
        """Join with as many records as tell the period."""
        return pending >= self.first(0)

    def period_after(self, batches: Sequence[Batch]) -> int | None:
        """Return the period of the first records."""
        return next_period(periods(batches, self.settings.period))

    def take(self, buffer: Buffer, size: int, occasion: Occasion) -> RoundBatches | None:
        """Return the records before the end of the period, once it is known."""
        of = periods(buffer.batches, self.settings.period)
        is_over = occasion.ended or occasion.due or occasion.stuck or not buffer.room
        n = count_before_end(of, self.period, ended=is_over)
        if n is None:
            return None
        if n < self.settings.min_records:  # too few to be sent: they wait for more
            return RoundBatches(buffer.leading_bad_records(), next_period(of[n:]), waiting=buffer.head(n))
        return RoundBatches(buffer.head(n), next_period(of[n:]), count_late(of[:n], self.period))

    def so_far(self, buffer: Buffer, size: int) -> Sequence[Batch]:
        """Return the records before the first one of a later period."""
        later = np.flatnonzero(periods(buffer.batches, self.settings.period) > self.period)
        return buffer.head(int(later[0])) if len(later) else buffer.batches

    def again(self, buffer: Buffer, batches: tuple[Batch, ...]) -> RoundBatches:
        """Return them with the period of the record after them."""
        of, n = periods(buffer.batches, self.settings.period), sum(map(len, batches))
        return RoundBatches(batches, next_period(of[n:]), count_late(of[:n], self.period))


CLOCKS: dict[str, type[BufferClock]] = {"records": ByRecords, "interval": BySeconds, "event_time": ByEventTime}


def clock_of(settings: ClientSettings, opened: RoundOpened | None = None, most: int | None = None) -> BufferClock:
    """Return the clock of an open round, or before the first one that of the settings; `most` as for `BySeconds`."""
    if opened is None:
        return CLOCKS[settings.clock](settings)
    if opened.period is not None:
        return ByEventTime(settings, opened.period)
    return ByRecords(settings) if opened.closes is None else BySeconds(settings, opened.closes, most)
