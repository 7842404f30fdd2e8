"""How much more a mean varies from round to round than the records behind it tell."""

import math
from dataclasses import dataclass, field

# What a round weighs after one more: about fifty count. docs/choices.md, "Excess".
KEEPS = 0.98

# Standard errors by which the ratio must lie above 1; the variance of a squared difference of neighbours, in units
# of its mean: 2 of its own, and a half for each of the two beside it, which share a round with it.
# docs/choices.md, "Excess".
SURE, VARIANCE = 2.0, 3.0

# How many times the mean a squared difference may count, and after how many rounds it does: a drift now and then is
# no dispersion, and a drift is to be found before its own jump makes the test doubt it.
# docs/choices.md, "Streams whose neighbours in time are alike".
JUMP, DELAY = 9.0, 8

# Rounds as their records tell them that are supposed before the first.
# docs/choices.md, "Streams whose neighbours in time are alike".
SUPPOSED = 10.0


@dataclass
class Dispersion:
    """The variance between neighbouring rounds over that which their records explain: 1 where rounds are independent.

    A stream that is autocorrelated, as when a round is an hour of one weather, lies off its mean by more than the
    number of its records says, and a test that trusts that number restarts at every change of weather. Neighbours are
    compared (von Neumann's ratio), so that a slow rise is not taken for dispersion; nor is a jump now and then.

    Parameters
    ----------
    total, weight
        Discounted sums of d^2 / (V + V') over neighbouring rounds, d being the difference of their means, V and V'
        the variances, and of 1.
    waiting
        Such ratios of the last rounds, which do not count yet.
    mean, variance
        Of the round before; None if it is no neighbour.

    References
    ----------
    von Neumann 1941, "Distribution of the ratio of the mean square successive difference to the variance".

    Examples
    --------
    >>> calm, weather = Dispersion(), Dispersion()
    >>> for t in range(200):
    ...     calm.add((-1) ** t * 0.02, 4e-4)  # neighbours differ by 0.04, whose square is 4 V
    ...     weather.add((-1) ** t * 0.10, 4e-4)
    >>> round(calm.factor, 2), round(weather.factor, 2)
    (1.34, 33.29)
    """

    total: float = SUPPOSED
    weight: float = SUPPOSED
    waiting: list[float] = field(default_factory=list)
    mean: float | None = None
    variance: float = 0.0

    @property
    def factor(self) -> float:
        """Return by what the variance of a mean is to be multiplied: 1 unless it surely is larger."""
        return max(1.0, self.total / self.weight / (1.0 + SURE * math.sqrt(VARIANCE / self.weight)))

    def add(self, mean: float, variance: float) -> None:
        """Take a round's mean, and its variance as the records have it."""
        if self.mean is not None:
            self.waiting.append((mean - self.mean) ** 2 / (variance + self.variance))
        if len(self.waiting) > DELAY:
            self._count(self.waiting.pop(0))
        self.mean, self.variance = mean, variance

    def _count(self, ratio: float) -> None:
        most = JUMP * max(1.0, self.total / self.weight)
        self.total = KEEPS * self.total + min(ratio, most)
        self.weight = KEEPS * self.weight + 1.0

    def pause(self) -> None:
        """Forget the round before: what comes next is of another model."""
        self.mean = None
