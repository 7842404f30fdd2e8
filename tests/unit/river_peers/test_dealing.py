"""Merging and isolated clients get the same records."""

import sys
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import streamfl
from river_peers import figures, methods
from river_peers.dealing import CLIENT, Isolated
from river_peers.methods import ISOLATED, MERGED, ONE, Task, make
from river_peers.trial import run

TASK = Task(("a", "b"), labels=2, seed=7)
X = np.arange(22.0).reshape(11, 2)
Y = np.arange(11) % 2


class Recording:
    """A learner that keeps what it is made of and told, and predicts how many records it has learnt."""

    made: list["Recording"] = []  # noqa: RUF012 - one list for the test, emptied by the fixture

    def __init__(self, **given: Any) -> None:
        self.given = given
        self.learnt: list[tuple[dict[str, Any], int]] = []
        self.made.append(self)

    def predict_one(self, x: dict[str, Any]) -> int | None:
        return len(self.learnt) or None

    def learn_one(self, x: dict[str, Any], y: int) -> None:
        self.learnt.append((x, y))


@pytest.fixture(autouse=True)
def _recording(monkeypatch: pytest.MonkeyPatch) -> None:
    Recording.made.clear()
    monkeypatch.setattr(streamfl, "MasterFLClassifier", Recording, raising=False)


def test_records_are_dealt_in_turn_each_client_alone() -> None:
    clients = [Recording() for _ in range(4)]
    isolated = Isolated(clients)
    guesses = []
    for i in range(11):
        guesses.append(isolated.predict_one({"i": i}))
        isolated.learn_one({"i": i}, 0)
    assert [[x["i"] for x, _ in c.learnt] for c in clients] == [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7]]
    assert guesses == [None] * 4 + [1] * 4 + [2] * 3  # by the one that learns the record next, before it does


def test_merging_clients_are_named_in_the_same_turn_across_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("river_peers.trial.CHUNK", 3)
    guesses, _, _ = run(make("streamfl", MERGED, TASK), X, Y)
    (merged,) = Recording.made
    assert merged.given == {"seed": 7, "round_size": 50, "client": CLIENT}
    assert [x[CLIENT] for x, _ in merged.learnt] == [f"c{i % 4}" for i in range(11)]
    assert [(x["a"], x["b"], y) for x, y in merged.learnt] == [(2.0 * i, 2.0 * i + 1, i % 2) for i in range(11)]
    assert guesses.tolist() == [-1, *range(1, 11)]


def test_isolated_clients_have_the_same_settings_and_no_name() -> None:
    run(make("streamfl-no-neighbours", ISOLATED, TASK), X, Y)
    assert [c.given for c in Recording.made] == [{"neighbours": False, "seed": 7, "round_size": 50}] * 4
    assert all(set(x) == {"a", "b"} for c in Recording.made for x, _ in c.learnt)


def test_one_client_is_left_its_defaults() -> None:
    make("streamfl-linear", ONE, TASK)
    assert [c.given for c in Recording.made] == [{"features": "linear", "seed": 7}]


@pytest.mark.parametrize(
    ("method", "kind", "given"),
    [
        ("capymoa-arf", "AdaptiveRandomForestClassifier", {"ensemble_size": 10}),
        ("capymoa-srp", "StreamingRandomPatches", {"ensemble_size": 10}),
        ("capymoa-srp-100", "StreamingRandomPatches", {"ensemble_size": 100}),
        ("capymoa-sgbt", "StreamingGradientBoostedTrees", {}),
        ("capymoa-sgbt-0.1", "StreamingGradientBoostedTrees", {"learning_rate": 0.1}),
        ("capymoa-sgbt-0.3", "StreamingGradientBoostedTrees", {"learning_rate": 0.3}),
        ("capymoa-sgbt-1", "StreamingGradientBoostedTrees", {"learning_rate": 1.0}),
    ],
)
def test_peers_of_capymoa_are_given_what_their_names_say(
    method: str, kind: str, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("AdaptiveRandomForestClassifier", "StreamingRandomPatches", "StreamingGradientBoostedTrees")
    classifier = SimpleNamespace(**{name: partial(lambda name, *_, **kw: (name, kw), name) for name in names})
    monkeypatch.setitem(sys.modules, "capymoa", SimpleNamespace(classifier=classifier))
    monkeypatch.setitem(sys.modules, "capymoa.classifier", classifier)
    assert methods._of_capymoa(method, None, 7) == (kind, {"random_seed": 7, **given})


@pytest.mark.parametrize("method", [m for m in methods.PEERS if not m.startswith("capymoa")])
@pytest.mark.parametrize("labels", [2, 3])
def test_every_peer_learns(method: str, labels: int) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(labels, size=500)
    X = np.stack([np.full(500, 5.0), y + rng.normal(0.0, 0.1, size=500)], axis=1)
    guesses, cpu, wall = run(make(method, ONE, Task(("a", "b"), labels, 1)), X, y)
    assert guesses.min() >= -1
    assert guesses.max() < labels
    if method == "no-change":
        assert np.array_equal(guesses, figures.repeated(y))
    else:
        assert figures.accuracy(y[100:], guesses[100:]) > 0.8
    assert cpu > 0.0
    assert wall > 0.0
