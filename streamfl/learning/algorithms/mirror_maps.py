"""Mirror maps: functions phi, 1-strongly convex on the ball, with their gradients and projections.

A map takes models to dual vectors, theta = grad phi(x), and back. All norms are those of the flattened weight matrix.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.learning.algorithms.base import RADIUS
from streamfl.learning.algorithms.fedavg import onto_ball
from streamfl.protocol.registered import Registered


class MirrorMap(Protocol):
    """phi on the ball of radius `radius`, with all that mirror descent needs of it."""

    @property
    def radius(self) -> float:
        """Return the radius of the ball."""
        ...

    def dual(self, x: FloatArray) -> FloatArray:
        """Return grad phi(x)."""
        ...

    def primal(self, theta: FloatArray) -> FloatArray:
        """Return the x with grad phi(x) = theta."""
        ...

    def project(self, x: FloatArray) -> FloatArray:
        """Return the point of the ball nearest to x in Bregman divergence."""
        ...


@dataclass(frozen=True, slots=True)
class Euclidean:
    """phi = |x|^2 / 2: mirror descent is gradient descent.

    >>> Euclidean().dual(np.array([2.0]))
    array([2.])
    """

    radius: float = RADIUS

    def dual(self, x: FloatArray) -> FloatArray:
        """Return x."""
        return x

    def primal(self, theta: FloatArray) -> FloatArray:
        """Return theta."""
        return theta

    def project(self, x: FloatArray) -> FloatArray:
        """Return the nearest point of the ball."""
        return onto_ball(x, self.radius)


@dataclass(frozen=True, slots=True)
class PNorm:
    """phi = |x|_p^2 / (2 (p - 1)), 1 < p <= 2, 1-strongly convex in the p-norm; the ball is a ball of the p-norm.

    Sources: Grove, Littlestone and Schuurmans 2001; Shalev-Shwartz 2007 for the strong convexity.

    >>> mirror = PNorm(p=1.5)
    >>> x = np.array([1.0, -4.0])
    >>> mirror.primal(mirror.dual(x)).round(12)
    array([ 1., -4.])
    """

    p: float = 1.5
    radius: float = RADIUS

    def dual(self, x: FloatArray) -> FloatArray:
        """Return sign(x) |x|^(p-1) |x|_p^(2-p) / (p - 1)."""
        return _link(x, self.p) / (self.p - 1.0)

    def primal(self, theta: FloatArray) -> FloatArray:
        """Return the same with the conjugate exponent q = p / (p - 1), of (p - 1) theta."""
        return _link((self.p - 1.0) * theta, self.p / (self.p - 1.0))

    def project(self, x: FloatArray) -> FloatArray:
        """Return x scaled down to the ball: phi depends on the p-norm alone, so its Bregman projection is radial."""
        norm = _norm(x, self.p)
        return x if norm <= self.radius else x * (self.radius / norm)


@dataclass(frozen=True, slots=True)
class Hypentropic:
    """phi = s sum( x asinh(x / beta) - sqrt(x^2 + beta^2) ), s = sqrt(R^2 + beta^2).

    The scale s makes it 1-strongly convex on the ball of radius R: phi'' = s / sqrt(x^2 + beta^2) >= 1 there.
    The step is that of exponentiated gradient with positive and negative weights.

    Source: Ghai, Hazan and Singer 2020.

    >>> mirror = Hypentropic(beta=1.0, radius=3.0)
    >>> x = np.array([0.5, -2.0])
    >>> mirror.primal(mirror.dual(x)).round(12)
    array([ 0.5, -2. ])
    """

    beta: float = 1.0
    radius: float = RADIUS

    @property
    def scale(self) -> float:
        """Return s."""
        return float(np.hypot(self.radius, self.beta))

    def dual(self, x: FloatArray) -> FloatArray:
        """Return s asinh(x / beta)."""
        return self.scale * np.arcsinh(x / self.beta)

    def primal(self, theta: FloatArray) -> FloatArray:
        """Return beta sinh(theta / s)."""
        return self.beta * np.sinh(np.clip(theta / self.scale, -700.0, 700.0))

    def project(self, x: FloatArray) -> FloatArray:
        """Return the z of the Euclidean ball with s asinh(z / beta) + multiplier z = grad phi(x).

        The norm of z falls as the multiplier grows, so the multiplier is found by bisection.
        """
        if float(np.linalg.norm(x)) <= self.radius:
            return x
        theta = self.dual(x)
        low, high = 0.0, float(np.linalg.norm(theta)) / self.radius
        for _ in range(100):
            middle = 0.5 * (low + high)
            if float(np.linalg.norm(self._shrunk(theta, middle))) > self.radius:
                low = middle
            else:
                high = middle
        return onto_ball(self._shrunk(theta, high), self.radius)

    def _shrunk(self, theta: FloatArray, multiplier: float) -> FloatArray:
        """Solve s asinh(z / beta) + multiplier z = theta, coordinate by coordinate.

        In w = asinh(z / beta) the left side is convex for w > 0. So Newton's method, started to the right of the root
        where one term is dropped, descends to the root without overshooting.
        """
        target = np.abs(theta)
        w = target / self.scale
        if multiplier > 0.0:
            w = np.minimum(w, np.arcsinh(target / (multiplier * self.beta)))
        for _ in range(60):
            excess = self.scale * w + multiplier * self.beta * np.sinh(w) - target
            step = excess / (self.scale + multiplier * self.beta * np.cosh(w))
            w = w - step
            if float(np.max(np.abs(step), initial=0.0)) <= 1e-16 * float(np.max(w, initial=0.0)):
                break
        return np.sign(theta) * self.beta * np.sinh(np.maximum(w, 0.0))


# The maps by name; each is made with a `radius`.
MIRROR_MAPS = Registered[Callable[..., MirrorMap]](
    "mirror map", None, "streamfl.mirror_maps", {"euclidean": Euclidean, "hypentropic": Hypentropic, "p-norm": PNorm}
)


def _norm(x: FloatArray, p: float) -> float:
    top = float(np.max(np.abs(x), initial=0.0))
    return top * float(np.sum((np.abs(x) / top) ** p)) ** (1.0 / p) if top > 0.0 else 0.0


def _link(x: FloatArray, p: float) -> FloatArray:
    """Return the gradient of |x|_p^2 / 2, computed on x / |x|_p so that no power over- or underflows."""
    norm = _norm(x, p)
    if norm == 0.0:
        return np.zeros_like(x)
    return np.sign(x) * (np.abs(x) / norm) ** (p - 1.0) * norm
