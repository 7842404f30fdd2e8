"""The network: its steps are those of the numerical gradient, and it learns what no linear model can."""

import numpy as np

from streamfl.sampling import generator
from streamfl_benchmarks.peers.base import SOFTMAX, ClientRecords, scores
from streamfl_benchmarks.peers.local_work import LocalWork
from streamfl_benchmarks.peers.network import Layers, Network


def exclusive_or(n: int) -> ClientRecords:
    Z = np.column_stack([generator(3, "network").choice([-1.0, 1.0], size=(n, 2)), np.ones(n)])
    return ClientRecords(Z, (Z[:, 0] * Z[:, 1] > 0).astype(np.float64))


def test_a_step_is_that_of_the_numerical_gradient() -> None:
    rng, own = generator(1, "network"), exclusive_or(7)
    layers, l2, eps = Layers(rng.normal(size=(3, 4)), rng.normal(size=(5, 2))), 0.1, 1e-6

    def loss(hidden: np.ndarray, out: np.ndarray) -> float:
        nats = SOFTMAX.losses(Layers(hidden, out).activations(own.Z) @ out, own.y).mean()
        return float(nats + l2 / 2 * ((hidden**2).sum() + (out**2).sum()))

    stepped = layers.stepped(own, 1.0, l2)
    for i in np.ndindex(layers.hidden.shape):
        bump = np.zeros_like(layers.hidden)
        bump[i] = eps
        slope = (loss(layers.hidden + bump, layers.out) - loss(layers.hidden - bump, layers.out)) / (2 * eps)
        np.testing.assert_allclose(layers.hidden[i] - stepped.hidden[i], slope, atol=1e-6)
    for i in np.ndindex(layers.out.shape):
        bump = np.zeros_like(layers.out)
        bump[i] = eps
        slope = (loss(layers.hidden, layers.out + bump) - loss(layers.hidden, layers.out - bump)) / (2 * eps)
        np.testing.assert_allclose(layers.out[i] - stepped.out[i], slope, atol=1e-6)


def test_clients_learn_the_exclusive_or_together() -> None:
    peer, clients = Network(3, 2, units=16, eta=0.3, work=LocalWork(batch=10)), [exclusive_or(40), exclusive_or(20)]
    for t in range(1, 61):
        peer.learn(t, clients, 0.5)
    assert (SOFTMAX.predict(peer.outputs(clients[0].Z)) == clients[0].y).all()
    assert scores(peer.outputs(clients[0].Z), clients[0]).mean() < 0.1
