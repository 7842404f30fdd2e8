"""Pairs of features of a client's own model: their steps by hand, what they learn, and how many are held."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from one_record import OwnModel

from streamfl.errors import PeerError
from streamfl.online.native.ferns import Ferns
from streamfl.online.native.kernels.own import BINS, HALFWAY, PAIR_CELLS, SHARED_OUT, TRUSTING
from streamfl.online.native.private.pairs import MOST_PAIRED, new_pairs
from streamfl.online.native.running_scaler import RunningScaler
from streamfl.protocol.native.settings import OWN_PAIRS
from streamfl.sampling import generator

FERNS = Ferns(0)


def model(features=("x", "y"), labels=("a", "b"), *, targets=False, mean=0.0):
    """Return a model that has learnt nothing, but knows that all features vary about their means."""
    own = OwnModel(targets, cells=True)
    own.over(features, () if targets else labels)
    return varied(own, mean)


def varied(own, mean=0.0):
    """Let all features have varied about their means."""
    RunningScaler(own._scales).scaled(np.add(mean, [[-1.0] * len(own._features), [1.0] * len(own._features)]))
    own.pair_up()
    return own


def teach(own, X, y):
    for row, truth in zip(X, y, strict=True):
        own.learn(FERNS.over(own._present[0]), row[None], float(truth))
    return own


@pytest.mark.compiles
def test_a_step_of_cells_by_hand():
    # The record is the mean of those before: z = (1, 0, 0), of which the linear part sees half; one pair, in its
    # middle cell, which also counts half after a hundred records.
    own = model(mean=[3.0, 7.0])
    own._running[0]["records"] = HALFWAY
    teach(own, [np.array([3.0, 7.0])], [0])
    square = 0.25 + 0.25
    step = 10.0 / (square / 101 + 5.0 * square) * 0.5 * np.array([1.0, -1.0])
    middle = BINS // 2 * BINS + BINS // 2
    assert own.arrays.weights[0] == pytest.approx(0.5 * step)
    assert own.arrays.table[middle] == pytest.approx(0.5 * step)
    assert np.flatnonzero(own.arrays.table.any(axis=1)).tolist() == [middle]
    assert own.arrays.trust.tolist() == [1.0]  # of a single one


@pytest.mark.compiles
def test_a_step_of_trust_by_hand():
    # Three pairs, the first of which has said the true label: its slope is p(b) = 1/2 times the difference, 0.5.
    own = model(("x", "y", "z"))
    middle = BINS // 2 * BINS + BINS // 2
    own._table[middle] = [0.25, -0.25]
    own._running[0]["records"] = HALFWAY  # so that cells count half
    own._weights[0] = [-0.25, 0.25]  # half of it: what the pair says is undone
    teach(own, [np.zeros(3)], [0])
    grown = np.array([1.0 + TRUSTING * 0.25, 1.0, 1.0])
    assert own.arrays.trust == pytest.approx((1.0 - SHARED_OUT) * 3.0 * grown / grown.sum() + SHARED_OUT)


@pytest.mark.compiles
def test_cells_say_nothing_before_any_record():
    own = model()
    own._table[:] = [3.0, -3.0]
    assert own.says(FERNS, np.zeros((1, 2)), np.full((1, 2), 0.5))[0] == pytest.approx([0.5, 0.5])
    own._running[0]["records"] = HALFWAY
    assert own.says(FERNS, np.zeros((1, 2)), np.full((1, 2), 0.5))[0, 0] == pytest.approx(1 / (1 + np.exp(-3.0)))


@pytest.mark.compiles
def test_it_learns_a_rule_of_two_features_and_trusts_their_pair_most():
    rng = generator(4, "rule")
    X = rng.normal(size=(2000, 5))
    y = (X[:, 1] > 0) ^ (X[:, 3] > 0)
    own = teach(model(tuple("abcde")), X[:1700], y[:1700])
    said = own.says(FERNS.over(tuple("abcde")), X[1700:], np.full((300, 2), 0.5)).argmax(axis=1)
    assert (said == y[1700:]).mean() > 0.9
    assert own.arrays.pairs[own.arrays.trust.argmax()].tolist() == [1, 3]
    without = OwnModel()
    without.over(tuple("abcde"), ("a", "b"))
    said = teach(without, X[:1700], y[:1700]).says(FERNS, X[1700:], np.full((300, 2), 0.5)).argmax(axis=1)
    assert (said == y[1700:]).mean() < 0.6


@pytest.mark.compiles
def test_trust_in_targets_does_not_depend_on_their_unit():
    rng = generator(5, "unit")
    X = rng.normal(size=(300, 3))
    y = X[:, 0] * X[:, 1]
    one, other = (teach(model(("a", "b", "c"), targets=True), X, unit * y) for unit in (1.0, 1e6))
    assert one.arrays.trust == pytest.approx(other.arrays.trust, rel=1e-3)
    assert one.arrays.trust.max() > 1.2
    assert one.arrays.trust.mean() == pytest.approx(1.0)


@pytest.mark.compiles
def test_what_was_learnt_of_pairs_outlives_new_names_and_others_in_front():
    rng = generator(6, "pairs")
    X, y = rng.normal(size=(80, 2)), rng.integers(0, 2, 80)
    own = teach(model(), X, y)
    before = own.says(FERNS, X[:3], np.full((3, 2), 0.5))
    own.over(("new", "y", "x"), ("b", "a"))
    after = own.says(FERNS, np.column_stack([np.zeros(3), X[:3, ::-1]]), np.full((3, 2), 0.5))
    assert after[:, ::-1] == pytest.approx(before)  # the pairs of the new feature know nothing


def test_of_many_features_it_holds_as_many_pairs_as_there_is_room_for():
    own = model(tuple(f"x{j}" for j in range(300)))
    assert own.arrays.table.shape == (OWN_PAIRS * PAIR_CELLS, 2)
    assert own.arrays.pairs.shape == (OWN_PAIRS, 2)
    assert model(("x",)).arrays.pairs.shape == (0, 2)


def test_every_pair_of_features_is_there_once_in_whatever_order_they_come():
    own = model(("x", "y"))
    own.over(("new", "y", "x"), ("a", "b"))
    varied(own)
    own.over(("y", "last"), ("a", "b"))
    varied(own)
    names = np.array(own._features)
    assert {frozenset(names[pair]) for pair in own.arrays.pairs} == {
        frozenset(pair) for pair in combinations(("new", "y", "x", "last"), 2)
    }
    assert len(own.arrays.pairs) == 6


@pytest.mark.compiles
def test_only_features_that_vary_at_the_client_are_paired():
    names = tuple(f"client={k}" for k in range(40))
    own = OwnModel(cells=True)
    own.over((*names, "x", "y", "z"), ("a", "b"))
    X = np.zeros((6, 43))
    X[:, 7] = 0.1  # this client's own column
    X[:3, 40:42], X[3:, 42] = [[1.0, 2.0], [2.0, 1.0], [3.0, 0.0]], [5.0, 6.0, 7.0]
    teach(own, X[:3], [0, 1, 0])
    assert own.arrays.pairs.tolist() == [[40, 41]]
    teach(own, X[3:], [0, 1, 0])
    assert own.arrays.pairs.tolist() == [[40, 41], [40, 42], [41, 42]]


@pytest.mark.parametrize("seed", range(3))
def test_pairs_of_features_that_come_one_by_one_are_different_and_drawn_evenly(seed):
    held: dict[int, tuple[int, int]] = {}
    for now in range(1, 60):
        pairs, places = new_pairs(now - 1, now, generator(seed, now))
        assert (pairs[:, 1] == now - 1).all()
        held |= dict(zip(places.tolist(), map(tuple, pairs.tolist()), strict=True))
        assert sorted(held) == list(range(min(OWN_PAIRS, now * (now - 1) // 2)))
        assert len(set(held.values())) == len(held)
    assert all(earlier < later for earlier, later in held.values())
    assert 0.35 < np.mean([later >= 42 for _, later in held.values()]) < 0.65  # half of all pairs


def test_the_work_for_pairs_is_bounded_whatever_the_number_of_features():
    pairs, _ = new_pairs(0, 10**9, generator(0, "many"))
    assert pairs.max() < MOST_PAIRED
    assert len(new_pairs(MOST_PAIRED, 10**9, generator(0, "more"))[0]) == 0


DAMAGES = {
    "a pair too few": {"pairs": np.zeros((0, 2))},
    "a feature that there is not": {"pairs": np.full((1, 2), 2.0)},
    "a pair of a feature that is not there": {"paired": ("x", "other")},
    "a feature that is paired twice": {"paired": ("x", "y", "y")},
    "half of a feature": {"pairs": np.full((1, 2), 0.5)},
    "trust in nothing": {"trust": np.zeros(0)},
    "trust below zero": {"trust": np.full(1, -1.0)},
    "trust without end": {"trust": np.full(1, np.inf)},
    "a cell beyond the last one": {"cells": np.full(1, float(PAIR_CELLS)), "table": np.zeros((1, 2))},
}


@pytest.mark.compiles
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_saved_pairs_that_are_damaged_are_refused(damage):
    saved = teach(model(), np.ones((3, 2)), [0, 1, 0]).state()
    OwnModel.of(saved, targets=False, cells=True, seed=0)
    with pytest.raises(PeerError, match="the file is damaged"):
        OwnModel.of(replace(saved, **damage), targets=False, cells=True, seed=0)
