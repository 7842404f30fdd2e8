"""The records of a hostile producer: absurd values, and floods of new names."""

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from streamfl.arrays import IntArray
from streamfl.protocol.records import Batch, Span
from streamfl.run.dealing.source import TableSource

# Values that a record may have, however it was written: formats refuse infinite ones.
ABSURD = (1e308, -1e308, 1e300, 1e30, 1e-320, -0.0, 2.0**53, np.nan)

# The new names of features, and of labels, that spoilt records have at most.
FLOOD = 50


class SpoiltSource(TableSource):
    """A client's records, of which some are spoilt: the same ones, and in the same way, whenever they are read.

    Parameters
    ----------
    seed, share
        The seed, and the share of positions that are spoilt.
    """

    seed: int = 0
    share: float = 0.0

    def _columns(self, span: Span, positions: IntArray, which: IntArray | slice) -> Batch:
        batch = super()._columns(span, positions, which)
        drawn = [random.Random(f"{self.seed} {self.name} {at}") for at in positions.tolist()]
        rows = [(row, rng) for row, rng in enumerate(drawn) if rng.random() < self.share]
        return _spoilt(batch, rows) if rows else batch


def _spoilt(batch: Batch, rows: Sequence[tuple[int, random.Random]]) -> Batch:
    """Return a batch with other values, features and labels in some rows."""
    features = [f"feature {rng.randrange(10**6)}" for _, rng in rows if rng.random() < 0.5][:FLOOD]
    features = [name for name in dict.fromkeys(features) if name not in batch.features]
    X = np.column_stack([batch.X, np.full((len(batch), len(features)), np.nan)])
    y, labels = batch.y.copy(), dict.fromkeys(batch.labels)
    for row, rng in rows:
        X[row, rng.randrange(X.shape[1])] = rng.choice(ABSURD)
        if labels and rng.random() < 0.3:
            label = rng.choice((f"label {rng.randrange(10**6)}", "é" * 128, "\x00", "NaN"))
            labels.setdefault(label)
            y[row] = list(labels).index(label)
        elif not labels:
            y[row] = rng.choice(ABSURD)
    y = np.where(np.isnan(y), 0.0, y)
    return replace(batch, features=(*batch.features, *features), X=X, y=y, labels=tuple(labels))
