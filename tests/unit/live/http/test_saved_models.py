"""Saved models that are served: read again when their files change, and promoted."""

from dataclasses import replace

import numpy as np
import pytest
from structlog.testing import capture_logs

from streamfl.errors import UsageError
from streamfl.live.http.saved_models import SavedModel, promote
from streamfl.protocol.registry import Registry
from streamfl.run.model_file import ServedModel

REGISTRY = Registry(1, ("x",), ("no", "yes"), np.zeros(1), np.ones(1))
OLD = ServedModel("classification", "softmax", REGISTRY, np.array([[-1.0, 1.0], [0.0, 0.0]]))
NEW = replace(OLD, weights=-OLD.weights)


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


@pytest.mark.parametrize(
    ("registry", "reason"),
    [
        (Registry(1, ("x", "y"), ("no", "yes"), np.zeros(2), np.ones(2)), "needs columns .* does not take: y"),
        (Registry(1, ("x",), ("no", "maybe"), np.zeros(1), np.ones(1)), "does not know labels .*: yes"),
    ],
)
def test_a_candidate_that_cannot_answer_the_same_requests_is_not_promoted(champion, tmp_path, registry, reason):
    weights = np.zeros((len(registry.features) + 1, 2))
    replace(OLD, registry=registry, weights=weights).save(tmp_path / "candidate")
    with pytest.raises(UsageError, match=reason):
        promote(tmp_path / "candidate", champion)
    assert (tmp_path / "candidate").exists()
