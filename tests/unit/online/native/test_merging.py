"""What clients learnt becomes the next agreed models: by records and by visits, aligned by name, never a sum."""

import math
from dataclasses import replace

import numpy as np
import pytest
from native_streams import Stream, agreed, changed, drawn, learnt, state

from streamfl.errors import PeerError
from streamfl.online.native.learner import NativeLearner
from streamfl.online.native.merging import merging
from streamfl.online.native.merging.agreed_moments import Seen, after_round
from streamfl.online.native.online_models import NativeOnlineModels
from streamfl.protocol.moments import NOTHING as NO_MOMENTS
from streamfl.protocol.moments import Moments
from streamfl.protocol.native.change import NativeChange
from streamfl.protocol.native.kept_back import KeptBack
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.settings import KINDS, ROWS, NativeSettings
from streamfl.protocol.native.steps import Steps

FERNS, LINEAR = NativeSettings("ferns"), NativeSettings("linear")
NOTHING = NativeState.none(FERNS)

# A quarter: all differences below are multiples of it.
STEPS = Steps((-2,) * 4, (-2,) * KINDS, half=2)


def part(records: int, weights: float, **cells: tuple[int, float]) -> NativeLearnt:
    """Return what a client of feature x, labels a and b learnt; `c7=(2, 0.5)` is cell 7, 2 visits, moved by 0.5."""
    names = [int(name[1:]) for name in cells]
    return NativeLearnt(
        features=("x",),
        labels=("a", "b"),
        records=records,
        count=np.array([float(records)]),
        moments=Moments(("x",), np.array([float(records)]), np.array([weights]), np.zeros(1)),
        norms=np.array([1.0, 100.0]) * records,
        second=np.zeros((0, 0)),
        weights=4.0 * np.full((2, 4, 2), weights) * [1.0, -1.0],
        cells=np.array(names, np.float64),
        visits=np.log2([float(visits) for visits, _ in cells.values()]),
        bearing=np.array([records, 0.0]),
        right=np.zeros((4, 2)),
        table=4.0 * np.array([[[moved, -moved]] * 2 for _, moved in cells.values()]).reshape(len(names), 2, 2),
    )


def after(
    *parts: NativeLearnt,
    begin: NativeState = NOTHING,
    labels: tuple[str, ...] = ("a", "b"),
    steps: Steps | None = STEPS,
) -> tuple[NativeState, NativeChange]:
    """Return the state after a round with some published steps; None: with those of `begin`."""
    begin = replace(begin, steps=begin.steps if steps is None else steps, table=begin.table.copy())
    return merging.after(begin, parts, labels)


# --- by hand -----------------------------------------------------------------------------------------------------


def test_numbers_in_coarser_steps_are_added_to_others_exactly():
    one, other = part(1, 4.0, c7=(1, 1.0), c9=(1, 8.0)), part(3, 8.0, c7=(4, 6.0), c127999=(2, 2.0))
    coarse = replace(other, weights=other.weights / 8.0, table=other.table / 8.0, coarser=3)
    assert coarse.steps_of(STEPS) == replace(STEPS, finer=-3)
    assert coarse.steps_of(Steps()) == replace(other.steps, finer=-3)
    plain, mixed = after(one, other), after(one, coarse)
    assert state(plain) == state(mixed)
    assert mixed[0].table[[7, 9, 127999], 0].tolist() == [[5.0, -5.0], [8.0, -8.0], [2.0, -2.0]]


def test_a_number_in_coarser_steps_that_cannot_be_added_is_cut_off():
    large = replace(part(2, 0.0, c7=(2, 2.0**40)), coarser=8)
    moved = [after(replace(large, coarser=coarser))[0].table[7, 0, 0] for coarser in (0, 8)]
    # Half of 2^62 / 2^32 / 2 records, times the 2^16 of whole numbers, in steps of a quarter.
    assert moved == [2.0**40, 2.0**42]


def test_weights_move_by_the_mean_over_records_and_cells_by_the_mean_over_visits():
    models, change = after(part(1, 4.0, c7=(1, 1.0), c9=(1, 8.0)), part(3, 8.0, c7=(4, 6.0), c127999=(2, 0.25)))
    assert np.unique(models.weights).tolist() == [-7.0, 7.0]
    assert change.cells.tolist() == [7.0, 9.0, 127999.0]
    assert models.table[[7, 9, 127999], 0].tolist() == [[5.0, -5.0], [8.0, -8.0], [0.25, -0.25]]
    others = np.delete(models.table, [7, 9, 127999], axis=0)
    assert not others.any()
    assert (models.seen, models.features, models.labels) == (4, ("x",), ("a", "b"))
    assert (models.moments.count.tolist(), models.moments.mean.tolist()) == ([4.0], [7.0])


@pytest.mark.parametrize(
    ("moved", "stayed", "count", "mean"),
    [
        ([(2, 900.0), (3, 901.5)], [(1, 8.0)], 5.0, 900.9),  # at most: of these alone
        ([(2, 900.0)], [(3, 2.0)], 7.0, 2.0),  # at fewer: without them, after four records of before
        ([(2, 900.0)], [(2, 8.0)], 6.0, 4.0),  # half are not most
    ],
)
def test_a_feature_that_moved_at_most_clients_begins_again(moved, stayed, count, mean):
    begin, _ = after(part(4, 2.0))
    parts = [replace(part(*one), again=("x",)) for one in moved] + [part(*one) for one in stayed]
    for order in (parts, parts[::-1]):
        moments = after(*order, begin=begin)[0].moments
        assert (moments.count[0], moments.mean[0]) == pytest.approx((count, mean))


def column(*values: float) -> Moments:
    return Moments.of(("x",), np.array([values]).T)


def seen_after(*rounds: list[NativeLearnt]) -> Seen:
    """Return what has been seen after eight values of mean 3.5, and these rounds."""
    seen = Seen(column(*range(8)))
    for parts in rounds:
        seen = after_round(seen, parts)
    return seen


def some(*values: float, far: tuple[float, ...] = ()) -> NativeLearnt:
    """Return what a client tells of a few values, of which the last ones were far out."""
    count = np.array([float(len(values))])
    return replace(part(len(values), 1.0), count=count, moments=column(*values), far=column(*far))


def test_a_feature_begins_again_when_all_values_of_some_rounds_were_far_out():
    far = [some(90.0, 90.0, far=(900.0 + i, 901.0 + i)) for i in range(4)]
    seen = seen_after(*([one] for one in far[:3]))
    assert (seen.moments.count[0], seen.far.count[0]) == (14.0, 6.0)
    seen = seen_after(*([one] for one in far))
    assert (seen.moments.count[0], seen.moments.mean[0], seen.far.count[0]) == (8.0, 902.0, 0.0)
    assert seen_after(far).moments.mean[0] == 902.0  # so they do in one round of four clients


@pytest.mark.parametrize(
    "between",
    [some(2.0), some(2.0, 90.0, far=(900.0,))],
    ids=["a value where all were", "of two values one where all were"],
)
def test_one_value_where_all_were_ends_a_run_of_values_far_out(between):
    far = [some(90.0, 90.0, far=(900.0 + i, 901.0 + i)) for i in range(4)]
    seen = seen_after([far[0]], [far[1]], [between], [far[2]], [far[3]])
    assert (seen.moments.count[0], seen.far.count[0]) == (8.0 + 8.0 + between.records, 4.0)
    assert seen_after([far[0]], [far[1], between], [far[2]], [far[3]]).far.count[0] == 4.0
    # A round without a value of it does not.
    nothing = replace(part(1, 1.0), count=np.zeros(1), moments=column(np.nan), far=column(np.nan))
    assert seen_after([far[0]], [nothing], [far[1]], [far[2]], [far[3]]).moments.mean[0] == 902.0


def test_a_sentinel_that_is_all_there_is_does_not_begin_a_scale():
    seen = seen_after(*([some(-90.0, far=(-9999.0,))] for _ in range(20)))
    assert seen.moments.count[0] == 28.0


def test_the_next_round_goes_on_from_there():
    first, _ = after(part(4, 1.0, c7=(4, 1.0)))
    models, change = after(part(2, 0.5, c7=(1, 2.0)), part(2, 1.5, c8=(1, 1.0)), begin=first)
    assert np.unique(models.weights).tolist() == [-2.0, 2.0]
    assert models.table[[7, 8], 0].tolist() == [[3.0, -3.0], [1.0, -1.0]]
    # Cell 7, which has learnt most, is at the first place. Published are numbers of steps.
    assert change.cells.tolist() == first.order.places[[7, 8]].tolist() == [0, 8]
    assert (np.unique(change.weights).tolist(), change.table[:, 0, 0].tolist()) == ([-1.0, 1.0], [8.0, 4.0])
    assert models.seen == 8
    assert models.moments.mean.tolist() == [1.0]


def test_norms_are_a_running_mean_that_reaches_back_a_window():
    first, _ = after(part(3, 1.0), part(1, 1.0))
    assert first.norms.tolist() == [2.5, 250.0]  # (3 * 3 + 1 * 1) / 4
    second, _ = after(part(4, 1.0), begin=first)
    assert second.norms.tolist() == [3.25, 325.0]
    old = replace(first, seen=10**6)
    assert after(part(100, 1.0), begin=old)[0].norms[0] == pytest.approx(2.5 + 0.01 * (100.0 - 2.5))
    assert after(part(20_000, 1.0), begin=old)[0].norms[0] == 20_000.0


@pytest.mark.compiles
def test_second_moments_are_sums_over_the_clients_to_the_last_bit():
    first, other = (learnt(LINEAR, drawn(20, seed=seed)) for seed in (0, 1))
    models, change = after(first, other, begin=NativeState.none(LINEAR), labels=("a", "b", "c"), steps=None)
    assert models.second[0, 0] == 40.0
    assert (state(models.second), change.each) == (state(change.second), 1.0)
    # Both met y after x, or before.
    order = [0, *(1 + models.features.index(name) for name in first.features)]
    turn = [0, *(1 + models.features.index(name) for name in other.features)]
    expected = np.zeros((3, 3))
    expected[np.ix_(order, order)] += first.second
    expected[np.ix_(turn, turn)] += other.second
    np.testing.assert_array_equal(models.second, expected)


@pytest.mark.compiles
def test_records_that_were_not_measured_are_like_those_that_were():
    parts = [learnt(LINEAR, drawn(20, seed=seed, missing=0.0)) for seed in (0, 1, 2)]
    silent = [replace(one, second=np.zeros((0, 0))) for one in parts[1:]]
    begin = NativeState.none(LINEAR)
    models, change = after(parts[0], *silent, begin=begin, labels=("a", "b", "c"), steps=None)
    assert change.each == 3.0
    np.testing.assert_array_equal(models.second, 3.0 * parts[0].second)
    # If none was measured, the mean stays that of all records before.
    later, change = after(*silent, begin=models, labels=("a", "b", "c"), steps=None)
    assert (later.seen, change.each) == (100, 0.0)
    np.testing.assert_array_equal(later.second, models.second + models.second * (40 / 60))
    assert state(change.after(models).second) == state(later.second)


@pytest.mark.compiles
def test_a_feature_that_few_records_have_keeps_its_second_moment():
    one = learnt(LINEAR, drawn(20, missing=0.0))
    rare = replace(one, second=np.diag([20.0, 0.25, 20.0]))
    models = NativeState.none(LINEAR)
    for _ in range(8):
        models, _ = after(
            rare, *[replace(one, second=np.zeros((0, 0)))] * 7, begin=models, labels=("a", "b", "c"), steps=None
        )
    # A quarter of 20 records stands for 2 of 160: less than any step of all the records of a round.
    assert models.second[1, 1] == 8 * 8 * 0.25


# --- what is kept back -------------------------------------------------------------------------------------------


def test_what_rounding_keeps_back_is_told_with_the_next_change():
    # Published steps are a quarter here, so of means of an eighth a row of the table waits for the second one, and
    # weights, which go to the nearest step, are told with the first.
    def once(begin: NativeState) -> tuple[NativeState, NativeChange]:
        still = replace(part(1, 0.0), table=np.zeros((1, 2, 2)), cells=np.array([7.0]), visits=np.zeros(1))
        moving = replace(still, table=np.tile([1.0, -1.0], (1, 2, 1)), weights=part(1, 0.25).weights)
        return after(still, moving, begin=begin)

    first, change = once(NOTHING)
    assert (first.table[7, 0, 0], first.kept_back.table[7, 0].tolist()) == (0.0, [0.125, -0.125])
    assert change.cells.size == 0
    assert first.weights[0, 0].tolist() == [0.25, -0.25]
    assert first.kept_back.weights[0, 0].tolist() == [-0.125, 0.125]
    second, change = once(first)
    assert (change.cells.size, bool(change.weights.any())) == (1, False)
    assert (second.table[7, 0, 0], bool(second.kept_back.table.any())) == (0.25, False)


def test_in_the_first_round_rows_of_the_table_go_to_the_nearest_step():
    # Half a step, which would wait later: nobody knows anything else of the cell.
    moved = [replace(part(1, 0.0, c7=(1, cell)), steps=STEPS) for cell in (0.0, 0.25)]
    first, change = after(*moved, steps=None)
    assert (change.cells.tolist(), first.table[7, 0].tolist()) == ([7.0], [0.25, -0.25])
    assert first.kept_back.table[7, 0].tolist() == [-0.125, 0.125]
    assert after(*moved)[1].cells.size == 0


def test_what_is_kept_back_grows_with_the_names_and_is_published_to_nobody():
    first, _ = after(part(1, 0.0625, c7=(1, 0.0625)))
    assert first.kept_back.table[7].any()
    grown, _ = after(replace(part(1, 0.0625, c7=(1, 0.0625)), labels=("b", "c")), begin=first, labels=("a", "b", "c"))
    assert grown.kept_back.table.shape == grown.table.shape
    assert grown.kept_back.weights.shape == grown.weights.shape
    published = NativeOnlineModels(FERNS).published(first, 2).agreed
    assert (published.kept_back.weights.size, published.kept_back.table.size) == (0, 0)


@pytest.mark.compiles
def test_a_saved_state_that_keeps_back_what_cannot_be_is_no_state():
    models = agreed(FERNS, *[learnt(FERNS, drawn(30, seed=seed)) for seed in (0, 1)], labels=("a", "b", "c"))
    assert models.is_sound(FERNS, ROWS)
    assert models.kept_back.table.any()
    weights, table = models.kept_back.weights, models.kept_back.table
    for kept_back in (
        KeptBack(np.pad(weights, ((0, 0), (0, 0), (0, 1))), table),
        KeptBack(weights[0], table),
        KeptBack(np.full(weights.shape, np.nan), table),
        KeptBack(weights, np.pad(table, ((0, 1), (0, 0), (0, 0)))),
        KeptBack(weights, np.full(table.shape, np.inf)),
    ):
        assert not replace(models, kept_back=kept_back).is_sound(FERNS, ROWS)


# --- moments -----------------------------------------------------------------------------------------------------


def test_moments_of_a_round_are_those_of_the_clients_that_were_measured():
    silent = replace(part(3, 8.0), moments=NO_MOMENTS)
    models, _ = after(part(1, 4.0), silent)
    assert (models.seen, models.moments.count.tolist(), models.moments.mean.tolist()) == (4, [1.0], [4.0])
    later, change = after(replace(part(1, 8.0), moments=NO_MOMENTS), begin=models)
    assert state(later.moments) == state(models.moments)
    assert state(change.moments) == state(NO_MOMENTS)
    assert later.seen == 5


# --- laws --------------------------------------------------------------------------------------------------------


@pytest.mark.compiles
@pytest.mark.parametrize("features", ["linear", "ferns", "auto"])
@pytest.mark.parametrize("clients", [2, 3, 7])
def test_clients_that_all_learnt_the_same_are_one_client(features, clients):
    settings = NativeSettings(features)
    begin = agreed(settings, learnt(settings, drawn(30)), labels=("a", "b", "c"))
    one = changed(settings, begin, drawn(30, seed=5))
    models, change = after(*[one] * clients, begin=begin, labels=("a", "b", "c"), steps=None)
    alone, same = after(one, begin=begin, labels=("a", "b", "c"), steps=None)
    assert (state(models.weights), state(models.table)) == (state(alone.weights), state(alone.table))
    assert state(change.cells) == state(same.cells)
    assert replace(models.steps, finer=0) == replace(alone.steps, finer=0)
    assert (models.steps.finer, alone.steps.finer) == (math.ceil(math.log2(10 / clients)), 4)
    assert state(models.moments.mean) != state(begin.moments.mean)
    assert models.seen == begin.seen + clients * 30


@pytest.mark.compiles
def test_a_cell_that_one_client_visited_moves_by_its_difference_alone():
    begin = agreed(FERNS, learnt(FERNS, drawn(30)), labels=("a", "b", "c"))
    first, other = (changed(FERNS, begin, drawn(30, seed=seed)) for seed in (5, 6))
    models, change = after(first, other, begin=begin, labels=("a", "b", "c"), steps=None)
    # Published are the cells that move.
    cells = begin.order.cells[change.cells.astype(int)]
    assert set(cells) == set(np.flatnonzero((models.table != begin.table).any(axis=(1, 2))))
    assert set(cells) <= {*first.cells, *other.cells}
    only = np.isin(first.cells, other.cells, invert=True)
    assert 0 < only.sum() < len(only)
    rows = first.cells[only].astype(int)
    steps = np.ldexp(1.0, np.array(begin.steps.table) - begin.steps.finer).reshape(2, 2)[(rows >= 25_600).astype(int)]
    moved = (models.table - begin.table)[rows]
    # To single precision.
    np.testing.assert_allclose(moved, steps[..., None] * first.table[only], atol=1e-6 * np.abs(models.table).max())
    both = np.intersect1d(first.cells, other.cells).astype(int)
    assert (np.abs(models.table - begin.table)[both].max(axis=(1, 2)) > 0.0).any()


@pytest.mark.compiles
def test_labels_and_features_in_different_orders_are_aligned():
    stream = drawn(30, missing=0.0)
    X = stream.X.copy()
    X[0, 1] = np.nan
    first = learnt(LINEAR, replace(stream, X=X))
    # The same records, told in other columns and codes: y comes before x, and labels are numbered otherwise.
    codes = np.array([2.0, 0.0, 1.0])[stream.y.astype(int)]
    same = learnt(LINEAR, Stream(X[:, ::-1], codes, ("y", "x"), ("b", "c", "a")))
    X = stream.X.copy()
    X[0, 0] = np.nan
    other = learnt(LINEAR, Stream(X[::-1], stream.y[::-1]))
    assert (first.features, other.features) == (("x", "y"), ("x", "y"))
    turned = learnt(LINEAR, replace(stream, X=X))
    assert turned.features == ("y", "x")
    labels = ("c", "b", "a")
    begin = NativeState.none(LINEAR)
    assert state(after(first, turned, begin=begin, labels=labels, steps=None)) == state(
        after(same, turned, begin=begin, labels=labels, steps=None)
    )
    models, _ = after(turned, begin=begin, labels=labels, steps=None)
    assert models.features == ("x", "y")
    rows = [0, 2, 1]
    columns = [turned.labels.index(label) for label in labels]
    steps = np.ldexp(1.0, np.array(turned.steps.weights) - turned.steps.finer)[:, None]
    np.testing.assert_array_equal(models.weights, steps * turned.weights[rows][..., columns])
    assert models.moments.mean.tolist() == turned.moments.mean[::-1].tolist()


@pytest.mark.compiles
def test_what_a_client_does_not_know_counts_as_unmoved():
    two = learnt(LINEAR, Stream(np.array([[1.0], [3.0]]), np.array([0.0, 1.0]), ("x",), ("a", "b")))
    three = learnt(LINEAR, Stream(np.array([[1.0], [3.0]]), np.array([0.0, 1.0]), ("z",), ("a", "c")))
    two, three = (replace(one, weights=2.0 * one.weights) for one in (two, three))  # so that halves are on the grid
    models, _ = after(two, three, begin=NativeState.none(LINEAR), labels=("a", "b", "c"), steps=None)
    assert models.features == ("x", "z")
    first, second = (one.weights[0, 0, 1] * 2.0 ** (one.steps.weights[0] - one.steps.finer) for one in (two, three))
    assert min(first, second) > 0.0
    assert models.weights[0, 0].tolist() == [-(first + second) / 2, first / 2, second / 2]


def test_clients_without_records_do_not_count():
    idle = replace(part(0, 99.0), norms=np.zeros(2))
    assert state(after(part(4, 1.0, c7=(4, 1.0)), idle)) == state(after(part(4, 1.0, c7=(4, 1.0))))
    models, change = after(idle, labels=("a", "b", "new"))
    assert (models.labels, models.features, models.seen) == (("a", "b", "new"), (), 0)
    assert (models.chain, models.steps) == ("", STEPS)
    # The change has the same label, and moves nothing.
    assert (change.labels, change.seen, len(change.cells)) == (("a", "b", "new"), 0, 0)
    assert change.weights.shape == models.weights.shape
    assert not change.weights.any()


def test_the_chain_tells_every_change_apart():
    one = part(4, 1.0, c7=(4, 1.0))
    chains = {
        models.chain
        for models, _ in (
            after(one),
            after(part(4, 2.0, c7=(4, 1.0))),
            after(part(4, 1.0, c7=(4, 2.0))),
            after(part(4, 1.0, c8=(4, 1.0))),
            after(one, begin=after(one)[0]),
        )
    }
    assert len(chains) == 5
    assert after(one)[0].chain == after(one)[0].chain


# --- names of no model yet ---------------------------------------------------------------------------------------


@pytest.mark.compiles
def test_grown_models_know_nothing_of_the_new_names():
    models = agreed(LINEAR, learnt(LINEAR, drawn(30)))
    grown = models.grown(("new",), ("z",))
    assert grown.features == ("x", "y", "new")
    assert grown.labels == ("a", "b", "c", "z")
    np.testing.assert_array_equal(grown.weights[:3, :, :3], models.weights)
    np.testing.assert_array_equal(grown.second[:3, :3], models.second)
    assert not grown.weights[3].any()
    assert not grown.weights[..., 3].any()
    assert not grown.second[3].any()


# --- what does not fit -------------------------------------------------------------------------------------------


def test_differences_that_cannot_be_added_exactly_are_refused():
    for large in (1e200, 2.0**46, np.inf, np.nan):
        with pytest.raises(PeerError, match="overflows"):
            after(part(1, 0.0, c7=(1, large)))
        with pytest.raises(PeerError, match="overflows"):
            after(replace(part(1, 0.0), weights=np.full((2, 4, 2), large)))
    most = 2.0**43  # half of what can be added, in steps of a quarter
    models, _ = after(part(1, 0.0, c7=(1, most)), part(1, 0.0, c8=(1, most)), part(1, 0.0, c9=(1, most)))
    assert models.table[7:10, 0, 0].tolist() == [most] * 3
    for parts in ([part(1, 0.0, c7=(1, most))] * 2, [part(2, 0.0, c7=(2, most))]):
        with pytest.raises(PeerError, match="overflows"):
            after(*parts)


# --- the centre of targets ---------------------------------------------------------------------------------------

TARGETS = NativeSettings("auto", neighbours=False, targets=True)


def targets_part(records: int, centre: float) -> NativeLearnt:
    nothing = NativeState.none(TARGETS)
    learner = NativeLearner(TARGETS)
    learner.learn(("x",), np.zeros((records, 1)), np.full(records, centre))
    learnt = learner.learnt()
    assert (learnt.centre, learnt.weights.any(), nothing.seen) == (centre, False, 0)
    return learnt


def level(models: NativeState) -> np.ndarray:
    """Return what each model says of a record at the means of its features, of which no cell says anything."""
    return models.centre + models.weights[0, :, 0] * TARGETS.sees


@pytest.mark.compiles
def test_the_first_centre_is_the_middle_one_and_models_say_the_mean_over_records():
    parts = [targets_part(1, 10.0), targets_part(2, 20.0), targets_part(1, 90.0)]
    models, _ = merging.after(NativeState.none(TARGETS), parts, (), settings=TARGETS)
    assert models.centre == 20.0
    assert level(models) == pytest.approx(np.full(len(TARGETS.names), 35.0))  # (10 + 2 * 20 + 90) / 4
    # A client that goes on from there says the same before it learns.
    learner = NativeLearner(TARGETS)
    learner.begin(models)
    learner.mixture.mixing.best[:] = np.eye(len(TARGETS.experts))[0]
    learner.mixture.mixing.outer[:] = [1.0, 0.0, 0.0]
    assert learner.predicted(("x",), np.array([[0.0]])) == pytest.approx(35.0)


@pytest.mark.compiles
def test_models_that_differ_in_their_centre_alone_have_another_digest():
    one, other = (
        merging.after(NativeState.none(TARGETS), [targets_part(2, centre)], (), settings=TARGETS)[0]
        for centre in (20.0, 30.0)
    )
    assert np.array_equal(one.weights, other.weights)
    assert one.chain != other.chain


@pytest.mark.compiles
def test_an_agreed_centre_stays_and_who_measures_from_elsewhere_changes_nothing():
    first, _ = merging.after(NativeState.none(TARGETS), [targets_part(2, 20.0)], (), settings=TARGETS)
    assert first.centre == 20.0
    learnt = replace(targets_part(2, 20.0), features=first.features)
    again, _ = merging.after(first, [learnt], (), settings=TARGETS)
    assert (again.centre, level(again).tolist()) == (20.0, level(first).tolist())
    moved, _ = merging.after(first, [replace(learnt, centre=50.0)], (), settings=TARGETS)
    assert (moved.centre, level(moved).tolist()) == (50.0, level(first).tolist())


@pytest.mark.compiles
def test_a_client_far_from_the_agreed_centre_measures_from_its_own_mean_and_says_the_same():
    agreed = replace(NativeState.none(TARGETS), seen=9, centre=1e9)
    learner = NativeLearner(TARGETS)
    learner.learn(("x",), np.zeros((10, 1)), np.arange(10.0) * 1e-3)
    learner.begin(agreed)
    assert learner._models.centre[0] == pytest.approx(4.5e-3)
    assert learner._models.centre[0] + learner._models.weights[0, :, 0] * TARGETS.sees == pytest.approx(1e9)
    learner.learn(("x",), np.zeros((1, 1)), np.zeros(1))
    assert learner.learnt().centre == pytest.approx(4.5e-3)
