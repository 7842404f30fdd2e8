"""The properties of mirror maps that the proofs need, at any points."""

import math

import numpy as np
import pytest
from divergence import divergence, potential
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from suites.examples import examples

from streamfl.learning.algorithms.mirror_maps import Euclidean, Hypentropic, MirrorMap, PNorm

# phi, and the norm in which it is 1-strongly convex and which defines its ball.
MAPS: dict[str, tuple[MirrorMap, float]] = {
    "euclidean": (Euclidean(radius=3.0), 2.0),
    "p = 2": (PNorm(p=2.0, radius=3.0), 2.0),
    "p = 1.5": (PNorm(p=1.5, radius=3.0), 1.5),
    "p = 1.05": (PNorm(p=1.05, radius=3.0), 1.05),
    "hypentropic": (Hypentropic(beta=1.0, radius=3.0), 2.0),
    "hypentropic, small beta": (Hypentropic(beta=0.01, radius=3.0), 2.0),
}

POINTS = arrays(np.float64, (2, 2), elements=st.floats(-10.0, 10.0, allow_subnormal=False))


def norm(x: np.ndarray, p: float) -> float:
    return float((np.abs(x) ** p).sum() ** (1.0 / p))


def inside(x: np.ndarray, p: float) -> np.ndarray:
    """Return x, scaled into the ball of radius 3 if it is outside."""
    return x * min(1.0, 3.0 / max(norm(x, p), 1e-300))


@pytest.mark.parametrize("name", MAPS)
@given(u=POINTS, x=POINTS)
def test_the_potential_of_a_mirror_map_is_1_strongly_convex_on_the_ball(
    name: str, u: np.ndarray, x: np.ndarray
) -> None:
    mirror, p = MAPS[name]
    u, x = inside(u, p), inside(x, p)
    assert divergence(mirror, u, x) >= 0.5 * norm(u - x, p) ** 2 - 1e-9


@pytest.mark.parametrize("name", MAPS)
@given(u=POINTS, x=POINTS)
@settings(max_examples=examples(25))
def test_projection_comes_nearer_to_every_point_of_the_ball(name: str, u: np.ndarray, x: np.ndarray) -> None:
    mirror, p = MAPS[name]
    u = inside(u, p)
    nearest = mirror.project(x)
    assert norm(nearest, p) <= 3.0 + 1e-9
    # The generalised Pythagorean inequality.
    far = divergence(mirror, u, x)
    assert far >= divergence(mirror, u, nearest) + divergence(mirror, nearest, x) - 1e-7 * (1.0 + far)


@pytest.mark.parametrize("name", MAPS)
@given(x=POINTS)
def test_projection_leaves_the_ball_alone_and_is_idempotent(name: str, x: np.ndarray) -> None:
    mirror, p = MAPS[name]
    x = 0.999 * inside(x, p)
    assert mirror.project(x) is x


@pytest.mark.parametrize("name", MAPS)
@given(x=POINTS)
def test_primal_and_dual_are_inverse(name: str, x: np.ndarray) -> None:
    mirror, p = MAPS[name]
    x = inside(x, p)
    np.testing.assert_allclose(mirror.primal(mirror.dual(x)), x, rtol=1e-9, atol=1e-9)


@given(u=POINTS, x=POINTS)
def test_the_euclidean_divergence_is_half_the_squared_distance(u: np.ndarray, x: np.ndarray) -> None:
    assert divergence(Euclidean(), u, x) == pytest.approx(0.5 * norm(u - x, 2.0) ** 2, abs=1e-9)


@given(x=POINTS, beta=st.floats(0.01, 5.0))
def test_the_hypentropic_map_is_its_closed_form(x: np.ndarray, beta: float) -> None:
    mirror = Hypentropic(beta=beta, radius=3.0)
    s = math.sqrt(9.0 + beta * beta)
    asinh = np.log(np.abs(x) / beta + np.sqrt((x / beta) ** 2 + 1.0)) * np.sign(x)
    np.testing.assert_allclose(mirror.dual(x), s * asinh, rtol=1e-9, atol=1e-9)
    assert potential(mirror, x) == pytest.approx(s * float((x * asinh - np.sqrt(x**2 + beta**2)).sum()))


@given(x=POINTS, p=st.floats(1.05, 2.0))
def test_the_p_norm_map_is_its_closed_form(x: np.ndarray, p: float) -> None:
    mirror, size = PNorm(p=p), norm(x, p)
    expected = np.sign(x) * np.abs(x) ** (p - 1.0) * (size ** (2.0 - p) if size else 0.0) / (p - 1.0)
    np.testing.assert_allclose(mirror.dual(x), expected, rtol=1e-9, atol=1e-9)
    assert potential(mirror, x) == pytest.approx(size**2 / (2.0 * (p - 1.0)))
