"""What clients add up: the total is what the aggregation of single updates would be, and never impossible."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from unit.machines.script import LEARNER, REGISTRY, answer

from streamfl.learning.fixed_point import weighted_mean
from streamfl.learning.pooling.layout import MOST, Layout, SummedArray
from streamfl.learning.pooling.limbs import moments_in_limbs, moments_of_limbs
from streamfl.learning.pooling.masks import plain_total
from streamfl.learning.pooling.sums import of_text, pooled, sums_of, with_sums
from streamfl.learning.second_moments import SecondMoments
from streamfl.protocol.messages import LabelSums, MomentsAsked, RoundOpened, Slot, TotalsAsked, Update
from streamfl.protocol.moments import Moments, merged

OPENED = RoundOpened(
    entry=1,
    round=1,
    epoch=1,
    block=1,
    registry=1,
    slots=(Slot(name="step", version=1, eta=0.1), Slot(name="average", version=1, eta=0.1, trained=False)),
    serves="step",
    known_labels=2,
    asks=MomentsAsked(moments=True, second_moments=True),
    totals=TotalsAsked(pooled=True),
)
LAYOUT = Layout.of_round(OPENED, REGISTRY, LEARNER.model.columns)

VALUES = st.lists(st.floats(-1e12, 1e12, allow_subnormal=False), min_size=1, max_size=20)


def update(name: str, **more: object) -> Update:
    X = np.array([[1.0], [float(name[1:])]])
    fields = {"moments": Moments.of(("x",), X), "new": (LabelSums(label="b", count=3, loss=0.5, square=0.25),)}
    return answer(OPENED, name, **(fields | more))


def together(*updates: Update) -> Update:
    sent = [with_sums(each, sums_of(each, OPENED, LAYOUT, REGISTRY)) for each in updates]
    total = plain_total([of_text(each.sums) for each in sent])
    return pooled(sent, total, OPENED, LAYOUT, REGISTRY)


def test_the_total_of_two_clients_is_the_sum_computed_by_hand():
    both = together(update("c1", records=4, loss=0.5), update("c3", records=12, loss=0.25))
    assert (both.records, both.trained, both.client) == (16, 16, "")
    assert both.numbers.losses["average"].loss == 4 * 0.5 + 12 * 0.25
    # Steps of 0.02 and 0.04, weighed by records.
    assert np.allclose(both.numbers.differences["step"], (4 * 0.02 + 12 * 0.04) / 16, atol=2.0**-32)
    assert both.numbers.new == (LabelSums(label="b", count=6, loss=1.0, square=0.5),)
    assert (both.numbers.moments.count.tolist(), both.numbers.moments.mean.tolist()) == ([4.0], [1.5])
    assert both.numbers.second_moments.tolist() == [[16.0, 0.0], [0.0, 16.0]]
    assert both.numbers.squared_norm == 2.0 * 16


def test_the_step_is_that_of_the_exact_sum_of_single_updates():
    each = [update(f"c{i}", records=i + 2) for i in range(5)]
    exact = weighted_mean([(u.trained, u.numbers.differences["step"]) for u in each])
    assert np.abs(together(*each).numbers.differences["step"] - exact).max() <= 2.0**-52
    assert (
        together(*each).numbers.differences["step"].tobytes()
        == together(*reversed(each)).numbers.differences["step"].tobytes()
    )


def test_an_update_with_sums_tells_nothing_else_of_its_records():
    told = with_sums(update("c1", times=(1, 2)), np.zeros(LAYOUT.size, np.int64))
    assert (
        told.numbers.losses,
        told.numbers.differences,
        told.numbers.new,
        told.numbers.moments,
        told.numbers.times,
    ) == ({}, {}, (), None, None)
    assert (told.numbers.squared_norm, told.numbers.largest_norm, told.numbers.served.records) == (0.0, 0.0, 0)
    assert told.records == 4


def test_what_concerns_a_new_label_is_left_out_and_has_a_column_of_zeros():
    both = together(update("c1", new_labels=("z",)), update("c2"))
    assert both.new_labels == ("z",)
    assert both.numbers.differences["step"].shape == (2, 3)
    assert not both.numbers.differences["step"][:, 2].any()


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=LAYOUT.size, max_size=LAYOUT.size))
@example([0] * (LAYOUT.size - 3) + [-1, 0, 2000002])  # a second moment a little below 0
def test_whatever_is_added_up_the_numbers_are_possible(numbers):
    made = pooled([update("c1")], np.array(numbers, np.int64), OPENED, LAYOUT, REGISTRY)
    for losses in made.numbers.losses.values():
        assert 0.0 <= losses.loss <= made.records
        assert 0.0 <= losses.history <= losses.history_share
    assert all(0.0 <= sums.loss <= sums.count for sums in (*made.numbers.new, *made.numbers.old))
    assert 0 <= made.numbers.served.correct <= made.numbers.served.records <= made.records
    assert np.isfinite(made.numbers.moments.mean).all()
    assert (made.numbers.moments.m2 >= 0.0).all()
    assert np.isfinite(made.numbers.moments.m2).all()
    assert (np.diag(made.numbers.second_moments) >= 0.0).all()
    assert np.isfinite(SecondMoments(made.numbers.second_moments, 4.0).whitened(np.ones((2, 1)))).all()


@given(VALUES, VALUES, st.floats(-1e9, 1e9))
def test_moments_in_limbs_add_up_to_those_of_all_values(first, second, about):
    each = [Moments.of(("x",), about + np.array([values]).T) for values in (first, second)]
    limbs = [moments_in_limbs(one) for one in each]
    made = moments_of_limbs(("x",), {name: limbs[0][name] + limbs[1][name] for name in limbs[0]})
    wanted = merged(each)
    size = 1.0 + np.abs(wanted.mean).max()
    assert made.count == wanted.count
    assert np.abs(made.mean - wanted.mean).max() <= 1e-13 * size
    assert np.abs(np.sqrt(made.variance) - np.sqrt(wanted.variance)).max() <= 1e-7 * (
        1.0 + np.sqrt(wanted.variance).max()
    )


def test_a_number_too_large_to_be_added_is_clipped_and_nothing_overflows():
    layout = Layout((SummedArray("losses", (2,)),))
    sums = layout.packed({"losses": np.array([1e300, -np.inf])})
    assert sums.tolist() == [MOST, -MOST]
    assert 1000 * MOST < 2**63
