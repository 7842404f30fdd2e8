"""The visits of an update: those of rows that move nothing are known, and come back from what is beyond."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl.online.native.learner import NativeLearner
from streamfl.online.native.merging.in_order import learnt_as_received, learnt_as_sent
from streamfl.online.native.merging.rounding import rows_sent
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.order import Order
from streamfl.protocol.native.settings import NativeSettings

MIXED = np.random.default_rng(3).permutation(60)
ORDER, IN_ORDER = Order(MIXED, np.argsort(MIXED)), Order(np.arange(60), np.arange(60))
NOTHING_LEARNT = NativeLearner(NativeSettings("ferns", neighbours=False)).learnt()


def learnt(table: np.ndarray, visits: np.ndarray, records: int, coarser: int = 0) -> NativeLearnt:
    cells = np.arange(len(table), dtype=np.float64) * 2.0
    return replace(NOTHING_LEARNT, records=records, cells=cells, visits=visits, table=table, coarser=coarser)


def test_of_rows_that_move_nothing_only_visits_beyond_the_known_ones_are_sent_and_last():
    table = np.array([[[1.0, -1.0]], [[0.0, 0.0]], [[0.0, 0.0]], [[-2.0, 2.0]]])
    sent = learnt_as_sent(learnt(table, np.array([2.0, 3.0, 4.0, 1.0]), 100), IN_ORDER)
    assert sent.visits.tolist() == [2.0, 1.0, 0.0, 1.0]
    coarser = learnt_as_sent(learnt(table, np.array([2.0, 5.0, 5.0, 1.0]), 100, coarser=2), IN_ORDER)
    assert coarser.visits.tolist() == [2.0, 1.0, 0.0, 0.0]


@given(st.integers(1, 200), st.integers(0, 8), st.integers(0, 2**31))
def test_what_was_sent_comes_back(records, coarser, seed):
    draws = np.random.default_rng(seed)
    table = draws.integers(-1, 2, (25, 2, 1)).astype(np.float64) * (draws.random((25, 1, 1)) < 0.4)
    visits = draws.integers(1, records + 1, 25)
    is_sent, counted = rows_sent(table, visits, records, draws, coarser=coarser)
    whole = learnt(table[is_sent], counted[is_sent], records, coarser)
    sent = learnt_as_sent(whole, ORDER)
    assert (sent.visits >= 0.0).all()
    back = learnt_as_received(sent, ORDER)
    for name in ("cells", "visits", "table"):
        np.testing.assert_array_equal(getattr(back, name), getattr(whole, name))


@pytest.mark.parametrize("coarser", [-(10**30), 10**30])
@pytest.mark.parametrize("records", [-5, 0, 10**30])
def test_any_writer_may_say_any_number_of_records_and_of_steps(coarser, records):
    back = learnt_as_received(learnt(np.zeros((3, 2, 1)), np.zeros(3), records, coarser), ORDER)
    assert (back.visits <= 11.0).all()


@pytest.mark.parametrize("shape", [(3,), (3, 2), (4, 2, 1), (3, 2, 1, 1)])
def test_a_table_of_another_shape_stays_as_it_is_and_is_refused_elsewhere(shape):
    wrong = learnt(np.zeros((3, 2, 1)), np.zeros(3), 10)
    wrong = replace(wrong, table=np.zeros(shape))
    assert learnt_as_received(wrong, ORDER) is wrong
