"""The saved state of a mixture."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from streamfl.arrays import HOLDS_ARRAYS, FloatArray
from streamfl.protocol.moments import FEWEST

# Above it a float cannot represent every whole number.
MOST_COUNTED = 2**53


@dataclass(frozen=True, eq=False)
class MixtureState:
    """The saved state of a mixture: expert weights by fixed share and stacked, weights of the three mixtures."""

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    best: FloatArray
    stacked: FloatArray
    outer: FloatArray
    norm: float
    variance: float
    seen: int
    near: float = 0.0
    total: float = 0.0
    square: float = 0.0
    known: int | None = None  # older files have none; then it is `seen`
    first: FloatArray = field(default_factory=lambda: np.full(FEWEST, np.nan))

    @property
    def is_sound(self) -> bool:
        """Tell whether shares are not negative and numbers are finite; stacked weights may be negative."""
        shares = all(part.size and part.min() >= 0.0 and part.sum() > 0.0 for part in (self.best, self.outer))
        numbers = (self.norm, self.variance, self.near, self.total, self.square)
        finite = all(np.isfinite(part).all() for part in (self.best, self.stacked, self.outer, np.array(numbers)))
        return (
            shares
            and finite
            and min(self.norm, self.variance, self.square) >= 0.0
            and all(0 <= count < MOST_COUNTED for count in (self.seen, self.known or 0))
            and self.first.shape == (FEWEST,)
            and not np.isinf(self.first).any()
        )

    def fits(self, other: "MixtureState") -> bool:
        """Tell whether it has as many experts as another state."""
        return all(getattr(self, name).shape == getattr(other, name).shape for name in ("best", "stacked", "outer"))
