"""Ferns: which cell a record finds does not depend on the order of features, and little on new ones."""

import numpy as np
import pytest

from streamfl.online.native.ferns import Ferns
from streamfl.protocol.native.settings import DEPTHS, FERNS, ROWS, TOUCHED
from streamfl.sampling import generator

NAMES = ("a", "b", "c", "d")
FIRST = [0, *np.cumsum([FERNS * cells for _, cells in DEPTHS]).tolist()]


def some(n: int = 40, d: int = 4) -> np.ndarray:
    return generator(0, "records").normal(size=(n, d))


def test_the_table_is_100_ferns_of_256_cells_and_100_of_1024():
    assert (ROWS, TOUCHED) == (100 * 256 + 100 * 1024, 200)
    assert DEPTHS == ((8, 256), (24, 1024))


@pytest.mark.compiles
def test_every_fern_finds_one_of_its_own_cells():
    cells = Ferns(0).over(NAMES).cells(10.0 * some(500))
    for k, (_, size) in enumerate(DEPTHS):
        own = cells[:, k * FERNS : (k + 1) * FERNS] - FIRST[k] - size * np.arange(FERNS)
        assert (own.min(), own.max()) == (0, size - 1)
    assert all(len(np.unique(row)) == TOUCHED for row in cells[:20])


@pytest.mark.compiles
def test_a_record_below_every_threshold_and_one_above_by_hand():
    low, high = Ferns(0).over(("x",)).cells(np.array([[-99.0], [99.0]]))
    assert low.tolist() == [*range(0, 25600, 256), *range(25600, 128000, 1024)]
    # 8 bits of 1 are cell 255; 24 of them are hashed: the first 10 bits of (2^24 - 1) / golden ratio, modulo 2^64.
    hashed = ((2**24 - 1) * 0x9E3779B97F4A7C15 % 2**64) >> 54
    assert high.tolist() == [*range(255, 25600, 256), *range(25600 + hashed, 128000, 1024)]


@pytest.mark.compiles
def test_bits_are_spread_over_the_cells():
    deep = Ferns(0).over(tuple(f"f{j}" for j in range(20))).cells(some(4000, 20))[:, FERNS:]
    cells = (deep - FIRST[1] - 1024 * np.arange(FERNS)).ravel()
    assert (cells.min(), cells.max()) == (0, 1023)
    assert np.bincount(cells).max() < 2 * len(cells) / 1024


@pytest.mark.compiles
@pytest.mark.parametrize("order", [(3, 2, 1, 0), (1, 3, 0, 2)])
def test_the_order_of_the_features_changes_nothing(order):
    Z = some()
    turned = Ferns(7).over(tuple(NAMES[j] for j in order)).cells(Z[:, order])
    np.testing.assert_array_equal(turned, Ferns(7).over(NAMES).cells(Z))


@pytest.mark.compiles
def test_features_that_came_one_by_one_are_as_good_as_all_at_once():
    ferns = Ferns(7)
    for j in range(len(NAMES)):
        ferns = ferns.over(NAMES[: j + 1])
    np.testing.assert_array_equal(ferns.cells(some()), Ferns(7).over(NAMES).cells(some()))


@pytest.mark.parametrize("d", [1, 3, 19])
def test_a_new_feature_takes_over_its_share_of_the_tests_and_leaves_the_others(d):
    names = tuple(f"f{j}" for j in range(d))
    before, after = Ferns(0).over(names), Ferns(0).over((*names, "new"))
    taken = after._chosen == d
    np.testing.assert_array_equal(after._chosen[~taken], before._chosen[~taken])
    expected = 1.0 / (d + 1)
    assert taken.mean() == pytest.approx(expected, abs=4.0 * np.sqrt(expected * (1 - expected) / len(taken)))


def test_every_feature_has_about_as_many_tests_and_thresholds_are_standard_normal():
    ferns = Ferns(3).over(NAMES)
    assert np.bincount(ferns._chosen) / len(ferns._chosen) == pytest.approx([0.25] * 4, abs=0.03)
    assert (ferns._thresholds.mean(), ferns._thresholds.std()) == pytest.approx((0.0, 1.0), abs=0.06)


@pytest.mark.compiles
def test_other_seeds_are_other_ferns_and_the_same_seed_the_same():
    one, same, another = (Ferns(seed).over(NAMES).cells(some()) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one == another).mean() < 0.1


@pytest.mark.compiles
def test_without_features_all_records_find_the_first_cells():
    cells = Ferns(0).cells(np.zeros((2, 0)))
    assert cells.shape == (2, TOUCHED)
    np.testing.assert_array_equal(cells[0], cells[1])
    # Those of a record that is below every threshold.
    np.testing.assert_array_equal(cells[:1], Ferns(0).over(("x",)).cells(np.array([[-99.0]])))
