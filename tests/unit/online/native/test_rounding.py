"""Rounding: right on average at clients, nothing lost at the coordinator, and rows that move nothing still count."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl.online.native.merging.rounding import PART, most_steps, rounded, rounded_second, rows_sent, split_change
from streamfl.protocol.native.steps import Steps

STEP = np.array([[0.25], [2.0]])


def draws(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_numbers_go_to_one_of_their_two_neighbours_and_rows_of_several_columns_add_up_to_nothing(columns):
    x = draws(1).normal(size=(50, 2, columns))
    x -= x.mean(axis=-1, keepdims=True) if columns > 1 else 0.0
    whole = rounded(x, STEP, draws())
    np.testing.assert_array_equal(whole, np.rint(whole))
    off = STEP * whole - x
    assert (np.abs(off) < STEP).all()
    assert (off > 0.0).any()
    assert (off < 0.0).any()
    if columns > 1:
        assert not whole.sum(axis=-1).any()


def test_numbers_on_the_grid_stay_whatever_is_drawn_and_none_is_a_negative_zero():
    x = STEP * np.array([[[3.0, -3.0], [-7.0, 7.0]], [[0.0, 0.0], [-1.0, 1.0]]])
    for seed in range(20):
        whole = rounded(x, STEP, draws(seed))
        np.testing.assert_array_equal(STEP * whole, x)
        assert not np.signbit(whole[whole == 0.0]).any()


def test_the_mean_over_draws_is_the_number_itself():
    x = np.array([[[0.9, -0.9], [-0.1, 0.1]]])
    mean = np.mean([STEP * rounded(x, STEP, draws(seed)) for seed in range(4000)], axis=0)
    # A twentieth of a step of 2 has a deviation of 2 sqrt(.05 .95), of the mean 0.007.
    np.testing.assert_allclose(mean, x, atol=0.03)


def test_numbers_beyond_the_largest_are_cut_off_also_where_columns_add_up():
    x = np.array([[[1e30, -2e30, 1e30], [5.0, -1e30, 1e30]]])
    whole = rounded(x, np.ones((2, 1)), draws(), most=100.0)
    assert whole.tolist() == [[[50.0, -50.0, 0.0], [5.0, -50.0, 45.0]]]
    same = rounded(np.array([[[1e30], [-99.0]]]), np.ones((2, 1)), draws(), most=100.0)
    assert same.tolist() == [[[100.0], [-99.0]]]


def test_second_moments_go_to_the_nearest_step():
    # Of 100 records the exponent is 3: 2^(2 * 3 - 2 - 3).
    second = np.array([[100.0, 3.2], [3.2, 96.9]])
    assert rounded_second(second, Steps(half=3)).tolist() == [[100.0, 4.0], [4.0, 96.0]]
    assert rounded_second(np.zeros((0, 0)), Steps(half=3)).shape == (0, 0)


def test_a_row_moves_as_seldom_as_its_largest_number_asks_for_and_then_no_more_columns_than_it_must():
    x = np.tile(np.array([[[-0.3, 0.1, 0.1, 0.1]]]), (4000, 1, 1))
    whole = rounded(x, np.ones((1, 1)), draws())[:, 0]
    moving = whole.any(axis=1)
    # Each column by itself would move 1 - 0.7 * 0.9^3 = 0.49 of the rows; the deviation is 0.007.
    assert moving.mean() == pytest.approx(0.3, abs=0.03)
    assert {tuple(row) for row in whole[moving]} == {(-1, 1, 0, 0), (-1, 0, 1, 0), (-1, 0, 0, 1)}


# --- what the coordinator tells ----------------------------------------------------------------------------------


@given(st.lists(st.floats(-3.0, 3.0), min_size=1, max_size=40), st.sampled_from([1, 2]))
def test_nothing_is_lost_but_the_parts_of_a_step_that_are_too_small_to_keep(changes, columns):
    step, kept_back, sent = np.array([[0.5]]), np.zeros((1, 1, columns)), np.zeros((1, 1, columns))
    for change in changes:
        published, kept_back = split_change(change * np.array([[[1.0, -1.0][:columns]]]), kept_back, step)
        sent += published
        assert np.abs(kept_back).max() <= 0.5 * step  # of two columns the sums are the numbers
        np.testing.assert_array_equal(kept_back, PART * step * np.rint(kept_back / (PART * step)))
    lost = 0.5 * PART * 0.5 * len(changes)
    assert abs((sent + kept_back)[0, 0, 0] - sum(changes)) <= lost + 1e-9
    assert not (sent.sum() + kept_back.sum()) or columns == 1


def test_a_change_far_below_a_step_is_told_once_it_has_added_up():
    kept_back, published = np.zeros((1, 1, 1)), []
    for _ in range(8):
        now, kept_back = split_change(np.full((1, 1, 1), 0.25), kept_back, np.array([[1.0]]))
        published.append(float(now[0, 0, 0]))
    assert published == [0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]


# --- which rows are sent -----------------------------------------------------------------------------------------


def rows(moving: list[bool]) -> np.ndarray:
    return np.array(moving, np.float64)[:, None, None] * [[1.0, -1.0]]


def test_rows_that_move_and_rows_of_eight_visits_are_sent_as_they_are():
    visits = np.array([1, 2, 3, 5, 8, 9, 100])
    sent, counted = rows_sent(rows([True] * 4 + [False] * 3), visits, 100, draws())
    assert sent.all()
    assert counted.tolist() == [0.0, 1.0, 2.0, 2.0, 3.0, 3.0, 7.0]


@pytest.mark.parametrize("visits", [1, 2])
def test_the_visits_that_empty_rows_count_as_are_right_on_average(visits):
    each = np.full(8000, visits)
    sent, counted = rows_sent(rows([False] * 8000), each, 100, draws())
    assert set(counted[sent]) == {3.0}
    # A row counts as 8 or as 0 visits: of 8,000 rows the deviation of the mean is below 0.04.
    assert 8.0 * sent.mean() == pytest.approx(visits, abs=0.17)


@pytest.mark.parametrize(("records", "logarithm"), [(1, 0.0), (2, 1.0), (3, 1.0), (4, 2.0), (1000, 3.0)])
def test_no_row_counts_as_more_visits_than_there_are_records(records, logarithm):
    sent, counted = rows_sent(rows([False] * 200), np.ones(200, np.int64), records, draws())
    assert set(counted[sent]) == {logarithm}


@pytest.mark.parametrize(("records", "logarithm"), [(100, 6.0), (31, 4.0), (3, 1.0)])
def test_in_coarser_steps_fewer_empty_rows_are_sent_and_count_as_more_but_never_as_more_than_the_records(
    records, logarithm
):
    each = np.full(40_000, 2)
    sent, counted = rows_sent(rows([False] * 40_000), each, records, draws(), coarser=3)
    assert set(counted[sent]) == {logarithm}
    # One in 32 at the least: of 40,000 rows the deviation of the mean number of visits is below 0.06.
    assert 2.0**logarithm * sent.mean() == pytest.approx(2.0, abs=0.24)


def test_rows_that_move_and_rows_of_many_visits_are_sent_whatever_the_steps():
    sent, counted = rows_sent(rows([True, False]), np.array([1, 64]), 100, draws(), coarser=4)
    assert (sent.tolist(), counted.tolist()) == ([True, True], [0.0, 6.0])


def test_numbers_in_coarser_steps_are_cut_off_at_the_same_change():
    assert [most_steps(1000, coarser) * 2.0**coarser for coarser in (0, 1, 8)] == [most_steps(1000)] * 3


def test_no_records_send_no_rows():
    sent, counted = rows_sent(np.zeros((0, 2, 3)), np.zeros(0, np.int64), 0, draws())
    assert (sent.size, counted.size) == (0, 0)
