"""The compact form of messages: what it costs, and that no bytes make a reader use more than its bounds."""

import json

import numpy as np
import pytest

from streamfl import compact
from streamfl.core.errors import PeerError
from streamfl.core.protocol.messages import SlotLosses, Update
from streamfl.core.protocol.records import Span
from streamfl.wire_bytes import deflated, floats_written, varint

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
        spans=(Span("c7", 1100, 1200),), losses=losses, differences=differences,
    )  # fmt: skip


def packed(plain: object, floats: list[float], rest: bytes = b"") -> bytes:
    text = deflated(json.dumps(plain).encode(), dictionary=compact.DICTIONARY)
    return compact.MAGIC + varint(len(text)) + text + floats_written(floats) + rest


def test_an_update_of_five_models_of_54_features_and_7_labels_takes_about_a_kilobyte():
    size = len(compact.encode(update(), header={"type": "update"}))
    # 5 x 55 x 6 numbers of 2 to 4 bits; as floats of 64 bits they would be 15,400 bytes.
    assert 600 < size < 1200


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"sfl\x02", "a later version"),
        (packed({"a": 0.0}, []), "fewer floats"),
        (packed({"a": 0.0}, [1.0, 2.0]), "not those of its text"),
        (packed([1], []), "not those of its text"),
        (packed({"a": 1}, [], b"\x09\x09\x09"), "end before|unknown form|dimensions"),
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
    bomb = packed({"a": "x" * (compact.MOST + 1)}, [])
    assert len(bomb) < 20_000
    with pytest.raises(PeerError, match="too many"):
        compact.unpack(bomb)


def test_fields_with_their_default_take_no_bytes_and_come_back():
    plain, arrays = compact.unpack(compact.encode(update()))
    assert plain["losses"]["step 4"] == {"loss": 12.5, "square": float(np.float32(0.1)), "proper": 3.25}
    assert not {"moments", "second_moments", "served", "learnt", "new_labels"} & plain.keys()
    assert len(arrays) == len(SLOTS)
