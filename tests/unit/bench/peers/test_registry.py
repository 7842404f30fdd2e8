"""The registry: names, grids, and that a variant's constants reach the peer."""

from typing import cast

import pytest

from streamfl_benchmarks.peers.fedavg import FedAvgPeer
from streamfl_benchmarks.peers.fednova import FedNova
from streamfl_benchmarks.peers.local_work import LocalWork
from streamfl_benchmarks.peers.registry import PEERS, Stream, grid
from streamfl_benchmarks.peers.restarting import AtRounds, Restarting

STREAM = Stream(d=3, labels=4, rounds=400, at=(31, 129), seed=9, l2=0.01)


def test_a_grid_is_every_combination_that_is_allowed() -> None:
    found = grid(eta=(1.0, 3.0), mu=(0.5, 1.0), where=lambda c: c["eta"] * c["mu"] < 2.0)
    assert found == {
        "eta=1,mu=0.5": {"eta": 1.0, "mu": 0.5},
        "eta=1,mu=1": {"eta": 1.0, "mu": 1.0},
        "eta=3,mu=0.5": {"eta": 3.0, "mu": 0.5},
    }


@pytest.mark.parametrize(
    ("method", "variant", "eta", "steps"),
    [("fedavg", "eta=3", 3.0, 1), ("fedavg-10", "eta=1", 1.0, 10)],
)
def test_constants_and_the_stream_reach_the_peer(method: str, variant: str, eta: float, steps: int) -> None:
    peer = cast(FedAvgPeer, PEERS[method].peer(STREAM, variant))
    assert (peer.eta, peer.work, peer.l2, peer.W.shape) == (eta, LocalWork(steps, None, 9), 0.01, (3, 4))


def test_the_step_of_the_theorem_and_the_rounds_of_the_oracle() -> None:
    assert cast(FedAvgPeer, PEERS["fedavg-sqrt"].peer(STREAM, "")).eta == 0.05
    oracle = cast(Restarting, PEERS["oracle"].peer(STREAM, "steps=10,eta=1"))
    assert oracle.rule == AtRounds((31, 129))
    assert cast(FedAvgPeer, oracle.peer).work.steps == 10


def test_fednova_has_unequal_steps_and_one_kind_of_local_work_at_a_time() -> None:
    for variant in PEERS["fednova"].variants:
        peer = cast(FedNova, PEERS["fednova"].peer(STREAM, variant))
        assert peer.work.batch == 20
        assert not (peer.momentum and peer.mu)


def test_the_pull_of_fedprox_never_overshoots() -> None:
    assert all(c["eta"] * c["mu"] < 2.0 for c in PEERS["fedprox"].variants.values())
