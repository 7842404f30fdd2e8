"""Puts a client's arrays into the federation's order of names; a client has its names as it met them."""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from streamfl.arrays import FloatArray
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.models import NativeState

F = TypeVar("F", bound=np.floating)


def placed(array: npt.NDArray[F], own: tuple[str, ...], labels: tuple[str, ...]) -> npt.NDArray[F]:
    """Return an array with the columns of a client's own labels at their places among all; targets have none.

    >>> placed(np.array([[1.0, 2.0]]), ("c", "a"), ("a", "b", "c"))
    array([[2., 0., 1.]])
    """
    if not labels or own == labels:
        return array
    places = {label: place for place, label in enumerate(labels)}
    wide = np.zeros((*array.shape[:-1], len(places)), array.dtype)
    wide[..., [places[label] for label in own]] = array
    return wide


def rows_of(part: NativeLearnt, grown: NativeState) -> list[int]:
    """Return the rows of a client's features, the first being that of the constant 1."""
    return [0, *(1 + grown.features.index(name) for name in part.features)]


def placed_weights(part: NativeLearnt, grown: NativeState) -> FloatArray:
    """Return a client's linear weights at the federation's places."""
    weights = np.zeros(grown.weights.shape)
    weights[rows_of(part, grown)] = placed(part.weights, part.labels, grown.labels)
    return weights
