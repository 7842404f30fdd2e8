"""FedAvg and FedOMD: single steps by hand, local steps against written-out loops, clients against their pool."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import pytest

from streamfl.learning.algorithms import (
    Algorithm,
    FedAvg,
    FedNova,
    FedOMD,
    FedProx,
    LocalProblem,
    combine,
    local_model,
)
from streamfl.learning.algorithms.base import AlgorithmOptions
from streamfl.learning.algorithms.mirror_maps import Euclidean, Hypentropic, MirrorMap, PNorm
from streamfl.learning.drift.evidence import LiveModel
from streamfl.learning.history import History
from streamfl.learning.local_round import Learner, LocalRound, RoundRecords
from streamfl.learning.model import gradient
from streamfl.machines.coordinator.round.aggregation import Contribution, RoundAggregation
from streamfl.machines.coordinator.saved.agreement import Agreement
from streamfl.models import Linear, Softmax
from streamfl.protocol.messages import Slot
from streamfl.protocol.registry import Registry
from streamfl.run.settings import ProfileSettings

LABELS = ("a", "b", "c")
REGISTRY = Registry(1, ("x", "y", "z"), LABELS, np.zeros(3), np.ones(3))

ALGORITHMS: dict[str, Algorithm] = {
    "fedavg": FedAvg(),
    "euclidean": FedOMD(),
    "p-norm": FedOMD(PNorm(p=1.5)),
    "p-norm, dual": FedOMD(PNorm(p=1.5), average="dual"),
    "hypentropic": FedOMD(Hypentropic(radius=20.0)),
    "hypentropic, dual": FedOMD(Hypentropic(radius=20.0), average="dual"),
}

DUAL: dict[str, MirrorMap] = {
    "euclidean": Euclidean(),
    "p-norm": PNorm(p=1.3),
    "hypentropic": Hypentropic(beta=0.5, radius=20.0),
}


def records(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return n records with three features and the constant, and their label indices."""
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.normal(size=(n, 3)), np.ones(n)]), rng.integers(0, 3, n).astype(float)


def pooled_step(algorithm: Algorithm, parts: list[tuple[np.ndarray, np.ndarray]], W: np.ndarray) -> np.ndarray:
    """Return the global model after one full-batch step of each client."""
    sent = [
        algorithm.to_average(local_model(algorithm, LocalProblem(Softmax(), Z, y), W, 0.7)) - algorithm.to_average(W)
        for Z, y in parts
    ]
    return combine(algorithm, W, np.average(sent, axis=0, weights=[len(y) for _, y in parts]))


def test_a_step_by_hand() -> None:
    # x - eta g = (1 - 0.5 * 4, 2 + 0.5 * 6).
    W, slope = np.array([[1.0, 2.0]]), np.array([[4.0, -6.0]])
    np.testing.assert_array_equal(FedAvg().step(W, slope, 0.5), [[-1.0, 5.0]])
    np.testing.assert_array_equal(FedOMD().step(W, slope, 0.5), [[-1.0, 5.0]])


def test_a_hypentropic_step_by_hand() -> None:
    # s = 2 (R^2 = 3, beta = 1), x = sinh(1): theta = 2; theta - 0.5 * 2 = 1; beta sinh(1 / 2).
    algorithm = FedOMD(Hypentropic(beta=1.0, radius=math.sqrt(3.0)))
    stepped = algorithm.step(np.array([[math.sinh(1.0)]]), np.array([[2.0]]), 0.5)
    np.testing.assert_allclose(stepped, [[math.sinh(0.5)]])


def test_a_p_norm_step_by_hand() -> None:
    # p = 1.5, x = (1, -4): theta = (2, -4) 9^(1/3). The step takes the second to 0, so one coordinate is left, and
    # there grad phi(x) = x / (p - 1) = 2 x: x = 9^(1/3).
    theta = 9.0 ** (1 / 3)
    stepped = FedOMD(PNorm(p=1.5)).step(np.array([[1.0, -4.0]]), np.array([[0.0, -8.0 * theta]]), 0.5)
    np.testing.assert_allclose(stepped, [[theta, 0.0]], atol=1e-12)


def test_models_stay_in_the_ball() -> None:
    W, slope = np.zeros((1, 2)), np.array([[-3.0, -4.0]])
    np.testing.assert_allclose(FedOMD(Euclidean(radius=1.0)).step(W, slope, 10.0), [[0.6, 0.8]])
    np.testing.assert_allclose(FedAvg(radius=1.0).step(W, slope, 10.0), [[0.6, 0.8]])
    np.testing.assert_allclose(combine(FedAvg(radius=1.0), W, -slope), [[0.6, 0.8]])
    for mirror in (Euclidean(radius=2.0), PNorm(p=1.5, radius=2.0), Hypentropic(radius=2.0)):
        for average in ("primal", "dual"):
            algorithm = FedOMD(mirror, average=average)
            far = algorithm.from_average(algorithm.to_average(np.array([[30.0, -40.0]])))
            assert np.linalg.norm(far) <= 2.0 + 1e-9


def test_euclidean_fedomd_equals_fedavg_over_many_rounds_of_many_clients() -> None:
    W = V = np.zeros((4, 3))
    for t in range(30):
        parts = [records(100 * t + i, 5 + 3 * i) for i in range(5)]
        models: list[list[np.ndarray]] = [[], []]
        for Z, y in parts:
            problem = LocalProblem(Softmax(), Z, y, l2=0.01, batch=4)
            models[0].append(local_model(FedAvg(), problem, W, 0.3) - W)
            models[1].append(local_model(FedOMD(Euclidean()), problem, V, 0.3) - V)
        weights = [len(y) for _, y in parts]
        W = combine(FedAvg(), W, np.average(models[0], axis=0, weights=weights))
        V = combine(FedOMD(Euclidean()), V, np.average(models[1], axis=0, weights=weights))
    assert np.abs(W).max() > 0.1
    np.testing.assert_allclose(V, W, rtol=0, atol=1e-12)


def test_fedavg_over_clients_is_one_step_on_their_pool() -> None:
    W = np.random.default_rng(1).normal(size=(4, 3))
    parts = [records(i, n) for i, n in enumerate((1, 7, 50, 300))]
    Z, y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    expected = W - 0.7 * gradient(Softmax(), W, Z, y)
    np.testing.assert_allclose(pooled_step(FedAvg(), parts, W), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("mirror", DUAL.values(), ids=DUAL)
def test_dual_averaging_is_one_mirror_step_on_the_mean_gradient(mirror: MirrorMap) -> None:
    W = np.random.default_rng(2).normal(size=(4, 3))
    parts = [records(i, n) for i, n in enumerate((1, 7, 50, 300))]
    Z, y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    expected = mirror.primal(mirror.dual(W) - 0.7 * gradient(Softmax(), W, Z, y))
    found = pooled_step(FedOMD(mirror, average="dual"), parts, W)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


def test_primal_averaging_is_the_mean_of_the_models() -> None:
    algorithm = FedOMD(PNorm(p=1.3), average="primal")
    W = np.random.default_rng(2).normal(size=(4, 3))
    parts = [records(i, n) for i, n in enumerate((3, 9))]
    models = [local_model(algorithm, LocalProblem(Softmax(), Z, y), W, 0.7) for Z, y in parts]
    np.testing.assert_allclose(pooled_step(algorithm, parts, W), 0.25 * models[0] + 0.75 * models[1], atol=1e-12)
    dual = pooled_step(FedOMD(PNorm(p=1.3), average="dual"), parts, W)
    assert np.abs(dual - pooled_step(algorithm, parts, W)).max() > 1e-4


def contribution(learner: Learner, W: np.ndarray, seed: int, n: int) -> Contribution:
    """Return what a client with n records contributes to a round of one model."""
    Z, y = records(seed, n)
    local = LocalRound(
        learner=learner,
        records=RoundRecords(REGISTRY, LABELS, Z, y),
        slots=[Slot(name="main", version=1, eta=0.5)],
        weights={"main": W},
        trains={"main"},
        serves="main",
        known_labels=3,
        key=(f"c{seed}", 1),
    )
    result = local.run(History())
    return Contribution(f"c{seed}", n, n, LABELS, result.losses, result.differences)


@pytest.mark.parametrize("whitened", [False, True])
def test_a_full_step_is_that_of_the_records_that_are_not_held_out(whitened: bool) -> None:
    (Z, y), W = records(4, 30), np.random.default_rng(3).normal(size=(4, 3))
    held = np.arange(30) % 3 == 0

    def stepped(Z: np.ndarray, y: np.ndarray, held: np.ndarray | None) -> np.ndarray:
        local = LocalRound(
            learner=Learner(Softmax(), FedAvg()),
            records=RoundRecords(REGISTRY, LABELS, Z, y),
            slots=[Slot(name="main", version=1, eta=0.5, whitened=whitened)],
            weights={"main": W},
            trains={"main"},
            serves="main",
            known_labels=3,
            key=("c0", 1),
            held=held,
        )
        return local.run(History()).differences["main"]

    without = stepped(Z[~held], y[~held], None)
    np.testing.assert_allclose(stepped(Z, y, held), without, rtol=0, atol=1e-3)
    assert np.abs(stepped(Z, y, None) - without).max() > 1e-2


def test_scores_by_label_are_those_of_the_tested_model() -> None:
    Z, y = records(4, 30)
    W, scout = np.random.default_rng(3).normal(size=(2, 4, 3))

    def sums(tested: str) -> list[float]:
        slots = [Slot(name="main", version=1, eta=0.5), Slot(name="scout", version=1, eta=0.0, trained=False)]
        learner, batch = Learner(Softmax(), FedAvg()), RoundRecords(REGISTRY, LABELS, Z, y)
        weights, key = {"main": W, "scout": scout}, ("c0", 1)
        local = LocalRound(learner, batch, slots, weights, {"main"}, "main", 3, key, tested=tested)
        result = local.run(History())
        assert sum(x.loss for x in result.new) == pytest.approx(result.losses[tested].loss, rel=1e-6)
        return [x.loss for x in result.new]

    assert sums("main") != sums("scout")


@pytest.mark.parametrize("weights", [(100, 300), (1, 1)])
def test_clients_weigh_as_many_records_as_they_have(weights: tuple[int, int]) -> None:
    # One client's gradient is -2, the other's 2, eta 1: the mean difference is (2 n1 - 2 n2) / (n1 + n2).
    n1, n2 = weights
    parts = [(np.ones((n1, 1)), np.full(n1, 2.0)), (np.ones((n2, 1)), np.full(n2, -2.0))]
    W = np.zeros((1, 1))
    moved = [local_model(FedAvg(), LocalProblem(Linear(), Z, y), W, 1.0) for Z, y in parts]
    mean = np.average(moved, axis=0, weights=weights)
    np.testing.assert_allclose(combine(FedAvg(), W, mean), [[(2.0 * n1 - 2.0 * n2) / (n1 + n2)]])


def test_l1_shrinks_to_exact_zeros_by_hand() -> None:
    # eta l1 = 0.5 * 0.6 = 0.3: (1, -1, 0.29, -0.3) - 0.5 * (0, 0, 0, 0) -> (0.7, -0.7, 0, 0);
    # with a gradient of (1, 1, 1, 1): (0.5, -1.5, -0.21, -0.8) -> (0.2, -1.2, 0, -0.5).
    algorithm, W = FedOMD(l1=0.6), np.array([[1.0, -1.0, 0.29, -0.3]])
    np.testing.assert_allclose(algorithm.step(W, np.zeros((1, 4)), 0.5), [[0.7, -0.7, 0.0, 0.0]])
    np.testing.assert_allclose(algorithm.step(W, np.ones((1, 4)), 0.5), [[0.2, -1.2, 0.0, -0.5]])
    assert (algorithm.step(W, np.zeros((1, 4)), 0.5)[0, 2:] == 0.0).all()


def test_l1_shrinks_the_dual_vector_of_another_map() -> None:
    # s = 2: x = sinh(1), sinh(0.2), -sinh(1) have theta = 2, 0.4, -2; shrunk by 0.5: 1.5, 0, -1.5.
    algorithm = FedOMD(Hypentropic(beta=1.0, radius=math.sqrt(3.0)), l1=1.0)
    stepped = algorithm.step(np.sinh([[1.0, 0.2, -1.0]]), np.zeros((1, 3)), 0.5)
    np.testing.assert_allclose(stepped, np.sinh([[0.75, 0.0, -0.75]]))
    assert stepped[0, 1] == 0.0


def test_l1_finds_the_minimiser_of_the_penalised_loss() -> None:
    # min (w - 3)^2 / 2 + |w| is at 2; min (w - 0.5)^2 / 2 + |w| at 0, exactly.
    for target, minimum in ((3.0, 2.0), (0.5, 0.0), (-3.0, -2.0)):
        W = np.array([[0.7]])
        for _ in range(200):
            W = FedOMD(l1=1.0).step(W, W - target, 0.1)
        assert W[0, 0] == pytest.approx(minimum, abs=1e-6)
        assert (W[0, 0] == 0.0) == (minimum == 0.0)


@dataclass(frozen=True)
class Signs(Algorithm):
    """Sign descent: an algorithm that is not registered."""

    may_be_whitened: bool = False

    @classmethod
    def of(cls, options: AlgorithmOptions) -> Self:
        return cls()

    def step(self, W: np.ndarray, slope: np.ndarray, eta: float) -> np.ndarray:
        return W - eta * np.sign(slope)

    def from_average(self, mean: np.ndarray) -> np.ndarray:
        return mean


@pytest.mark.parametrize(
    ("algorithm", "whitened"),
    [
        (Signs(may_be_whitened=False), False),
        (Signs(may_be_whitened=True), True),
        (FedAvg(), True),
        (FedOMD(), True),
        (FedOMD(average="dual"), True),
        (FedOMD(l1=0.1), False),
        (FedOMD(PNorm()), False),
        (FedOMD(Hypentropic()), False),
    ],
)
@pytest.mark.parametrize("profile", ["adaptive", "experts"])
def test_steps_are_whitened_if_the_algorithm_allows_it(
    algorithm: Algorithm, whitened: bool, profile: Literal["adaptive", "experts"]
) -> None:
    profile = ProfileSettings(profile=profile).create(100, Learner(Softmax(), algorithm))
    live = profile.open(1, np.zeros((4, 3)), 3.0).live
    assert {model.whitened for model in live if model.trained} == {whitened}


def test_l2_pulls_every_step_towards_zero() -> None:
    # Without a gradient (the target is met) a step multiplies by 1 - eta l2 = 1 - 0.5 * 0.2 and then meets the rest.
    problem = LocalProblem(Linear(), np.zeros((4, 1)), np.zeros(4), l2=0.2, batch=1)
    np.testing.assert_allclose(local_model(FedAvg(), problem, np.array([[1.0]]), 0.5), [[0.9**4]])


def test_one_record_a_step_by_hand() -> None:
    # Targets 1, 3; eta 0.5: 0 -> 0.5 (half way to 1) -> 1.75 (half way to 3). As one batch: half way to 2.
    Z, y, W = np.ones((2, 1)), np.array([1.0, 3.0]), np.zeros((1, 1))
    assert local_model(FedAvg(), LocalProblem(Linear(), Z, y, batch=1), W, 0.5) == 1.75
    assert local_model(FedAvg(), LocalProblem(Linear(), Z, y), W, 0.5) == 1.0


def test_fedprox_pulls_every_local_step_to_the_model_of_the_round() -> None:
    # Targets 1, 3; eta 0.5, mu 0.5: 0 -> 0.5, then the slope is 0.5 - 3 + 0.5 * (0.5 - 0) = -2.25: 0.5 -> 1.625.
    problem = LocalProblem(Linear(), np.ones((2, 1)), np.array([1.0, 3.0]), batch=1)
    assert local_model(FedProx(mu=0.5), problem, np.zeros((1, 1)), 0.5) == 1.625
    assert local_model(FedProx(mu=0.0), problem, np.zeros((1, 1)), 0.5) == 1.75


@pytest.mark.parametrize(("algorithm", "expected"), [(FedNova(), 1.953125), (FedAvg(), 2.09375)])
def test_fednova_weighs_a_step_alike_at_clients_with_few_and_many_of_them(
    algorithm: Algorithm, expected: float
) -> None:
    # eta 0.5, a record a step. One record with target 1: 0 -> 0.5. Three with target 3: 0 -> 1.5 -> 2.25 -> 2.625.
    # FedAvg: (0.5 + 3 * 2.625) / 4. FedNova: (1 + 3 * 3) / 4 steps of (0.5 + 3 * 2.625 / 3) / 4 each.
    registry, learner = Registry(1, (), (), np.zeros(0), np.ones(0)), Learner(Linear(), algorithm, local_batch=1)
    told = []
    for n, target in ((1, 1.0), (3, 3.0)):
        local = LocalRound(
            learner=learner,
            records=RoundRecords(registry, (), np.ones((n, 1)), np.full(n, target)),
            slots=[Slot(name="main", version=1, eta=0.5)],
            weights={"main": np.zeros((1, 1))},
            trains={"main"},
            serves="main",
            known_labels=0,
            key=(f"c{n}", 1),
        )
        result = local.run(History())
        told.append(Contribution(f"c{n}", n, n, (), result.losses, result.differences))
    together = RoundAggregation(learner, Agreement(registry, 1.0), ())
    played = together.evidence(LiveModel("main", np.zeros((1, 1)), eta=0.5), told)
    assert played is not None
    assert played.stepped == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("batch", [1, 2, 3, 10, 11, 12])
def test_local_batches_are_the_loop_they_stand_for(batch: int) -> None:
    Z, y = records(4, 11)
    W = np.random.default_rng(5).normal(size=(4, 3))
    expected = W
    for start in range(0, 11, batch):
        z, labels = Z[start : start + batch], y[start : start + batch]
        p = np.exp(z @ expected)
        p /= p.sum(axis=1, keepdims=True)
        slope = z.T @ (p - np.eye(3)[labels.astype(int)]) / len(z) + 0.1 * expected
        expected = expected - 0.4 * slope
    found = local_model(FedAvg(), LocalProblem(Softmax(), Z, y, l2=0.1, batch=batch), W, 0.4)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_local_steps_do_not_change_the_model_they_start_from() -> None:
    Z, y = records(4, 11)
    W = np.zeros((4, 3))
    for algorithm in ALGORITHMS.values():
        local_model(algorithm, LocalProblem(Softmax(), Z, y, batch=2), W, 0.4)
    np.testing.assert_array_equal(W, np.zeros((4, 3)))


def rows_of(problem: LocalProblem) -> list[int]:
    everything = np.arange(len(problem.y))
    return [int(i) for rows in problem.batches() for i in everything[rows]]


@pytest.mark.parametrize(("gamma", "expected"), [(0.5, 10), (0.24, 5), (0.01, 1), (0.99, 20)])
def test_gamma_draws_a_part_of_the_records_without_replacement(gamma: float, expected: int) -> None:
    Z, y = records(6, 20)
    problem = LocalProblem(Softmax(), Z, y, gamma=gamma, batch=3, rng=np.random.default_rng(0))
    rows = rows_of(problem)
    assert len(rows) == len(set(rows)) == expected
    assert rows == sorted(rows)


def test_gamma_draws_every_record_alike() -> None:
    # 400 draws of a quarter: 100 for each record, deviation sqrt(400 * 3/16) = 8.7; within 4 of them.
    Z, y = records(6, 20)
    drawn = Counter(
        row
        for seed in range(400)
        for row in rows_of(LocalProblem(Softmax(), Z, y, gamma=0.25, rng=np.random.default_rng(seed)))
    )
    assert set(drawn) == set(range(20))
    assert all(abs(n - 100) <= 35 for n in drawn.values())


def test_gamma_draws_by_its_generator() -> None:
    Z, y = records(6, 20)

    def rows(seed: int) -> list[int]:
        return rows_of(LocalProblem(Softmax(), Z, y, gamma=0.5, rng=np.random.default_rng(seed)))

    assert rows(1) == rows(1)
    assert rows(1) != rows(2)
    with pytest.raises(ValueError, match="rng"):
        rows_of(LocalProblem(Softmax(), Z, y, gamma=0.5))


def test_gamma_and_batches_train_on_the_part_alone() -> None:
    Z, y = records(6, 20)
    part = np.sort(np.random.default_rng(3).choice(20, size=10, replace=False))
    W = np.zeros((4, 3))
    found = local_model(
        FedAvg(), LocalProblem(Softmax(), Z, y, gamma=0.5, batch=4, rng=np.random.default_rng(3)), W, 0.4
    )
    expected = local_model(FedAvg(), LocalProblem(Softmax(), Z[part], y[part], batch=4), W, 0.4)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_records_are_served_before_they_are_learnt() -> None:
    # The outputs of the one-record example: 0 before the first record, 0.5 before the second.
    served: list[tuple[list[int], float]] = []
    problem = LocalProblem(Linear(), np.ones((2, 1)), np.array([1.0, 3.0]), batch=1)
    local_model(
        FedAvg(),
        problem,
        np.zeros((1, 1)),
        0.5,
        served=lambda rows, outputs: served.append((np.arange(2)[rows].tolist(), float(outputs[0, 0]))),
    )
    assert served == [([0], 0.0), ([1], 0.5)]


@pytest.mark.parametrize("batch", [None, 1, 3])
def test_held_out_records_are_served_and_not_learnt(batch: int | None) -> None:
    # Of the records 1, 3, 5 the second is held out: the steps are those of 1 and 5 alone.
    Z, y, held = np.ones((3, 1)), np.array([1.0, 3.0, 5.0]), np.array([False, True, False])
    served: list[int] = []
    found = local_model(
        FedAvg(),
        LocalProblem(Linear(), Z, y, batch=batch, held=held),
        np.zeros((1, 1)),
        0.5,
        served=lambda rows, _: served.extend(np.arange(3)[rows].tolist()),
    )
    # One by one: half way to 1, then to 5. As one batch: half way to their mean, 3.
    assert found == (2.75 if batch == 1 else 1.5)
    assert served == [0, 1, 2]


def test_if_all_records_are_held_out_nothing_is_learnt() -> None:
    problem = LocalProblem(Linear(), np.ones((2, 1)), np.ones(2), l2=1.0, held=np.ones(2, np.bool_))
    assert local_model(FedAvg(), problem, np.full((1, 1), 7.0), 0.5) == 7.0
