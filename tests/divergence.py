"""The potentials of mirror maps, and their Bregman divergences."""

import numpy as np

from streamfl.learning.algorithms.mirror_maps import Hypentropic, MirrorMap, PNorm


def potential(mirror: MirrorMap, x: np.ndarray) -> float:
    """Return phi(x), as the classes of the maps give it."""
    match mirror:
        case PNorm(p=p):
            return float((np.abs(x) ** p).sum() ** (2.0 / p)) / (2.0 * (p - 1.0))
        case Hypentropic(beta=beta):
            return mirror.scale * float(np.sum(x * np.arcsinh(x / beta) - np.hypot(x, beta)))
    return 0.5 * float(np.sum(x * x))


def divergence(mirror: MirrorMap, u: np.ndarray, x: np.ndarray) -> float:
    """Return B(u; x) = phi(u) - phi(x) - <grad phi(x), u - x>: of the Euclidean map 2 between 3 and 1."""
    return potential(mirror, u) - potential(mirror, x) - float(np.sum(mirror.dual(x) * (u - x)))
