"""Which pending records a round takes, and whether it has all of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamfl.machines.client.intake.buffer import Buffer
from streamfl.machines.client.intake.period import late, next_period, periods, reached
from streamfl.machines.client.settings import ClientSettings
from streamfl.machines.client.work.disclosure import are_new, repeats
from streamfl.protocol.messages import Disclosed, RoundOpened
from streamfl.protocol.records import Batch


@dataclass(frozen=True)
class Gathered:
    """The records of a round.

    Parameters
    ----------
    batches
        The records.
    period
        With rounds by event time, the period of the record after them, if that is known.
    late
        How many of them were measured in earlier periods.
    waiting
        The records of the round if they are too few to be sent: they are answered, and wait for more.
    """

    batches: tuple[Batch, ...]
    period: int | None = None
    late: int = 0
    waiting: tuple[Batch, ...] = ()


@dataclass(frozen=True)
class Gathering:
    """A client's records for the open round.

    Parameters
    ----------
    settings
        How the client works.
    buffer
        Its pending records.
    opened
        The open round.
    disclosed
        The pending records over which a total was told.
    """

    settings: ClientSettings
    buffer: Buffer
    opened: RoundOpened
    disclosed: Disclosed | None = None

    def gathered(self, now: float, *, is_full: bool, ended: bool, due: bool, stuck: bool = False) -> Gathered | None:
        """Return the round's records; None if more may come.

        Parameters
        ----------
        now
            The time, in seconds.
        is_full
            Whether there are as many as a round takes, or as there is room for.
        ended
            Whether no records can follow.
        due
            Whether the round is to be closed with the records that are there.
        stuck
            Whether no more come before an entry has moved the watermark: see `Waiting`.
        """
        if self.disclosed is not None and repeats(self.opened, self.disclosed):
            return self._again(self.disclosed)
        made = self._gathered(now, is_full=is_full, ended=ended, due=due, stuck=stuck)
        if made is None or are_new(made.batches, self.disclosed, self.settings.min_records):
            return made
        return Gathered(self.buffer.leading(), made.period, waiting=made.waiting)

    def _again(self, disclosed: Disclosed) -> Gathered | None:
        """Return the same records as before."""
        batches = self.buffer.until(disclosed.ends)
        if batches is None or self.opened.period is None:
            return None if batches is None else Gathered(batches)
        of, n = periods(self.buffer.batches, self.settings.period), sum(map(len, batches))
        return Gathered(batches, next_period(of[n:]), late(of[:n], self.opened.period))

    def _gathered(self, now: float, *, is_full: bool, ended: bool, due: bool, stuck: bool) -> Gathered | None:
        opened = self.opened
        if opened.period is not None:
            return self._of_period(opened.period, ends=ended or due or stuck or not self.buffer.room)
        if not (ended or due or (is_full if opened.closes is None else now >= opened.closes)):
            return None
        few = self.buffer.size < self.settings.min_records
        waiting = tuple(self.buffer.batches) if few and not is_full else ()
        return Gathered(self.buffer.closed(self._size, by_clock=opened.closes is not None or due), waiting=waiting)

    def _of_period(self, period: int, *, ends: bool) -> Gathered | None:
        of = periods(self.buffer.batches, self.settings.period)
        n = reached(of, period, ended=ends)
        if n is None:
            return None
        if n < self.settings.min_records:  # too few to be sent: they wait for more
            return Gathered(self.buffer.leading(), next_period(of[n:]), waiting=self.buffer.head(n))
        return Gathered(self.buffer.head(n), next_period(of[n:]), late(of[:n], period))

    def so_far(self) -> Sequence[Batch]:
        """Return the first records of the round, of which more may come."""
        opened = self.opened
        if opened.period is not None:
            later = np.flatnonzero(periods(self.buffer.batches, self.settings.period) > opened.period)
            return self.buffer.head(int(later[0])) if len(later) else self.buffer.batches
        return self.buffer.batches if opened.closes is not None else self.buffer.full(self._size)

    @property
    def _size(self) -> int:
        return self.settings.size(self.opened.round) + (0 if self.disclosed is None else self.disclosed.records)
