"""What clients' moments of a round are, by client and feature; and for which of these there is room."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.protocol.moments import Moments
from streamfl.protocol.records import union

# So many pairs of a client and a feature are watched. docs/choices.md, "Inputs".
PAIRS = 2**16

# The largest mean that float32 can square.
_LARGEST = 1e15


class RoundMeans(NamedTuple):
    """What some clients sent in a round: their places; and numbers, means and deviations of values, shape (n, d)."""

    at: IntArray
    records: FloatArray
    mean: FloatArray
    deviation: FloatArray

    @classmethod
    def of(cls, clients: Iterable[str], features: tuple[str, ...], sent: Mapping[str, Moments]) -> "RoundMeans":
        """Return what was sent, by the places of these clients and features; a mean of no value is NaN.

        >>> sent = {"c1": Moments.of(("y", "x"), np.array([[1.0, 2.0], [3.0, 6.0]]))}
        >>> means = RoundMeans.of(("c0", "c1"), ("x", "z"), sent)
        >>> means.at, means.records, means.mean, means.deviation
        (array([1]), array([[2., 0.]]), array([[ 4., nan]]), array([[2., 0.]]))
        """
        at = {name: i for i, name in enumerate(clients)}
        each = {at[name]: m.aligned(features) for name, m in sent.items() if name in at}
        shape = len(each), len(features)
        count = np.array([m.count for m in each.values()]).reshape(shape)
        mean = np.array([np.where(m.count > 0.0, m.mean, np.nan) for m in each.values()]).reshape(shape)
        mean[np.abs(mean) > _LARGEST] = np.nan
        deviation = np.sqrt([m.variance for m in each.values()]).reshape(shape)
        return cls(np.array(list(each), np.int64), count, mean, deviation)


def room_for(
    clients: tuple[str, ...], features: tuple[str, ...], sent: Mapping[str, Moments]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return clients and features with those of moments behind them, as long as these are at most `PAIRS` pairs.

    >>> room_for(("c0",), ("x",), {"c1": Moments.of(("y", "x"), np.ones((1, 2)))})
    (('c0', 'c1'), ('x', 'y'))
    """
    new = [name for name in sent if name not in clients]
    clients = (*clients, *new[: max(0, PAIRS // max(1, len(features)) - len(clients))])
    names = union([features, *(m.features for m in sent.values())])
    return clients, names[: max(len(features), PAIRS // max(1, len(clients)))]


def as_float32(sums: FloatArray) -> FloatArray:
    """Return numbers as float32 has them: they take half the bytes."""
    found: FloatArray = np.clip(sums, -1e38, 1e38).astype(np.float32).astype(np.float64)
    return found
