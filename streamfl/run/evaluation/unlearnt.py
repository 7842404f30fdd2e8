"""Why a model of another library learns nothing of a table."""

import numpy as np

from streamfl.arrays import IntArray
from streamfl.bounds import bounded
from streamfl.protocol.external.interface import ExternalModel
from streamfl.protocol.external.state import ExternalState
from streamfl.protocol.external.tables import Exported
from streamfl.protocol.records import Batch, Span
from streamfl.records.table import Table

FIRST = 100  # records that tell
ROUNDS = 2  # in the first one a model of weights only hears of the features


def why_unlearnt(external: ExternalModel | None, table: Table, rows: IntArray) -> str | None:
    """Return why an external model cannot learn the first of these rows; None if it can or there is none."""
    if external is None or not len(rows):
        return None
    first = rows[:FIRST]
    span, X = Span("", 0, len(first)), np.asarray(table.X[first], np.float64)
    batch = Batch(span, np.arange(len(first)), table.features, X, table.y[first], table.labels)
    state: Exported | None = external.initial()
    for _ in range(ROUNDS):
        if state is None:
            return None
        begun = external.begin(ExternalState(state, table.labels))
        begun.learn(batch)
        state = begun.learnt().state
        if begun.failure:
            return bounded(begun.failure)
    return None
