"""What clients have measured of moments since they were published last, which the coordinator keeps."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from streamfl.arrays import HOLDS_ARRAYS, FloatArray
from streamfl.protocol.moments import NOTHING, Moments


def _nothing() -> FloatArray:
    return np.zeros((0, 0))


@dataclass(frozen=True, eq=False)
class Unpublished:
    """Moments of the rounds since they were published last; nothing right after that. Clients do not know it.

    >>> Unpublished().is_sound(np.zeros((2, 2))), Unpublished(rounds=1, since=9, measured=-1).is_sound(np.eye(2))
    (True, False)
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    rounds: int = 0  # how many rounds
    since: int = 0  # the records learnt before them
    moments: Moments = NOTHING  # of all values so far, these rounds included
    measured: int = 0  # the records of these rounds whose second moments are known
    second: FloatArray = field(default_factory=_nothing)  # the sum of z z^T over them; empty: nothing

    def is_sound(self, second: FloatArray) -> bool:
        """Tell whether it can belong to second moments, before or after names were appended."""
        fits = not self.second.size or (
            self.second.ndim == 2 and all(a <= b for a, b in zip(self.second.shape, second.shape, strict=True))
        )
        numbers = min(self.rounds, self.since, self.measured) >= 0 and self.moments.is_sound
        return numbers and fits and bool(np.isfinite(self.second).all())
