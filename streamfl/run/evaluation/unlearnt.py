"""Why a model of another library learns nothing of a table."""

import numpy as np

from streamfl.arrays import IntArray
from streamfl.bounds import bounded
from streamfl.protocol.external.interface import ExternalModel
from streamfl.protocol.external.state import ExternalState
from streamfl.protocol.records import Batch, Span
from streamfl.records.table import Table

FIRST = 100  # records that tell


def why_unlearnt(external: ExternalModel | None, table: Table, rows: IntArray) -> str | None:
    """Return why a River model cannot learn the first of these rows; None if it can, and for other models."""
    if external is None or not len(rows):
        return None
    first = rows[:FIRST]
    begun = external.begin(ExternalState(external.initial(), table.labels))
    span, X = Span("", 0, len(first)), np.asarray(table.X[first], np.float64)
    begun.learn(Batch(span, np.arange(len(first)), table.features, X, table.y[first], table.labels))
    begun.learnt()
    return bounded(getattr(begun, "failure", "")) or None
