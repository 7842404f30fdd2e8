"""Sums in few bits: within a 256th, and never beyond what the records can have."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl.machines.client.work.few_bits import differences_in_few_bits, in_few_bits
from streamfl.protocol.messages import LabelSums, Numbers, SlotLosses

records = st.integers(1, 5000)


@given(records.flatmap(lambda n: st.tuples(st.just(n), st.floats(0.0, 1.0), st.floats(0.0, 1.0))))
def test_sums_of_scores_stay_near_and_within_the_records(drawn):
    n, share, other = drawn
    sums = SlotLosses(loss=n * share, square=n * other, proper=float(n), history=0.3, history_share=0.7)
    labels = (LabelSums(label="a", count=n, loss=n * share, square=float(n)),)
    few = in_few_bits(Numbers(losses={"m": sums}, new=labels, old=labels), n, ())
    of_model, of_label = few.losses["m"], few.new[0]
    for number, exact in (
        (of_model.loss, sums.loss),
        (of_model.square, sums.square),
        (of_label.loss, sums.loss),
        (of_model.proper, n),
        (of_label.square, n),
    ):
        assert 0.0 <= number <= n
        assert number == pytest.approx(exact, rel=2.0**-8)
    assert (of_model.history, of_model.history_share, of_label.count) == (0.3, 0.7, n)
    assert few.old == few.new


def test_numbers_that_say_nothing_still_say_nothing():
    assert in_few_bits(Numbers(), 0, ()).are_none


def test_only_gradients_of_targets_have_few_bits_since_those_of_labels_lie_on_a_grid():
    exact = np.array([[257.0, -0.3]])
    few = differences_in_few_bits({"a": exact, "b": exact}, {"a"})
    np.testing.assert_array_equal(few["a"], [[256.0, -0.30078125]])
    assert few["b"] is exact
