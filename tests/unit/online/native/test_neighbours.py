"""The nearest of the last records: by brute force, and through rounds that bring another order of names."""

import math

import numpy as np
import pytest
from native_streams import Stream, agreed, drawn
from one_record import Neighbours

from streamfl.online.native.learner import NativeLearner
from streamfl.protocol.native.settings import MEMORIES, NativeSettings
from streamfl.sampling import generator

pytestmark = pytest.mark.compiles


def nearest(records, z, memory):
    """Return the weights and the truths of the five nearest among the last records."""
    found = sorted((math.dist(record, z), y) for record, y in records[-memory:])[:5]
    reach = found[-1][0]
    return [(reach / (r + reach / 10.0), y) for r, y in found]


@pytest.mark.parametrize("n", [1, 4, 99, 101, 1003])
def test_the_nearest_neighbours_are_those_of_a_brute_force_search(n):
    rng = generator(n, "neighbours")
    near, targets = Neighbours(), Neighbours()
    near.over(("x", "y"), ("a", "b", "c"))
    targets.over(("x", "y"), ())
    records = [(rng.normal(size=2), int(y)) for y in rng.integers(0, 3, n)]
    for z, y in records:
        near.learn(z, float(y))
        targets.learn(z, 10.0 * y)
    for z in rng.normal(size=(5, 2)):
        for expert, memory in enumerate(MEMORIES):
            found = nearest(records, z, memory)
            total = sum(weight for weight, _ in found)
            votes = [sum(w for w, y in found if y == label) / total for label in range(3)]
            expected = [(vote + 0.1 / 3) / 1.1 for vote in votes]
            assert near.probabilities(z)[expert] == pytest.approx(expected)
            assert targets.targets(z)[expert] == pytest.approx(sum(w * 10.0 * y for w, y in found) / total)


def test_two_neighbours_by_hand():
    near = Neighbours()
    near.over(("x",), ("a", "b"))
    near.learn(np.array([0.0]), 0.0)
    near.learn(np.array([4.0]), 1.0)
    # At 1 they are 1 and 3 away: they weigh 3 / 1.3 and 3 / 3.3.
    a, b = 3.0 / 1.3, 3.0 / 3.3
    expected = [(a / (a + b) + 0.05) / 1.1, (b / (a + b) + 0.05) / 1.1]
    assert near.probabilities(np.array([1.0])) == pytest.approx(np.array([expected, expected]))


def test_records_at_the_very_place_weigh_the_same():
    near = Neighbours()
    near.over(("x",), ("a", "b"))
    for y in (0.0, 0.0, 1.0):
        near.learn(np.array([2.0]), y)
    assert near.probabilities(np.array([2.0]))[0] == pytest.approx([(2 / 3 + 0.05) / 1.1, (1 / 3 + 0.05) / 1.1])


def test_all_neighbours_as_near_as_the_fifth_vote() -> None:
    near = Neighbours()
    near.over(("x",), ("a", "b"))
    for x, y in [(2.0, 0.0)] * 4 + [(3.0, 1.0)] * 6 + [(7.0, 0.0)] * 9:
        near.learn(np.array([x]), y)
    # At 1: four of a at distance 1, and six of b at 2, which is as far as the fifth.
    a, b = 4 * 2.0 / 1.2, 6 * 2.0 / 2.2
    assert near.probabilities(np.array([1.0]))[0] == pytest.approx([(p / (a + b) + 0.05) / 1.1 for p in (a, b)])


def test_before_any_record_all_labels_are_alike_and_targets_0():
    near = Neighbours()
    near.over(("x",), ("a", "b"))
    assert near.probabilities(np.array([1.0])).tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert near.targets(np.array([1.0])).tolist() == [0.0, 0.0]


def test_a_short_memory_forgets_what_a_long_one_keeps():
    near = Neighbours()
    near.over(("x",), ("a", "b"))
    for _ in range(MEMORIES[0]):
        near.learn(np.array([0.0]), 0.0)
    for _ in range(MEMORIES[0]):
        near.learn(np.array([9.0]), 1.0)
    short, long = near.probabilities(np.array([0.0]))
    assert short == pytest.approx([0.05 / 1.1, 1.05 / 1.1])
    assert long == pytest.approx([1.05 / 1.1, 0.05 / 1.1])
    for _ in range(MEMORIES[1]):
        near.learn(np.array([9.0]), 1.0)
    assert near.probabilities(np.array([0.0]))[1] == pytest.approx([0.05 / 1.1, 1.05 / 1.1])


def test_another_order_of_names_changes_nothing_but_the_order():
    rng = generator(0, "neighbours")
    near = Neighbours()
    near.over(("x", "y"), ("a", "b", "c"))
    for y in range(30):
        near.learn(rng.normal(size=2), float(y % 3))
    z = rng.normal(size=2)
    before = near.probabilities(z)
    near.over(("y", "x"), ("c", "a", "b"))
    assert near.probabilities(z[::-1]) == pytest.approx(before[:, [2, 0, 1]])
    # What is learnt in the new order counts in it.
    for _ in range(5):
        near.learn(z[::-1], 0.0)
    assert near.probabilities(z[::-1])[0].argmax() == 0


def test_names_that_vanish_take_their_votes_with_them_and_may_come_back():
    near = Neighbours()
    near.over(("x", "late"), ("a", "b", "z"))
    near.learn(np.array([0.0, 7.0]), 2.0)
    near.learn(np.array([0.0, 0.0]), 0.0)
    near.over(("x",), ("a", "b"))
    p = near.probabilities(np.array([0.0]))
    assert p.shape == (2, 2)
    assert (p[:, 0] > 0.5).all()
    near.learn(np.array([0.0]), 0.0)
    near.over(("x", "late"), ("z", "a", "b"))
    assert near.probabilities(np.array([0.0, 7.0])).argmax(axis=1).tolist() == [0, 0]


def test_neighbours_answer_the_same_when_a_round_ends_with_names_in_another_order():
    settings = NativeSettings("linear")
    stream = drawn(40, missing=0.0)
    # This client meets y before x, and the labels in an order that is not that of the federation.
    mine = Stream(stream.X[:, ::-1].copy(), stream.y, ("y", "x"), ("z", "b", "a"))
    mine.X[0, 1] = np.nan
    learner = NativeLearner(settings)
    learner.learn(*mine.part(0, 40))
    assert (learner.features, learner.labels[0]) == (("y", "x"), mine.labels[int(mine.y[0])])
    z = np.array([0.3, -0.8])
    before = dict(zip(learner.labels, Neighbours.probabilities(learner.near, z).T.tolist(), strict=True))
    learner.begin(agreed(settings, learner.learnt(), labels=("a", "b", "z")))
    assert (learner.features, learner.labels) == (("x", "y"), ("a", "b", "z"))
    after = dict(zip(learner.labels, Neighbours.probabilities(learner.near, z[::-1]).T.tolist(), strict=True))
    assert after == {label: pytest.approx(said) for label, said in before.items()}


def test_records_without_a_single_feature_are_learnt():
    learner = NativeLearner(NativeSettings("linear"))
    learner.learn((), np.zeros((3, 0)), np.array([0.0, 1.0, 1.0]), ("a", "b"))
    said = learner.predicted((), np.zeros((1, 0)))
    assert said[0, 1] > said[0, 0] > 0.0
    # A feature that comes now was at its mean, 0, in the records before.
    learner.learn(("x",), np.array([[1.0], [2.0]]), np.array([1.0, 1.0]), ("a", "b"))
    assert np.isfinite(learner.predicted(("x",), np.array([[2.0]]))).all()


@pytest.mark.parametrize("targets", [False, True])
def test_what_is_near_does_not_depend_on_the_records_of_others(targets):
    settings, stream, wide = NativeSettings("linear", targets=targets), drawn(40), drawn(40, seed=1)
    if targets:
        stream, wide = drawn(40, targets=True), drawn(40, seed=1, targets=True)
    wide.X[:] *= 1000.0
    alone, federated, other = (NativeLearner(settings) for _ in range(3))
    for start in (0, 20):
        alone.learn(*stream.part(start, start + 20))
        federated.learn(*stream.part(start, start + 20))
        other.learn(*wide.part(start, start + 20))
        federated.begin(agreed(settings, federated.learnt(), other.learnt()))
    assert np.array_equal(federated.near.Z, alone.near.Z)
