"""Laws: peers that must coincide, rounds that must change nothing, and the same seed twice."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl.arrays import FloatArray
from streamfl.learning.model import gradient
from streamfl.sampling import generator
from streamfl_benchmarks.peers.base import SOFTMAX, ClientRecords, Peer
from streamfl_benchmarks.peers.fedavg import FedAvgPeer
from streamfl_benchmarks.peers.fednova import FedNova
from streamfl_benchmarks.peers.local_work import LocalStep, LocalWork
from streamfl_benchmarks.peers.registry import PEERS, Stream

D, K = 3, 4
SCRATCH, EYE = np.zeros((D, K)), np.eye(D)  # the outputs for EYE are a linear model
Sizes = list[int]


def round_of(sizes: Sizes, t: int = 1) -> list[ClientRecords]:
    rng = generator(7, "laws", t)
    Zs = [np.hstack([rng.normal(size=(n, D - 1)), np.ones((n, 1))]) for n in sizes]
    return [ClientRecords(Z, rng.integers(K, size=len(Z)).astype(np.float64)) for Z in Zs]


def after(peer: Peer, sizes: Sizes, rounds: int = 3) -> FloatArray:
    for t in range(1, rounds + 1):
        peer.learn(t, round_of(sizes, t), 0.5)
    return peer.outputs(EYE)


sizes_ = st.lists(st.integers(0, 9), min_size=1, max_size=4).filter(any)


@given(sizes_, st.floats(0.01, 3.0), st.floats(0.0, 1.0))
def test_with_one_full_step_fedprox_and_fednova_are_fedavg(sizes: Sizes, eta: float, mu: float) -> None:
    fedavg = after(FedAvgPeer(SCRATCH, eta), sizes)
    assert np.abs(fedavg).max() > 1e-3
    np.testing.assert_allclose(after(FedAvgPeer(SCRATCH, eta, mu=mu), sizes), fedavg, atol=1e-12)
    for constants in ({"mu": mu}, {"momentum": 0.9}):
        fednova = FedNova(SCRATCH, eta, work=LocalWork(), **constants)
        np.testing.assert_allclose(after(fednova, sizes), fedavg, atol=1e-12)


@given(sizes_, st.integers(2, 5))
def test_with_equal_steps_fednova_is_fedavg(sizes: Sizes, steps: int) -> None:
    fednova = FedNova(SCRATCH, 0.5, work=LocalWork(steps))
    np.testing.assert_allclose(
        after(fednova, sizes), after(FedAvgPeer(SCRATCH, 0.5, LocalWork(steps)), sizes), atol=1e-12
    )


def test_a_pull_changes_several_steps() -> None:
    prox, fedavg = (after(FedAvgPeer(SCRATCH, 0.5, LocalWork(3), mu=mu), [2, 9]) for mu in (0.5, 0.0))
    assert not np.allclose(prox, fedavg)


def test_with_unequal_steps_fednova_is_not_fedavg() -> None:
    work = LocalWork(batch=2)
    assert not np.allclose(
        after(FedNova(SCRATCH, 0.5, work=work), [2, 9]), after(FedAvgPeer(SCRATCH, 0.5, work), [2, 9])
    )


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.floats(0.0, 1.0))
def test_side_by_side_gradients_are_those_of_each_client_alone(sizes: Sizes, l2: float) -> None:
    clients = round_of(sizes)
    models = generator(3, "models").normal(size=(len(sizes), D, K))
    stack = LocalStep(np.arange(len(sizes)), tuple(clients)).gradients(models, l2)
    for own, W, found in zip(clients, models, stack, strict=True):
        np.testing.assert_allclose(found, gradient(SOFTMAX, W, own.Z, own.y, l2=l2), atol=1e-12)


@given(sizes_, st.integers(1, 3), st.integers(1, 4))
def test_a_pass_takes_every_record_once(sizes: Sizes, passes: int, batch: int) -> None:
    work, clients = LocalWork(passes, batch, seed=5), round_of(sizes)
    taken: list[list[float]] = [[] for _ in clients]
    steps = np.zeros(len(clients), dtype=np.int64)
    for step in work.plan(1, clients):
        steps[step.clients] += 1
        for i, own in zip(step.clients, step.batches, strict=True):
            assert len(own.y) <= batch
            taken[i] += own.Z[:, 0].tolist()
    assert steps.tolist() == work.taken(clients).tolist()
    for own, seen in zip(clients, taken, strict=True):
        assert sorted(seen) == sorted(own.Z[:, 0].tolist() * passes)


STREAM = Stream(D, K, rounds=9, at=(2, 5), rounds_of=lambda t: round_of([5, 3], t))
METHODS = [
    pytest.param(name, marks=[pytest.mark.compiles] if name.startswith("network") else [])
    for name in PEERS
    if name != "limit"
]


@pytest.mark.parametrize("method", METHODS)
def test_a_round_without_records_changes_nothing(method: str) -> None:
    variant = list(PEERS[method].variants)[-1]
    plain, with_gap = (PEERS[method].peer(STREAM, variant) for _ in range(2))
    plain.learn(1, round_of([5, 3]), 0.5)
    with_gap.learn(1, round_of([5, 3]), 0.5)
    before = with_gap.outputs(EYE)
    assert before.any()
    assert with_gap.learn(2, round_of([0, 0]), 0.5) is None
    np.testing.assert_array_equal(with_gap.outputs(EYE), before)
    # Nor does anything show later: not in moments, clocks or detectors.
    for peer in (plain, with_gap):
        peer.learn(3, round_of([4, 6], 3), 0.4)
    np.testing.assert_array_equal(with_gap.outputs(EYE), plain.outputs(EYE))


@pytest.mark.parametrize("method", METHODS)
def test_a_variant_is_the_same_twice_and_leaves_the_first_model_alone(method: str) -> None:
    variant = next(iter(PEERS[method].variants))
    first, second = (after(PEERS[method].peer(STREAM, variant), [9, 0, 4], 5) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert first.shape == (D, K)
    assert np.isfinite(first).all()
