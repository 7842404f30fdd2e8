"""Swapped labels after a restart: which native models have not followed the swap, and how they are corrected."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from streamfl.arrays import BoolArray
from streamfl.protocol.native.kept_back import KeptBack
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.settings import NativeSettings


def misnamed(
    agreed: NativeState, parts: Sequence[NativeLearnt], labels: tuple[str, ...], permutation: tuple[int, ...]
) -> BoolArray:
    """Return the models that predicted most records of the swapped labels wrong.

    The models of rounds, which found the swap, ignore the order of records. If the next label is mostly the last one,
    a swap may fit them better although there was none, and models that learn record by record know better. A fast
    model may also have learnt the swap on its own.

    Parameters
    ----------
    parts
        What each client learnt in the round of the alarm.
    permutation
        The permutation pi of the first labels: label a is to be called what label pi(a) was.

    Returns
    -------
    Shape (models,), bool. Without records of swapped labels, all models; none if pi swaps nothing.

    Examples
    --------
    >>> from streamfl.online.native.learner import NativeLearner
    >>> from streamfl.online.native.merging.merging import after
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
    columns = [(part, [part.labels.index(name) for name in moved if name in part.labels]) for part in parts]
    records = sum(float(part.bearing[at].sum()) for part, at in columns)
    right = sum((part.right[:, at].sum(axis=1) for part, at in columns), np.zeros(agreed.weights.shape[1]))
    return (2.0 * right < max(1.0, records)) & bool(moved)


def untaught(part: NativeLearnt, models: BoolArray, settings: NativeSettings) -> NativeLearnt:
    """Return what a client learnt, without the differences of some models."""
    rows = settings.in_table(models)[part.cells.astype(np.intp)]
    return replace(
        part,
        weights=np.where(models[:, None], 0.0, part.weights),
        table=np.where(rows[..., None], 0.0, part.table),
    )


def renamed(
    agreed: NativeState, models: BoolArray, permutation: tuple[int, ...], settings: NativeSettings
) -> NativeState:
    """Return the agreed state with column pi(a) moved to column a in some models; other columns stay.

    What rounding has kept back, which is less than a step of each number, is dropped.

    Parameters
    ----------
    agreed
        The agreed state, with the whole table of ferns.
    models
        The models to change, shape (models,), bool.
    permutation
        The permutation pi of the first columns.

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
    # `take` keeps rows contiguous, which an index would not: later look-ups are by row.
    weights = np.where(models[:, None], agreed.weights.take(columns, axis=-1), agreed.weights)
    table = np.where(rows[..., None], agreed.table.take(columns, axis=-1), agreed.table)
    chain = f"{agreed.chain}{models}{columns}"
    return replace(agreed, weights=weights, table=table, chain=chain, kept_back=KeptBack())
