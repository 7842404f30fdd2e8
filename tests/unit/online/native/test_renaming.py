"""After a restart that found other names of labels: which models take them over, and what becomes of those."""

import numpy as np
import pytest
from native_streams import agreed, drawn, learnt

from streamfl.online.native.learner import NativeLearner
from streamfl.online.native.merging.renaming import misnamed, renamed, untaught
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.settings import NativeSettings

pytestmark = pytest.mark.compiles

AUTO, FERNS, LINEAR = NativeSettings("auto"), NativeSettings("ferns"), NativeSettings("linear")
LABELS = ("a", "b", "c")


def told(labels: tuple[str, ...], bearing: list[float], *right: list[float]) -> NativeLearnt:
    """Return what a client tells of linear models: its records by label, and those that each of three had right."""
    learner = NativeLearner(LINEAR)
    learner.learn((), np.zeros((1, 0)), np.zeros(1), labels[:1])
    part = learner.learnt()
    return type(part)(**{**vars(part), "labels": labels, "bearing": np.array(bearing), "right": np.array(right)})


def which(*parts: NativeLearnt, permutation: tuple[int, ...], models: NativeState | None = None) -> list[bool]:
    return misnamed(models or NativeState.none(LINEAR), parts, LABELS, permutation).tolist()


def test_a_model_that_had_most_of_the_moved_labels_wrong_is_misnamed():
    one = told(LABELS, [10, 10, 80], [9, 2, 0], [9, 1, 80], [0, 0, 80])
    # Of the twenty records of a and b they had 11, 10 and none; c has kept its name.
    assert which(one, permutation=(1, 0, 2)) == [False, False, True]


def test_records_of_all_clients_count_by_the_names_of_their_labels():
    one = told(("a", "b"), [4, 6], [4, 6], [0, 0], [2, 2])
    two = told(("c", "b"), [90, 10], [0, 0], [90, 8], [90, 10])
    # Of a and b 10 of 20, then 8, then 14.
    assert which(one, two, permutation=(1, 0, 2)) == [False, True, False]


def test_where_no_label_moves_none_is_misnamed_and_where_no_record_tells_all_are():
    one = told(LABELS, [10, 10, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0])
    assert which(one, permutation=()) == [False] * 3
    assert which(one, permutation=(0, 1, 2)) == [False] * 3
    assert which(told(LABELS, [9, 0, 0], [0] * 3, [0] * 3, [0] * 3), permutation=(0, 2, 1)) == [True] * 3
    assert which(permutation=(1, 0)) == [True] * 3


def counted(label: int, *, asleep: int | None = None) -> list[list[float]]:
    """Return what three models have right of one record: one holds a for likelier, one b, and one neither."""
    models = NativeState.none(LINEAR).grown((), ("a", "b"))
    models.weights[0] = [[1.0, 0.5], [0.0, 0.5], [0.3, 0.3]]
    learner = NativeLearner(LINEAR)
    learner.begin(models)
    learner.mixture.wake(np.arange(len(LINEAR.experts)) != asleep)
    learner.learn((), np.zeros((1, 0)), np.array([float(label)]), ("a", "b"))
    part = learner.learnt()
    assert part.bearing.tolist() == np.eye(2)[label].tolist()
    return part.right.tolist()


def test_a_model_is_right_of_a_record_whose_label_it_holds_for_likelier_than_any_other():
    assert counted(0) == [[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    assert counted(1) == [[0.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    assert counted(0, asleep=0) == [[0.0, 0.0]] * 3
    assert counted(0, asleep=1) == counted(0)


def test_a_new_round_begins_to_count_again_and_a_new_label_has_its_own_count():
    learner = NativeLearner(LINEAR)
    learner.learn(("x",), np.zeros((4, 1)), np.array([0.0, 0.0, 1.0, 1.0]), ("a", "b"))
    assert learner.learnt().bearing.tolist() == [2.0, 2.0]
    learner.begin(agreed(LINEAR, learner.learnt()))
    learner.learn(("x",), np.zeros((3, 1)), np.array([1.0, 2.0, 2.0]), ("a", "b", "z"))
    assert learner.learnt().bearing.tolist() == [0.0, 1.0, 2.0]
    assert learner.learnt().right.shape == (3, 3)


@pytest.mark.parametrize("settings", [AUTO, FERNS, LINEAR], ids=["auto", "ferns", "linear"])
def test_some_models_are_renamed_and_the_others_stay_to_the_last_bit(settings):
    models = agreed(settings, learnt(settings, drawn(60)))
    some = np.arange(len(settings.names)) % 2 == 0
    turned = renamed(models, some, (2, 0, 1), settings)
    for m, is_renamed in enumerate(some):
        expected = models.weights[:, m][:, [2, 0, 1]] if is_renamed else models.weights[:, m]
        np.testing.assert_array_equal(turned.weights[:, m], expected)
    for (first, end), rates in in_table(settings).items():
        for rate, m in enumerate(rates):
            before = models.table[first:end, rate]
            assert before.any()
            np.testing.assert_array_equal(turned.table[first:end, rate], before[:, [2, 0, 1]] if some[m] else before)
    assert turned.chain != models.chain
    back = renamed(turned, some, (1, 2, 0), settings)
    np.testing.assert_array_equal(back.table, models.table)
    np.testing.assert_array_equal(back.weights, models.weights)


def in_table(settings: NativeSettings) -> dict[tuple[int, int], list[int]]:
    """Return the models of each rate by the rows of the table they have."""
    names = {name: m for m, name in enumerate(settings.names)}
    if "fern-8-0.3" not in names:
        return {}
    return {
        (0, 25_600): [names["fern-8-0.3"], names["fern-8-10"]],
        (25_600, 128_000): [names["fern-24-0.3"], names["fern-24-10"]],
    }


def test_what_renamed_models_were_taught_is_dropped_and_nothing_else():
    part = learnt(AUTO, drawn(60))
    some = np.array([name in ("fern-24-10", "whitened-0.1") for name in AUTO.names])
    left = untaught(part, some, AUTO)
    np.testing.assert_array_equal(left.weights[:, ~some], part.weights[:, ~some])
    assert part.weights[:, some].any()
    assert not left.weights[:, some].any()
    deep = part.cells >= 25_600
    np.testing.assert_array_equal(left.table[~deep], part.table[~deep])
    np.testing.assert_array_equal(left.table[deep, 0], part.table[deep, 0])
    assert part.table[deep, 1].any()
    assert not left.table[deep, 1].any()
    assert (left.records, left.second.tolist()) == (part.records, part.second.tolist())
