"""Grids of powers of two: what is sent is a multiple of a step, so it takes few bits and adds up exactly.

The steps of what clients send follow from published exponents, so they are the same at every client. A sum over n
independent records of a feature with deviation s has a deviation near s sqrt(n) times that of the other factor; steps
are small parts of it, and rounding is noise far below that of the records themselves. Published weights are rounded
by the coordinator alone.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from streamfl.arrays import FloatArray, IntArray

# Steps of gradients, with up to this many numbers a record, and of second moments; as powers of two, in units of
# s sqrt(n). Steps of published weights, in units of 1 / s. docs/choices.md, "Grids".
GRADIENT, ROWS, SECOND, WEIGHT = -4, 55, -2, -6

# Exponents while no deviation is known: features may be small. docs/choices.md, "Grids".
UNKNOWN = -10

# The step of weights in mixtures, as a power of two. docs/choices.md, "Grids".
SHARE = -14

# Exponents beyond these bounds are not published. docs/choices.md, "Grids".
LEAST, MOST = -60, 60


def exponents(deviation: FloatArray, records: float) -> tuple[int, ...]:
    """Return the exponents to publish, one a row: log2 of s sqrt(n), rounded.

    Parameters
    ----------
    deviation
        s, shape (d + 1,); 0 where a feature does not vary.
    records
        n, the records of a client in a round.

    Examples
    --------
    >>> exponents(np.array([1.0, 0.1, 0.0]), 100.0)
    (3, 0, -7)
    """
    logs = np.log2(np.where(deviation > 0.0, deviation, 2.0**UNKNOWN)) + 0.5 * np.log2(records)
    return tuple(np.clip(np.rint(logs), LEAST, MOST).astype(int).tolist())


def on_grid(sums: FloatArray, steps: FloatArray) -> FloatArray:
    """Return the nearest multiples of some steps, powers of two; never a negative zero.

    >>> on_grid(np.array([0.3, -0.3, -0.1]), np.full(3, 0.25))
    array([ 0.25, -0.25,  0.  ])
    """
    nearest: FloatArray = np.rint(sums / steps) * steps + 0.0
    return nearest


@lru_cache(maxsize=8)  # the clients of a process share the steps of a round
def gradient_steps(published: tuple[int, ...], rows: int) -> FloatArray:
    """Return the step of each row of a sum of gradients, shape (rows, 1); nobody may write to it.

    Whitening magnifies the directions in which features hardly vary, and with them the noise of rounding. The more
    features there are, the less they vary in some directions, so steps are finer.

    >>> gradient_steps((3, 0), 2).T, gradient_steps((), 1)
    (array([[0.5   , 0.0625]]), array([[6.10351562e-05]]))
    """
    steps: FloatArray = np.ldexp(1.0, _known(published, rows) + GRADIENT - max(0, round(np.log2(rows / ROWS))))
    steps.flags.writeable = False
    return steps[:, None]


@lru_cache(maxsize=8)  # as above
def second_steps(published: tuple[int, ...], rows: int) -> FloatArray:
    """Return the steps of a sum of z z^T, shape (rows, rows); nobody may write to it.

    They are at most a quarter of a deviation. Rounding must not make a matrix of n records indefinite, so its noise,
    whose spectral norm is near 2 sqrt(rows / 12) steps, is also at most an eighth of n.

    >>> second_steps((0, 3), 2)
    array([[0.03125, 0.25   ],
           [0.25   , 2.     ]])
    """
    e = _known(published, rows)
    half = int(e[-1])  # the constant 1 has deviation 1, so its exponent is that of sqrt(n)
    finest = int(np.floor(np.log2(np.sqrt(12.0 / rows) / 16.0)))
    steps: FloatArray = np.ldexp(1.0, e[:, None] + e[None, :] + min(SECOND - half, finest))
    steps.flags.writeable = False
    return steps


def weight_exponents(deviation: FloatArray) -> FloatArray:
    """Return the steps of published weights by row, as powers of two, shape (d + 1,).

    A weight that is off by e changes outputs by e s on average, so its step is a part of 1 / s. The errors of all
    features add up as squares: with four times as many, steps are half as long.

    Parameters
    ----------
    deviation
        s, shape (d + 1,); 0 where a feature does not vary.

    Examples
    --------
    >>> weight_exponents(np.array([1.0, 0.1, 0.0])), weight_exponents(np.ones(220))[:2]
    (array([-6., -3.,  4.]), array([-7., -7.]))
    """
    logs = np.log2(np.where(deviation > 0.0, deviation, 2.0**UNKNOWN))
    finer = max(0, round(0.5 * np.log2(len(deviation) / ROWS)))
    steps: FloatArray = np.clip(WEIGHT - finer - np.rint(logs), LEAST, MOST)
    return steps


def weights_on_grid(models: FloatArray, exponents: FloatArray) -> FloatArray:
    """Return the nearest weights on a grid. Where rows of a model add up to 0, as a softmax's do, they still do.

    Parameters
    ----------
    models
        The weights of several models, shape (models, d + 1, columns).
    exponents
        The steps by row, as powers of two, shape (d + 1,).

    Examples
    --------
    >>> weights_on_grid(np.array([[[0.3, 0.3, -0.6]], [[0.3, 0.3, 0.3]]]), np.array([-1.0]))[:, 0]
    array([[ 0.5,  0.5, -1. ],
           [ 0.5,  0.5,  0.5]])
    """
    steps = np.ldexp(1.0, exponents.astype(np.int64))
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused elsewhere
        nearest = on_grid(models, steps[:, None])
        if models.shape[2] > 1:
            zero = (np.abs(models.sum(axis=2)) < steps / 8.0).all(axis=1)
            nearest[zero, :, -1] = 0.0 - nearest[zero, :, :-1].sum(axis=2)
    return nearest


def shares_on_grid(shares: FloatArray) -> FloatArray:
    """Return shares on a grid, of which the sum is 1 exactly; none becomes negative.

    >>> float(shares_on_grid(np.ones(3) / 3.0).sum()), shares_on_grid(np.zeros(0))
    (1.0, array([], dtype=float64))
    """
    up_to = np.cumsum(shares)
    return np.diff(on_grid(up_to / up_to[-1:], np.full(len(shares), 2.0**SHARE)), prepend=0.0)


def weights_in_short(W: FloatArray) -> FloatArray:
    """Return the nearest floats of 32 bits; weights that are too large for these stay as they are.

    >>> weights_in_short(np.array([[0.1, 1e99]]))
    array([[1.00000001e-01, 1.00000000e+99]])
    """
    with np.errstate(over="ignore"):
        nearest = W.astype(np.float32).astype(np.float64)
    return np.where(np.isfinite(nearest), nearest, W)


def short(number: float) -> float:
    """Return the nearest float of 32 bits: sums of scores need no more. Whole numbers below 2^24 stay as they are.

    >>> short(0.1), short(7.0)
    (0.10000000149011612, 7.0)
    """
    return float(np.float32(number))


def in_short(numbers: FloatArray | IntArray) -> list[float]:
    """Return the nearest floats of 32 bits, see `short`."""
    nearest: list[float] = numbers.astype(np.float32).tolist()
    return nearest


def _known(published: Sequence[int], rows: int) -> IntArray:
    return np.array(published, dtype=np.int64) if published else np.full(rows, UNKNOWN, dtype=np.int64)
