"""Finds the cell that each fern selects, by binary tests of a record's features."""

import math
from typing import NamedTuple

import numpy as np

from streamfl.arrays import BoolArray, FloatArray, IntArray
from streamfl.online.native.kernels.compiled import compiled
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
        if not is_awake(awake, first_fern + k * rates, rates):
            test, fern, first = test + FERNS * depth, fern + FERNS, first + FERNS * each
            continue
        bits = int(math.log2(each))
        for _ in range(FERNS):
            number = np.uint64(0)
            for bit in range(depth):
                if len(z) > 1:
                    above = z[1 + tests.feature[test]] > tests.threshold[test]
                    number |= np.uint64(above) << np.uint64(bit)
                test += 1
            if depth > bits:
                number = (number * GOLDEN) >> np.uint64(64 - bits)
            cells[fern] = first + np.int64(number)
            first += each
            fern += 1
