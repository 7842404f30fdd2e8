"""What a client says it learnt online: true messages are admitted, each kind of wrong one is refused."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from native_streams import Stream, agreed, drawn, learnt

from streamfl.bounds import NAMED
from streamfl.learning.online_models import Covered
from streamfl.online.native.learner import NativeLearner
from streamfl.online.native.merging import admission
from streamfl.online.native.merging.admission import wrong_learnt
from streamfl.protocol.digits import in_bits
from streamfl.protocol.moments import NOTHING, Moments
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.settings import FARTHEST, FERNS, KINDS, ROWS, NativeSettings
from streamfl.protocol.native.steps import Steps

pytestmark = pytest.mark.compiles

AUTO = NativeSettings("auto")
LABELS = ("a", "b", "c")
AGREED = agreed(AUTO, learnt(AUTO, drawn(30)), labels=LABELS)


def true(settings: NativeSettings = AUTO, begin: NativeState = AGREED, *, measured: bool = True) -> NativeLearnt:
    """Return what a client learns of 40 records, some of them with a feature that it saw first."""
    learner = NativeLearner(settings)
    learner.begin(begin)
    stream = drawn(40, seed=3, targets=settings.targets)
    learner.learn(*stream.part(0, 20))
    wide = np.column_stack([stream.X, stream.y])[20:]
    learner.learn((*stream.features, "late"), wide, stream.y[20:], stream.labels)
    return learner.learnt(measured=measured)


def of_known(begin: NativeState = AGREED, *, measured: bool) -> NativeLearnt:
    """Return what a client learns of 40 records without a new feature."""
    learner = NativeLearner(AUTO)
    learner.begin(begin)
    learner.learn(*drawn(40, seed=3).part(0, 40))
    return learner.learnt(measured=measured)


def wrong(
    part: NativeLearnt,
    begin: NativeState = AGREED,
    *,
    records: int = 40,
    members: int = 3,
    measured: bool = True,
) -> str | None:
    covered = Covered(records, {"x", "y", "late"}, {*LABELS, "z"}, members, NAMED, measured)
    return wrong_learnt(part, begin, covered)


@pytest.mark.parametrize("features", ["linear", "ferns", "auto"])
@pytest.mark.parametrize("targets", [False, True])
def test_honest_learnt_numbers_are_admitted(features, targets):
    settings = NativeSettings(features, targets=targets)
    nothing = NativeState.none(settings)
    later = agreed(settings, learnt(settings, drawn(30, targets=targets)), labels=() if targets else LABELS)
    for begin in (nothing, later):
        for measured in (True, False):  # it has a new feature, so it tells moments out of turn
            assert wrong(true(settings, begin, measured=measured), begin, measured=measured) is None
            idle = NativeLearner(settings)
            idle.begin(begin)
            assert wrong(idle.learnt(measured=measured), begin, records=0, measured=measured) is None


def test_who_is_not_measured_tells_counts_and_no_moments():
    told, silent = of_known(measured=True), of_known(measured=False)
    assert (silent.moments.features, silent.second.size) == ((), 0)
    assert (told.moments.features, told.second.shape) == (("x", "y"), (3, 3))
    np.testing.assert_array_equal(silent.count, told.moments.count)
    assert wrong(silent, measured=False) is None
    assert wrong(told) is None
    moments, second = (
        "moments of online models are of other features",
        "second moments of online models were not asked",
    )
    assert wrong(told, measured=False) == moments
    assert wrong(silent) == moments
    assert second in str(wrong(replace(silent, second=told.second), measured=False))
    assert second in str(wrong(replace(told, second=silent.second)))
    assert wrong(replace(silent, moments=told.moments), measured=False) == moments


def test_features_that_began_again_are_measured_out_of_turn():
    told = replace(of_known(measured=True), again=("x",))
    assert wrong(told, measured=False) is None
    assert wrong(replace(told, moments=NOTHING), measured=False) == "moments of online models are of other features"


def test_the_largest_norm_is_admitted_also_if_few_bits_round_it_up():
    """Each of 2,013 features is clipped in each record: a norm of 50,326, which is sent as 50,432."""
    for features in range(3, 4097, 10):
        names = ("x",) * features
        sent = replace(GOOD, features=names, norms=in_bits(np.full(2, 1.0 + FARTHEST**2 * features)))
        assert admission._wrong_numbers(sent, 3) is None
        assert features != 2013 or sent.norms[0] == 50_432.0
    far = replace(sent, norms=1.01 * sent.norms)
    assert admission._wrong_numbers(far, 3) == "norms of online models are out of range"


def test_pairs_of_labels_are_those_of_the_records_one_after_another():
    assert GOOD.pairs[:, 2].sum() == 39
    few, labels = "online models have more pairs of labels than records can make", len(GOOD.labels)
    none = "online models have impossible pairs of labels"
    (a, b, _), bearing = GOOD.pairs[0], GOOD.bearing
    for pairs, refused in (
        (np.zeros((0, 3)), None),
        (np.array([[a, b, 1.0]]), None),
        (np.array([[a, b, bearing[int(b)] + 1.0]]), few),
        (GOOD.pairs + np.array([0.0, 0.0, 1.0]), few),
        (np.array([[a, b, -1.0]]), none),
        (np.array([[a, b, 0.5]]), none),
        (np.array([[a, b, np.inf]]), none),
        (np.array([[a, b, np.nan]]), none),
        (np.array([[a, float(labels), 1.0]]), none),
        (np.array([[-1.0, b, 1.0]]), none),
        (np.array([[a, b + 0.5, 1.0]]), none),
        (np.array([[a, b, 1.0], [a, b, 1.0]]), none),
        (GOOD.pairs[::-1], none),
        (np.zeros((1, 2)), none),
    ):
        assert wrong(replace(GOOD, pairs=pairs)) == refused
    targets = true(NativeSettings("linear", targets=True), later_targets())
    assert not targets.pairs.size
    assert wrong(replace(targets, pairs=np.array([[0.0, 0.0, 1.0]])), later_targets()) == none


def later_targets() -> NativeState:
    settings = NativeSettings("linear", targets=True)
    return agreed(settings, learnt(settings, drawn(30, targets=True)), labels=())


def test_steps_are_always_told_and_within_bounds():
    begin = NativeState.none(AUTO)
    first = true(begin=begin)
    refused = "steps of online models are out of range"
    assert first.steps.are_known
    assert wrong(first, begin) is None
    # A client always says which steps fit what it learnt; while none are published, its numbers are in these.
    assert wrong(replace(first, steps=Steps()), begin) == refused
    assert wrong(replace(GOOD, steps=Steps())) == refused
    models = len(AUTO.names)
    for steps in (
        Steps((0,) * (models - 1), (0,) * KINDS),
        Steps((0,) * models, (0,) * (KINDS + 1)),
        Steps((0,) * models, ()),
        Steps((111,) * models, (0,) * KINDS),
        Steps((0,) * models, (-111,) * KINDS),
        Steps((0,) * models, (0,) * KINDS, half=111),
        Steps((0,) * models, (0,) * KINDS, finer=-1),
        Steps((0,) * models, (0,) * KINDS, finer=9),
    ):
        assert wrong(replace(first, steps=steps), begin) == refused
    assert wrong(replace(first, steps=Steps((110,) * models, (-110,) * KINDS, half=3)), begin) is None


def test_honest_learnt_numbers_after_a_million_records_are_admitted():
    many = replace(
        AGREED,
        seen=10**6,
        second=AGREED.second * (10**6 / 30),
        moments=replace(AGREED.moments, count=AGREED.moments.count * 1e5, m2=AGREED.moments.m2 * 1e5),
    )
    many = replace(many, second=np.where(many.second == many.second[0, 0], 1e6, many.second))
    assert wrong(true(begin=many), many) is None


def test_a_label_that_is_new_in_the_round_is_admitted():
    learner = NativeLearner(AUTO)
    learner.begin(AGREED)
    learner.learn(*Stream(np.zeros((40, 2)), np.zeros(40), labels=("z",)).part(0, 40))
    assert wrong(learner.learnt()) is None


def test_extreme_values_are_admitted():
    learner = NativeLearner(AUTO)
    X = np.array([[np.inf, 1e308], [-np.inf, -1e308]] * 20)
    learner.learn(*Stream(X, np.arange(40.0) % 2).part(0, 40))
    assert wrong(learner.learnt(), NativeState.none(AUTO)) is None


GOOD = true()
D = len(GOOD.features)
LIMIT = 2.0**62 / 2.0**16 / 2 / 3 / 40  # of a difference over 40 records of one of three clients


def moments(**spoilt: np.ndarray) -> Moments:
    return replace(GOOD.moments, **spoilt)


def first(array: np.ndarray, value: float) -> np.ndarray:
    """Return a copy in which the very first number is another."""
    spoilt = array.copy()
    spoilt.flat[0] = value
    return spoilt


def swapped(array: np.ndarray) -> np.ndarray:
    """Return a copy in which the first two numbers have changed places."""
    return np.concatenate([array[1::-1], array[2:]])


SPOILT: dict[str, tuple[Callable[[], NativeLearnt], str]] = {
    "another number of records": (lambda: replace(GOOD, records=41), "number of records"),
    "an agreed feature left out": (lambda: replace(GOOD, features=("y", "x", "late")), "names"),
    "a feature twice": (lambda: replace(GOOD, features=("x", "y", "y")), "names"),
    "agreed labels in another order": (lambda: replace(GOOD, labels=("b", "a", "c")), "names"),
    "fewer labels than agreed on": (lambda: replace(GOOD, labels=("a",)), "names"),
    "a label twice": (lambda: replace(GOOD, labels=("a", "b", "c", "a")), "names"),
    "a label that nobody registers": (lambda: replace(GOOD, labels=(*LABELS, "zzz")), "label"),
    "a feature that no record has": (
        lambda: replace(GOOD, features=("x", "y", "zzz")),
        "online models name a feature",
    ),
    "moments of other features": (lambda: replace(GOOD, moments=moments(features=("x", "late", "y"))), "moments"),
    "weights without a row": (lambda: replace(GOOD, weights=GOOD.weights[:-1]), "weights"),
    "weights without a model": (lambda: replace(GOOD, weights=GOOD.weights[:, :-1]), "weights"),
    "weights without a label": (lambda: replace(GOOD, weights=GOOD.weights[..., :-1]), "weights"),
    "weights that are a number": (lambda: replace(GOOD, weights=np.zeros(())), "weights"),
    "second moments without a row": (lambda: replace(GOOD, second=GOOD.second[:-1, :-1]), "second moments"),
    "no second moments": (lambda: replace(GOOD, second=np.zeros((0, 0))), "second moments"),
    "a table without a row": (lambda: replace(GOOD, table=GOOD.table[:-1]), "a table"),
    "a table without a rate": (lambda: replace(GOOD, table=GOOD.table[:, :-1]), "a table"),
    "a table without a label": (lambda: replace(GOOD, table=GOOD.table[..., :-1]), "a table"),
    "cells in two dimensions": (lambda: replace(GOOD, cells=GOOD.cells[:, None]), "cells"),
    "visits of fewer cells": (lambda: replace(GOOD, visits=GOOD.visits[:-1]), "visits"),
    "one norm": (lambda: replace(GOOD, norms=GOOD.norms[:1]), "norms"),
    "means of more features": (lambda: replace(GOOD, moments=moments(mean=np.zeros(D + 1))), "moments"),
    "counts of more features": (lambda: replace(GOOD, moments=moments(count=np.zeros(D + 1))), "moments"),
    "half a cell": (lambda: replace(GOOD, cells=GOOD.cells + 0.5), "cells"),
    "a cell NaN": (lambda: replace(GOOD, cells=first(GOOD.cells, np.nan)), "cells"),
    "a cell twice": (lambda: replace(GOOD, cells=first(GOOD.cells, GOOD.cells[1])), "cells"),
    "a cell before the table": (lambda: replace(GOOD, cells=first(GOOD.cells, -1.0)), "cells"),
    "a cell behind the table": (lambda: replace(GOOD, cells=first(GOOD.cells, float(ROWS))), "cells"),
    "cells that do not rise": (lambda: replace(GOOD, cells=swapped(GOOD.cells)), "not in order"),
    "no whole exponent of visits": (lambda: replace(GOOD, visits=GOOD.visits + 0.5), "cells"),
    "an exponent of visits NaN": (lambda: replace(GOOD, visits=first(GOOD.visits, np.nan)), "cells"),
    "a cell without a visit": (lambda: replace(GOOD, visits=first(GOOD.visits, -1.0)), "visits"),
    "more visits than records": (lambda: replace(GOOD, visits=first(GOOD.visits, 7.0)), "visits"),
    "weights off the grid": (
        lambda: replace(GOOD, weights=first(GOOD.weights, GOOD.weights.flat[0] + 0.5)),
        "not a whole number of steps",
    ),
    "a table off the grid": (
        lambda: replace(GOOD, table=first(GOOD.table, GOOD.table.flat[0] - 0.25)),
        "not a whole number of steps",
    ),
    "values of fewer features": (lambda: replace(GOOD, count=GOOD.count[:-1]), "counts"),
    "values of a feature NaN": (lambda: replace(GOOD, count=first(GOOD.count, np.nan)), "finite"),
    "fewer values of a feature than none": (lambda: replace(GOOD, count=first(GOOD.count, -1.0)), "more values"),
    "more values of a feature than records": (lambda: replace(GOOD, count=first(GOOD.count, 41.0)), "more values"),
    "weights NaN": (lambda: replace(GOOD, weights=first(GOOD.weights, np.nan)), "finite"),
    "a table infinite": (lambda: replace(GOOD, table=first(GOOD.table, np.inf)), "finite"),
    "second moments NaN": (lambda: replace(GOOD, second=first(GOOD.second, np.nan)), "finite"),
    "norms NaN": (lambda: replace(GOOD, norms=first(GOOD.norms, np.nan)), "finite"),
    "means NaN": (lambda: replace(GOOD, moments=moments(mean=np.full(D, np.nan))), "finite"),
    "counts infinite": (lambda: replace(GOOD, moments=moments(count=np.full(D, np.inf))), "finite"),
    "squares infinite": (lambda: replace(GOOD, moments=moments(m2=np.full(D, np.inf))), "finite"),
    "weights that cannot be added": (lambda: replace(GOOD, weights=first(GOOD.weights, np.ceil(LIMIT))), "too large"),
    "a table that cannot be added": (lambda: replace(GOOD, table=first(GOOD.table, -np.ceil(LIMIT))), "too large"),
    "negative norms": (lambda: replace(GOOD, norms=first(GOOD.norms, -1.0)), "norms"),
    "norms beyond all records": (lambda: replace(GOOD, norms=np.array([1.0, FERNS + 2.0 + 25.0 * D])), "norms"),
    "fewer values than none": (lambda: replace(GOOD, moments=moments(count=np.full(D, -1.0))), "moments"),
    "more values than records": (lambda: replace(GOOD, moments=moments(count=np.full(D, 41.0))), "moments"),
    "a mean beyond all values": (lambda: replace(GOOD, moments=moments(mean=np.full(D, -1e151))), "moments"),
    "negative squares": (lambda: replace(GOOD, moments=moments(m2=np.full(D, -1.0))), "moments"),
    "squares beyond all values": (lambda: replace(GOOD, moments=moments(m2=np.full(D, 1e303))), "moments"),
    "second moments of no constant": (lambda: replace(GOOD, second=first(GOOD.second, 36.0)), "second moments"),
    "second moments that are not symmetric": (
        lambda: replace(GOOD, second=GOOD.second + np.triu(np.ones((D + 1, D + 1)), 1)),
        "second moments",
    ),
    "second moments beyond all records": (lambda: replace(GOOD, second=diagonal(40.0, 25.0 * 40.0 + 3.0)), "second"),
    "values far out of other features": (
        lambda: replace(GOOD, far=replace(GOOD.far, features=("x", "y"))),
        "moments",
    ),
    "more values far out than records": (lambda: replace(GOOD, far=moments(count=np.full(D, 41.0))), "moments"),
    "values far out NaN": (lambda: replace(GOOD, far=moments(mean=np.full(D, np.nan))), "finite"),
    "values far out of another shape": (lambda: replace(GOOD, far=moments(m2=np.zeros(D + 1))), "moments far out"),
    "records of fewer labels": (
        lambda: replace(GOOD, bearing=GOOD.bearing[:-1]),
        "records by label of online",
    ),
    "right ones of fewer models": (lambda: replace(GOOD, right=GOOD.right[:-1]), "right ones by label"),
    "half a record by label": (
        lambda: replace(GOOD, bearing=GOOD.bearing + np.array([0.5, -0.5, 0.0])),
        "do not add up",
    ),
    "more records by label": (lambda: replace(GOOD, bearing=GOOD.bearing + 1.0), "do not add up"),
    "fewer records of a label than none": (
        lambda: replace(GOOD, bearing=np.array([41.0, 0.0, -1.0])),
        "do not add up",
    ),
    "a record by label NaN": (lambda: replace(GOOD, bearing=first(GOOD.bearing, np.nan)), "do not add up"),
    "half a right one": (lambda: replace(GOOD, right=GOOD.right * 0.0 + 0.5), "do not add up"),
    "more right ones than records": (lambda: replace(GOOD, right=GOOD.right + GOOD.bearing + 1.0), "predicted right"),
    "fewer right ones than none": (lambda: replace(GOOD, right=GOOD.right * 0.0 - 1.0), "predicted right"),
    "a centre beyond all targets": (lambda: replace(GOOD, centre=-2e30), "centre"),
    "a centre that is not finite": (lambda: replace(GOOD, centre=float("nan")), "centre"),
    "extremes of labels": (lambda: replace(GOOD, extremes=(0.0, 1.0)), "the least and the largest target"),
    "a sleeper that there is not": (lambda: replace(GOOD, unused=("rounds", "me")), "do not exist"),
    "a feature that moved, and is not there": (
        lambda: replace(GOOD, again=("late", "me")),
        "is not among the features",
    ),
    "steps that are finer by a budget": (lambda: replace(GOOD, coarser=-1), "too coarsely"),
    "steps that are far too coarse": (lambda: replace(GOOD, coarser=9), "too coarsely"),
    "second moments without an inverse": (lambda: replace(GOOD, second=diagonal(40.0, -9.0)), "not positive"),
}


def diagonal(constant: float, others: float) -> np.ndarray:
    return np.diag([constant, *[others] * D])


@pytest.mark.parametrize(("spoil", "reason"), SPOILT.values(), ids=SPOILT)
def test_each_kind_of_wrong_message_is_refused(spoil, reason):
    assert wrong(GOOD) is None
    told = wrong(spoil())
    assert told is not None
    assert reason in told


def test_the_largest_difference_that_is_admitted_is_that_of_the_exact_sum():
    assert wrong(replace(GOOD, table=first(GOOD.table, np.floor(LIMIT)))) is None
    assert "too large" in str(wrong(replace(GOOD, table=first(GOOD.table, np.floor(LIMIT) + 1.0))))


@pytest.mark.parametrize("coarser", [1, 5, 8])
@pytest.mark.parametrize("records", [1, 5, 40])
def test_honest_learnt_numbers_rounded_for_a_budget_are_admitted(coarser, records):
    learner = NativeLearner(AUTO)
    learner.begin(AGREED)
    learner.learn(*drawn(records).part(0, records))
    part = learner.learnt(coarser=coarser)
    assert wrong(part, records=records) is None
    assert part.visits.max() <= np.ceil(np.log2(records))


def test_as_many_visits_are_admitted_as_the_records_can_make():
    # Of 40 records, 2^5.3 rounded up: 2^6. Of a single one, 2^0.
    assert wrong(replace(GOOD, visits=first(GOOD.visits, 6.0))) is None
    learner = NativeLearner(AUTO)
    learner.begin(AGREED)
    learner.learn(*drawn(1).part(0, 1))
    one = learner.learnt()
    assert set(one.visits) == {0.0}
    assert wrong(one, records=1) is None
    assert "visits" in str(wrong(replace(one, visits=one.visits + 1.0), records=1))


def test_second_moments_are_not_asked_of_those_that_have_none():
    settings = NativeSettings("ferns")
    begin = NativeState.none(settings)
    part = true(settings, begin)
    assert wrong(part, begin) is None
    assert "second moments" in str(wrong(replace(part, second=np.eye(D + 1)), begin))


@pytest.mark.parametrize("loss", [-0.1, 801.0, math.nan, math.inf])
def test_an_impossible_loss_is_refused(loss: float) -> None:
    part = true()
    assert wrong(replace(part, loss=None)) is None  # of an older version
    assert wrong(replace(part, loss=800.0)) is None  # 20 a record
    assert wrong(replace(part, loss=loss)) == "the loss of online models is out of range"
