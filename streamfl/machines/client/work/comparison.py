"""Held-out records of earlier rounds, ready to be scored with the current model."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamfl.arrays import BoolArray, IntArray
from streamfl.learning.local_round import RoundRecords
from streamfl.machines.client.work.held_out import Holdout
from streamfl.protocol.messages import HeldRecord, HoldoutRule
from streamfl.protocol.records import Batch
from streamfl.protocol.registry import Registry

# A held-out record counts as recent for RECENT rounds, unless it is from the FIRST rounds. Recent records of a label
# are compared with only if the client holds at least OLDER older ones of it. So a label that a drift brings to a
# client is compared with records of other clients, not with the records after the drift.
RECENT, FIRST, OLDER = 8, 3, 3

_NOTHING = Holdout()


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Held-out records and their design matrix, which is cached: the records hardly change from round to round."""

    holdout: Holdout = _NOTHING  # the records
    design: RoundRecords | None = None  # the same in registry coordinates; None until it is needed

    def under(self, registry: Registry, since: int) -> "Comparison":
        """Return the records of round `since` and later, with their design under a registry.

        Records of labels that the registry does not have are dropped.
        """
        holdout = self.holdout.since(since).of_labels(registry.labels)
        if holdout is self.holdout and self.design is not None and self.design.registry.version == registry.version:
            return self
        return Comparison(holdout, RoundRecords.of([holdout.records], registry))

    def settle(self, t: int, since: int) -> RoundRecords | None:
        """Return the design of the records that round t is compared with; the holdout began in round `since`."""
        if self.design is None:
            return None
        old = (self.holdout.rounds < t - RECENT) | (self.holdout.rounds < since + FIRST)
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
        """Return the holdout after round t, and a mask of the round's records in it, shape (n,); None for none."""
        holdout = self.holdout.after(batches, held, t=t, first=first, seed=seed, client=client)
        if holdout is self.holdout or self.design is None:
            return Comparison(holdout, self.design), None
        ordinals = _ordinals(batches, first)
        # Ordinals grow from round to round, so the holdout is a sorted subset of these: old records, then new ones.
        rows = np.searchsorted(np.concatenate([self.holdout.ordinals, ordinals]), holdout.ordinals)
        come = int(np.searchsorted(rows, len(self.holdout)))
        old, new = rows[:come], rows[come:] - len(self.holdout)
        design = RoundRecords(
            records.registry,
            records.labels,
            np.concatenate([self.design.Z[old], records.Z[new]]),
            np.concatenate([self.design.y[old], records.y[new]]),
        )
        is_new = np.zeros(len(ordinals), np.bool_)
        is_new[new] = True
        return Comparison(holdout, design), is_new if len(new) else None

    def changes(self, before: "Comparison") -> tuple[tuple[HeldRecord, ...], tuple[int, ...]]:
        """Return the records that are new in the holdout, and the ordinals of those that left it."""
        if self.holdout is before.holdout or not (len(self.holdout) or len(before.holdout)):
            return (), ()
        then, now = before.holdout.ordinals, self.holdout.ordinals
        came = np.flatnonzero(~_among(now, then))
        if len(now) - len(came) == len(then):
            return self.holdout.places(came), ()
        return self.holdout.places(came), tuple(then[~_among(then, now)].tolist())


def _among(some: IntArray, others: IntArray) -> BoolArray:
    """Return which of `some` are among `others`, both sorted."""
    if not len(others):
        return np.zeros(len(some), np.bool_)
    present: BoolArray = others.take(np.searchsorted(others, some), mode="clip") == some
    return present


def _ordinals(batches: Sequence[Batch], first: int) -> IntArray:
    parts: list[IntArray] = [np.zeros(0, np.int64)]
    for batch in batches:
        parts.append(batch.ordinals(first))
        first += batch.read
    return np.concatenate(parts)
