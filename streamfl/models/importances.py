"""Importances of any model's columns: how much worse it predicts when a column's values change places."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from streamfl.arrays import FloatArray

# How often values change places: twice as often halves the variance of a mean, at twice the time.
EXCHANGES = 5


def importances(
    quality: Callable[[FloatArray], float],
    X: FloatArray,
    columns: Mapping[str, Sequence[int]],
    random: np.random.Generator,
) -> dict[str, float]:
    """Return by column how much quality is lost, the mean of some exchanges, the most important column first.

    Parameters
    ----------
    quality
        How well records are predicted: more is better.
    X
        The records, shape (n, d).
    columns
        By column, the features that it became: they change places together.

    >>> X = np.column_stack([np.arange(8.0), np.ones(8)])
    >>> importances(lambda X: -abs(X[:, 0] - np.arange(8)).mean(), X, {"b": [1], "a": [0]}, np.random.default_rng(1))
    {'a': 2.3, 'b': 0.0}
    """
    whole, lost = quality(X), dict.fromkeys(columns, 0.0)
    for _ in range(EXCHANGES):
        order = random.permutation(len(X))
        for column, places in columns.items():
            exchanged = X.copy()
            exchanged[:, places] = X[order][:, places]
            lost[column] += (whole - quality(exchanged)) / EXCHANGES
    return dict(sorted(((name, round(float(one), 6)) for name, one in lost.items()), key=lambda item: -item[1]))
