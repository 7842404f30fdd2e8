"""The grids on which native models' changes are sent: how coarse they are, and how the next ones are chosen.

A step is so many times the mean magnitude of what was learnt, so a number takes a bit or two.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.settings import DEPTHS, FERN, FERNS
from streamfl.protocol.native.steps import LEAST, MOST, Steps

# Steps in mean magnitudes, of linear weights and of cells. docs/choices.md, "Grids".
WEIGHTS, CELLS = 0.5, 12.0

# Before steps are published, a client does not know how many others there are, and halves its own so many times.
FIRST = 3

# From so many clients on, steps are as coarse as that. docs/choices.md, "Grids".
MANY = 10

# The first row of the table that belongs to the ferns of each depth.
_FIRST = np.cumsum([0, *(FERNS * cells for _, cells in DEPTHS[:-1])])


def half_of(records: float) -> int:
    """Return the exponent of sqrt(n), rounded."""
    return round(0.5 * math.log2(max(1.0, records)))


def step_of_weights(steps: Steps) -> FloatArray:
    """Return the step of each model, shape (models, 1)."""
    return np.ldexp(1.0, np.array(steps.weights, np.int64) - steps.finer)[:, None]


def step_of_cells(steps: Steps, cells: IntArray) -> FloatArray:
    """Return the step of each cell and rate, shape (cells, rates, 1)."""
    by_depth = np.ldexp(1.0, np.array(steps.table, np.int64) - steps.finer).reshape(len(DEPTHS), len(FERN), 1)
    by_cell: FloatArray = by_depth[depth_of(cells)]
    return by_cell


def depth_of(cells: IntArray) -> IntArray:
    """Return the index of the depth of the ferns that cells belong to.

    >>> depth_of(np.array([0, 25_599, 25_600]))
    array([0, 0, 1])
    """
    return np.searchsorted(_FIRST, cells, side="right") - 1


def fitting_steps(
    weights: FloatArray, table: FloatArray, cells: IntArray, records: int, agreed: NativeState
) -> Steps:
    """Return the steps that fit what one client learnt: so many times the mean magnitude of its numbers.

    Models that learnt nothing keep the steps that are published.

    Parameters
    ----------
    weights, table, cells
        What it learnt: the changes of linear weights, shape (d + 1, models, columns), and those of the table in some
        rows.
    """
    means = magnitudes(weights, table, cells)
    models = weights.shape[1]
    kept = (*agreed.steps.weights, *agreed.steps.table) if agreed.steps.are_known else (0,) * len(means)
    wanted = np.where(np.arange(len(means)) < models, WEIGHTS, CELLS) * means
    exponents = np.where(means > 0.0, np.clip(_log2(wanted), LEAST, MOST), kept).astype(int).tolist()
    own = Steps(tuple(exponents[:models]), tuple(exponents[models:]), half_of(records))
    return own if agreed.steps.are_known else replace(own, finer=FIRST)


def next_steps(parts: Sequence[NativeLearnt]) -> Steps:
    """Return the steps of the next round: the medians of those of the clients, and finer if there are few clients.

    Errors of rounding average out over clients, and over few of them less.
    """
    return replace(median_steps(parts), finer=max(0, math.ceil(math.log2(MANY / len(parts)))))


def median_steps(parts: Sequence[NativeLearnt]) -> Steps:
    """Return the medians of the steps that fit what each client learnt: no client can move them alone."""
    each = [(*part.steps.weights, *part.steps.table, part.steps.half, part.steps.finer) for part in parts]
    *exponents, half, finer = np.sort(each, axis=0)[len(each) // 2].tolist()
    models = len(parts[0].steps.weights)
    return Steps(tuple(exponents[:models]), tuple(exponents[models:]), half, finer)


def magnitudes(weights: FloatArray, table: FloatArray, cells: IntArray) -> FloatArray:
    """Return the mean magnitude of the numbers of each model, and of each depth and rate; 0 without numbers.

    >>> magnitudes(np.array([[[3.0, -5.0]]]), np.array([[[0.0, 1.0], [2.0, 2.0]]]), np.array([7]))
    array([4. , 0.5, 2. , 0. , 0. ])
    """
    depth = depth_of(cells)
    by_depth = [np.abs(table[depth == k]) for k in range(len(DEPTHS))]
    of_cells = [changes.sum(axis=(0, 2)) / max(1, len(changes)) for changes in by_depth]
    by_model: FloatArray = np.abs(weights).sum(axis=(0, 2)) / len(weights)
    means: FloatArray = np.concatenate([by_model, *of_cells]) / max(1, weights.shape[-1])
    return means


def _log2(x: FloatArray) -> FloatArray:
    """Return the nearest whole binary logarithm of positive numbers, 0 for 0."""
    nearest: FloatArray = np.rint(np.log2(np.where(x > 0.0, x, 1.0)))
    return nearest
