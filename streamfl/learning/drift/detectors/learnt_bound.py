"""A bound on the mean loss, learnt from single losses."""

import math
from dataclasses import dataclass

# The largest length of a block: its mean then has a standard error of at most 0.0125.
# docs/choices.md, "Other detectors".
LONGEST = 1600


@dataclass
class LearntBound:
    """The lowest mean that a block of losses has had, plus two standard errors.

    Blocks have `length` successive losses, then twice as many, and so on up to 1600. So there is a bound early, and
    it comes closer to the mean later. It follows a model that improves, and never rises. The standard error uses the
    variance m (1 - m), the largest that losses in [0, 1] with mean m can have. The estimate of m is
    (sum + 1) / (n + 2), which is neither 0 nor 1.

    Examples
    --------
    98 losses of 0.25 count as a mean of (24.5 + 1) / 100 = 0.255.

    >>> bound = LearntBound(length=98)
    >>> for _ in range(98):
    ...     bound.learn(0.25)
    >>> round(bound.value, 3), bound.length
    (0.343, 196)
    """

    length: int  # the number of losses in the current block
    value: float | None = None  # the bound; None before the first block is full
    count: int = 0
    total: float = 0.0

    def learn(self, loss: float) -> None:
        """Add a loss; the last one of a block may lower the bound."""
        self.count += 1
        self.total += loss
        if self.count < self.length:
            return
        mean = (self.total + 1.0) / (self.count + 2.0)
        upper = mean + 2.0 * math.sqrt(mean * (1.0 - mean) / self.count)
        self.value = upper if self.value is None else min(self.value, upper)
        self.count, self.total = 0, 0.0
        self.length = max(self.length, min(2 * self.length, LONGEST))
