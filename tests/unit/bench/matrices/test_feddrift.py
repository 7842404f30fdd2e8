"""FedDrift: who begins a model of their own, which models are merged, and what they are trained on."""

import numpy as np
import pytest

from streamfl.sampling import generator
from streamfl_benchmarks.matrices.feddrift import Cluster, FedDrift, distances, groups, merged
from streamfl_benchmarks.peers.base import ClientRecords
from streamfl_benchmarks.peers.local_work import LocalWork
from streamfl_benchmarks.peers.network import Network


def network() -> Network:
    """Return a network of one feature, which predicts 0 until it is trained."""
    return Network(1, 2, units=1, eta=1.0, work=LocalWork(batch=20), l2=0.0)


def ten(ones: int) -> ClientRecords:
    """Return ten records, of which so many have the label 1."""
    return ClientRecords(np.ones((10, 1)), np.repeat([1.0, 0.0], [ones, 10 - ones]))


def test_the_distance_is_that_of_the_model_which_does_worse_on_the_others_records() -> None:
    losses = np.array([[0.25, 0.5, 0.25], [0.375, 0.0, 0.5], [0.125, 0.5, 0.5]])
    expected = [[0.0, 0.375, 0.0], [0.375, 0.0, 0.5], [0.0, 0.5, 0.0]]
    assert distances(losses).tolist() == expected


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        (0.125, [[0], [1], [2], [3]]),  # as near as delta is not nearer
        (0.2, [[0, 1], [2], [3]]),  # 2 is near to 1, and far from 0
        (0.4, [[0, 1, 2], [3]]),
        (1.0, [[0, 1, 2, 3]]),
    ],
)
def test_groups_are_as_far_apart_as_their_farthest_clusters(delta: float, expected: list[list[int]]) -> None:
    apart = np.array([[0.0, 0.125, 0.3, 0.6], [0.125, 0.0, 0.15, 0.7], [0.3, 0.15, 0.0, 0.5], [0.6, 0.7, 0.5, 0.0]])
    assert groups(apart, delta) == expected


def test_a_merged_model_is_the_mean_by_records_and_has_the_records_of_both() -> None:
    one, three = Cluster(network(), [ten(0), ten(0)]), Cluster(network(), [ten(9), ten(9)])
    three.add(1, ten(8))
    three.add(1, ten(7))
    for cluster, value in ((one, 0.0), (three, 3.0)):
        cluster.model.hidden, cluster.model.out = np.full((1, 1), value), np.full((2, 2), value)
    both = merged([one, three])
    assert both.model.hidden.tolist() == [[2.0]]
    assert both.model.out.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert [own.y.sum() for own in both.own] == [9.0, 24.0]


def test_a_client_begins_a_model_only_when_its_loss_grows_by_more_than_delta() -> None:
    method = FedDrift(network, clients=2, delta=0.25)
    for ones, members, last in (
        ((2, 8), [0, 0], [0.2, 0.8]),  # nothing to compare with
        ((4, 10), [0, 0], [0.4, 1.0]),  # each worse by 0.2
        ((7, 3), [1, 0], [0.7, 0.3]),  # the first is worse by 0.3
        ((8, 4), [0, 0], [0.8, 0.4]),  # worse by 0.1 than what made it leave; both models predict 0
    ):
        method.assign([ten(n) for n in ones])
        assert method.members.tolist() == members
        np.testing.assert_allclose(method.last, last)


@pytest.mark.compiles
def test_a_new_model_is_trained_alone_and_then_merged_with_one_that_fits() -> None:
    method, told = FedDrift(network, clients=3, delta=0.25), np.zeros(3, np.int64)
    method.learn(0, [ten(0), ten(0), ten(0)], told)
    method.learn(1, [ten(0), ten(10), ten(10)], told)
    assert method.members.tolist() == [0, 1, 2]
    assert [[len(own.y) for own in cluster.own] for cluster in method.clusters] == [
        [20, 10, 10],
        [0, 10, 0],
        [0, 0, 10],
    ]
    method.learn(2, [ten(0), ten(10), ten(10)], told)
    assert method.members.tolist() == [0, 1, 1]
    assert [[len(own.y) for own in cluster.own] for cluster in method.clusters] == [[30, 10, 10], [0, 20, 20]]
    predicted = [int(model.outputs(np.ones((1, 1))).argmax()) for model in method.serving(told)]
    assert predicted == [0, 1, 1]


@pytest.mark.compiles
def test_a_concept_that_returns_finds_its_model() -> None:
    rng = generator(1, "feddrift")
    method, told = (
        FedDrift(lambda: Network(2, 2, 8, 0.3, LocalWork(3, 5, 1), 1, 0.0), clients=4, delta=0.2),
        np.zeros(4, np.int64),
    )
    counts, members = [], []
    for t, swaps in enumerate([0, 0, 1, 1, 0, 0, 1]):
        Z = np.dstack([rng.uniform(-1.0, 1.0, (4, 100)), np.ones((4, 100))])
        method.learn(t, [ClientRecords(z, ((z[:, 0] > 0) ^ bool(swaps)).astype(np.float64)) for z in Z], told)
        counts.append(len(method.clusters))
        members.append(set(method.members.tolist()))
    assert counts == [1, 1, 5, 2, 2, 2, 2]
    assert members[3:] == [{1}, {0}, {0}, {1}]
