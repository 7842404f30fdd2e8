"""Selects the rounds of a long run to draw, so that the page stays small and no spike is lost."""

import math
from collections.abc import Iterator, Sequence

Values = Sequence[float | None]


def selected(series: Sequence[Values], buckets: int) -> list[int]:
    """Return the indices to draw: all of a short run, else the ends and extremes of stretches of equal length.

    A mean over each stretch would be smoother, but would hide single spikes.

    Parameters
    ----------
    series
        One or more series of the same length; None where a round has no value.
    buckets
        The number of stretches; each gives at most 2 indices, and 2 more per series.

    Returns
    -------
    list of int
        Strictly increasing.

    >>> selected([[0.1, 0.2, 0.9, 0.2, 0.1, 0.0, 0.1, 0.1]], buckets=2)
    [0, 2, 3, 4, 5, 7]
    """
    n = len(series[0])
    if n <= 2 * buckets:
        return list(range(n))
    chosen: set[int] = set()
    for b in range(buckets):
        stretch = range(b * n // buckets, (b + 1) * n // buckets)
        chosen.update((stretch[0], stretch[-1]))
        for values in series:
            chosen.update(_extremes(values, stretch))
    return sorted(chosen)


def _extremes(values: Values, stretch: range) -> Iterator[int]:
    known = {i: v for i in stretch if (v := values[i]) is not None and math.isfinite(v)}
    if known:
        yield min(known, key=lambda i: known[i])
        yield max(known, key=lambda i: known[i])
