"""Theorems 1 and 2: the regret of one full-batch step a round with step 1/sqrt(T), on streams whose bounds are known.

Losses are Huber losses of residuals, F_t(x) = mean of h(<z, x> - y_t) with |h'| <= 1 and |z| <= 1: convex and
1-Lipschitz. Only targets drift, and h is 1-Lipschitz in the target, so |F_t(x) - F_(t-1)(x)| is at most the mean of
|y_t - y_(t-1)|, for every x.
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from divergence import divergence
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from suites.examples import examples

from streamfl.learning.algorithms import Algorithm, FedAvg, FedOMD, LocalProblem, combine, local_model
from streamfl.learning.algorithms.mirror_maps import Euclidean, Hypentropic, MirrorMap, PNorm
from streamfl.learning.model import gradient, objective
from streamfl.learning.profiles.paper.optimistic import regret_estimate
from streamfl.learning.profiles.paper.schedule import rho_hat
from streamfl.models import Linear

HUBER = Linear(loss="huber", delta=1.0)
RADIUS = 4.0

CASES: dict[str, tuple[Algorithm, MirrorMap]] = {
    # Theorem 1: |x1 - x*|^2 / 2 is the Euclidean divergence.
    "fedavg": (FedAvg(radius=RADIUS), Euclidean()),
    # Theorem 2.
    "euclidean": (FedOMD(Euclidean(radius=RADIUS)), Euclidean()),
    "p = 1.5": (FedOMD(PNorm(p=1.5, radius=RADIUS), average="dual"), PNorm(p=1.5)),
    "p = 1.1": (FedOMD(PNorm(p=1.1, radius=RADIUS), average="dual"), PNorm(p=1.1)),
    "hypentropic": (FedOMD(Hypentropic(radius=RADIUS), average="dual"), Hypentropic(radius=RADIUS)),
    "hypentropic, small beta": (
        FedOMD(Hypentropic(beta=0.2, radius=RADIUS), average="dual"),
        Hypentropic(beta=0.2, radius=RADIUS),
    ),
}


@dataclass
class Stream:
    """The same records in every round, dealt to clients of 1, 3 and 8 records, with targets that change."""

    Z: np.ndarray
    targets: np.ndarray

    @property
    def rounds(self) -> int:
        return len(self.targets)

    def loss(self, t: int, x: np.ndarray) -> float:
        return objective(HUBER, x, self.Z, self.targets[t])

    def drift(self) -> float:
        return float(np.abs(np.diff(self.targets, axis=0)).mean(axis=1).sum())

    def best(self) -> np.ndarray:
        """Return the minimiser of the sum of all losses."""
        return least(np.tile(self.Z, (self.rounds, 1)), self.targets.ravel())


def least(Z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the minimiser of the mean Huber loss; c is h', so h = c (r - c / 2)."""

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        r = Z @ w - y
        c = np.clip(r, -1.0, 1.0)
        return float(c @ (r - 0.5 * c)) / len(y), Z.T @ c / len(y)

    found = minimize(loss, np.zeros(Z.shape[1]), jac=True, method="L-BFGS-B", options={"ftol": 1e-14, "gtol": 1e-9})
    return found.x.reshape(-1, 1)


def models(algorithm: Algorithm, stream: Stream, first: np.ndarray) -> list[np.ndarray]:
    """Return x(1), .., x(T)."""
    eta = 1.0 / math.sqrt(stream.rounds)
    clients = np.split(np.arange(12), [1, 4])
    played = [first]
    for y in stream.targets[:-1]:
        x, start = played[-1], algorithm.to_average(played[-1])
        sent = [
            algorithm.to_average(local_model(algorithm, LocalProblem(HUBER, stream.Z[rows], y[rows]), x, eta)) - start
            for rows in clients
        ]
        played.append(combine(algorithm, x, np.average(sent, axis=0, weights=[len(rows) for rows in clients])))
    return played


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    """Return a stream with noisy targets of a linear function that drifts not at all, slowly, or fast."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rounds, d = draw(st.sampled_from([4, 9, 16])), draw(st.integers(1, 3))
    Z = rng.normal(size=(12, d))
    Z /= np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1.0)
    speed = draw(st.sampled_from([0.0, 0.0, 1e-3, 0.1]))
    path = rng.normal(size=(1, d)) + speed * rng.normal(size=(rounds, d)).cumsum(axis=0)
    return Stream(Z, path @ Z.T + draw(st.sampled_from([0.0, 0.5])) * rng.normal(size=12))


@pytest.mark.parametrize("case", CASES)
@given(stream=streams(), far=st.floats(-1.0, 1.0))
@settings(max_examples=examples(20))
def test_dynamic_regret_is_within_the_bound(case: str, stream: Stream, far: float) -> None:
    algorithm, mirror = CASES[case]
    T = stream.rounds
    first = np.full((stream.Z.shape[1], 1), far)
    best = stream.best()
    still = stream.drift() == 0.0
    leasts = T * [best] if still else [least(stream.Z, y) for y in stream.targets]
    assume(max(float(np.abs(x).sum()) for x in (best, *leasts)) <= RADIUS)
    played = models(algorithm, stream, first)
    regret = sum(stream.loss(t, played[t]) - stream.loss(t, leasts[t]) for t in range(T))
    bound = math.sqrt(T) * divergence(mirror, best, first) + math.sqrt(T) / 2.0 + 2.0 * T * stream.drift()
    assert regret <= bound + 1e-9


@pytest.mark.parametrize("case", CASES)
@given(
    seed=st.integers(0, 2**32 - 1),
    rounds=st.sampled_from([1, 4, 16]),
    d=st.integers(1, 3),
    one_sided=st.booleans(),
    size=st.sampled_from([0.0, 0.1, 0.5, 1.0, 1.3]),
    best=st.booleans(),
)
@settings(max_examples=examples(25))
def test_regret_against_any_fixed_model_is_within_the_bound_on_any_stream(
    case: str, seed: int, rounds: int, d: int, one_sided: bool, size: float, best: bool
) -> None:
    # The part of the bound without drift. Targets are -100 or 100, so losses are straight lines, which fall fastest
    # in the direction of the mean of sign(y) z: there lies the model that is hardest to keep up with.
    algorithm, mirror = CASES[case]
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(12, d))
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    signs = np.sign(Z[:, 0]) * (np.ones((rounds, 1)) if one_sided else rng.choice([-1.0, 1.0], size=(rounds, 1)))
    stream = Stream(Z, 100.0 * signs)
    direction = (signs.mean(axis=0) @ Z if best else rng.normal(size=d)).reshape(d, 1)
    u = size * direction / max(float(np.linalg.norm(direction)), 1e-12)
    first = np.zeros((d, 1))
    played = models(algorithm, stream, first)
    regret = sum(stream.loss(t, played[t]) - stream.loss(t, u) for t in range(rounds))
    assert regret <= math.sqrt(rounds) * (divergence(mirror, u, first) + 0.5) + 1e-9


@given(stream=streams(), far=st.floats(-1.0, 1.0))
@settings(max_examples=examples(40))
def test_fedavg_and_its_optimistic_loss_meet_requirement_1(stream: Stream, far: float) -> None:
    # Where losses have drifted by Delta in all: (1) Ft(t) is at most the largest least loss so far + Delta, in every
    # round; (2) the mean of F - Ft is at most rho_hat(T) + Delta. Ft is the mean loss played less the bound of
    # Theorem 1, as profile `paper` estimates it with `optimistic = "regret"`.
    T, first = stream.rounds, np.full((stream.Z.shape[1], 1), far)
    leasts = [least(stream.Z, y) for y in stream.targets]
    assume(max(float(np.abs(x).sum()) for x in leasts) <= RADIUS)
    distance = max(float(np.linalg.norm(x - first)) for x in leasts)
    losses = [stream.loss(t, x) for t, x in enumerate(models(FedAvg(radius=RADIUS), stream, first))]
    optimistic = [
        regret_estimate(
            float(np.mean(losses[:t])), t, 1.0 / math.sqrt(T), distance=distance, lipschitz=1.0, bound=1.0
        )
        for t in range(1, T + 1)
    ]
    drift = np.abs(np.diff(stream.targets, axis=0)).mean(axis=1).cumsum()
    best = np.maximum.accumulate([stream.loss(t, x) for t, x in enumerate(leasts)])
    assert np.all(optimistic <= best + np.concatenate([[0.0], drift]) + 1e-9)
    gap = float(np.mean(np.array(losses) - optimistic))
    assert gap <= rho_hat(T, horizon=T, delta=0.05) + stream.drift() + 1e-9


def test_the_regret_on_a_stream_computed_by_hand_is_within_the_bound() -> None:
    # One feature, targets at -100 for ever, models in [-1, 1] from 0, T = 100: losses have slope 1, so
    # x(t) = -0.1 (t - 1) until it stays at -1, the minimiser. Regret: 1 + 0.9 + .. + 0.1 = 5.5, within
    # sqrt(100)/2 * 1 + 1 * sqrt(100)/2 + 0 = 10.
    stream = Stream(np.ones((12, 1)), np.full((100, 12), -100.0))
    for algorithm in (FedAvg(radius=1.0), FedOMD(Euclidean(radius=1.0)), FedOMD(PNorm(p=2.0, radius=1.0))):
        played = models(algorithm, stream, np.zeros((1, 1)))
        regret = sum(stream.loss(t, played[t]) - stream.loss(t, np.array([[-1.0]])) for t in range(100))
        assert regret == pytest.approx(5.5)


def test_a_step_that_is_too_long_or_too_short_breaks_the_bound() -> None:
    # So that the tests above can fail: T = 100 and steps 100 times too long, on targets that take turns; and 100
    # times too short, on targets that stay. u = 1 in one dimension: bounds 10 (1/2 + 1/2) and 10 (0 + 1/2) at u = 0.
    turns = Stream(np.ones((12, 1)), 100.0 * np.tile([[1.0], [-1.0]], (50, 12)))
    stays = Stream(np.ones((12, 1)), np.full((100, 12), 100.0))

    def regret(stream: Stream, eta: float, u: float) -> float:
        x, total = np.zeros((1, 1)), 0.0
        for t in range(stream.rounds):
            total += stream.loss(t, x) - stream.loss(t, np.array([[u]]))
            x = FedAvg(radius=RADIUS).step(x, gradient(HUBER, x, stream.Z, stream.targets[t]), eta)
        return total

    assert regret(turns, 0.1, 0.0) <= 5.0 < regret(turns, 10.0, 0.0)
    assert regret(stays, 0.1, 1.0) <= 10.0 < regret(stays, 0.001, 1.0)
