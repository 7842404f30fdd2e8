"""Finds the cell that each fern selects, by binary tests of a record's features."""

import math
from typing import NamedTuple

import numpy as np

from streamfl.arrays import BoolArray, FloatArray, IntArray
from streamfl.online.native.kernels.compiled import compiled, inner
from streamfl.protocol.native.settings import DEPTHS, FERNS

# The multiplier that hashes the answers of ferns with more tests than bits (Knuth 6.4).
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Tests(NamedTuple):
    """The tests of all ferns, one after another: the feature and the threshold of each. See `Ferns`."""

    feature: IntArray
    threshold: FloatArray


@compiled
def is_awake(awake: BoolArray, first: int, rates: int) -> bool:
    """Tell whether one of the models on the ferns of a depth is awake; `first` is the first of them."""
    awake_ones = 0
    for r in range(rates):
        awake_ones += awake[first + r]
    return awake_ones > 0


@compiled
def find_cells(tests: Tests, z: FloatArray, cells: IntArray, awake: BoolArray, first_fern: int, rates: int) -> None:
    """Find the row of the table that each fern selects; without any feature it is the fern's first row.

    The models on the ferns of depth k are those from `first_fern + k * rates` on.
    """
    test = fern = first = 0
    for k in range(len(DEPTHS)):
        depth, each = DEPTHS[k]
        if is_awake(awake, first_fern + k * rates, rates):
            bits = int(math.log2(each))
            for i in range(FERNS):
                number = np.uint64(0)
                if len(z) > 1:
                    for eight in range(depth // 8):
                        answers = eight_answers(tests.feature, tests.threshold, z, test + i * depth + 8 * eight)
                        number |= answers << np.uint64(8 * eight)
                if depth > bits:
                    number = (number * GOLDEN) >> np.uint64(64 - bits)
                cells[fern + i] = first + i * each + np.int64(number)
        test, fern, first = test + FERNS * depth, fern + FERNS, first + FERNS * each


@inner
def eight_answers(feature: IntArray, threshold: FloatArray, z: FloatArray, first: int) -> np.uint64:
    """Return the answers to eight tests, a bit each; depths are multiples of eight.

    Indices have no sign: else each could count from the end, which takes as long as the test.
    """
    number, at = np.uint64(0), np.uint64(first)
    for k in range(8):
        bit = np.uint64(k)
        above = z[np.uint64(1) + np.uint64(feature[at + bit])] > threshold[at + bit]
        number |= np.uint64(above) << bit
    return number
