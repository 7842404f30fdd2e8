"""FedProx: local steps that are pulled back to the round's model."""

from dataclasses import dataclass
from typing import ClassVar, Self

from streamfl.arrays import FloatArray
from streamfl.learning.algorithms.base import AlgorithmOptions
from streamfl.learning.algorithms.fedavg import FedAvg


@dataclass(frozen=True, slots=True)
class FedProx(FedAvg):
    """x_n <- x_n - eta (grad F_n(x_n) + mu (x_n - x)) from x_n = x in every local step, then x <- sum p_n x_n.

    With one step a round it is FedAvg: there x_n is x.

    Parameters
    ----------
    radius
        Euclidean radius of the ball that models stay in.
    mu
        How strongly local steps are pulled back; 0 is FedAvg. The source tries 0.001, 0.01, 0.1, 0.5 and 1.

    References
    ----------
    Li et al., "Federated optimization in heterogeneous networks", MLSys 2020, Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> FedProx(mu=0.5).pull(np.array([[3.0, 1.0]]), start=np.array([[1.0, 1.0]]))
    array([[1., 0.]])
    """

    takes: ClassVar[tuple[str, ...]] = ("mu",)
    of_several_steps: ClassVar[bool] = True

    mu: float = 0.01

    @classmethod
    def of(cls, options: AlgorithmOptions) -> Self:
        """Return FedProx with the chosen radius and pull."""
        return cls(options.radius, options.mu)

    def pull(self, W: FloatArray, start: FloatArray) -> FloatArray:
        """Return mu (W - start)."""
        return self.mu * (W - start)
