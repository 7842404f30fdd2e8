"""Rounds numbers to grids: at random at clients, so that means are right; with a memory at the coordinator.

However coarse its step, a number goes to one of its two neighbours. At random, the mean over clients and rounds is
the number itself. The coordinator goes to the nearest, and adds what it kept back to the next change.
"""

import math

import numpy as np

from streamfl.arrays import BoolArray, FloatArray, IntArray
from streamfl.learning.fixed_point import MEMBERS, largest_part
from streamfl.learning.grid import on_grid, second_steps
from streamfl.protocol.native.steps import COARSEST, Steps

# Sums of whole numbers have room for numbers so many times as large as other sums have: a fraction is left only while
# clients choose their own steps.
ROOM = 2.0**16

# What the coordinator keeps back is so fine a part of a step: a fraction of any length would fill its saved state.
PART = 2.0**-4

# The binary logarithm of the visits as which a row counts that rounds to nothing, in steps as they are published.
# docs/choices.md, "Grids".
COUNTS_AS = 3


def rounded(
    x: FloatArray, step: FloatArray, generator: np.random.Generator | None, most: float = math.inf
) -> FloatArray:
    """Return differences as whole numbers of steps.

    Of several columns, which add up to 0 as derivatives of softmax models do, the sums up to each are rounded by one
    draw. Each column is then less than a step from its number, they still add up to 0, and a row moves no more
    columns than it must.

    Parameters
    ----------
    x
        Shape (rows, models, columns).
    step
        A power of two for each row and model, or for each model.
    generator
        The draws; None: sums go to the nearest step.
    most
        The largest number of steps. What is larger is cut off: the steps of the next round have room for it.

    Examples
    --------
    >>> x, draws = np.array([[[0.9, -0.6, -0.3], [0.5, -0.5, 0.0]]]), np.random.default_rng(0)
    >>> rounded(x, np.array([[1.0], [0.5]]), draws)
    array([[[ 1., -1.,  0.],
            [ 1., -1.,  0.]]])
    >>> whole = [rounded(x, np.array([[4.0], [4.0]]), draws)[0, 0] for _ in range(8000)]
    >>> 4.0 * np.mean(whole, axis=0).round(2)
    array([ 0.92, -0.6 , -0.32])
    """
    columns = x.shape[-1]
    most /= max(1, columns - 1)  # the last column adds up to more
    draws = np.full((*x.shape[:-1], 1), 0.5) if generator is None else generator.random((*x.shape[:-1], 1))
    up_to = np.cumsum(np.clip(x / step, -most, most), axis=-1)
    if columns > 1:
        up_to[..., -1] = 0.0
    whole: FloatArray = np.diff(np.floor(up_to + draws), axis=-1, prepend=0.0)
    return whole + 0.0  # no negative zeros


def split_change(change: FloatArray, kept_back: FloatArray, step: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return what is published of a change, and what is kept back for the next one.

    Examples
    --------
    >>> split_change(np.array([[[1.3]]]), np.array([[[0.4]]]), np.array([[1.0]]))
    (array([[[2.]]]), array([[[-0.3125]]]))
    """
    whole = change + kept_back
    published = step * rounded(whole, step, None)
    part = PART * step
    return published, part * rounded(whole - published, part, None)


def split_rows(change: FloatArray, kept_back: FloatArray, step: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return what is published of rows of the table, and what is kept back of them.

    A row waits until one of its numbers has gathered a whole step: most rows then come once in some rounds.

    Examples
    --------
    >>> split_rows(np.array([[[0.9]], [[1.3]]]), np.zeros((2, 1, 1)), np.array([[[1.0]], [[1.0]]]))[0].ravel()
    array([0., 1.])
    """
    whole = change + kept_back
    gathered: BoolArray = np.abs(whole) >= step
    ready = gathered.any(axis=(1, 2), keepdims=True)
    published = step * np.where(ready, rounded(whole, step, None), 0.0)
    part = PART * step
    return published, part * rounded(whole - published, part, None)


def still_counts_as(records: int, coarser: int) -> int:
    """Return the binary logarithm of the fewest visits as which a row counts that rounds to nothing.

    >>> [still_counts_as(100, 0), still_counts_as(100, 2), still_counts_as(5, 0), still_counts_as(0, 0)]
    [3, 5, 2, 0]
    """
    return min(COUNTS_AS + min(max(0, coarser), COARSEST), max(1, records).bit_length() - 1)


def rows_sent(
    table: FloatArray, visits: IntArray, records: int, generator: np.random.Generator, *, coarser: int = 0
) -> tuple[BoolArray, FloatArray]:
    """Return which rows of the table are sent, and the binary logarithms of the visits as which they count.

    A row that moves nothing still says that little has to change. Of these, which are most, few are sent and count as
    more: their sum is right on average.

    Parameters
    ----------
    table
        The rows after rounding, shape (rows, rates, columns).
    visits
        The number of visits to each, shape (rows,).
    records
        The number of records, at least 1 if there are rows: no row can count as more visits.
    coarser
        So many times are steps doubled, and with them the visits as which a row counts that moves nothing.

    Examples
    --------
    >>> visits = np.full(4000, 2)
    >>> sent, counted = rows_sent(np.zeros((4000, 1, 1)), visits, 100, np.random.default_rng(0))
    >>> int(sent.sum()), float(np.exp2(counted[sent]).sum()), int(visits.sum())
    (1014, 8112.0, 8000)
    """
    moves = table.any(axis=(1, 2))
    least = 1 << still_counts_as(records, coarser)
    sent = moves | (least * generator.random(len(visits)) < visits)
    counted: FloatArray = np.rint(np.log2(np.where(moves, visits, np.maximum(visits, least))))
    return sent, counted


def rounded_second(second: FloatArray, steps: Steps) -> FloatArray:
    """Return a sum of z z^T on the grid of the round: features are standardised, so all have the same step."""
    size = len(second)
    return on_grid(second, second_steps((steps.half,) * size, size)) if size else second


def most_steps(records: int, coarser: int = 0) -> float:
    """Return the largest number of steps that is sent of so many records: large numbers can also be added.

    >>> most_steps(100), most_steps(100, coarser=4)
    (175921860.44416, 10995116.27776)
    """
    return math.ldexp(0.5 * ROOM * largest_part(records, MEMBERS), -coarser)
