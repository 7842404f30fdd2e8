"""What the records themselves tell, whoever predicts them: missing values, and how far targets spread."""

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.records.table import Table

# Columns that the result lists, and records that are looked at together.
MOST_COLUMNS, TOGETHER = 50, 65_536


def missing(table: Table) -> dict[str, int] | None:
    """Return the columns of numbers with the most missing or infinite values, and how many; None if all are there."""
    counts = np.zeros(len(table.features), np.int64)
    for at in range(0, len(table), TOGETHER):
        block = table.X[at : at + TOGETHER]
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(block.sum(dtype=np.float64)):  # a count takes ten times as long, and most lack nothing
                continue
        counts += len(block) - np.isfinite(block).sum(axis=0)
    found = {
        table.features[j]: int(counts[j]) for j in np.argsort(-counts, kind="stable")[:MOST_COLUMNS] if counts[j]
    }
    return found or None


def r2(rmse: float | None, targets: FloatArray) -> float | None:
    """Return the share of the targets' variance that predictions explain: 1 is perfect, 0 as good as the mean.

    >>> r2(1.0, np.array([0.0, 4.0])), r2(None, np.array([0.0, 4.0])), r2(1.0, np.array([2.0, 2.0]))
    (0.75, None, None)
    """
    with np.errstate(over="ignore", invalid="ignore"):
        spread = float(np.var(targets)) if len(targets) else 0.0
    return 1.0 - rmse**2 / spread if rmse is not None and np.isfinite(spread) and spread > 0.0 else None
