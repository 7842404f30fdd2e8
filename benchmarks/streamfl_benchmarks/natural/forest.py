"""River's adaptive random forest at each client alone."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.records.table import Table
from streamfl.run.compare import errors
from streamfl.run.dealing.dealing import Log
from streamfl.run.evaluation.compared import Misses

# River's default.
TREES = 10


def forests(table: Table, logs: Mapping[str, Log], seed: int) -> Misses:
    """Return the errors of a forest at each client, each record predicted before it is learnt.

    Before the first record the prediction is wrong, of a target it is 0. A missing value is not given to the forest.
    """
    return {name: _missed(table, log, seed) for name, log in logs.items()}


def _missed(table: Table, log: Log, seed: int) -> FloatArray:
    from river import forest  # noqa: PLC0415

    # Of targets, leaves give the mean: linear models in them, River's default, are off by thousands on some records.
    model: Any = (
        forest.ARFClassifier(n_models=TREES, seed=seed)
        if table.labels
        else forest.ARFRegressor(n_models=TREES, seed=seed, leaf_prediction="mean")
    )
    told = np.full(len(log.y), -1.0 if table.labels else 0.0)
    for i, (row, y) in enumerate(zip(log.rows, log.y.tolist(), strict=True)):
        given = zip(table.features, table.X[row].tolist(), strict=True)
        x = {name: value for name, value in given if not math.isnan(value)}
        guess = model.predict_one(x) if i else None
        told[i] = told[i] if guess is None else guess
        model.learn_one(x, int(y) if table.labels else y)
    return errors(log.y, told, labels=table.labels)
