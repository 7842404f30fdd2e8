"""The difference of two methods on the same records, with an interval."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

BATCHES = 30
LEVEL = 0.95


@dataclass(frozen=True)
class Difference:
    """A mean difference of accuracies, and its interval."""

    mean: float
    low: float
    high: float


def difference(
    a: npt.NDArray[np.floating], b: npt.NDArray[np.floating], batches: int = BATCHES, level: float = LEVEL
) -> Difference:
    """Return the mean of a - b over records with the interval of batch means.

    Neighbouring records are alike, so their differences are correlated and an interval that takes them for
    independent is too narrow. Means of long batches are nearly independent; between them Student's t holds
    (Schmeiser 1982, who finds 10 to 30 batches enough). A drift that one method answers better widens it: then
    the differences between batches are not noise, and the interval is on the safe side.

    Parameters
    ----------
    a, b
        Shape (n,): how right each method was on every record, from 0 to 1.
    batches
        How many, of equal length up to one record.
    level
        How often such an interval holds the true difference.

    Raises
    ------
    ValueError
        If there are fewer records than batches.
    """
    if len(a) < batches:
        raise ValueError(f"{len(a)} records are too few for {batches} batches")
    differences = a - b
    means = np.array([batch.mean() for batch in np.array_split(differences, batches)])
    half = float(stats.t.ppf((1 + level) / 2, batches - 1) * means.std(ddof=1) / np.sqrt(batches))
    mean = float(differences.mean())
    return Difference(mean, mean - half, mean + half)
