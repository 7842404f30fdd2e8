"""Objectives of estimators, replays and model files: what is predicted, and what stays as it is."""

from collections import Counter

import numpy as np
import pytest

from streamfl.errors import UsageError
from streamfl.protocol.decisions import Predicted
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import deal
from streamfl.run.estimators.master_fl import MasterFLClassifier
from streamfl.run.model_file import ServedModel
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings
from streamfl.sampling import generator

pytestmark = pytest.mark.compiles


def records(n: int = 400) -> list[tuple[dict[str, float], bool]]:
    """Return records of which an eighth are failures, whose features overlap with the others'."""
    rng = generator(3, "rare")
    failed = rng.random(n) < 0.125
    X = rng.normal(size=(n, 2)) + 1.2 * failed[:, None]
    return [({"x": float(x), "z": float(z)}, bool(y)) for (x, z), y in zip(X, failed, strict=True)]


def learnt(**parameters):
    model, told = MasterFLClassifier(round_size=50, features="linear", **parameters), []
    for x, y in records():
        told.append((model.predict_one(x), model.predict_proba_one(x), y))
        model.learn_one(x, y)
    return model, told


def recall(told):
    hits = Counter(truth for said, _, truth in told[50:] if said == truth)
    return hits[True] / sum(truth for *_, truth in told[50:])


OBJECTIVES = [{"objective": "balanced"}, {"objective": "kappa"}, {"objective": "cost", "costs": {1: 10}}]


@pytest.fixture(scope="module")
def plain():
    return learnt()


@pytest.mark.parametrize("aim", OBJECTIVES, ids=lambda aim: aim["objective"])
def test_an_objective_finds_more_of_a_rare_label_and_changes_no_probability(aim, plain, tmp_path):
    (model, told), (_, before) = learnt(**aim), plain
    assert [p for _, p, _ in told] == [p for _, p, _ in before]
    assert recall(told) > recall(before)
    xs = [x for x, _ in records()[:40]]
    model.save(tmp_path / "saved")
    again = MasterFLClassifier.load(tmp_path / "saved")
    assert [again.predict_one(x) for x in xs] == [model.predict_one(x) for x in xs]
    served = model.served(own=True)
    served.save(tmp_path / "model")
    file = ServedModel.load(tmp_path / "model")
    assert file.decision == served.decision != plain[0].served().decision
    for x in xs:
        assert file.predict([x]) == [str(model.predict_one(x))]
        why = file.explain(x)
        assert why.probability == pytest.approx(file.predict_proba([x])[0, file.labels.index(why.predicted)])


def table() -> Table:
    told = records()
    X = np.array([[x["x"], x["z"]] for x, _ in told])
    return Table("drawn", ("x", "z"), X, np.array([float(y) for _, y in told]), ("ok", "failure"), np.arange(len(X)))


def replay(**learning):
    events, drawn = [], table()
    settings = ReplaySettings(round_size=25, learning=LearningSettings(features="linear", **learning))
    run = Replay(drawn, deal(drawn, 4, "round-robin", 0), settings, events.append).run()
    return run, [event for event in events if isinstance(event, Predicted)]


def test_the_figures_of_a_replay_are_of_what_was_answered_and_its_drifts_of_what_was_learnt():
    (told, events), (plain, _) = replay(objective="balanced"), replay()
    right = sum(int((event.served == event.truth).sum()) for event in events)
    assert told.result.accuracy.prequential == pytest.approx(right / 400)
    assert told.result.accuracy.prequential != plain.result.accuracy.prequential
    assert told.result.model_sha256 == plain.result.model_sha256
    assert told.result.accuracy.round_start == plain.result.accuracy.round_start
    assert told.model.decision.weights["failure"] > 2.0 > told.model.decision.weights["ok"]


@pytest.mark.parametrize(
    ("learning", "said"),
    [
        ({"objective": "cost"}, "the objective is cost, give the price"),
        ({"objective": "kappa", "costs": {"failure": 2}}, "kappa, which has no prices"),
        ({"objective": "cost", "costs": {"failure": -1}}, "the price of failure is -1"),
        ({"objective": "cost", "costs": "failure"}, "write the price of each label as LABEL=PRICE"),
        ({"objective": "cost", "costs": "failur=20"}, 'no label is called "failur"'),
        ({"objective": "cost", "costs": "failure=much"}, "the price of failure is much; give a number from 1e-12"),
        ({"objective": "cost", "costs": {"failure": 1e300}}, r"the price of failure is 1e\+300; give a number"),
        ({"objective": "cost", "costs": "failure=3,failure=4"}, "failure has two prices"),
        ({"objective": "cost", "costs": ["failure"]}, "or a table of them"),
    ],
)
def test_prices_that_cannot_be_meant_are_refused(learning, said):
    with pytest.raises(UsageError, match=said):
        replay(**learning)


def test_a_label_with_commas_and_equals_signs_has_a_price():
    written = LearningSettings(objective="cost", costs="a,b=c=20, n.i.O.=3,ok=1e-3")
    assert written.costs == {"a,b=c": 20.0, "n.i.O.": 3.0, "ok": 0.001}


def test_an_objective_needs_labels_and_models_that_learn_record_by_record():
    with pytest.raises(UsageError, match="it needs models that learn record by record"):
        MasterFLClassifier(features="rounds", objective="kappa")
    with pytest.raises(ValueError, match="no objective is called 'f1': use one of accuracy, balanced, kappa, cost"):
        MasterFLClassifier(objective="f1")
    with pytest.raises(ValueError, match=r"costs is \[1\]: it must have the price of each label"):
        MasterFLClassifier(objective="cost", costs=[1])
    with pytest.raises(UsageError, match="it is about labels, but these are numbers"):
        LearningSettings(objective="balanced").check_objective("regression")
