"""The network: its steps are those of the numerical gradient, and it learns what no linear model can."""

import numpy as np
import pytest

from streamfl.arrays import FloatArray
from streamfl.sampling import generator
from streamfl_benchmarks.peers.base import SOFTMAX, ClientRecords, scores
from streamfl_benchmarks.peers.local_work import LocalWork
from streamfl_benchmarks.peers.network import Network, descend

pytestmark = pytest.mark.compiles


def exclusive_or(n: int) -> ClientRecords:
    Z = np.column_stack([generator(3, "network").choice([-1.0, 1.0], size=(n, 2)), np.ones(n)])
    return ClientRecords(Z, (Z[:, 0] * Z[:, 1] > 0).astype(np.float64))


def test_a_step_is_that_of_the_numerical_gradient() -> None:
    rng, own = generator(1, "network"), exclusive_or(7)
    layers, l2, eps = (rng.normal(size=(3, 4)), rng.normal(size=(2, 5))), 0.1, 1e-6

    def loss(hidden: FloatArray, out: FloatArray) -> float:
        active = np.column_stack([np.maximum(0.0, own.Z @ hidden), np.ones(len(own.y))])
        nats = SOFTMAX.losses(active @ out.T, own.y).mean()
        return float(nats + l2 / 2 * ((hidden**2).sum() + (out**2).sum()))

    stepped = tuple(W.copy() for W in layers)
    descend(*stepped, own.Z, own.y, np.arange(7), 7, 1.0, l2)
    for which in range(2):
        for i in np.ndindex(layers[which].shape):
            up, down = ([W.copy() for W in layers] for _ in range(2))
            up[which][i] += eps
            down[which][i] -= eps
            slope = (loss(*up) - loss(*down)) / (2 * eps)
            np.testing.assert_allclose(layers[which][i] - stepped[which][i], slope, atol=1e-6)


def test_a_pass_steps_on_each_batch_in_its_order() -> None:
    own, order = exclusive_or(5), np.array([4, 0, 2, 1, 3])
    layers = generator(2, "network").normal(size=(3, 4)), generator(3, "network").normal(size=(2, 5))
    at_once, one_by_one = (tuple(W.copy() for W in layers) for _ in range(2))
    descend(*at_once, own.Z, own.y, order, 2, 0.5, 0.1)
    for batch in (order[:2], order[2:4], order[4:]):
        descend(*one_by_one, own.Z, own.y, batch, len(batch), 0.5, 0.1)
    np.testing.assert_array_equal(at_once[0], one_by_one[0])
    np.testing.assert_array_equal(at_once[1], one_by_one[1])


def test_clients_learn_the_exclusive_or_together() -> None:
    peer, clients = Network(3, 2, units=16, eta=0.3, work=LocalWork(batch=10)), [exclusive_or(40), exclusive_or(20)]
    for t in range(1, 61):
        peer.learn(t, clients, 0.5)
    assert (SOFTMAX.predict(peer.outputs(clients[0].Z)) == clients[0].y).all()
    assert scores(peer.outputs(clients[0].Z), clients[0]).mean() < 0.1
