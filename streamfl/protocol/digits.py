"""As many digits of a number as anybody reads, so that a message spends no bytes on others."""

import numpy as np

from streamfl.arrays import FloatArray, IntArray

SIGNIFICANT = 6

# The bits of moments, sums of scores and gradients of targets in updates. docs/choices.md, "Grids".
BITS = 8


def significant(number: float) -> float:
    """Return the nearest number with six significant digits, for people.

    >>> significant(2 / 3), significant(87.0), significant(-1234567.0)
    (0.666667, 87.0, -1234570.0)
    """
    return float(f"{number:.{SIGNIFICANT}g}")


def in_bits(numbers: FloatArray | IntArray) -> FloatArray:
    """Return the nearest numbers of `BITS` significant bits: each is off by at most a 256th of itself.

    >>> in_bits(np.array([2 / 3, 255.0, 257.0, -1e-3, 0.0]))
    array([ 6.67968750e-01,  2.55000000e+02,  2.56000000e+02, -9.99450684e-04,
            0.00000000e+00])
    """
    fraction, exponent = np.frexp(numbers)
    nearest: FloatArray = np.ldexp(np.rint(np.ldexp(fraction, BITS)), exponent - BITS)
    return nearest
