"""The saved state of a mixture."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from streamfl.arrays import HOLDS_ARRAYS, FloatArray
from streamfl.protocol.moments import FEWEST


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
    known: int = 0  # older files have none; then it is `seen`
    first: FloatArray = field(default_factory=lambda: np.full(FEWEST, np.nan))

    def fits(self, other: "MixtureState") -> bool:
        """Tell whether it has as many experts as another state."""
        return all(getattr(self, name).shape == getattr(other, name).shape for name in ("best", "stacked", "outer"))
