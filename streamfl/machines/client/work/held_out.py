"""Held-out records: a client keeps them out of training and compares new records with them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np

from streamfl.arrays import IntArray
from streamfl.protocol.messages import HeldRecord, HoldoutRule
from streamfl.protocol.records import Batch, stacked, union
from streamfl.sampling import ranks

# One record in ONE_IN, chosen by its hash, may be held out.
ONE_IN = 10
BAR = np.uint64(2**64 // ONE_IN)

NOTHING, EVERY = np.zeros(0, np.int64), slice(None)


@dataclass(frozen=True, slots=True, eq=False)
class Holdout:
    """The held-out records so far: of each label those with the smallest hash among one in ten.

    The choice depends on the records' ordinals alone, so it is the same however they are read. None of them is ever
    trained on. They are kept raw, so a change of the scaler does not affect them.

    Examples
    --------
    >>> from streamfl.protocol.records import Span
    >>> y, positions = np.zeros(100), np.arange(100)
    >>> batch = Batch(Span("p", 0, 100), positions, ("x",), np.ones((100, 1)), y, ("a",))
    >>> out = Holdout().after([batch], HoldoutRule(per_label=4, since=1), t=1, first=0, seed=0, client="c0")
    >>> [place.position for place in out.places()]
    [17, 71, 84, 87]
    """

    # The records of all partitions, in the order in which they came.
    records: Batch = field(default_factory=lambda: stacked([]))
    # The round and the ordinal of each, shape (n,).
    rounds: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    ordinals: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    # Names of partitions, and the index of each record's partition in them, shape (n,).
    partitions: tuple[str, ...] = ()
    within: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))

    def __len__(self) -> int:
        """Count the records."""
        return len(self.ordinals)

    def places(self, rows: IntArray | slice = EVERY) -> tuple[HeldRecord, ...]:
        """Return the places of all records, or of some rows."""
        columns = (self.rounds, self.ordinals, self.within, self.records.positions)
        entries = zip(*[column[rows].tolist() for column in columns], strict=True)
        beside = self.records.beside
        besides = repeat(None) if beside is None else iter(beside[rows].tolist())
        return tuple(
            [
                HeldRecord(round=t, ordinal=o, partition=self.partitions[k], position=p, beside=b)
                for (t, o, k, p), b in zip(entries, besides, strict=False)
            ]
        )

    def since(self, t: int) -> "Holdout":
        """Return the records of round t and later."""
        kept = self.rounds >= t
        return self if kept.all() else self.only(np.flatnonzero(kept))

    def of_labels(self, labels: tuple[str, ...]) -> "Holdout":
        """Return the records of some labels; all in regression."""
        own = self.records.labels
        if set(labels).issuperset(own):
            return self
        known = np.array([label in labels for label in own], dtype=np.bool_)[self.records.y.astype(np.intp)]
        return self if known.all() else self.only(np.flatnonzero(known))

    def after(
        self, batches: Sequence[Batch], held: HoldoutRule, *, t: int, first: int, seed: int, client: str
    ) -> "Holdout":
        """Return the holdout after round t.

        Parameters
        ----------
        t, first
            The round, and the ordinal of its first record.
        seed, client
            The key of the hash.
        """
        here = self.since(held.since)
        fresh: list[Holdout] = []
        for batch in batches:
            ordinals = batch.ordinals(first)
            first += batch.read
            rows = np.flatnonzero(_hashes(seed, client, ordinals) < BAR)
            if len(rows):
                fresh.append(_of(batch.only(rows), np.full(len(rows), t), ordinals[rows]))
        return (_join([here, *fresh]) if fresh else here)._trim(held.per_label, seed, client)

    def only(self, rows: IntArray) -> "Holdout":
        """Return the records of some rows, in increasing order."""
        return Holdout(
            self.records.only(rows), self.rounds[rows], self.ordinals[rows], self.partitions, self.within[rows]
        )

    def _trim(self, per_label: int, seed: int, client: str) -> "Holdout":
        """Return the `per_label` records of each label with the smallest hash."""
        labels = self.records.y if self.records.labels else np.zeros(len(self))
        order = np.lexsort((_hashes(seed, client, self.ordinals), labels))
        ordered, kept = labels[order], np.ones(len(order), np.bool_)
        kept[per_label:] = (
            ordered[per_label:] != ordered[:-per_label]
        )  # fewer than `per_label` of its label before it
        return self if kept.all() else self.only(np.sort(order[kept]))

    @classmethod
    def restore(cls, places: Iterable[HeldRecord], batches: Sequence[Batch]) -> "Holdout":
        """Return the holdout from records that were read again; records that the source has lost are left out."""
        sought = {(place.partition, place.position): place for place in places}
        parts: list[Holdout] = []
        for batch in batches:
            matches = [sought.get((batch.span.partition, p)) for p in batch.positions.tolist()]
            held = [(row, place) for row, place in enumerate(matches) if place is not None]
            rounds, ordinals = [place.round for _, place in held], [place.ordinal for _, place in held]
            kept = batch.only(np.array([row for row, _ in held], np.int64))
            parts.append(_of(kept, np.array(rounds, np.int64), np.array(ordinals, np.int64)))
        restored = _join(parts)
        return restored.only(np.argsort(restored.ordinals))


def _of(batch: Batch, rounds: IntArray, ordinals: IntArray) -> Holdout:
    return Holdout(batch, rounds, ordinals, (batch.span.partition,), np.zeros(len(batch), np.int64))


def _join(parts: Sequence[Holdout]) -> Holdout:
    partitions = union([part.partitions for part in parts if len(part)])
    within = [
        p.within
        if p.partitions == partitions
        else np.array([partitions.index(name) for name in p.partitions], np.int64)[p.within]
        for p in parts
        if len(p)
    ]
    return Holdout(
        stacked([part.records for part in parts]),
        np.concatenate([NOTHING, *(part.rounds for part in parts)]),
        np.concatenate([NOTHING, *(part.ordinals for part in parts)]),
        partitions,
        np.concatenate([NOTHING, *within]),
    )


def _hashes(seed: int, client: str, ordinals: IntArray) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return ranks(seed, f"{client}\x1fheld", ordinals)
