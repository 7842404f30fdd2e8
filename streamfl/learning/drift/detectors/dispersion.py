"""The dispersion of rounds: how much more they vary than independence would explain."""

import math
from dataclasses import dataclass, field
from typing import ClassVar

# The decay of a round's weight a round: about fifty rounds count. docs/choices.md, "Excess".
KEEPS = 0.98

# SURE: the standard errors by which the ratio must lie above 1. VARIANCE: that of a squared difference of neighbours,
# in units of its squared mean: 2 of its own, and a half for each of its two neighbours, which share a round with it.
# docs/choices.md, "Excess".
SURE, VARIANCE = 2.0, 3.0

# A squared difference counts as at most JUMP times the mean, since an occasional drift is not dispersion. It counts
# after DELAY rounds, so that a drift is found before its own jump raises the dispersion.
# docs/choices.md, "Streams whose neighbours in time are alike".
JUMP, DELAY = 9.0, 8

# The prior: so many rounds without extra dispersion are supposed before the first.
# docs/choices.md, "Streams whose neighbours in time are alike".
SUPPOSED = 10.0


@dataclass
class Ratio:
    """The discounted mean of ratios that have mean 1 if all is independent.

    Examples
    --------
    >>> ratio = Ratio()
    >>> for _ in range(100):
    ...     ratio.take(6.0)
    >>> round(ratio.factor, 2)
    4.08
    """

    # Discounted sums of the ratios, and of 1.
    total: float = SUPPOSED
    weight: float = SUPPOSED
    waiting: list[float] = field(default_factory=list)  # ratios of the last rounds, which do not count yet
    spread: ClassVar[float] = 2.0  # the variance of a ratio if all is independent and Gaussian
    sure: ClassVar[float] = SURE  # the standard errors that are subtracted from the mean

    @property
    def factor(self) -> float:
        """Return the mean less some standard errors: 1 unless it is surely larger."""
        return max(1.0, self.total / self.weight / (1.0 + self.sure * math.sqrt(self.spread / self.weight)))

    def take(self, ratio: float) -> None:
        """Take a round's ratio."""
        self.waiting.append(ratio)
        if len(self.waiting) > DELAY:
            most = JUMP * max(1.0, self.total / self.weight)
            self.total = KEEPS * self.total + min(self.waiting.pop(0), most)
            self.weight = KEEPS * self.weight + 1.0


@dataclass
class Dispersion(Ratio):
    """The variance between neighbouring rounds over that which their records explain; 1 for independent rounds.

    In an autocorrelated stream, say with an hour of weather in each round, a round's mean varies more than its number
    of records implies. A test that trusts this number restarts at every change of weather. Neighbouring rounds are
    compared (von Neumann's ratio), so neither a slow rise nor an occasional jump is taken for dispersion.

    Parameters
    ----------
    total, weight, waiting
        Of the ratio of neighbouring rounds: d^2 / (V + V'), with d the difference of their means and V and V' their
        variances.
    mean, variance
        Mean and variance of the last round; mean is None if the next round is not its neighbour.

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

    mean: float | None = None
    variance: float = 0.0
    spread: ClassVar[float] = VARIANCE

    def add(self, mean: float, variance: float) -> None:
        """Take a round's mean, and the variance that its records explain."""
        if self.mean is not None:
            self.take((mean - self.mean) ** 2 / (variance + self.variance))
        self.mean, self.variance = mean, variance

    def pause(self) -> None:
        """Forget the last round: the next one measures another model."""
        self.mean = None
