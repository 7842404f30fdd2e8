"""Labels that have other names since a restart: which of the models that learn record by record have not noticed."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from streamfl.core.arrays import BoolArray
from streamfl.core.protocol.native.learnt import NativeLearnt
from streamfl.core.protocol.native.models import NativeState
from streamfl.core.protocol.native.settings import NativeSettings


def misnamed(
    agreed: NativeState, parts: Sequence[NativeLearnt], labels: tuple[str, ...], permutation: tuple[int, ...]
) -> BoolArray:
    """Tell which models had most of those records wrong whose label is to have another name.

    Models of rounds, which are sure of the other names, see records as if they came in no order. Where the next label
    is mostly the last one, some other naming may fit these better, and what learns record by record knows that it is
    none. A model that learns fast may also have learnt the other names by itself.

    Parameters
    ----------
    agreed
        The models that they began from.
    parts
        What each client learnt in the round of the alarm.
    labels
        All labels.
    permutation
        Of the first of them: label a is to be called what label pi(a) was.

    Returns
    -------
    Shape (models,). Where no record tells, all; none if no label moves.

    Examples
    --------
    >>> from streamfl.core.between.native.learner import NativeLearner
    >>> from streamfl.core.between.native.merging import after
    >>> settings = NativeSettings("linear", neighbours=False)
    >>> learner, agreed = NativeLearner(settings), NativeState.none(settings)
    >>> X, y = np.array([[-1.0], [1.0]] * 10), np.array([0, 1] * 10)
    >>> _ = learner.learn(("x",), X, y, ("a", "b"))
    >>> misnamed(agreed, [learner.learnt()], ("a", "b"), (1, 0))
    array([False, False, False])
    >>> agreed, _ = after(agreed, [learner.learnt()], ("a", "b"))
    >>> learner.begin(agreed)
    >>> _ = learner.learn(("x",), X[:8], 1 - y[:8], ("a", "b"))
    >>> learner.learnt().bearing
    array([4., 4.])
    >>> learner.learnt().right
    array([[2., 2.],
           [0., 0.],
           [0., 0.]])
    >>> misnamed(agreed, [learner.learnt()], ("a", "b"), (1, 0))
    array([False,  True,  True])
    """
    moved = [labels[a] for a, b in enumerate(permutation) if a != b]
    told = [(part, [part.labels.index(name) for name in moved if name in part.labels]) for part in parts]
    records = sum(float(part.bearing[at].sum()) for part, at in told)
    right = sum((part.right[:, at].sum(axis=1) for part, at in told), np.zeros(agreed.weights.shape[1]))
    return (2.0 * right < max(1.0, records)) & bool(moved)


def untaught(part: NativeLearnt, models: BoolArray, settings: NativeSettings) -> NativeLearnt:
    """Return what a client has learnt without what some of the models have."""
    rows = settings.in_table(models)[part.cells.astype(np.intp)]
    return replace(
        part,
        weights=np.where(models[:, None], 0.0, part.weights),
        table=np.where(rows[..., None], 0.0, part.table),
    )


def renamed(
    agreed: NativeState, models: BoolArray, permutation: tuple[int, ...], settings: NativeSettings
) -> NativeState:
    """Return the agreed models, some of them with what is column pi(a) as column a; other columns stay.

    Parameters
    ----------
    agreed
        The models; the table of all.
    models
        Which of them, shape (models,).
    permutation
        Of the first columns.
    settings
        By which they are made.

    Examples
    --------
    >>> settings = NativeSettings("linear")
    >>> agreed = NativeState.none(settings).grown((), ("a", "b", "c"))
    >>> agreed.weights[0] = [1.0, 2.0, 3.0]
    >>> renamed(agreed, np.array([True, False, True]), (1, 0), settings).weights[0]
    array([[2., 1., 3.],
           [1., 2., 3.],
           [2., 1., 3.]])
    """
    columns = np.arange(len(agreed.labels))
    columns[: len(permutation)] = permutation
    rows = settings.in_table(models)
    # Not by index, which leaves the table by columns in memory: its rows are what is looked up from then on.
    weights = np.where(models[:, None], agreed.weights.take(columns, axis=-1), agreed.weights)
    table = np.where(rows[..., None], agreed.table.take(columns, axis=-1), agreed.table)
    return replace(agreed, weights=weights, table=table, chain=f"{agreed.chain}{models}{columns}")
