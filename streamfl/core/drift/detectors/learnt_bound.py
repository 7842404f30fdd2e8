"""A bound on the mean of single losses, learnt from them."""

import math
from dataclasses import dataclass

# Losses after which a block is long enough: its mean has an error of at most 0.0125.
# docs/choices.md, "Other detectors".
LONGEST = 1600


@dataclass
class LearntBound:
    """The lowest mean that losses have had, and two standard errors of it.

    The mean is that of a block of successive losses; blocks have `length` losses, then twice as many, and so on up to
    1600, so that a bound is there early, and close to the mean later. It follows a model that learns, and never goes
    up. The error is that of errors: m (1 - m) is the most that losses in [0, 1] with mean m can vary, and m is taken
    to be (sum + 1) / (n + 2), which is neither 0 nor 1.

    Parameters
    ----------
    length
        Losses in the block that is being filled.
    value
        The bound; None before the first block is full.

    Examples
    --------
    98 losses of 0.25 count as a mean of (24.5 + 1) / 100 = 0.255.

    >>> bound = LearntBound(length=98)
    >>> for _ in range(98):
    ...     bound.learn(0.25)
    >>> round(bound.value, 3), bound.length
    (0.343, 196)
    """

    length: int
    value: float | None = None
    count: int = 0
    total: float = 0.0

    def learn(self, loss: float) -> None:
        """Take a loss."""
        self.count += 1
        self.total += loss
        if self.count < self.length:
            return
        mean = (self.total + 1.0) / (self.count + 2.0)
        upper = mean + 2.0 * math.sqrt(mean * (1.0 - mean) / self.count)
        self.value = upper if self.value is None else min(self.value, upper)
        self.count, self.total = 0, 0.0
        self.length = max(self.length, min(2 * self.length, LONGEST))
