"""The compact form of messages: what it costs, and that no bytes make a reader use more than its bounds."""

import json
import zlib

import numpy as np
import pytest

from streamfl.errors import PeerError
from streamfl.protocol.messages import HeldRecord, LabelSums, Numbers, Served, SlotLosses, Update
from streamfl.protocol.records import Span
from streamfl.wire import compact, messages
from streamfl.wire import integers as whole_numbers
from streamfl.wire.primitives import Bytes, deflated, floats_written, inflated, varint, whole_written
from streamfl_benchmarks.liars.fields import altered

SLOTS = ("step 16", "step 4", "step 1", "step 4 with momentum", "shadow")


def update(rows: int = 55, columns: int = 7) -> Update:
    rng = np.random.default_rng(1)
    base = np.rint(rng.normal(0.0, 4.0, (rows, columns - 1))) / 2.0 + 0.0  # no negative zeros
    differences = {}
    for slot in SLOTS:
        x = base + np.rint(rng.normal(0.0, 0.8, base.shape)) / 2.0 + 0.0
        differences[slot] = np.column_stack([x, 0.0 - x.sum(axis=1)])
    losses = {slot: SlotLosses(loss=12.5, square=float(np.float32(0.1)), proper=3.25) for slot in SLOTS}
    return Update(
        client="c7", attempt="0-12", entry=12, round=12, epoch=1, registry=3, records=100, trained=94, rejected=0,
        spans=(Span("c7", 1100, 1200),), numbers=Numbers(losses=losses, differences=differences),
    )  # fmt: skip


def packed(plain: object, floats: list[float], rest: bytes = b"", whole: tuple[int, ...] = ()) -> bytes:
    text = deflated(json.dumps(plain).encode(), dictionary=compact.DICTIONARY)
    return compact.MAGIC + varint(len(text)) + text + floats_written(floats) + whole_written(whole) + rest


def test_an_update_of_five_models_of_54_features_and_7_labels_takes_about_a_kilobyte():
    size = len(compact.encode(update(), header={"type": "update"}))
    # 5 x 55 x 6 numbers of 2 to 4 bits; as floats of 64 bits they would be 15,400 bytes.
    assert 600 < size < 1200


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"sfl\x06", "a later version"),
        (b"sfl\x02", "a later version"),
        (packed({"a": 0.0}, []), "fewer numbers"),
        (packed({"a": 0.0}, [1.0, 2.0]), "more numbers"),
        (packed({"a": 0, "b": 0}, [], whole=(1,)), "fewer numbers"),
        (packed({"a": 0}, [], whole=(1, 2)), "more numbers"),
        (packed({"a": 0}, [], whole=(2**140,)), "140 bits"),
        (packed([1], []), "not an object"),
        (packed({"a": 0}, [], b"\x09\x09\x09", whole=(1,)), "end before|unknown form|dimensions"),
        (compact.MAGIC + b"\x00", "compressed bytes are"),
        (packed({}, [])[:-1] + b"\x7f", "fewer whole numbers"),
        (packed({}, [])[:-5] + b"\x08\x00\x00\x02\x03\x00\x00", "fewer floats"),
        (compact.MAGIC + varint(10**6), "end before"),
        (compact.MAGIC + b"\xff" * 12, "63 bits"),
        (packed({"a": float("nan")}, []), "NaN in its text"),
        (packed({"a": "\ud800"}, []), "surrogates"),
    ],
)
def test_bytes_that_are_not_of_this_form_are_refused_by_name(data: bytes, reason: str):
    with pytest.raises(PeerError, match=reason):
        compact.unpack(data)


def test_a_text_that_inflates_beyond_its_bound_is_refused_before_it_is_read():
    bomb = packed({"a": "x" * (compact.MOST_TEXT + 1)}, [])
    assert len(bomb) < 20_000
    with pytest.raises(PeerError, match="too many"):
        compact.unpack(bomb)


def test_whole_numbers_are_told_by_their_difference_from_the_last_of_the_same_name():
    plain = {"start": 0, "end": 0, "held": [{"end": 0, "let_go": [0, 0]}], "is": True}
    filled, _ = compact.unpack(packed(plain, [], whole=(1100, 1200, -100, 7, -2)))
    assert filled == {"start": 1100, "end": 1200, "held": [{"end": 1100, "let_go": [7, 5]}], "is": True}


def test_a_name_like_that_of_an_array_is_no_array():
    shares = {"$array": 3.0}
    told = altered(update(), served=Served(records=3, shares=shares))
    assert messages.decode(messages.encode(told)).numbers.served.shares == shares


def test_what_an_update_of_auto_tells_beside_its_arrays_takes_few_bytes():
    """Aside from the floats, which nothing makes shorter, a typical one is text of a few bytes."""
    sums = tuple(LabelSums(label=str(k), count=20 + k, loss=1.5 + k, square=0.5) for k in range(5))
    held = tuple(HeldRecord(round=12, ordinal=1100 + 7 * k, partition="c7", position=1100 + 7 * k) for k in range(6))
    told = altered(update(), differences={}, new=sums, old=sums, held=held, let_go=(17, 31, 400))
    # 5 x 3 and 10 x 2 floats of 3 to 4 bytes are 105 to 140; all else is names and 42 small whole numbers.
    assert len(messages.encode(told)) < 140 + 42 + 20 + 60


def test_fields_with_their_default_take_no_bytes_and_come_back():
    plain, arrays = compact.unpack(compact.encode(update()))
    assert plain["numbers"]["losses"]["step 4"] == {"loss": 12.5, "square": float(np.float32(0.1)), "proper": 3.25}
    assert plain["numbers"].keys() == {"losses", "differences"}
    assert not {"kept", "mark", "period", "sums", "new_labels"} & plain.keys()
    assert len(arrays) == len(SLOTS)


@pytest.mark.parametrize("strategy", [zlib.Z_DEFAULT_STRATEGY, zlib.Z_HUFFMAN_ONLY])
def test_deflated_bytes_that_were_cut_off_are_refused(strategy):
    data = deflated(bytes(range(200)), strategy)
    assert inflated(data, 200) == bytes(range(200))
    for end in range(len(data)):
        with pytest.raises(PeerError, match="incomplete"):
            inflated(data[:end], 200)


def test_arrays_of_a_few_bytes_cannot_take_much_memory_together(monkeypatch):
    monkeypatch.setattr(compact, "MOST_NUMBERS", 3 * 2**15)
    zeros = np.zeros((2**14, 2))
    packed = compact.deflated(b"{}", dictionary=compact.DICTIONARY)
    head = compact.MAGIC + compact.sized(packed) + floats_written([]) + whole_written([])
    data = b"".join((head, *compact.arrays_written([zeros] * 3)))
    assert len(compact.unpack(data)[1]) == 3
    with pytest.raises(PeerError, match="an array of 32768 numbers; at most 0"):
        compact.unpack(data + b"".join(compact.arrays_written([zeros])))


def read_back(m: np.ndarray) -> list[list[int]]:
    data = Bytes(whole_numbers.written(m))
    numbers = whole_numbers.read(data, *m.shape).tolist()
    assert not data.left
    return numbers


def test_that_a_large_table_is_read_back_whichever_forms_are_left_out() -> None:
    rng = np.random.default_rng(0)
    moves = np.zeros((3000, 6), np.int64)
    rows = np.flatnonzero(rng.random(3000) < 0.5)
    moves[rows, rng.integers(3, size=len(rows))] += 1
    moves[rows, 3 + rng.integers(3, size=len(rows))] -= 1
    some_are_none = moves.copy()
    some_are_none[::6] = rng.integers(-9, 9, (500, 6))
    for m in (
        moves,
        some_are_none,
        np.abs(moves),
        rng.integers(-3000, 3000, (3000, 6)),
        np.zeros((3000, 6), np.int64),
    ):
        assert read_back(m) == m.tolist()


def test_that_a_large_table_of_zeros_takes_two_bytes_and_one_of_moves_a_few() -> None:
    assert len(whole_numbers.written(np.zeros((3000, 6), np.int64))) == 2
    moves = np.zeros((3000, 6), np.int64)
    moves[::2, 0], moves[::2, 1] = 1, -1
    assert len(whole_numbers.written(moves)) < 60  # 18,000 numbers
