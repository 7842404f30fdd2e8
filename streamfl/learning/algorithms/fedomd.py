"""FedOMD: online mirror descent at the clients, averaged in the primal or in the dual space."""

from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.learning.algorithms.base import Algorithm, AlgorithmOptions, Average
from streamfl.learning.algorithms.mirror_maps import MIRROR_MAPS, Euclidean, MirrorMap


@dataclass(frozen=True, slots=True)
class FedOMD(Algorithm):
    """grad phi(x_n) = grad phi(x) - eta grad F_n(x), kept in the ball by Bregman projection.

    References
    ----------
    Ganguly and Aggarwal, "Online federated learning via non-stationary detection and adaptation amidst concept
    drift", Theorem 2; Duchi et al., "Composite objective mirror descent", 2010.

    Examples
    --------
    >>> FedOMD(l1=1.0).step(np.array([[1.0, 0.2]]), np.array([[0.0, 0.0]]), 0.5)
    array([[0.5, 0. ]])
    """

    takes: ClassVar[tuple[str, ...]] = ("mirror", "average", "l1")

    # phi. With the Euclidean map FedOMD equals FedAvg.
    mirror: MirrorMap = field(default_factory=Euclidean)

    # `primal`: x <- sum p_n x_n, as in the paper. `dual`: the mean of grad phi(x_n), mapped back. That is one mirror
    # step on the mean gradient, and keeps the regret bound. The primal average may lose it, since the divergences of
    # p-norm and hypentropic maps are not jointly convex as the paper's Theorem 2 needs.
    average: Average = "primal"

    # Weight of an L1 penalty, taken as a composite step: the dual vector is shrunk by eta l1 towards 0 and then
    # mapped back, so that weights become exactly 0.
    l1: float = 0.0

    @classmethod
    def of(cls, options: AlgorithmOptions) -> Self:
        """Return FedOMD with the chosen map, average and penalty."""
        return cls(MIRROR_MAPS.find(options.mirror)(radius=options.radius), options.average, options.l1)

    @property
    def may_be_whitened(self) -> bool:
        """Whether this equals FedAvg: other maps change the step themselves, and L1 shrinks weights one by one.

        >>> FedOMD().may_be_whitened, FedOMD(l1=0.1).may_be_whitened
        (True, False)
        """
        return isinstance(self.mirror, Euclidean) and not self.l1

    def step(self, W: FloatArray, slope: FloatArray, eta: float) -> FloatArray:
        """Return the mirror step: down the gradient in the dual space, shrunk by the L1 penalty, mapped back."""
        theta = self.mirror.dual(W) - eta * slope
        if self.l1:
            theta = np.sign(theta) * np.maximum(np.abs(theta) - eta * self.l1, 0.0)
        return self.mirror.project(self.mirror.primal(theta))

    def to_average(self, W: FloatArray) -> FloatArray:
        """Return W, or grad phi(W) when averaging in the dual space."""
        return W if self.average == "primal" else self.mirror.dual(W)

    def from_average(self, mean: FloatArray) -> FloatArray:
        """Return the point of the ball for a mean."""
        return self.mirror.project(mean if self.average == "primal" else self.mirror.primal(mean))
