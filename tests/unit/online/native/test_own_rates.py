"""A client's own model of targets learns at several rates, and a mixture weighs them."""

from dataclasses import replace

import numpy as np
import pytest
from one_record import OwnModel

from streamfl.errors import PeerError
from streamfl.online.native.ferns import Ferns
from streamfl.protocol.native.settings import OWN_RATES

pytestmark = pytest.mark.compiles

NAMES = ("x", "z")


def model() -> OwnModel:
    own = OwnModel(targets=True, cells=True)
    own.over(NAMES, ())
    return own


def errors(own: OwnModel, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the absolute error of each prediction just before its record is learnt."""
    ferns = Ferns(0).over(NAMES)
    missed = []
    for x, truth in zip(X, y, strict=True):
        missed.append(abs(own.says(ferns, x[None], np.zeros((1, 1)))[0, 0] - truth))
        own.learn(ferns, x[None], truth)
    return np.array(missed)


def test_the_first_steps_are_normalised_by_each_rate() -> None:
    own, ferns = model(), Ferns(0).over(NAMES)
    own.learn(ferns, np.zeros((1, 2)), 1.0)
    own.learn(ferns, np.zeros((1, 2)), 3.0)
    # Of two equal records only the constant is not 0, which counts half; the mean moved from 1 to 2, so 1 is missing.
    # One of 101 records' weight is that of the cells: of 100 ferns, and no pair, since no feature varies.
    square = 0.25 + 100.0 * (1.0 / 101.0) ** 2
    norm = 0.25 + (square - 0.25) / 2.0
    expected = [0.5 * rate / (norm + 0.5 * rate * square) for rate in OWN_RATES]
    assert own.arrays.weights[0] == pytest.approx(expected)


def test_where_targets_are_noise_the_slowest_rate_counts_and_where_they_follow_a_rule_the_others() -> None:
    draws = np.random.default_rng(0)
    X = draws.normal(size=(800, 2))
    noise, ruled = model(), model()
    y = draws.normal(size=800)
    # At the rate 1 alone the errors are 1.34 and 0.31.
    of_mean = np.abs(y[400:] - y.mean()).mean()
    assert errors(noise, X, y)[400:].mean() < 1.04 * of_mean
    rule = np.sign(X[:, 0]) * np.sign(X[:, 1])
    assert errors(ruled, X, rule)[400:].mean() < 0.3
    assert noise.rates.shares[-1] > 0.8
    assert ruled.rates.shares[-1] < 0.3


def test_a_saved_model_continues_as_if_it_had_not_been_saved() -> None:
    draws = np.random.default_rng(1)
    X, y = draws.normal(size=(60, 2)), draws.normal(size=60)
    own = model()
    errors(own, X[:40], y[:40])
    again = OwnModel.of(own.state(), targets=True, cells=True, seed=0)
    again.over(NAMES, ())
    assert (errors(again, X[40:], y[40:]) == errors(own, X[40:], y[40:])).all()


def test_a_saved_model_of_targets_without_its_rates_is_damaged() -> None:
    own = model()
    errors(own, np.zeros((3, 2)), np.arange(3.0))
    with pytest.raises(PeerError, match="damaged"):
        OwnModel.of(replace(own.state(), rates=None), targets=True, cells=True, seed=0)
