"""Kappas by hand, and what holds of them for all predictions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import metrics

from river_peers import figures

TRUTH = np.array([0, 0, 1, 1, 1, 2])


def test_accuracy_and_both_kappas_are_those_computed_by_hand() -> None:
    guesses = np.array([-1, 0, 1, 1, 0, 2])
    # 4 of 6 right; chance: (2 * 2 + 3 * 2 + 1 * 1) / 36; repeating is right at the 2nd, 4th and 5th record.
    assert figures.accuracy(TRUTH, guesses) == pytest.approx(4 / 6)
    assert figures.kappa(TRUTH, guesses) == pytest.approx((4 / 6 - 11 / 36) / (1 - 11 / 36))
    assert figures.temporal_kappa(TRUTH, guesses) == pytest.approx((4 / 6 - 3 / 6) / (1 - 3 / 6))


def test_no_prediction_is_wrong_and_is_not_the_last_label_either() -> None:
    nothing = np.full(6, -1)
    assert figures.accuracy(TRUTH, nothing) == 0.0
    assert figures.kappa(TRUTH, nothing) == 0.0
    assert figures.temporal_kappa(TRUTH, nothing) == pytest.approx(-1.0)


def test_where_chance_is_always_right_there_is_no_kappa() -> None:
    assert figures.kappa(np.zeros(3, dtype=int), np.zeros(3, dtype=int)) is None


def test_repeating_has_a_temporal_kappa_of_zero() -> None:
    assert figures.temporal_kappa(TRUTH, figures.repeated(TRUTH)) == 0.0
    assert figures.repeated(TRUTH).tolist() == [-1, 0, 0, 1, 1, 1]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=40))
def test_kappa_is_that_of_river(pairs: list[tuple[int, int]]) -> None:
    truth, guesses = (np.array(column) for column in zip(*pairs, strict=True))
    theirs = metrics.CohenKappa()
    for label, guess in pairs:
        theirs.update(label, guess)
    ours = figures.kappa(truth, guesses)
    assert theirs.get() == pytest.approx(0.0 if ours is None else ours, abs=1e-12) or ours is None
