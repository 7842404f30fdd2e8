"""The Bregman divergence of a mirror map."""

import numpy as np

from streamfl.learning.algorithms.mirror_maps import MirrorMap


def divergence(mirror: MirrorMap, u: np.ndarray, x: np.ndarray) -> float:
    """Return B(u; x) = phi(u) - phi(x) - <grad phi(x), u - x>: of the Euclidean map 2 between 3 and 1."""
    return mirror.potential(u) - mirror.potential(x) - float(np.sum(mirror.dual(x) * (u - x)))
