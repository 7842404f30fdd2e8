"""The bytes of a coordinator state: the same state comes back, or a reason."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl.errors import PeerError
from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.native.kept_back import KeptBack
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.settings import NativeSettings
from streamfl.wire import codec, state_bytes
from streamfl.wire.compact import arrays_written
from streamfl.wire.primitives import deflated, sized


def learnt() -> CoordinatorState:
    """Return a state with a table of which few rows have been visited."""
    agreed = NativeState.none(NativeSettings("ferns")).grown(("x",), ("a", "b"))
    table = agreed.table.copy()
    table[::1000, 0] = [0.125, -0.125]
    kept = KeptBack(np.zeros(agreed.weights.shape), table / 16)
    return CoordinatorState(Promotion(), refused=3, online=replace(agreed, table=table, kept_back=kept, seen=9))


def test_a_state_comes_back_to_the_bit_in_few_bytes():
    state = learnt()
    data, before = state_bytes.encode(state), codec.encode(state)
    assert codec.encode(state_bytes.decode(data)) == before
    assert state_bytes.encode(state_bytes.decode(data)) == data
    assert len(data) < 20_000
    assert len(before) > 4_000_000


def test_a_table_is_held_in_the_32_bits_that_its_values_fit_after_a_start_as_well():
    state = state_bytes.decode(state_bytes.encode(learnt()))
    assert (state.online.table.dtype, np.array_equal(state.online.table, learnt().online.table)) == (np.float32, True)


def test_a_state_of_version_0_1_0_is_refused_with_the_way_through_0_2_0():
    plain, arrays = codec.split(CoordinatorState(Promotion(), members={"c0": Member()}))
    plain["members"]["c0"]["incarnation"] = "7f3a"  # a text, as 0.1.0 counted starts
    of_0_1_0 = state_bytes.MAGIC + sized(deflated(json.dumps(plain).encode()))
    for data in (codec.encode(learnt()), b"".join((of_0_1_0, *arrays_written(list(arrays.values()))))):
        with pytest.raises(PeerError, match=r"if streamfl 0\.1\.0 saved it, let the coordinator of streamfl 0\.2\.0"):
            state_bytes.decode(data)


def test_a_state_of_a_later_form_is_refused_by_name():
    data = state_bytes.encode(learnt())
    with pytest.raises(PeerError, match="a later version"):
        state_bytes.decode(b"sfs\x02" + data[4:])


@given(st.integers(0, 5000), st.binary(max_size=20))
def test_any_other_bytes_are_refused(end, more):
    data = state_bytes.encode(CoordinatorState(Promotion(), refused=3))
    spoilt = data[: end % len(data)] + more
    try:
        state = state_bytes.decode(spoilt)
    except PeerError:
        return
    assert isinstance(state, CoordinatorState)


def of_text(text: bytes, *arrays: np.ndarray) -> bytes:
    return b"".join((state_bytes.MAGIC, sized(deflated(text)), *arrays_written(arrays)))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"[]", "not an object"),
        (b"{", "not a coordinator state"),
        (b"[" * 100_000, "not a coordinator state"),
        (json.dumps({"profile": 3}).encode(), "profile"),
    ],
)
def test_a_text_that_is_no_state_is_refused(text, why):
    with pytest.raises(PeerError, match=why):
        state_bytes.decode(of_text(text))


def test_a_few_bytes_cannot_take_much_memory(monkeypatch):
    with pytest.raises(PeerError, match="the compressed bytes are too many"):
        state_bytes.decode(of_text(b" " * (state_bytes.MOST_TEXT + 1)))
    monkeypatch.setattr(state_bytes, "MOST_NUMBERS", 3 * 2**15)
    zeros = np.zeros((2**14, 2))
    assert len(of_text(b"{}", zeros, zeros, zeros, zeros)) < 200
    with pytest.raises(PeerError, match="not a CoordinatorState"):
        state_bytes.decode(of_text(b"{}", zeros, zeros, zeros))
    with pytest.raises(PeerError, match="an array of 32768 numbers; at most 0"):
        state_bytes.decode(of_text(b"{}", zeros, zeros, zeros, zeros))
