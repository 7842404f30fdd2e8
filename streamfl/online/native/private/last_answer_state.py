"""The saved state of the experts on the last answer."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from streamfl.arrays import HOLDS_ARRAYS, FloatArray
from streamfl.online.native.mixture_state import MixtureState
from streamfl.protocol.native.settings import FOLLOWING, NONE

# The values of the last target and its errors.
TARGET = 5


@dataclass(frozen=True, eq=False)
class LastAnswerState:
    """The saved state of a last answer.

    `label` is the place of the last label in `labels`, -1 if there is none. `following` and `counts` have a row for
    each of `labels`: the labels that came next, -1 for none, and their decayed counts. `target` holds the values of
    `kernels.last_answer.LAST_TARGET`.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    labels: tuple[str, ...]
    label: int
    following: FloatArray
    counts: FloatArray
    target: FloatArray
    mixture: MixtureState

    @property
    def is_sound(self) -> bool:
        """Tell whether all numbers are of `labels`, and finite; compiled loops do not check indices."""
        names, shape = len(self.labels), (len(self.labels), FOLLOWING)
        numbers, sums = np.append(self.following, self.label), (self.counts, self.target)
        return (
            len(set(self.labels)) == names
            and self.following.shape == self.counts.shape == shape
            and self.target.shape == (TARGET,)
            and bool(np.isin(numbers, np.arange(NONE, names)).all())
            and all(bool(np.isfinite(part).all()) for part in sums)
            and bool((self.counts >= 0.0).all())
            and float(self.target[3]) >= 0.0
        )
