"""Rounds what a client's native models learnt to the grids of the round, and chooses the grids of the next.

A step is so many times the mean magnitude of what was learnt, so a number takes a bit or two. Numbers are rounded at
random to one of their two neighbours on the grid: the mean over clients, and over rounds, is right however coarse the
step. So is the mean magnitude, which is why steps do not feed on their own rounding.
"""

import math
from collections.abc import Sequence

import numpy as np

from streamfl.core.arrays import FloatArray, IntArray
from streamfl.core.learning.fixed_point import MEMBERS, largest_part
from streamfl.core.learning.grid import on_grid, second_steps
from streamfl.core.protocol.native.learnt import NativeLearnt
from streamfl.core.protocol.native.settings import DEPTHS, FERN, FERNS, KINDS
from streamfl.core.protocol.native.steps import LEAST, MOST, Steps

# Steps in mean magnitudes, of linear weights and of cells. docs/choices.md, "Grids".
WEIGHTS, CELLS = 0.5, 3.0

# So many times are the published steps halved. docs/choices.md, "Grids".
FINER = 1

# Sums of whole numbers have room for numbers so many times as large as other sums have: a fraction is left only while
# clients choose their own steps.
ROOM = 2.0**16

# The first row of the table that belongs to the ferns of each depth.
_FIRST = np.cumsum([0, *(FERNS * cells for _, cells in DEPTHS[:-1])])


def rounded(x: FloatArray, step: FloatArray, generator: np.random.Generator, most: float = math.inf) -> FloatArray:
    """Return differences as whole numbers of steps, rounded at random.

    Parameters
    ----------
    x
        Shape (rows, models, columns). Of several columns, the last is what makes them add up to 0, as derivatives of
        softmax models do.
    step
        A power of two for each row and model, or for each model.
    generator
        The draws.
    most
        The largest number of steps. What is larger is cut off: the steps of the next round have room for it.

    Examples
    --------
    >>> x, draws = np.array([[[0.9, -0.9], [0.5, -0.5]]]), np.random.default_rng(0)
    >>> rounded(x, np.array([[0.5], [0.5]]), draws)
    array([[[ 2., -2.],
            [ 1., -1.]]])
    >>> round(float(np.mean([rounded(x, np.array([[4.0], [4.0]]), draws)[0, 0, 0] for _ in range(4000)])), 2) * 4.0
    0.92
    """
    most /= max(1, x.shape[-1] - 1)  # the last column adds up to more
    exact = np.clip(x / step, -most, most)
    whole = np.floor(exact)
    whole += generator.random(x.shape) < exact - whole
    if x.shape[-1] > 1:
        whole[..., -1] = -whole[..., :-1].sum(axis=-1)
    return whole + 0.0  # no negative zeros


def rounded_second(second: FloatArray, steps: Steps) -> FloatArray:
    """Return a sum of z z^T on the grid of the round: features are standardised, so all have the same step."""
    size = len(second)
    return on_grid(second, second_steps((steps.half,) * size, size)) if size else second


def rounded_to(x: FloatArray, step: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Return differences rounded at random to multiples of a step: see `rounded`."""
    return step * rounded(x, step, generator)


def most_steps(records: int) -> float:
    """Return the largest number of steps that is sent of so many records: large numbers can be added, too.

    >>> most_steps(100)
    175921860.44416
    """
    return 0.5 * ROOM * largest_part(records, MEMBERS)


def finer(steps: Steps) -> Steps:
    """Return the steps of what the coordinator publishes: a mean over clients is smaller than what each learnt."""
    return Steps(tuple(e - FINER for e in steps.weights), tuple(e - FINER for e in steps.table))


def half_of(records: float) -> int:
    """Return the exponent of sqrt(n), rounded."""
    return round(0.5 * math.log2(max(1.0, records)))


def step_of_weights(steps: Steps) -> FloatArray:
    """Return the step of each model, shape (models, 1)."""
    return np.ldexp(1.0, np.array(steps.weights, np.int64))[:, None]


def step_of_cells(steps: Steps, cells: IntArray) -> FloatArray:
    """Return the step of each cell and rate, shape (cells, rates, 1)."""
    by_depth = np.ldexp(1.0, np.array(steps.table, np.int64)).reshape(len(DEPTHS), len(FERN), 1)
    by_cell: FloatArray = by_depth[depth_of(cells)]
    return by_cell


def depth_of(cells: IntArray) -> IntArray:
    """Return the index of the depth of the ferns that cells belong to.

    >>> depth_of(np.array([0, 25_599, 25_600]))
    array([0, 0, 1])
    """
    return np.searchsorted(_FIRST, cells, side="right") - 1


def own_steps(weights: FloatArray, table: FloatArray, cells: IntArray, records: int) -> Steps:
    """Return the steps that fit what one client learnt: it chooses them while none are published.

    >>> own_steps(np.array([[[3.0, -5.0]]]), np.zeros((0, 2, 2)), np.zeros(0, np.int64), records=100)
    Steps(weights=(1,), table=(0, 0, 0, 0), half=3)
    """
    nothing = Steps((0,) * weights.shape[1], (0,) * KINDS)
    return _fitting(magnitudes(weights, table, cells), nothing, records)


def common_steps(published: Steps, parts: Sequence[NativeLearnt]) -> Steps:
    """Return the steps in which what clients learnt is added up: the published ones, or the medians of their own."""
    if published.are_known:
        return published
    weights = np.sort([part.steps.weights for part in parts], axis=0)[len(parts) // 2]
    table = np.sort([part.steps.table for part in parts], axis=0)[len(parts) // 2]
    return Steps(tuple(weights.tolist()), tuple(table.tolist()))


def next_steps(before: Steps, parts: Sequence[NativeLearnt]) -> Steps:
    """Return the steps of the next round, from what all clients learnt in this one.

    The median over clients counts: no client can move it alone.

    Parameters
    ----------
    before
        The steps of this round; unknown in the first.
    parts
        What each client learnt, of some records.
    """
    each = []
    for part in parts:
        steps, cells = part.steps_of(before), part.cells.astype(np.int64)
        units = np.ldexp(1.0, np.array((*steps.weights, *steps.table), np.int64))
        each.append(units * magnitudes(part.weights, part.table, cells))
    means = np.array([np.median(of_kind[of_kind > 0.0]) if of_kind.any() else 0.0 for of_kind in np.array(each).T])
    return _fitting(means, parts[0].steps_of(before), float(np.mean([part.records for part in parts])))


def magnitudes(weights: FloatArray, table: FloatArray, cells: IntArray) -> FloatArray:
    """Return the mean magnitude of the numbers of each model, and of each depth and rate; 0 without numbers."""
    depth = depth_of(cells)
    by_depth = [np.abs(table[depth == k]) for k in range(len(DEPTHS))]
    of_cells = [changes.sum(axis=(0, 2)) / max(1, len(changes)) for changes in by_depth]
    columns = max(1, weights.shape[-1])
    by_model: FloatArray = np.abs(weights).sum(axis=(0, 2)) / len(weights)
    means: FloatArray = np.concatenate([by_model, *of_cells]) / columns
    return means


def _fitting(means: FloatArray, before: Steps, records: float) -> Steps:
    """Return the steps that fit mean magnitudes; models that learnt nothing keep theirs."""
    models = len(before.weights)
    factors = np.where(np.arange(len(means)) < models, WEIGHTS, CELLS)
    fitting = np.rint(np.log2(factors * np.where(means > 0.0, means, 1.0)))
    kept = (*before.weights, *before.table)
    exponents = np.where(means > 0.0, np.clip(fitting, LEAST, MOST), kept).astype(int).tolist()
    return Steps(tuple(exponents[:models]), tuple(exponents[models:]), half_of(records))
