"""Any array through its bytes and back, to the last bit; any bytes are an array within bounds, or refused."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from suites.examples import examples

from streamfl.errors import PeerError
from streamfl.online.native.kernels import coding
from streamfl.protocol.digits import in_bits
from streamfl.wire import integers as whole_numbers
from streamfl.wire.array_bytes import MOST_NUMBERS, read, written
from streamfl.wire.primitives import Bytes, deflated, inflated, sized, varint

shapes = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=6)
any_floats = hnp.arrays(np.float64, shapes, elements=st.floats())
on_grids = hnp.arrays(
    np.float64, hnp.array_shapes(min_dims=1, max_dims=3, max_side=7), elements=st.integers(-300, 300).map(float)
)
small = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=1, max_dims=3, max_side=30),
    elements=st.sampled_from([0.0] * 9 + [1.0, -1.0, 7.0]),
)


def same(a, b):
    if np.isnan(b).any():
        return bool(np.array_equal(a, b, equal_nan=True))
    return a.shape == b.shape and a.tobytes() == b.tobytes()


@given(any_floats)
def test_any_array_comes_back_to_the_last_bit(x):
    data = Bytes(written(x))
    assert same(read(data), x)
    assert data.left == 0


@given(on_grids, st.integers(-1000, 900), st.lists(st.integers(-9, 9), min_size=7, max_size=7))
def test_multiples_of_powers_of_two_come_back_to_the_last_bit(x, exponent, columns):
    x = np.ldexp(x, exponent + np.array(columns)[: x.shape[-1]])
    assert same(read(Bytes(written(x))), x)


@given(any_floats | on_grids | small, st.integers(-60, 60))
def test_any_array_comes_back_by_the_adaptive_code(x, exponent):
    with np.errstate(over="ignore"):
        x = np.ldexp(x, exponent)
    data = Bytes(written(x, coded=True))
    assert same(read(data), x)
    assert data.left == 0


@given(on_grids, on_grids)
def test_an_array_like_the_first_comes_back_too(x, change):
    y = x + change if x.shape == change.shape else x
    assert same(read(Bytes(written(y, [x])), {x.shape: [x]}), y)


@given(any_floats | on_grids, st.lists(any_floats, max_size=3), st.booleans())
def test_an_array_that_came_before_is_named_by_its_place(x, others, coded):
    before = [other for other in others if other.shape == x.shape] + [x]
    data = written(x, before, coded=coded)
    assert same(read(Bytes(data), {x.shape: before}), x)
    if x.size:
        assert len(data) == 3 + x.ndim  # the form, the dimensions, each of one byte, and the place


def test_a_place_where_no_array_is_and_a_zero_of_another_sign_are_told_apart():
    x = np.array([[1.0, 2.0, 0.0, 5.0]])
    data = written(x, [x + 1.0, x])
    for before in ([], [x]):
        with pytest.raises(PeerError, match="does not exist"):
            read(Bytes(data), {x.shape: before})
    negative = np.array([[1.0, 2.0, -0.0, 5.0]])
    assert same(read(Bytes(written(negative, [x])), {x.shape: [x]}), negative)


@given(hnp.arrays(np.float64, 40, elements=st.floats(-1e6, 1e6).filter(lambda x: abs(x) > 1e-6)))
def test_floats_of_few_bits_take_two_bytes(x):
    few = in_bits(x)
    assert (np.abs(few - x) <= np.abs(x) / 256.0).all()
    data = written(few)
    assert len(data) <= 3 + 2 * len(few)
    assert same(read(Bytes(data)), few)


@given(st.integers(1, 6).flatmap(lambda d: hnp.arrays(np.float64, (d, d), elements=st.integers(-50, 50).map(float))))
def test_symmetric_matrices_and_rows_that_add_up_to_zero_come_back(x):
    symmetric, zero_sum = x + x.T, x - x[:, ::-1]
    assert same(read(Bytes(written(symmetric))), symmetric)
    assert same(read(Bytes(written(zero_sum))), zero_sum)


@given(small)
def test_small_whole_numbers_come_back_three_at_a_time(x):
    assert same(read(Bytes(written(x))), x)
    zero_sum = np.concatenate([x, 0.0 - x.sum(axis=-1, keepdims=True)], axis=-1)
    assert same(read(Bytes(written(zero_sum))), zero_sum)


@given(hnp.arrays(np.int64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=9), elements=st.integers(-9, 9)))
def test_the_same_few_numbers_in_other_shapes_and_orders_come_back_each_as_it_is(m):
    """What few numbers were written as is kept: of the same bytes in memory only if the shape is the same, too."""
    for each in (m, m.T, m[::-1], m.reshape(-1, 1), m.reshape(1, -1), m.astype(np.int32)) * 2:
        data = whole_numbers.written(each)
        assert whole_numbers.read(Bytes(data), *each.shape).tolist() == each.tolist()
        assert data == whole_numbers._shortest(each.copy())


@given(st.sets(st.integers(0, 199), max_size=98), st.integers(0, 9), st.sampled_from([-0.0, 0.5, np.inf]))
@settings(max_examples=examples(20))
def test_rows_that_are_not_0_come_back(places, seed, odd):
    x = np.zeros((200, 2, 50))
    x[sorted(places)] = np.random.default_rng(seed).integers(-3, 4, (len(places), 2, 50))
    x[7, 1, 2] = odd
    data = Bytes(written(x))
    assert same(read(data), x)
    assert data.left == 0


def test_rows_of_0_take_no_room():
    x = np.zeros((100_000, 2, 3))
    x[500:520] = np.random.default_rng(0).integers(-3, 4, (20, 2, 3))
    assert len(written(x)) < 150


def test_a_large_array_comes_back():
    x = np.random.default_rng(1).integers(-9, 9, (50_000, 3)) * 2.0**-20 + 0.0
    assert same(read(Bytes(written(x))), x)
    assert same(read(Bytes(written(x[..., None]))), x[..., None])


@given(st.sets(st.integers(0, 128_000)).map(sorted))
def test_rising_numbers_come_back(numbers):
    x = np.array(numbers, dtype=np.float64)
    assert same(read(Bytes(written(x))), x)


def test_numbers_of_less_than_a_bit_take_less_than_a_bit():
    rng = np.random.default_rng(1)
    x = rng.choice([0.0, 1.0, -1.0], (2000, 6), p=[0.9, 0.05, 0.05])
    # 12,000 numbers of 0.57 bits; a Huffman code of single numbers needs 1.15.
    assert 855 <= len(written(x)) <= 1000


def test_slices_of_0_2_0_are_read():
    data = "0303140203020214031001056364c40400000000010c63606462666165632087020022021403000106e3e4241f0000"
    first, second = np.arange(60.0).reshape(20, 3) % 7 * 0.5, np.full((20, 3), 9.0)
    assert same(read(Bytes(bytes.fromhex(data))), np.stack([first, second], axis=1))


SMALL = [[0, 1, 0], [2, 0, 7], [0, 0, 0], [1, 1, 0]] * 3
SIGNED = [[-x if x == 1 else x for x in row] for row in SMALL]


@pytest.mark.parametrize(
    ("data", "numbers"),
    [
        ("00011063606460626067606060640462ec6c00", SMALL),
        ("020863f365d06283620001056362620200", SMALL),
        ("010863f365d06283620001056362620200", SMALL),
        ("1001106360646061e063606060640462ec6c00", SIGNED),
        ("1208639bcaa0c506c5000105e3e4e40400", SIGNED),
        ("1108639bcaa0c506c5000105e3e4e40400", SIGNED),
        ("1003048bb80f0004635202000463600200", [[300, -70000]]),
        ("0306636460fb0f000001056365600000", [[1, -1, 0], [0, 0, 0], [0, 1, -1], [5, 0, 0]]),
    ],
)
def test_whole_numbers_of_0_2_0_are_read(data, numbers):
    assert whole_numbers.read(Bytes(bytes.fromhex(data)), len(numbers), len(numbers[0])).tolist() == numbers


tables = hnp.arrays(
    np.int64,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=12),
    elements=st.sampled_from([0] * 6 + [1, -1]) | st.integers(-(2**31) + 1, 2**31 - 1),
)


@given(tables, st.integers(1, 12))
def test_whole_numbers_come_back_whatever_rows_are_alike(m, groups):
    data = Bytes(whole_numbers.coded(m, groups))
    assert whole_numbers.read(data, *m.shape, groups).tolist() == m.tolist()
    assert data.left == 0


@given(tables, st.data())
def test_a_code_that_is_cut_is_refused_or_a_table_of_its_shape(m, data):
    """Behind its end stand zeros: no more than an interval has, so a short code cannot be a large table."""
    code = coding.written(m, 1)
    read = np.zeros_like(m)
    if coding.read(code[: data.draw(st.integers(0, len(code)))], read, 1):
        assert np.abs(read).max() < 2**34


@given(tables, st.integers(2, 9))
def test_a_code_with_more_bytes_than_its_table_takes_is_refused(m, more):
    assert not coding.read(coding.written(m, 1) + bytes(more), np.zeros_like(m), 1)


def test_a_code_that_lies_about_a_large_table_ends_where_its_bytes_do():
    m = np.zeros((2**22, 1), np.int64)
    assert not coding.read(b"\x7f\x3a\x91", m, 1)
    assert np.flatnonzero(m).max() < 2**17


def transported(rows: int, columns: int, seed: int = 1) -> np.ndarray:
    """Return rows of which half are empty, and most others have one 1 and one -1."""
    rng = np.random.default_rng(seed)
    x = np.zeros((rows, columns))
    for _ in range(2):
        moving = np.flatnonzero(rng.random(rows) < 0.3)
        x[moving, rng.integers(0, columns, len(moving))] += 1.0
        x[moving, rng.integers(0, columns, len(moving))] -= 1.0
    return x


def test_rows_in_which_one_unit_moves_take_the_bits_of_one_symbol_each():
    x = transported(2000, 7)
    kinds = np.unique(x, axis=0, return_counts=True)[1] / len(x)
    entropy = -(kinds * np.log2(kinds)).sum() * len(x) / 8
    data = Bytes(written(x))
    assert entropy < len(data.data) < 1.15 * entropy  # three at a time it is 1.28 times
    assert same(read(data), x)


@given(st.integers(0, 99), st.integers(3, 17), st.integers(0, 60))
def test_rows_in_which_units_move_come_back(seed, columns, rows):
    x = transported(rows, columns, seed)
    assert same(read(Bytes(written(x))), x)


@pytest.mark.parametrize(
    ("columns", "moves", "reason"),
    [
        (1, [0], "rows of whole numbers have an unknown form"),
        (15, [0], "rows of whole numbers have an unknown form"),
        (2, [9], "a row moves to a column that does not exist"),
        (2, [255], "compressed bytes are damaged|incomplete|end"),
    ],
)
def test_moves_that_no_row_makes_are_refused(columns, moves, reason):
    data = bytes([whole_numbers.MOVES]) + sized(deflated(bytes(moves)))
    with pytest.raises(PeerError, match=reason):
        whole_numbers.read(Bytes(data), len(moves), columns)


def test_moves_within_moves_are_refused():
    one = bytes([whole_numbers.MOVES]) + sized(deflated(b"\xff"))
    with pytest.raises(PeerError, match="unknown form"):
        whole_numbers.read(Bytes(one * 3), 1, 2)


def test_rising_numbers_take_the_bits_of_their_differences():
    cells = np.flatnonzero(np.random.default_rng(1).random(102_400) < 0.027).astype(np.float64)
    assert len(written(cells)) / len(cells) * 8 < 7.0  # the entropy is H(0.027) / 0.027 = 6.64 bits


def test_a_number_of_a_grid_takes_few_bits():
    rng = np.random.default_rng(1)
    x = np.rint(rng.normal(0.0, 4.0, (55, 6))) / 16.0 + 0.0  # no negative zeros
    gradient = np.column_stack([x, 0.0 - x.sum(axis=1)])
    # The entropy of a rounded normal with deviation 4 is log2(4 sqrt(2 pi e)) = 4.05 bits: 167 bytes for 330.
    assert 167 <= len(written(gradient)) <= 167 + 50  # the code table, and exponents that chance made larger
    assert len(written(gradient + 1.0 / 3.0)) > 55 * 7 * 8


@given(st.binary(max_size=200))
def test_any_bytes_are_an_array_within_bounds_or_refused(data):
    try:
        x = read(Bytes(data))
    except PeerError:
        return
    assert x.size <= MOST_NUMBERS


@given(on_grids | small, st.booleans(), st.data())
def test_spoilt_bytes_are_an_array_or_refused(x, coded, data):
    whole = bytearray(written(x, coded=coded))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    try:
        read(Bytes(bytes(whole)))
    except PeerError:
        return


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x02\x02" + varint(2**20) + varint(2**20), "an array of 1099511627776 numbers"),
        (b"\x02\x09" + b"\x01" * 9, "more than 8 dimensions"),
        (b"\x02\x01\x00", "unknown form"),
        (b"\x82\x01\x01", "unknown form"),
        (b"\x42\x01\x01", "impossible form"),
        (b"\x0e\x02\x02\x02\x00\x00\x00", "impossible form"),
        (b"\x06\x02\x02\x03\x00\x00\x00", "impossible form"),
        (b"\x12\x01\x01" + bytes(6), "refers to another one that does not exist"),
        (b"\x02\x01\x01\x00\x05", "whole numbers of 5 bytes"),
        (b"\x02\x01\x01\x09", "whole numbers have an unknown form"),
        (b"\x22\x01\x01\x02" + sized(deflated(b"\xd8")), "a symbol stands for no whole numbers"),
        (b"\x03\x03\x01\x01\x01" + b"\x03\x03\x01\x01\x01" * 9, "a slice does not have the shape"),
        (b"\x05\x02\x01\x01" + b"\x05\x02\x01\x01" * 9, "the rows of an array are not valid"),
        (
            b"\x05\x02\x01\x01" + written(np.array([1.0])) + written(np.ones((1, 1))),
            "an array does not have these rows",
        ),
        (
            b"\x05\x02\x01\x01" + written(np.array([0.5])) + written(np.ones((1, 1))),
            "an array does not have these rows",
        ),
        (b"\x05\x02\x01\x01" + written(np.array([0.0])) + written(np.ones((1, 2))), "2 numbers; at most 1"),
        (b"\x05\x02\x01\x02" + written(np.array([0.0])) + written(np.ones((1, 1))), "rows do not have the shape"),
        (b"\x00\x01\x02" + bytes(15), "end before"),
        (b"\x02\x01\x01\x00\x01" + varint(3) + b"abc", "compressed bytes are"),
    ],
)
def test_impossible_arrays_are_refused_by_name(data, reason):
    with pytest.raises(PeerError, match=reason):
        read(Bytes(data))


def test_data_that_inflates_to_more_than_announced_is_refused_and_not_made():
    bomb = deflated(bytes(10**7))
    assert len(bomb) < 20_000
    with pytest.raises(PeerError, match="too many"):
        inflated(bomb, 1000)
