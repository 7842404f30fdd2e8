"""Mirror maps by hand: potentials, dual vectors, projections, divergences."""

import math

import numpy as np
import pytest
from divergence import divergence, potential

from streamfl.learning.algorithms.mirror_maps import Euclidean, Hypentropic, MirrorMap, PNorm

X = np.array([[1.0, -4.0], [0.5, 0.0]])  # in the ball of radius 5 of every map but p = 1.1

MAPS: dict[str, MirrorMap] = {
    "euclidean": Euclidean(radius=5.0),
    "p = 2": PNorm(p=2.0, radius=5.0),
    "p = 1.5": PNorm(p=1.5, radius=5.0),
    "p = 1.1": PNorm(p=1.1, radius=5.0),
    "hypentropic": Hypentropic(beta=1.0, radius=5.0),
    "hypentropic, small beta": Hypentropic(beta=0.05, radius=5.0),
}


def test_p_norm_by_hand() -> None:
    # p = 1.5, x = (1, -4): |x|^1.5 sums to 1 + 8 = 9, so |x|_p^2 = 9^(4/3); phi = 9^(4/3) / (2 * 0.5) = 9^(4/3).
    # Gradient: sign(x) |x|^0.5 |x|_p^0.5 / 0.5 = (1, -2) * 9^(1/3) * 2.
    x = np.array([1.0, -4.0])
    assert potential(PNorm(p=1.5), x) == pytest.approx(9.0 ** (4 / 3))
    np.testing.assert_allclose(PNorm(p=1.5).dual(x), 2.0 * 9.0 ** (1 / 3) * np.array([1.0, -2.0]))


def test_p_norm_of_2_is_euclidean() -> None:
    assert potential(PNorm(p=2.0), X) == pytest.approx(potential(Euclidean(), X))
    np.testing.assert_allclose(PNorm(p=2.0).dual(X), X)


def test_hypentropic_by_hand() -> None:
    # R = sqrt(5), beta = 2: s = 3. x = 2 sinh(1): grad = 3, phi = 3 (2 sinh 1 - 2 cosh 1) = -6 / e. At 0: -3 * 2.
    mirror = Hypentropic(beta=2.0, radius=math.sqrt(5.0))
    assert mirror.scale == pytest.approx(3.0)
    x = np.array([2.0 * math.sinh(1.0)])
    np.testing.assert_allclose(mirror.dual(x), [3.0])
    np.testing.assert_allclose(mirror.primal(np.array([3.0, -3.0, 0.0])), [x[0], -x[0], 0.0])
    assert potential(mirror, x) == pytest.approx(-6.0 / math.e)
    assert potential(mirror, np.zeros(2)) == pytest.approx(-12.0)


def test_hypentropic_without_its_scale_is_not_strongly_convex() -> None:
    # phi'' = s / sqrt(x^2 + beta^2) is 1 at |x| = R, and would be 1 / s there without s.
    mirror = Hypentropic(beta=1.0, radius=3.0)
    u, x = np.array([3.0]), np.array([2.99])
    whole = divergence(mirror, u, x)
    assert whole >= 0.5 * 0.01**2
    assert whole / mirror.scale < 0.5 * 0.01**2


def test_euclidean_by_hand() -> None:
    # |x|^2 / 2 = (1 + 16 + 0.25) / 2; B(u; x) = |u - x|^2 / 2 = 17.25 / 2 from 0.
    assert potential(Euclidean(), X) == 8.625
    assert divergence(Euclidean(), np.zeros_like(X), X) == pytest.approx(8.625)
    assert Euclidean().primal(X) is X


@pytest.mark.parametrize("mirror", MAPS.values(), ids=MAPS)
def test_the_dual_vector_is_the_gradient_of_the_potential(mirror: MirrorMap) -> None:
    x = np.array([[1.0, -4.0], [0.5, 0.3]])
    slope = mirror.dual(x)
    for at in np.ndindex(*x.shape):
        h = np.zeros_like(x)
        h[at] = 1e-5
        numeric = (potential(mirror, x + h) - potential(mirror, x - h)) / 2e-5
        assert slope[at] == pytest.approx(numeric, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("mirror", MAPS.values(), ids=MAPS)
def test_primal_undoes_dual_and_dual_undoes_primal(mirror: MirrorMap) -> None:
    np.testing.assert_allclose(mirror.primal(mirror.dual(X)), X, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(mirror.dual(mirror.primal(X)), X, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("mirror", MAPS.values(), ids=MAPS)
def test_zero_is_zero_in_both_spaces(mirror: MirrorMap) -> None:
    zero = np.zeros((2, 3))
    np.testing.assert_array_equal(mirror.dual(zero), zero)
    np.testing.assert_array_equal(mirror.primal(zero), zero)
    np.testing.assert_array_equal(mirror.project(zero), zero)


@pytest.mark.parametrize("size", [1e-150, 1e-8, 1e8, 1e150])
@pytest.mark.parametrize("p", [1.05, 1.5, 2.0])
def test_no_power_overflows(p: float, size: float) -> None:
    x = size * X
    mirror = PNorm(p=p)
    np.testing.assert_allclose(mirror.primal(mirror.dual(x)), x, rtol=1e-9)


def test_projections_by_hand() -> None:
    np.testing.assert_allclose(Euclidean(radius=1.0).project(np.array([3.0, -4.0])), [0.6, -0.8])
    # p = 1.5: |(1, -4)|_p = 9^(2/3); scaled back to 1.
    projected = PNorm(p=1.5, radius=1.0).project(np.array([1.0, -4.0]))
    np.testing.assert_allclose(projected, np.array([1.0, -4.0]) / 9.0 ** (2 / 3))
    # On a line there is but one point of the ball that can be nearest.
    np.testing.assert_allclose(Hypentropic(radius=2.0).project(np.array([-9.0])), [-2.0])


def test_the_hypentropic_projection_is_stationary() -> None:
    # z minimises B(z; x) on the ball: grad phi(x) - grad phi(z) = multiplier z with one multiplier >= 0, |z| = R.
    mirror = Hypentropic(beta=0.5, radius=2.0)
    x = np.array([5.0, -3.0, 0.2, 1.0])
    z = mirror.project(x)
    multipliers = (mirror.dual(x) - mirror.dual(z)) / z
    assert np.linalg.norm(z) == pytest.approx(2.0, abs=1e-9)
    np.testing.assert_allclose(multipliers, multipliers[0], rtol=1e-6)
    assert multipliers[0] > 0.0
    # It is not the Euclidean projection.
    assert np.linalg.norm(z - x * (2.0 / np.linalg.norm(x))) > 0.1


@pytest.mark.parametrize("mirror", MAPS.values(), ids=MAPS)
def test_a_point_of_the_ball_is_its_own_projection(mirror: MirrorMap) -> None:
    np.testing.assert_array_equal(mirror.project(0.8 * X), 0.8 * X)
