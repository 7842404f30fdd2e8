"""Gaussian noise on a client's sums: how much a record can change them, so that nobody can tell whether it was there.

Two streams are neighbours if they differ in one record. Every record's features are drawn in to a radius R before
anything is computed (`RoundRecords.within`), so a record moves each block of the sums by a bounded length. A block is
divided by that length times the square root of the number of blocks: then a record moves all of them together by at
most 1, and noise of deviation sigma on each number is the Gaussian mechanism with noise multiplier sigma (Dwork and
Roth 2014, appendix A; Balle and Wang 2018 have its exact privacy). Counts of records, their places, and names are not
protected.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.errors import PeerError
from streamfl.learning.pooling.layout import Layout, SummedArray

# The steps of a sum of gradients while no grid is published: rounding moves each number by less.
ROUNDING = 2.0**-14


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of a federation.

    Examples
    --------
    >>> layout = Layout((SummedArray("losses", (9, 6)), SummedArray("step m", (3, 2)), SummedArray("norm", (1,))))
    >>> {name: round(x, 2) for name, x in Noise(2.0, radius=1.5).deviations(layout).items()}
    {'losses': 18.0, 'step m': 14.7, 'norm': 7.79}
    """

    multiplier: float  # sigma: the deviation of the noise of a total, in units of what one record can move it
    radius: float  # R: the largest norm of a record's features with the constant 1

    # Among how many clients the noise of a total is divided: 1 if each client's own sums are seen, else the minimum
    # number of clients in a total.
    clients: int = 1

    def deviations(self, layout: Layout) -> Mapping[str, float]:
        """Return the deviation of the noise that a client adds to each number, by block.

        Raises
        ------
        PeerError
            A block holds sums that one record can change without bound.
        """
        each = self.multiplier * math.sqrt(len(layout.blocks) / self.clients)
        return {block.name: each * self._length(block) for block in layout.blocks}

    def _length(self, block: SummedArray) -> float:
        """Return by how much a record, in place of another, can move a block."""
        kind, size = block.name.partition(" ")[0], math.prod(block.shape)
        match kind:
            case "losses":  # the score, its square and the proper score of each model, in [0, 1]
                return math.sqrt(3 * block.shape[0])
            case "served":  # right or not; and the record after it is compared with it as well
                return math.sqrt(5.0)
            case "norm":
                return self.radius**2
            case "second":  # z z^T, of which a triangle is sent
                return math.sqrt(2.0) * self.radius**2
            case "step":  # (p - e) z^T, where |p - e| is at most the square root of 2
                return 2.0 * math.sqrt(2.0) * self.radius + ROUNDING * math.sqrt(size)
            case "labels":  # one row of S, each number at most 2 ln K in size
                labels = block.shape[0]
                return math.sqrt(2.0 * labels) * 2.0 * math.log(max(2, labels))
        raise PeerError(f"{block.name}: sums that one record can change without bound, and noise is to hide it")

    def added(self, sums: IntArray, layout: Layout, normals: FloatArray) -> IntArray:
        """Return sums with noise, given as many standard normal numbers."""
        deviations, scaled, at = self.deviations(layout), [], 0
        for block in layout.blocks:
            n = math.prod(block.shape)
            scaled.append(np.rint(normals[at : at + n] * (deviations[block.name] * block.scale)))
            at += n
        return sums + np.concatenate(scaled).astype(np.int64)


def normals_of(numbers: IntArray) -> FloatArray:
    """Return half as many standard normal numbers as random whole numbers of 64 bits (Box and Muller 1958).

    >>> normals_of(np.array([2**62, 0]))
    array([0.75852762])
    """
    u = (numbers.astype(np.uint64) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    half = len(u) // 2
    made: FloatArray = np.sqrt(-2.0 * np.log1p(-u[:half])) * np.cos(2.0 * np.pi * u[half:])
    return made
