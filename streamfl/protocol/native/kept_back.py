"""What rounding has kept back of the changes of native models; it is part of the next change."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from streamfl.arrays import HOLDS_ARRAYS, FloatArray, RealArray


def _nothing() -> FloatArray:
    return np.zeros((0, 0, 0))


@dataclass(frozen=True, eq=False)
class KeptBack:
    """What the coordinator has not told yet of the agreed weights, and of the table; clients do not know it.

    Examples
    --------
    >>> weights, table = np.zeros((2, 3, 1)), np.zeros((5, 2, 1))
    >>> KeptBack().over(weights, table).weights.shape, KeptBack().is_sound(weights, table)
    ((2, 3, 1), True)
    >>> KeptBack(weights, table).over(np.zeros((4, 3, 2)), np.zeros((5, 2, 2))).weights.shape
    (4, 3, 2)
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    # In the shapes of those of `NativeState`; or both empty: nothing.
    weights: FloatArray = field(default_factory=_nothing)
    table: FloatArray = field(default_factory=_nothing)

    def over(self, weights: FloatArray, table: RealArray) -> "KeptBack":
        """Return it with zeros for names that were appended to weights and table."""
        return replace(self, weights=_padded(self.weights, weights), table=_padded(self.table, table))

    def is_sound(self, weights: FloatArray, table: RealArray) -> bool:
        """Tell whether it can be of weights and a table, before or after names were appended."""
        parts = ((self.weights, weights), (self.table, table))
        return all(
            not part.size or (_fits(part.shape, of.shape) and bool(np.isfinite(part).all())) for part, of in parts
        )


def _fits(shape: tuple[int, ...], of: tuple[int, ...]) -> bool:
    return len(shape) == len(of) and all(one <= other for one, other in zip(shape, of, strict=True))


def _padded(part: FloatArray, of: RealArray) -> FloatArray:
    if not part.size:
        return np.zeros(of.shape)
    if part.shape == of.shape:
        return part
    return np.pad(part, [(0, after - before) for before, after in zip(part.shape, of.shape, strict=True)])
