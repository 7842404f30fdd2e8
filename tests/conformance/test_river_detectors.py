"""The detectors held against River's own checks, alone and inside what River builds around detectors."""

from collections.abc import Callable

import pytest
from river import (
    base,
    checks,
    drift,
    ensemble,
    evaluate,
    forest,
    linear_model,
    metrics,
    preprocessing,
    tree,
)
from river.datasets import Phishing, synth

from streamfl.drift import GLR, EDetector, MasterTests
from streamfl.errors import UsageError

KINDS = (GLR, EDetector, MasterTests)

# Only estimators have tags: River's own detectors fail this one.
NOT_FOR_DETECTORS = {"check_tags"}

AT = 2000


def changing(records: int = 2 * AT) -> list[tuple[dict, bool]]:
    """Return records of a concept that is turned round at `AT`."""
    stream = synth.ConceptDriftStream(
        synth.Sine(classification_function=0, seed=1),
        synth.Sine(classification_function=1, seed=2),
        position=AT,
        width=20,
        seed=1,
    )
    return list(stream.take(records))


def logistic() -> base.Classifier:
    return preprocessing.StandardScaler() | linear_model.LogisticRegression()


def checks_of(detector: base.DriftDetector) -> list[Callable]:
    return [check for check in checks.yield_checks(detector) if check.__name__ not in NOT_FOR_DETECTORS]


def test_only_checks_that_rivers_own_adwin_fails_are_left_out() -> None:
    failed = set()
    for check in checks.yield_checks(drift.ADWIN()):
        try:
            check(drift.ADWIN())
        except AttributeError:
            failed.add(check.__name__)
    assert failed == NOT_FOR_DETECTORS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("check", checks_of(GLR()), ids=lambda check: check.__name__)
def test_our_detectors_for_river_pass_rivers_own_checks(kind: type[base.DriftDetector], check: Callable) -> None:
    check(kind())


@pytest.mark.parametrize("kind", KINDS)
def test_our_detectors_are_rivers_drift_detectors_with_a_warning(kind: type[base.DriftDetector]) -> None:
    assert issubclass(kind, base.DriftDetector)
    assert kind().drift_detected is kind().warning_detected is False


@pytest.mark.parametrize("kind", KINDS)
def test_a_clone_of_a_used_detector_is_a_new_one_with_the_same_parameters(kind: type[base.DriftDetector]) -> None:
    detector = kind(run_length=5000, warning_level=0.7)
    for i in range(2000):
        detector.update(float(i > 1500))
    clone, fresh = detector.clone(), kind(run_length=5000, warning_level=0.7)
    assert repr(clone) == repr(detector) == repr(fresh)
    assert clone.reading is None
    found = []
    for each in (clone, fresh):
        found.append([])
        for i in range(2000):
            each.update(float(i % 5 == 0 or i > 1200))
            found[-1].append(each.drift_detected)
    assert found[0] == found[1]
    assert any(found[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("background", [True, False])
def test_river_checks_pass_inside_drift_retraining(kind: type[base.DriftDetector], background: bool) -> None:
    checks.check_estimator(drift.DriftRetrainingClassifier(logistic(), kind(), train_in_background=background))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("background", [True, False])
def test_rivers_drift_retraining_gains_accuracy_with_our_detectors(
    kind: type[base.DriftDetector], background: bool
) -> None:
    records = changing()
    retraining = drift.DriftRetrainingClassifier(logistic(), kind(), train_in_background=background)
    gained = evaluate.progressive_val_score(records, retraining, metrics.Accuracy()).get()
    plain = evaluate.progressive_val_score(records, logistic(), metrics.Accuracy()).get()
    assert gained > plain + 0.05


@pytest.mark.parametrize("kind", KINDS)
def test_our_detectors_work_in_drift_retraining_behind_a_scaler_in_a_pipeline(kind: type[base.DriftDetector]) -> None:
    inner = drift.DriftRetrainingClassifier(linear_model.LogisticRegression(), kind())
    pipeline = preprocessing.StandardScaler() | inner
    score = evaluate.progressive_val_score(Phishing(), pipeline.clone(), metrics.Accuracy()).get()
    assert score > 0.85
    checks.check_estimator(pipeline)


@pytest.mark.parametrize("kind", KINDS)
def test_rivers_forests_patches_and_adaptive_trees_work_with_our_detectors(kind: type[base.DriftDetector]) -> None:
    records = changing(AT + 800)
    ensembles = (
        forest.ARFClassifier(n_models=3, drift_detector=kind(), warning_detector=kind(warning_level=0.9), seed=1),
        ensemble.SRPClassifier(
            tree.HoeffdingTreeClassifier(), n_models=3, drift_detector=kind(), warning_detector=kind(), seed=1
        ),
        tree.HoeffdingAdaptiveTreeClassifier(drift_detector=kind(), seed=1),
    )
    for model in ensembles:
        score = evaluate.progressive_val_score(
            records[-800:], trained(model, records[:-800]), metrics.Accuracy()
        ).get()
        assert score > 0.6


def trained(model: base.Classifier, records: list[tuple[dict, bool]]) -> base.Classifier:
    for x, y in records:
        model.learn_one(x, y)
    return model


def test_rivers_forest_resets_trees_when_our_detector_alarms() -> None:
    model = trained(forest.ARFClassifier(n_models=3, drift_detector=GLR(), seed=1), changing(AT + 800))
    assert model.n_drifts_detected() >= 3


def test_what_river_hands_over_beyond_0_and_1_is_refused() -> None:
    # Normalised residuals of a regression forest are not bounded, and docs/detectors.md says so.
    model = forest.ARFRegressor(n_models=1, drift_detector=GLR(), seed=1)
    with pytest.raises(UsageError, match=r"must be a number in \[0, 1\]"):
        for i in range(1000):
            model.learn_one({"x": 1.0}, 1000.0 if i == 500 else float(i % 2))
