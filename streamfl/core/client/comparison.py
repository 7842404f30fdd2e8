"""The records that a client holds back, ready to be scored by today's model."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfl.core.arrays import BoolArray, IntArray
from streamfl.core.client.held_out import Holdout
from streamfl.core.learning.local_round import RoundRecords
from streamfl.core.protocol.messages import HeldRecord, HoldoutRule
from streamfl.core.protocol.records import Batch
from streamfl.core.protocol.registry import Registry

# Rounds for which a record that is held back is recent, save those of the first rounds, and older records of a label
# from which on recent ones are compared with, too. A label that comes to a client by drift is compared with other
# clients' records, not with what the drift has brought.
RECENT, FIRST, OLDER = 8, 3, 3


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """What is held back, and its design matrix, which is kept because the records hardly change from round to round.

    Parameters
    ----------
    out
        The records.
    design
        The same in registry coordinates; None until it is needed.
    """

    out: Holdout = field(default_factory=Holdout)
    design: RoundRecords | None = None

    def under(self, registry: Registry, since: int) -> "Comparison":
        """Return the records of round `since` and later, with their design under a registry.

        Those of a label that it did not take are let go of.
        """
        out = self.out.since(since).of_labels(registry.labels)
        if out is self.out and self.design is not None and self.design.registry.version == registry.version:
            return self
        return Comparison(out, RoundRecords.of([out.records], registry))

    def settled(self, t: int, since: int) -> RoundRecords | None:
        """Return the design of those that round t is compared with; holding back began in round `since`."""
        if self.design is None:
            return None
        old = (self.out.rounds < t - RECENT) | (self.out.rounds < since + FIRST)
        codes = self.design.y.astype(np.intp) if self.design.labels else np.zeros(len(old), np.intp)
        settled = old | (np.bincount(codes[old], minlength=len(self.design.labels) + 1) >= OLDER)[codes]
        if settled.all():
            return self.design
        return RoundRecords(self.design.registry, self.design.labels, self.design.Z[settled], self.design.y[settled])

    def after(
        self,
        batches: Sequence[Batch],
        records: RoundRecords,
        held: HoldoutRule,
        *,
        t: int,
        first: int,
        seed: int,
        client: str,
    ) -> tuple["Comparison", BoolArray | None]:
        """Return what is held back after round t, and which of its records that is, shape (n,); None for none.

        Parameters
        ----------
        batches, records
            The round's records, as they came and as a design.
        held, t, first, seed, client
            As for `Holdout.after`.
        """
        out = self.out.after(batches, held, t=t, first=first, seed=seed, client=client)
        if out is self.out or self.design is None:
            return Comparison(out, self.design), None
        ordinals = _ordinals(batches, first)
        # Ordinals grow from round to round, so what is held back is a sorted part of all of these: old, then new.
        rows = np.searchsorted(np.concatenate([self.out.ordinals, ordinals]), out.ordinals)
        come = int(np.searchsorted(rows, len(self.out)))
        old, new = rows[:come], rows[come:] - len(self.out)
        design = RoundRecords(
            records.registry,
            records.labels,
            np.concatenate([self.design.Z[old], records.Z[new]]),
            np.concatenate([self.design.y[old], records.y[new]]),
        )
        mine = np.zeros(len(ordinals), np.bool_)
        mine[new] = True
        return Comparison(out, design), mine if len(new) else None

    def changes(self, before: "Comparison") -> tuple[tuple[HeldRecord, ...], tuple[int, ...]]:
        """Return what came to those held back before, and the ordinals of what left."""
        if self.out is before.out or not (len(self.out) or len(before.out)):
            return (), ()
        then, now = before.out.ordinals, self.out.ordinals
        came = np.flatnonzero(~_among(now, then))
        if len(now) - len(came) == len(then):
            return self.out.places(came), ()
        return self.out.places(came), tuple(then[~_among(then, now)].tolist())


def _among(some: IntArray, others: IntArray) -> BoolArray:
    """Tell which of some ordinals are among others, both in order."""
    if not len(others):
        return np.zeros(len(some), np.bool_)
    found: BoolArray = others.take(np.searchsorted(others, some), mode="clip") == some
    return found


def _ordinals(batches: Sequence[Batch], first: int) -> IntArray:
    parts: list[IntArray] = [np.zeros(0, np.int64)]
    for batch in batches:
        parts.append(batch.ordinals(first))
        first += batch.read
    return np.concatenate(parts)
