"""The outer mixture: its experts by hand, labels in runs, names that change, what it must not touch."""

from dataclasses import replace

import numpy as np
import pytest
from native_streams import agreed, state
from one_record import LabelMixture, LastAnswer

from streamfl.errors import PeerError
from streamfl.online.native.at_client import NativeAtClient
from streamfl.online.native.kernels.last_answer import LAST_TARGET
from streamfl.online.native.learner import NativeLearner
from streamfl.online.native.merging import merging
from streamfl.online.native.private import last_answer_state
from streamfl.protocol.messages.decision_rule import likeliest, together
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.settings import FOLLOWING, NativeSettings
from streamfl.sampling import generator

pytestmark = pytest.mark.compiles

# What a client has of its own, and the range in which targets are believed: with it, their mixture.
OWN = ("last", "own", "near", "settings", "mixture")
EVEN = np.array([0.5, 0.5])
LABELS = ("a", "b", "c")


def taught(labels, names=LABELS, others=None):
    """Return a last answer that has learnt some labels; the other experts know nothing, or say `others`."""
    last = LastAnswer()
    last.over(names)
    for label in labels:
        said = np.full(len(names), 1.0 / len(names)) if others is None else others
        last.mixed(said, said)
        last.learn(label)
    return last


def noise(n, columns=2, seed=0):
    """Return features that say nothing."""
    return generator(seed, "noise").normal(size=(n, columns))


# --- experts -----------------------------------------------------------------------------------------------------


def test_shares_sum_to_one_from_the_first_record():
    for labels in ([], [0], [0, 1], [0, 1, 1]):
        assert sum(taught(labels).shares) == pytest.approx(1.0)


def test_before_any_label_it_says_what_all_other_experts_and_the_own_model_say():
    last, said = taught([]), np.array([0.7, 0.2, 0.1])
    np.testing.assert_allclose(last.mixed(said, said), said)


def test_what_follows_a_label_by_hand():
    last = taught([0, 1, 0, 1, 0, 2, 0])
    # After a came b, b, then c; counts decay by 0.99 with every record after an a. Five votes are spread over three.
    b, c = 0.99 * (0.99 + 1.0), 1.0
    total = b + c + 5.0
    assert last.expected(np.full(3, 1 / 3))[0] == pytest.approx(
        [5 / 3 / total, (b + 5 / 3) / total, (c + 5 / 3) / total]
    )
    # After b came a, twice.
    assert taught([0, 1, 0, 1, 0, 1]).expected(np.full(3, 1 / 3))[0] == pytest.approx(
        [(1.99 + 5 / 3) / 6.99, 5 / 3 / 6.99, 5 / 3 / 6.99]
    )


def test_what_follows_a_label_at_all_clients_has_five_votes():
    last = taught([0, 1, 0])
    last.follow(np.array([[0.0, 0.0, 3.0], [0.0, 2.0, 4.0], [1.0, 1.0, 9.0]]))
    q = (np.array([3.0, 0.0, 4.0]) + 1 / 3) / 8.0
    assert last.expected(np.full(3, 1 / 3))[0] == pytest.approx((np.array([0.0, 1.0, 0.0]) + 5.0 * q) / 6.0)
    last.over(("b", "a"))  # c is gone, with its counts
    q = (np.array([0.0, 3.0]) + 1 / 2) / 4.0
    assert last.expected(EVEN)[0] == pytest.approx((np.array([1.0, 0.0]) + 5.0 * q) / 6.0)
    last.over(LABELS)  # and comes back
    q = (np.array([3.0, 0.0, 4.0]) + 1 / 3) / 8.0
    assert last.expected(np.full(3, 1 / 3))[0] == pytest.approx((np.array([0.0, 1.0, 0.0]) + 5.0 * q) / 6.0)


def test_a_mixture_begins_with_bayes_rule():
    last = taught([0])
    last.follow(np.array([[0.0, 1.0, 99.0]]))
    said, follows = np.array([0.6, 0.3, 0.1]), last.expected(np.full(3, 1 / 3))[0]
    last.mixed(said, said)
    both = said * follows
    assert last._predictions.by_mixture[1] == pytest.approx(both / both.sum())


def test_of_more_labels_than_there_is_room_for_the_rarest_is_forgotten():
    names = tuple(f"l{i}" for i in range(FOLLOWING + 2))
    followers = [*range(1, FOLLOWING + 1), 1]  # l1 came twice: l2 is the rarest, as it came first of the others
    last = taught([label for follower in followers for label in (0, follower)] + [0, FOLLOWING + 1, 0], names)
    expected = last.expected(np.full(len(names), 1.0 / len(names)))[0]
    least = expected.min()
    assert [i for i, p in enumerate(expected) if p == least] == [0, 2]
    assert expected.sum() == pytest.approx(1.0)
    assert last.state().following.shape == last.state().counts.shape == (len(names), FOLLOWING)


def test_memory_for_1024_labels_is_bounded():
    last = taught([], tuple(map(str, range(1024))))
    assert sum(part.nbytes for part in last.arrays[:6]) < 600_000


def test_the_last_target_and_the_error_that_stays_by_hand():
    last = LastAnswer(targets=True)
    assert last.expected(np.array([3.0])).ravel().tolist() == [3.0, 3.0]  # no target yet: as all other experts
    said = [(3.0, 5.0), (4.0, 5.0), (2.0, 3.0), (6.0, 5.0)]
    for others, target in said:
        last.mixed(np.array([others - 1.0]), np.array([0.0]), centre=1.0)
        last.learn(target, centre=1.0)
    errors = [2.0, 1.0, 1.0, -1.0]
    product = 0.99 * (0.99 * 2.0 * 1.0 + 1.0 * 1.0) + 1.0 * -1.0
    square = 0.99 * (0.99 * 2.0**2 + 1.0**2) + 1.0**2
    expected = last.expected(np.array([7.0]), centre=1.0).ravel()
    assert expected == pytest.approx([5.0 - 1.0, 7.0 + product / square * errors[-1]])


def test_no_more_than_all_of_the_last_error_stays():
    last = LastAnswer(targets=True)
    for target in (1.0, 4.0, 16.0):
        last.mixed(np.zeros(1), np.zeros(1))
        last.learn(target)
    assert last.expected(np.zeros(1)).ravel().tolist() == [16.0, 16.0]


def test_shares_sum_to_one_with_and_without_the_last_answer():
    client = NativeAtClient(NativeSettings("linear"))
    client.learner.learn(("x", "y"), noise(300), np.arange(300.0) % 3, LABELS)
    assert client.shares()["last-answer"] > 0.3
    assert sum(client.shares().values()) == pytest.approx(1.0)
    assert not {"last-answer", "own"} & NativeAtClient(NativeSettings("linear", last_answer=False)).shares().keys()


# --- streams -----------------------------------------------------------------------------------------------------


def in_runs(n, labels, length, seed=0):
    return np.repeat(generator(seed, "runs").integers(0, labels, n // length + 1), length)[:n].astype(float)


@pytest.mark.parametrize("length", [20, 60])
def test_labels_in_runs_are_predicted_as_well_as_by_repeating_the_last_one(length):
    y, X = in_runs(3000, 3, length), noise(3000)
    no_change = np.mean(y[1:] == y[:-1])
    served = likeliest(NativeLearner(NativeSettings("linear")).learn(("x", "y"), X, y, LABELS))
    without = likeliest(NativeLearner(NativeSettings("linear", last_answer=False)).learn(("x", "y"), X, y, LABELS))
    codes = np.array([list(dict.fromkeys(y)).index(label) for label in y])  # in the order of their first record
    assert np.mean(served == codes) > no_change - 0.005
    assert np.mean(without == codes) < no_change - 0.02


def test_labels_that_alternate_are_predicted_where_no_change_is_always_wrong():
    y = np.arange(1000.0) % 3
    served = likeliest(NativeLearner(NativeSettings("linear")).learn(("x", "y"), noise(1000), y, LABELS))
    assert np.mean(served == y) > 0.97


def test_targets_near_the_last_one_are_predicted_better():
    rng = generator(2, "walk")
    y, X = np.cumsum(rng.normal(size=1500)), noise(1500)
    served = NativeLearner(NativeSettings("linear", targets=True)).learn(("x", "y"), X, y)[:, 0]
    without = NativeLearner(NativeSettings("linear", targets=True, last_answer=False)).learn(("x", "y"), X, y)[:, 0]
    no_change = np.abs(np.diff(y)).mean()
    assert np.abs(served - y)[1:].mean() < 1.05 * no_change
    assert np.abs(without - y)[1:].mean() > 1.2 * no_change


@pytest.mark.parametrize("targets", [False, True])
def test_no_prediction_depends_on_the_records_own_answer(targets):
    settings, names = NativeSettings("linear", targets=targets), () if targets else LABELS
    y, X = in_runs(300, 3, 10), noise(300)
    for i in (100, 200, 299):
        other = y.copy()
        other[i] = (y[i] + 1.0) % 3
        one, two = NativeLearner(settings), NativeLearner(settings)
        np.testing.assert_array_equal(
            one.learn(("x", "y"), X[: i + 1], y[: i + 1], names),
            two.learn(("x", "y"), X[: i + 1], other[: i + 1], names),
        )
        assert one.last.shares[1] > 0.0
        assert (one.predicted(("x", "y"), X[:1]) != two.predicted(("x", "y"), X[:1])).any()


def test_of_several_records_only_the_next_one_is_predicted_from_it():
    y, X = in_runs(600, 3, 20), noise(600)
    learner = NativeLearner(NativeSettings("linear"))
    learner.learn(("x", "y"), X, y, LABELS)
    several = learner.predicted(("x", "y"), X[:5])
    alone = np.vstack([learner.predicted(("x", "y"), X[i : i + 1]) for i in range(5)])
    np.testing.assert_array_equal(several[0], alone[0])
    assert (several[1:] != alone[1:]).any(axis=1).all()
    learner.last.arrays.label[0] = learner.labels.index(LABELS[int(y[0])])  # whatever came last
    np.testing.assert_array_equal(several[1:], learner.predicted(("x", "y"), X[:5])[1:])


@pytest.mark.parametrize("targets", [False, True])
def test_the_last_answer_has_the_same_bits_however_records_are_split(targets):
    y, X = in_runs(400, 3, 10), noise(400)
    settings, names = NativeSettings("linear", targets=targets), () if targets else LABELS
    whole, one_by_one = NativeLearner(settings), NativeLearner(settings)
    served = together([whole.learn(("x", "y"), X, y, names)], 1 if targets else 3)
    single = []
    for i in range(400):
        if i % 3:
            one_by_one.predicted(("x", "y"), X[i : i + 1])  # its prediction is not made again
        single.append(one_by_one.learn(("x", "y"), X[i : i + 1], y[i : i + 1], names))
    assert served.tolist() == together(single, served.shape[1]).tolist()
    assert state(whole) == state(one_by_one)
    assert whole.last.shares[1] > 0.0


def test_an_outlier_among_the_first_targets_is_undone():
    last, X = NativeLearner(NativeSettings("linear", targets=True)), noise(200)
    y = np.cumsum(generator(5, "walk").normal(size=200))
    y[3] = 1e12
    served = last.learn(("x", "y"), X, y)[:, 0]
    assert np.abs(served - y)[20:].mean() < 3.0
    assert abs(last.last._target[0]["target"]) < 100.0
    assert last.last._target[0]["square"] < 1e4


# --- what must not depend on it ----------------------------------------------------------------------------------


@pytest.mark.parametrize("features", ["linear", "ferns", "auto"])
@pytest.mark.parametrize("targets", [False, True])
def test_what_a_client_sends_is_the_same_with_and_without_the_last_answer(features, targets):
    settings, names = NativeSettings(features, targets=targets), () if targets else LABELS
    one, other = NativeLearner(settings), NativeLearner(replace(settings, last_answer=False))
    y, X, models = in_runs(400, 3, 20), noise(400), NativeState.none(settings)
    for start in range(0, 400, 50):
        parts = []
        for learner in (one, other):
            learner.learn(("x", "y"), X[start : start + 50], y[start : start + 50], names)
            parts.append(learner.learnt())
        assert state(parts[0]) == state(parts[1])
        models, change = merging.after(models, parts, one.labels, settings=settings)
        for learner in (one, other):
            learner.begin(*learner.following(change))
    assert one.last.shares[1] > 0.0
    assert state(one, without=OWN) == state(other, without=OWN)


# --- names -------------------------------------------------------------------------------------------------------


def test_labels_in_another_order_keep_what_follows_them():
    last = taught([0, 1, 0, 1, 0, 2, 0, 0])
    before = last.expected(np.full(3, 1 / 3))[0]
    last.over(("c", "a", "b"))
    assert last.expected(np.full(3, 1 / 3))[0].tolist() == before[[2, 0, 1]].tolist()
    last.over(("c", "new", "a", "b"))
    counts = last.state().counts[2].sum()
    again = before[[2, 0, 0, 1]] * (counts + 5.0) - 5 / 3  # counts without the spread votes; none of the new label
    again[1] = 0.0
    assert last.expected(np.full(4, 1 / 4))[0] == pytest.approx((again + 5 / 4) / (counts + 5.0))


def test_a_label_that_is_gone_takes_its_counts_along_and_brings_them_back():
    last = taught([0, 1, 0, 1, 0, 2, 0])
    before = last.expected(np.full(3, 1 / 3))[0]
    last.over(("c", "a"))
    # After a: c once, 1.0; b is gone.
    assert last.expected(EVEN)[0] == pytest.approx([(1.0 + 2.5) / 6.0, 2.5 / 6.0])
    last.over(("c",))  # the last label itself
    assert last.expected(np.ones(1))[0] == pytest.approx([1.0])
    last.over(LABELS)
    assert last.expected(np.full(3, 1 / 3))[0].tolist() == before.tolist()


def test_a_restart_that_brings_labels_in_another_order_carries_it_over():
    settings = NativeSettings("linear")
    y, X = in_runs(600, 3, 20), noise(600)
    learner = NativeLearner(settings)
    learner.learn(("x", "y"), X, y, LABELS)
    before, followed = learner.labels, LastAnswer.expected(learner.last, np.full(3, 1 / 3))[0]
    other = NativeLearner(settings)
    other.learn(("x", "y"), X[::-1], y[::-1], LABELS)
    models = agreed(settings, other.learnt(), labels=before[::-1])
    learner.begin(models)
    assert learner.labels == before[::-1]
    assert LastAnswer.expected(learner.last, np.full(3, 1 / 3))[0].tolist() == followed[::-1].tolist()
    assert learner.last.shares[1] > 0.0
    later = in_runs(300, 3, 20, seed=9)
    served = likeliest(learner.learn(("x", "y"), noise(300), later, LABELS))
    said = np.array([LABELS.index(learner.labels[int(code)]) for code in served])
    assert np.mean(said == later) > 0.9


# --- saved -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("targets", [False, True])
def test_a_saved_last_answer_continues_to_the_last_bit(targets):
    names = () if targets else LABELS
    one = NativeLearner(NativeSettings("linear", targets=targets))
    one.learn(("x", "y"), noise(200), in_runs(200, 3, 10), names)
    again = NativeLearner(NativeSettings("linear", targets=targets))
    again.learn(("x", "y"), noise(200, seed=1), in_runs(200, 3, 10), names)
    again.remember_last(one.last.state())
    assert state(again.last.state()) == state(one.last.state())
    for last in (one.last, again.last):
        for answer in (0.0, 1.0, 1.0, 2.0):
            said = np.array([0.3]) if targets else np.array([0.2, 0.5, 0.3])
            LastAnswer.mixed(last, said, said)
            LastAnswer.learn(last, answer)
    assert state(again.last.state()) == state(one.last.state())
    again.remember_last(None)
    assert again.last.state().label == -1


def test_a_last_answer_saved_without_an_own_model_goes_on_with_a_new_mixture():
    saved = taught([0, 1, 2, 0]).state()
    older = LastAnswer.of(replace(saved, mixture=LabelMixture(2).state()), targets=False)
    assert older.state().counts.tolist() == saved.counts.tolist()
    assert state(older.state().mixture) == state(LastAnswer().state().mixture)


DAMAGES = {
    "a label that there is not": {"label": 3},
    "a label below none": {"label": -2},
    "a label twice": {"labels": ("a", "a", "b")},
    "fewer rows": {"counts": np.zeros((2, FOLLOWING))},
    "a follower that there is not": {"following": np.full((3, FOLLOWING), 3.0)},
    "a follower that is no whole number": {"following": np.full((3, FOLLOWING), 0.5)},
    "a follower that is no number": {"following": np.full((3, FOLLOWING), np.nan)},
    "a count below 0": {"counts": np.full((3, FOLLOWING), -1.0)},
    "a count without end": {"counts": np.full((3, FOLLOWING), np.inf)},
    "a target that is no number": {"target": np.full(5, np.nan)},
    "a square below 0": {"target": np.full(5, -1.0)},
    "a short target": {"target": np.zeros(4)},
    "a mixture of too few experts": {"mixture": LabelMixture(1).state()},
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_saved_last_answer_that_is_damaged_is_refused(damage):
    saved = taught([0, 1, 2, 0]).state()
    LastAnswer.of(saved, targets=False)
    with pytest.raises(PeerError, match="the file is damaged"):
        LastAnswer.of(replace(saved, **damage), targets=False)


def test_a_saved_last_answer_of_other_settings_is_refused():
    labels, targets = taught([0, 1]).state(), LastAnswer(targets=True).state()
    for saved, wrong in ((labels, True), (targets, False)):
        with pytest.raises(PeerError, match="the file is damaged"):
            NativeLearner(NativeSettings("linear", targets=wrong)).remember_last(saved)
    without = NativeLearner(NativeSettings("linear", last_answer=False))
    without.remember_last(None)
    with pytest.raises(PeerError, match="the file is damaged"):
        without.remember_last(labels)


def test_a_saved_state_has_a_place_for_every_value() -> None:
    assert len(LAST_TARGET) == last_answer_state.TARGET
