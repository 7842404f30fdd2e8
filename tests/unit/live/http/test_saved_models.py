"""Saved models that are served: read again when their files change, and promoted."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from structlog.testing import capture_logs

from streamfl.errors import UsageError
from streamfl.live.http.saved_models import SavedModel, promote
from streamfl.protocol.registry import Registry
from streamfl.records.values.time_features import TimeFeatures
from streamfl.run.model_file import ServedModel

REGISTRY = Registry(1, ("x",), ("no", "yes"), np.zeros(1), np.ones(1))
OLD = ServedModel("classification", "softmax", REGISTRY, np.array([[-1.0, 1.0], [0.0, 0.0]]))
NEW = replace(OLD, weights=-OLD.weights)
TIME = TimeFeatures(("hour",), "x")


@pytest.fixture
def champion(tmp_path):
    OLD.save(tmp_path / "champion")
    return tmp_path / "champion"


@pytest.fixture
def candidate(tmp_path):
    NEW.save(tmp_path / "candidate")
    return tmp_path / "candidate"


def predicted(saved):
    return saved.answering.model.predict(np.array([[2.0]]), ("x",))


def test_a_promoted_candidate_answers_at_once_and_is_no_candidate_any_more(champion, candidate):
    served, other = SavedModel(champion), SavedModel(candidate, "candidate")
    for one in (served, other):
        one.renew()
    assert (predicted(served), predicted(other)) == (["yes"], ["no"])
    promote(candidate, champion)
    for one in (served, other):
        one.renew_or_keep()
    assert (predicted(served), other.answering) == (["no"], None)


def test_a_file_that_is_no_model_or_is_gone_leaves_the_one_before(champion):
    served = SavedModel(champion)
    served.renew()
    champion.write_text("half of a mod")
    with capture_logs() as logged:
        served.renew_or_keep()
        served.renew_or_keep()
    champion.unlink()
    served.renew_or_keep()
    assert predicted(served) == ["yes"]
    assert [line["event"] for line in logged] == ["a model cannot be read, and the one before keeps answering"]


def registered(features: tuple[str, ...] = ("x",), labels: tuple[str, ...] = ("no", "yes")) -> Registry:
    d = len(features)
    return Registry(1, features, labels, np.zeros(d), np.ones(d))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (registered(), registered(("x", "y")), "needs columns .* does not take: y"),
        (registered(("x", "y")), registered(), "does not take columns .*: y"),
        (registered(("x", "y")), registered(("y", "x")), "matrix of other columns .*, or in another order: y, x"),
        (registered(("x=a",)), registered(), "other numbers, texts or times than .*, in x"),
        (registered(TIME.names), registered(), "other numbers, texts or times than .*, in x"),
        (registered(), registered(labels=("no", "maybe")), "does not know labels .*: yes"),
        (registered(), registered(labels=("yes", "no")), "another order of labels .*: yes, no"),
    ],
    ids=["more", "fewer", "another order", "texts", "times", "labels", "labels in another order"],
)
def test_a_candidate_that_cannot_answer_the_same_requests_alike_is_not_promoted(tmp_path, old, new, reason):
    champion, candidate = tmp_path / "champion", tmp_path / "candidate"
    for path, registry in ((champion, old), (candidate, new)):
        categories = {"x": ("a",)} if registry.features == ("x=a",) else {}
        time = TIME if registry.features == TIME.names else None
        weights = np.zeros((len(registry.features) + 1, 2))
        replace(OLD, registry=registry, weights=weights, categories=categories, time_features=time).save(path)
    with pytest.raises(UsageError, match=reason):
        promote(candidate, champion)
    assert candidate.exists()


def test_a_candidate_that_ignores_a_column_or_knows_more_labels_is_promoted(champion, tmp_path):
    both = registered(("x", "y"))
    replace(OLD, registry=both, weights=np.zeros((3, 2))).save(champion)
    more = registered(labels=("no", "yes", "maybe"))
    replace(OLD, registry=more, weights=np.zeros((2, 3)), left_out=("y",)).save(tmp_path / "candidate")
    with pytest.raises(UsageError, match="matrix of other columns"):  # it has one column fewer
        promote(tmp_path / "candidate", champion)
    replace(OLD, registry=registered(), left_out=("y",)).save(champion)
    promote(tmp_path / "candidate", champion)


def test_a_disk_that_fails_for_a_moment_ends_no_server(champion, monkeypatch):
    served = SavedModel(champion)
    served.renew()
    with monkeypatch.context() as patched, capture_logs() as logged:
        patched.setattr(Path, "stat", failing)
        served.renew_or_keep()
        served.renew_or_keep()
    assert (predicted(served), [line["event"] for line in logged]) == (
        ["yes"],
        ["a model cannot be read, and the one before keeps answering"],
    )
    NEW.save(champion)
    served.renew_or_keep()
    assert predicted(served) == ["no"]


def failing(path: Path, **options: object) -> None:
    raise OSError(116, "Stale file handle")
