"""Whether a federation is worth it: no client does worse in it than by its own model alone."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from one_record import OwnModel

from streamfl.bounds import NAMED
from streamfl.online.native.ferns import Ferns
from streamfl.online.native.learner import NativeLearner
from streamfl.online.native.online_models import NativeOnlineModels
from streamfl.online.native.private.last_answer import LastAnswer
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


def first_handover(clients: int) -> tuple[float, float]:
    """Return the error of each client's eleventh record, and that of its own model: all before are of one round.

    Targets grow, at each client by a rate of its own.
    """
    online = NativeOnlineModels(NativeSettings("linear", targets=True)).in_one_process()
    agreed, machines = online.initial(()), [online.at_client() for _ in range(clients)]
    t, learnt = np.arange(11.0), {}
    growth = [40.0 + (1.0 + c) ** 2 * t for c in range(clients)]
    for c, (machine, y) in enumerate(zip(machines, growth, strict=True)):
        machine.begin(1, 1)
        machine.learn([Batch(Span("p", 0, 10), np.arange(10), ("t",), t[:10, None], y[:10])])
        learnt[f"c{c}"] = online.named(machine.learnt(NAMED, f"c{c}"), agreed)
    agreed, change = online.after(agreed, learnt, (), limits=NAMED)
    missed, missed_alone = [], []
    for machine, y in zip(machines, growth, strict=True):
        own, ferns = deepcopy(machine.learner.own), Ferns(0).over(("t",))
        own.over(("t",), ())
        missed_alone.append(abs(OwnModel.says(own, ferns, t[10:, None], np.zeros((1, 1)))[0, 0] - y[10]))
        machine.take(online.published(agreed, 2, change))
        machine.begin(2, 1)
        last = Batch(Span("p", 10, 11), np.array([10]), ("t",), t[10:, None], y[10:])
        missed.append(abs(machine.answer(last)[0, 0] - y[10]))
    return float(np.mean(missed)), float(np.mean(missed_alone))


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


def test_the_first_agreed_state_of_targets_has_to_earn_its_trust(monkeypatch):
    missed, by_own = first_handover(clients=20)
    assert missed < 1.5 * by_own
    monkeypatch.setattr(LastAnswer, "distrust_others", lambda *_: None)
    assert first_handover(clients=20)[0] > 3.0 * by_own


def test_a_client_alone_keeps_its_trust_in_what_only_it_has_trained():
    learner = NativeLearner(NativeSettings("linear", targets=True))
    learner.learn(("t",), np.arange(10.0)[:, None], np.arange(10.0))
    before = learner.last.shares
    learner.begin(replace(learner.agreed, seen=10), np.zeros(0, np.int64))
    assert learner.last.shares == before
