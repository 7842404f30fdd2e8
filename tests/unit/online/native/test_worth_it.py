"""Whether a federation is worth it: no client does worse in it than by its own model alone."""

import numpy as np
import pytest
from one_record import OwnModel

from streamfl.bounds import NAMED
from streamfl.online.native.ferns import Ferns
from streamfl.online.native.online_models import NativeOnlineModels
from streamfl.protocol.messages.decision_rule import likeliest
from streamfl.protocol.native.settings import NativeSettings
from streamfl.protocol.records import Batch, Span
from streamfl.sampling import generator

pytestmark = pytest.mark.compiles

CLIENTS, ROUNDS, SIZE = 6, 40, 10
NAMES, LABELS = ("x", "y", "z"), ("a", "b")


def records(kind: str, client: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the records of a client whose concept is that of all, its own, or with the labels swapped at half."""
    rng = generator(7, kind, client)
    X = rng.normal(size=(ROUNDS * SIZE, 3)) + (3.0 * client if kind == "different" else 0.0)
    w = generator(7, kind, "concept").normal(size=3) if kind != "different" else rng.normal(size=3)
    y = (X - X.mean(axis=0)) @ w > 0.3 * rng.normal(size=len(X))
    return X, (y ^ (kind == "conflicting" and client % 2 == 1)).astype(float)


def federated(kind: str) -> list[np.ndarray]:
    """Return by client which records were served right, in a federation that agrees after every round."""
    online = NativeOnlineModels(NativeSettings("linear")).in_one_process()
    agreed, machines = online.initial(()), [online.at_client() for _ in range(CLIENTS)]
    streams, right = [records(kind, c) for c in range(CLIENTS)], [np.zeros(0)] * CLIENTS
    for t in range(ROUNDS):
        rows, learnt = np.arange(t * SIZE, (t + 1) * SIZE), {}
        for c, (machine, (X, y)) in enumerate(zip(machines, streams, strict=True)):
            machine.begin(t + 1, 1)
            machine.learn([Batch(Span("p", t * SIZE, (t + 1) * SIZE), rows, NAMES, X[rows], y[rows], LABELS)])
            told = [machine.labels[int(code)] if code >= 0 else "" for code in likeliest(machine.served)]
            right[c] = np.append(
                right[c], [said == LABELS[int(truth)] for said, truth in zip(told, y[rows], strict=True)]
            )
            learnt[f"c{c}"] = online.named(machine.learnt(NAMED, f"c{c}"), agreed)
        agreed, change = online.after(agreed, learnt, LABELS, limits=NAMED)
        for machine in machines:
            machine.take(online.published(agreed, t + 2, change))
    return right


def alone(kind: str, client: int) -> np.ndarray:
    """Return which records of a client its own model has right, alone."""
    own, ferns, right = OwnModel(), Ferns(0), []
    own.over(NAMES, LABELS)
    for x, truth in zip(*records(kind, client), strict=True):
        right.append(own.says(ferns, x[None], np.full((1, 2), 0.5))[0].argmax() == truth)
        own.learn(ferns, x[None], float(truth))
    return np.array(right)


@pytest.mark.parametrize("kind", ["alike", "different", "conflicting"])
def test_no_client_is_worse_than_its_own_model_alone(kind):
    together = federated(kind)
    beside = [right[200:].mean() - alone(kind, client)[200:].mean() for client, right in enumerate(together)]
    assert min(beside) > -0.02
    if kind == "alike":
        assert np.mean(beside) > 0.0
