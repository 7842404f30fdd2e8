"""What is wrong with what a client says it has learnt between rounds: nothing counts that is not possible."""

import numpy as np

from streamfl.core.fixed_point import largest_part
from streamfl.core.online.learner import Learnt
from streamfl.core.online.models import OnlineModels


def wrong_learning(learnt: Learnt, agreed: OnlineModels, *, records: int, members: int) -> str | None:
    """Return why what a client has learnt cannot be used, or None.

    Parameters
    ----------
    learnt
        What it says.
    agreed
        The models that it began from.
    records
        How many records its update covers.
    members
        How many clients may be added up.

    Examples
    --------
    >>> from streamfl.core.online.learner import OnlineLearner
    >>> from streamfl.core.online.rungs import OnlineSettings
    >>> settings = OnlineSettings("linear", neighbours=False)
    >>> agreed = OnlineModels.none(settings)
    >>> learnt = OnlineLearner(settings).learnt()
    >>> wrong_learning(learnt, agreed, records=0, members=1) is None
    True
    >>> wrong_learning(learnt, agreed, records=3, members=1)
    'another number of records between rounds'
    """
    if learnt.records != records:
        return "another number of records between rounds"
    return (
        _wrong_names(learnt, agreed)
        or _wrong_shapes(learnt, agreed)
        or _wrong_cells(learnt, agreed)
        or _wrong_numbers(learnt, members)
    )


def _wrong_names(learnt: Learnt, agreed: OnlineModels) -> str | None:
    for names, known in ((learnt.features, agreed.features), (learnt.labels, agreed.labels)):
        if names[: len(known)] != known or len(set(names)) != len(names):
            return "names between rounds that do not go on from the agreed ones"
    return None if learnt.moments.features == learnt.features else "moments between rounds of other features"


def _wrong_shapes(learnt: Learnt, agreed: OnlineModels) -> str | None:
    rows, models, columns = agreed.weights.shape
    rows += len(learnt.features) - len(agreed.features)
    columns += len(learnt.labels) - len(agreed.labels)
    d = len(learnt.features)
    shapes = {
        "weights": (learnt.weights, (rows, models, columns)),
        "second moments": (learnt.second, (rows, rows) if agreed.second.size else (0, 0)),
        "a table": (learnt.table, (len(learnt.cells), agreed.table.shape[1], columns)),
        "visits": (learnt.visits, (len(learnt.cells),)),
        "norms": (learnt.norms, (2,)),
        "moments": (np.stack([learnt.moments.count, learnt.moments.mean, learnt.moments.m2]), (3, d)),
    }
    wrong = (name for name, (array, shape) in shapes.items() if array.shape != shape)
    return next((f"{name} between rounds of another shape" for name in wrong), None)


def _wrong_cells(learnt: Learnt, agreed: OnlineModels) -> str | None:
    cells, visits = learnt.cells, learnt.visits
    whole = np.array_equal(cells, np.floor(cells)) and np.array_equal(visits, np.floor(visits))
    if not whole or len(np.unique(cells)) != len(cells):
        return "cells that are none, or named twice"
    if len(cells) and (cells.min() < 0 or cells.max() >= len(agreed.table)):
        return "cells beyond the table"
    if len(visits) and (visits.min() < 1 or visits.max() > learnt.records):
        return "visits that so many records cannot make"
    return None


def _wrong_numbers(learnt: Learnt, members: int) -> str | None:
    largest = largest_part(learnt.records, members)
    arrays = (learnt.weights, learnt.table, learnt.second, learnt.norms)
    moments = (learnt.moments.count, learnt.moments.mean, learnt.moments.m2)
    if not all(np.isfinite(array).all() for array in (*arrays, *moments)):
        return "a number between rounds that is not finite"
    if any(np.abs(array).max(initial=0.0) > largest for array in arrays[:2]):
        return "a difference between rounds that is far too large"
    if min(array.min(initial=0.0) for array in (learnt.moments.count, learnt.moments.m2, learnt.norms)) < 0.0:
        return "negative sums between rounds"
    return None
