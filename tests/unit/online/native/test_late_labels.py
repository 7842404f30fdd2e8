"""The last answer where labels come late: it is judged by what it said when it was asked, and remembers no more."""

import numpy as np
import pytest

from streamfl.online.native.private import late_labels as module
from streamfl.online.native.private.last_answer import LastAnswer
from streamfl.online.native.private.late_labels import LateLabelExperts

LABELS = ("a", "b", "c")


def others(rng, n: int) -> np.ndarray:
    P = rng.random((n, len(LABELS))) + 0.1
    return P / P.sum(axis=1, keepdims=True)


def runs(rng, n: int, length: int) -> np.ndarray:
    return np.repeat(rng.integers(0, len(LABELS), -(-n // length)), length)[:n].astype(float)


@pytest.mark.compiles
def test_delayed_labels_that_come_before_the_next_record_leave_the_last_answer_as_it_is():
    rng = np.random.default_rng(0)
    P, y = others(rng, 300), runs(rng, 300, 20)
    late, plain = LateLabelExperts(LastAnswer()), LastAnswer()
    plain.over(LABELS)
    own = others(rng, 300)
    for i in range(300):
        at = np.array([i])
        told = late.mixed(at, P[i : i + 1], own[i : i + 1], LABELS)[0]
        assert np.array_equal(told, plain.mixed(P[i], own[i]))
        late.learn(at, y[i : i + 1], LABELS)
        plain.learn(y[i])


@pytest.mark.compiles
def test_delayed_targets_that_come_before_the_next_record_leave_the_last_answer_as_it_is():
    rng = np.random.default_rng(1)
    y = 100.0 + np.cumsum(rng.normal(size=200))
    late, plain = LateLabelExperts(LastAnswer(targets=True)), LastAnswer(targets=True)
    plain.over(())
    for i in range(200):
        other = np.array([100.0 + rng.normal()])
        told = late.mixed(np.array([i]), other[None], other[None] + 1.0, (), 100.0)[0, 0]
        mixed = plain.mixed(other - 100.0, other - 99.0, 100.0)[0] + 100.0
        assert told == pytest.approx(mixed, abs=1e-9)
        late.learn(np.array([i]), y[i : i + 1], (), 100.0)
        plain.learn(float(y[i]), 100.0)


@pytest.mark.compiles
@pytest.mark.parametrize(("delay", "helps"), [(5, True), (40, False)])
def test_the_last_answer_counts_only_where_it_was_better_when_the_record_was_answered(delay, helps):
    """Labels come in runs of 20: five records later the last one still helps, forty later it says nothing."""
    rng = np.random.default_rng(2)
    n = 800
    P, y = others(rng, n), runs(rng, n, 20)
    late, right, alone = LateLabelExperts(LastAnswer()), 0, 0
    for i in range(n):
        if i >= delay:
            late.learn(np.array([i - delay]), y[i - delay : i - delay + 1], LABELS)
        told = late.mixed(np.array([i]), P[i : i + 1], P[i : i + 1], LABELS)[0]
        right, alone = right + (told.argmax() == y[i]), alone + (P[i].argmax() == y[i])
    assert right > alone + 300 if helps else right >= alone - 0.03 * n


@pytest.mark.compiles
def test_remembered_answers_are_bounded_and_the_oldest_is_forgotten(monkeypatch):
    late = LateLabelExperts(LastAnswer())
    even = np.full((1, 3), 1 / 3)
    late.mixed(np.array([0]), even, even, LABELS)
    monkeypatch.setattr(module, "MOST_NUMBERS", 10 * late._numbers)
    for i in range(1, 100):
        late.mixed(np.array([i]), even, even, LABELS)
    assert list(late._said) == list(range(90, 100))
    late.learn(np.arange(100), np.ones(100), LABELS)
    assert (late._said, late._numbers, late.last.known) == ({}, 0, ("b", 0.0))


@pytest.mark.compiles
def test_labels_that_came_after_the_answer_have_a_column():
    late = LateLabelExperts(LastAnswer())
    even = np.full((1, 2), 0.5)
    late.mixed(np.array([7]), even, even, ("a", "b"))
    late.learn(np.array([7]), np.array([2.0]), ("b", "a", "c"))
    assert late.last.known == ("c", 0.0)
    even = np.full((1, 3), 1 / 3)
    assert np.isfinite(late.mixed(np.array([8]), even, even, ("b", "a", "c"))).all()
