"""FedAvg: local gradient steps, averaged by the number of records."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.learning.algorithms.base import RADIUS, Algorithm, AlgorithmOptions


@dataclass(frozen=True, slots=True)
class FedAvg(Algorithm):
    """x_n = x - eta grad F_n(x), then x <- sum p_n x_n, kept in a ball.

    References
    ----------
    McMahan et al., "Communication-efficient learning of deep networks from decentralized data", 2017;
    Ganguly and Aggarwal, "Online federated learning via non-stationary detection and adaptation amidst concept
    drift", Theorem 1.

    Examples
    --------
    >>> FedAvg().step(np.array([[1.0, 2.0]]), np.array([[2.0, -2.0]]), 0.5)
    array([[0., 3.]])
    >>> FedAvg(radius=1.0).from_average(np.array([[3.0, 4.0]]))
    array([[0.6, 0.8]])
    """

    radius: float = RADIUS  # Euclidean radius of the ball that models stay in

    @classmethod
    def of(cls, options: AlgorithmOptions) -> Self:
        """Return FedAvg with the chosen radius."""
        return cls(options.radius)

    @property
    def may_be_whitened(self) -> bool:
        """True: a step is a plain gradient step."""
        return True

    def step(self, W: FloatArray, slope: FloatArray, eta: float) -> FloatArray:
        """Return W - eta slope, or the nearest point of the ball."""
        return onto_ball(W - eta * slope, self.radius)

    def from_average(self, mean: FloatArray) -> FloatArray:
        """Return the nearest point of the ball."""
        return onto_ball(mean, self.radius)


def onto_ball(W: FloatArray, radius: float) -> FloatArray:
    """Return the Euclidean projection of W onto the ball of a radius."""
    flat = W.ravel(order="K")
    norm = float(np.sqrt(flat.dot(flat)))  # as `np.linalg.norm`, which looks at its options first
    return W if norm <= radius else W * (radius / norm)
