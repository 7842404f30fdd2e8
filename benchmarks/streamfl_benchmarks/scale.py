"""Maps values to coordinates, and chooses the ticks of an axis."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear map of `[low, high]` onto `[start, end]`; `end` may be less than `start`, as for a y axis.

    >>> up = Scale(0.0, 0.5, 200.0, 0.0)
    >>> up(0.0), up(0.25), up(0.5)
    (200.0, 100.0, 0.0)
    """

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the coordinate of a value."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def step(span: float, at_most: int) -> float:
    """Return the smallest of 1, 2, 5 times a power of ten that divides a span into at most that many steps.

    >>> step(103, 10), step(0.52, 6), step(1.0, 5)
    (20.0, 0.1, 0.2)
    """
    least = span / at_most
    power = math.floor(math.log10(least))
    steps = (float(f"{digit}e{exponent}") for exponent in (power, power + 1) for digit in (1, 2, 5))
    # A least step of 0.1 computed as 0.1000000001 still means 0.1.
    return next(size for size in steps if size >= least * (1 - 1e-9))


def multiples(low: float, high: float, size: float) -> list[float]:
    """Return the multiples of a step that lie in `[low, high]`.

    >>> multiples(1, 103, 20.0)
    [20.0, 40.0, 60.0, 80.0, 100.0]
    """
    first, last = math.ceil(low / size - 1e-9), math.floor(high / size + 1e-9)
    return [k * size for k in range(first, last + 1)]


def ceiling(high: float, at_most: int) -> float:
    """Return the end of an axis from 0 to at least `high` that is a tick.

    >>> ceiling(0.52, 6), ceiling(0.5, 6), ceiling(0.0, 6)
    (0.6, 0.5, 1.0)
    """
    if high <= 0:
        return 1.0
    size = step(high, at_most)
    return float(f"{math.ceil(high / size - 1e-9) * size:.12g}")


def tick_text(value: float, size: float) -> str:
    """Return the text of a tick, with as many decimals as its step needs.

    >>> tick_text(0.30000000000000004, 0.1), tick_text(2000.0, 500.0), tick_text(2e-7, 1e-7)
    ('0.3', '2,000', '2e-07')
    """
    decimals = max(0, -math.floor(math.log10(size) + 1e-9))
    return f"{value:,.{decimals}f}" if decimals <= 4 and value < 1e7 else f"{value:.3g}"
