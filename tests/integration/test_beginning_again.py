"""Drift that the models of rounds do not feel, or that inputs seem to explain: online models begin again."""

from unittest.mock import PropertyMock, patch

import numpy as np
import pytest
from river.datasets import synth

from streamfl import MasterFLClassifier
from streamfl.learning.profiles.adaptive.choice import Choice
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import deal
from streamfl.run.evaluation.result import Result
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings

pytestmark = pytest.mark.compiles

CLIENTS, SIZE, DRIFT, ROUNDS = 4, 50, 21, 35


def stream(n: int, at: int, *, drifts: bool = True) -> Table:
    """Return records of loans, which from the record `at` on are granted by another rule."""
    before = synth.Agrawal(classification_function=0, seed=5).take(at)
    later = synth.Agrawal(classification_function=2 if drifts else 0, seed=6).take(n - at)
    records = [*before, *later]
    names, y = tuple(records[0][0]), np.array([float(label) for _, label in records])
    return Table("loans", names, np.array([[*x.values()] for x, _ in records], float), y, ("0", "1"), np.arange(n))


def replayed(*, drifts: bool = True) -> Result:
    size = CLIENTS * SIZE
    table = stream(size * ROUNDS, size * (DRIFT - 1), drifts=drifts)
    settings = ReplaySettings(round_size=SIZE, min_records=1, learning=LearningSettings(features="auto"))
    return Replay(table, deal(table, CLIENTS, "round-robin", 0), settings).run().result


def accuracy(result: Result) -> float:
    assert result.accuracy is not None
    assert result.accuracy.prequential is not None
    return result.accuracy.prequential


NEVER = patch.object(Choice, "begins_again", PropertyMock(return_value=False))


def test_a_federation_begins_again_in_the_round_of_the_drift_or_the_next_and_is_better_for_it() -> None:
    result = replayed()
    assert [(found.round in (DRIFT, DRIFT + 1), found.cause) for found in result.restarts] == [(True, "answers")]
    assert result.restarts[0].online_models_begin_again
    with NEVER:
        without = replayed()
    assert without.restarts == ()
    gained = (accuracy(result) - accuracy(without)) * ROUNDS / (ROUNDS - DRIFT + 1)  # a record after the drift
    assert gained > 0.03


def test_without_drift_nothing_begins_again() -> None:
    assert replayed(drifts=False).restarts == ()


def test_an_estimator_begins_again_and_is_better_for_it() -> None:
    def right() -> tuple[float, list[str]]:
        table, model, hits = stream(3000, 2000), MasterFLClassifier(seed=1), []
        for x, y in zip(table.X.tolist(), table.y.tolist(), strict=True):
            record = dict(zip(table.features, x, strict=True))
            hits.append(model.predict_one(record) == int(y))
            model.learn_one(record, int(y))
        again = [f"{one['cause']}, again {one['online_models_begin_again']}" for one in model.restarts]
        return float(np.mean(hits[2000:])), again

    with_it, causes = right()
    with NEVER:
        without, none = right()
    assert (causes, none) == (["answers, again True"], [])
    assert with_it > without + 0.02
