"""Adds features that are made of others to those of records."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamfl.arrays import FloatArray, Numbers


def with_made(
    features: Sequence[str], X: Numbers, names: Sequence[str], made: FloatArray
) -> tuple[tuple[str, ...], npt.NDArray[Any]]:
    """Return features and values with made ones at the end; columns of their names give way.

    Values in 32 bits stay so.

    >>> with_made(("x", "rate"), np.array([[1.0, 9.0]], np.float32), ("rate",), np.array([[0.5]]))
    (('x', 'rate'), array([[1. , 0.5]], dtype=float32))
    """
    if taken := {*features} & {*names}:
        stay = [j for j, name in enumerate(features) if name not in taken]
        features, X = [features[j] for j in stay], X[:, stay]
    return (*features, *names), np.hstack([X, made.astype(np.float32) if X.dtype == np.float32 else made])
