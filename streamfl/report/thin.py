"""Which rounds of a long run to draw, so that the page stays small and no spike is lost."""

import math
from collections.abc import Iterator, Sequence

Values = Sequence[float | None]


def kept(series: Sequence[Values], buckets: int) -> list[int]:
    """Return the indices to draw: all of a short run, else the ends and extremes of equal stretches.

    A mean over each stretch would be smoother, and would hide the one round that somebody looks for.

    Parameters
    ----------
    series
        One or more series of the same length; None where a round has no figure.
    buckets
        The number of stretches; each gives at most 2 + 2 per series indices.

    Returns
    -------
    list of int
        Strictly increasing.

    >>> kept([[0.1, 0.2, 0.9, 0.2, 0.1, 0.0, 0.1, 0.1]], buckets=2)
    [0, 2, 3, 4, 5, 7]
    """
    n = len(series[0])
    if n <= 2 * buckets:
        return list(range(n))
    found: set[int] = set()
    for b in range(buckets):
        stretch = range(b * n // buckets, (b + 1) * n // buckets)
        found.update((stretch[0], stretch[-1]))
        for values in series:
            found.update(_extremes(values, stretch))
    return sorted(found)


def _extremes(values: Values, stretch: range) -> Iterator[int]:
    known = {i: v for i in stretch if (v := values[i]) is not None and math.isfinite(v)}
    if known:
        yield min(known, key=lambda i: known[i])
        yield max(known, key=lambda i: known[i])
