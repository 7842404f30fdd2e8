"""What clients' native models learnt, as numbers that can be compared; and with less weight."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from streamfl.arrays import BoolArray, FloatArray, IntArray
from streamfl.learning.influence import NUMBERS, Contributions, are_compared
from streamfl.online.native.merging.grids import depth_of, step_of_cells, step_of_weights
from streamfl.online.native.merging.placing import placed
from streamfl.protocol.early import FEW
from streamfl.protocol.moments import Moments
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.settings import DEPTHS, FERN
from streamfl.protocol.tempered import beside, tempered
from streamfl.sampling import generator

WEIGHTS, TABLE = "weights", "table"

# The mean squared norm of a client's records is at most so many times the middle one. docs/choices.md, "Influence".
LONGEST = 8.0


def contributions(learnt: Mapping[str, NativeLearnt], agreed: NativeState, seed: int = 0) -> dict[str, Contributions]:
    """Return the linear weights, and the cells of ferns, of what clients learnt.

    Models, and kinds of ferns, learn in different units, so the numbers of each are divided by their middle norm.

    Parameters
    ----------
    learnt
        What each client learnt, in the order of the clients' names.
    seed
        The seed of the signs of sketches.
    """
    parts = {name: part for name, part in learnt.items() if part.records}
    if not parts:
        return {}
    each = tuple(parts.values())
    names, records = tuple(parts), np.array([part.records for part in each], np.float64)
    if not are_compared(len(names)):
        return dict.fromkeys(
            (WEIGHTS, TABLE) if len(agreed.table) else (WEIGHTS,), Contributions.of_few(names, records)
        )
    labels = (*agreed.labels, *_new([part.labels for part in each], agreed.labels))
    kinds = {WEIGHTS: Contributions.of(WEIGHTS, names, records, _weights(each, agreed, labels, records), seed)}
    if len(agreed.table):
        kinds[TABLE] = _table(names, each, agreed, labels, records, seed)
    return kinds


def of_fewer(part: NativeLearnt, records: int) -> NativeLearnt:
    """Return what a client learnt as if from fewer records: it weighs less, and so do the visits of cells."""
    less = np.ceil(np.log2(part.records / records))
    sums = records / part.records
    return replace(
        part,
        records=records,
        visits=np.maximum(0.0, part.visits - less),
        second=sums * part.second,
        bearing=sums * part.bearing,
        right=sums * part.right,
        pairs=fewer_pairs(part.pairs, sums),
        loss=None if part.loss is None else sums * part.loss,
    )


def fewer_pairs(pairs: FloatArray, share: float) -> FloatArray:
    """Return a share of some pairs, in whole counts: together they are at most that share."""
    fewer = np.column_stack([pairs[:, :2], np.floor(share * pairs[:, 2])])
    return fewer[fewer[:, 2] > 0.0]


def tempered_parts(parts: Sequence[NativeLearnt], known: Moments) -> list[NativeLearnt]:
    """Return what clients learnt with moments that do not lie far beyond the known ones, nor beyond each other's.

    The moments of a feature that began again may: they count only if most of its values began again.
    """
    each = [part.moments.only(_goes_on(part)) for part in parts]
    near = tempered([beside(moments, known, FEW) for moments in each])
    return [
        part if after is before else replace(part, moments=part.moments.where(_goes_on(part), after))
        for part, before, after in zip(parts, each, near, strict=True)
    ]


def _goes_on(part: NativeLearnt) -> BoolArray:
    return np.array([name not in part.again for name in part.moments.features], np.bool_)


def _new(names: Sequence[tuple[str, ...]], known: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({name for each in names for name in each} - set(known)))


def _weights(
    parts: Sequence[NativeLearnt], agreed: NativeState, labels: tuple[str, ...], records: FloatArray
) -> FloatArray:
    """Return the change of linear weights a record, shape (clients, rows, models, columns)."""
    features = (*agreed.features, *_new([part.features for part in parts], agreed.features))
    models, columns = agreed.weights.shape[1], len(labels) or agreed.weights.shape[2]
    X = np.zeros((len(parts), 1 + len(features), models, columns))
    at = {name: 1 + i for i, name in enumerate(features)}
    for i, part in enumerate(parts):
        rows = [0, *(at[name] for name in part.features)]
        own = part.weights * step_of_weights(part.steps_of(agreed.steps))
        X[i][rows] = placed(own, part.labels, labels) / records[i]
    return X / _middles(np.sqrt((X**2).sum(axis=(1, 3))))[:, None]


def _middles(norms: FloatArray) -> FloatArray:
    """Return the middle norm of each column; where it is 0, the largest; where all are 0, infinity.

    >>> _middles(np.array([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [9.0, 4.0, 0.0]]))
    array([ 2.,  4., inf])
    """
    middle = np.median(norms, axis=0)
    middle = np.where(middle > 0.0, middle, norms.max(axis=0))
    finite: FloatArray = np.where(middle > 0.0, middle, np.inf)
    return finite


def _table(
    names: tuple[str, ...],
    parts: Sequence[NativeLearnt],
    agreed: NativeState,
    labels: tuple[str, ...],
    records: FloatArray,
    seed: int,
) -> Contributions:
    """Return the changes of cells a record, of which most are 0."""
    changes, depths = [], []
    for part, n in zip(parts, records.tolist(), strict=True):
        cells = part.cells.astype(np.int64)
        table = placed(part.table, part.labels, labels)
        changes.append(table * step_of_cells(part.steps_of(agreed.steps), cells) / n)
        depths.append(depth_of(cells))
    squares = np.array([_squares(x, depth) for x, depth in zip(changes, depths, strict=True)])
    middles = _middles(np.sqrt(squares).reshape(len(parts), -1)).reshape(len(DEPTHS), len(FERN))
    sizes = np.sqrt((squares / middles**2).sum(axis=(1, 2)))
    sketches = np.array(
        [
            _sketch(part.cells.astype(np.int64), x / middles[depth][:, :, None], len(agreed.table), seed)
            for part, x, depth in zip(parts, changes, depths, strict=True)
        ]
    )
    return Contributions(names, records, sizes, sketches, middles.size)


def _squares(changes: FloatArray, depth: IntArray) -> FloatArray:
    """Return the sums of squares of each depth and rate."""
    rows = (changes**2).sum(axis=2)
    return np.array([rows[depth == k].sum(axis=0) for k in range(len(DEPTHS))])


def _sketch(cells: IntArray, changes: FloatArray, rows: int, seed: int) -> FloatArray:
    """Return sums of changes with random signs, which depend on the cell, the rate and the column."""
    places, signs = _places(seed, rows)
    own, sums = signs[cells], np.zeros(NUMBERS)
    for rate in range(changes.shape[1]):
        for column in range(changes.shape[2]):
            shift, sign = _shift(seed, rate, column)
            at = (places[cells] + shift) % NUMBERS
            sums += sign * np.bincount(at, own * changes[:, rate, column], minlength=NUMBERS)
    return sums


@lru_cache(maxsize=2)
def _places(seed: int, rows: int) -> tuple[IntArray, FloatArray]:
    drawn = generator(seed, "influence", TABLE).integers(2 * NUMBERS, size=rows)
    return drawn // 2, np.where(drawn % 2 == 0, -1.0, 1.0)


@lru_cache(maxsize=4096)
def _shift(seed: int, rate: int, column: int) -> tuple[int, float]:
    drawn = int(generator(seed, "influence", TABLE, rate, column).integers(2 * NUMBERS))
    return drawn // 2, 2.0 * (drawn % 2) - 1.0
