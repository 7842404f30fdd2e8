"""The order in which messages name cells: all that know the agreed table have the same."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl.protocol.native.order import Order

ROWS = 40
TABLE = np.random.default_rng(1).choice([0.0, 0.0, 0.25, -3.0, 1e-3], (ROWS, 2, 3)).astype(np.float32)
ORDER = Order.of(TABLE)


@given(st.sets(st.integers(0, ROWS - 1)).map(sorted))
def test_cells_come_back_from_their_places_with_their_numbers(cells):
    cells = np.array(cells, np.float64)
    places, by_place = ORDER.places_of(cells)
    assert (np.diff(places) > 0).all()
    again, by_cell = ORDER.cells_at(places)
    assert again.tolist() == cells.tolist()
    assert cells[by_place][by_cell].tolist() == cells.tolist()


def test_the_order_is_that_of_the_values_whatever_they_are_kept_in():
    wide = np.zeros((ROWS, 2, 9))
    wide[..., :3] = TABLE
    for same in (TABLE.astype(np.float64), wide, wide[:, :1], np.asfortranarray(TABLE)):
        assert Order.of(same).cells.tolist() == ORDER.cells.tolist()


def test_cells_that_have_learnt_come_first_and_others_in_their_order():
    learnt = np.abs(TABLE[:, 0]).max(axis=1)[ORDER.cells] > 0.0
    assert learnt[: learnt.sum()].all()
    others = ORDER.cells[learnt.sum() :]
    assert (np.diff(others) > 0).all()


def test_sums_beyond_sixteen_bits_count_as_the_largest():
    table = np.zeros((3, 2, 900))
    table[1], table[2] = 1.0, 2.0
    assert Order.of(table).cells.tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    "places", [[3.0, 2.0], [1.0, 1.0], [-1.0], [ROWS], [0.5], [np.nan], [np.inf], [[1.0]], 3.0, []]
)
def test_places_that_lie_stay_as_they_are(places):
    heard, _ = ORDER.cells_at(np.array(places, np.float64))
    np.testing.assert_array_equal(heard, places)
