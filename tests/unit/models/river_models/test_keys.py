"""Features and labels of any kind survive as text; what only a pickle could hold does not."""

import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl.errors import PeerError, UsageError
from streamfl.protocol.external.keys import key_of, keys_of, text_of

FLAT = st.text() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | st.none()
KEYS = st.recursive(FLAT, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=4)


@given(KEYS)
def test_a_key_is_again_what_it_was(key):
    again = key_of(text_of(key))
    assert again == key
    assert hash(again) == hash(key)
    assert isinstance(again, bool) == isinstance(key, bool)


@given(KEYS, KEYS)
def test_different_keys_have_different_texts(one, other):
    assert one == other or text_of(one) != text_of(other)


@pytest.mark.parametrize(
    ("key", "text"), [(np.str_("x"), "x"), (np.int64(3), "#3"), (np.float64(0.5), "#0.5"), (np.bool_(True), "#true")]
)
def test_values_of_numpy_are_written_as_pythons(key, text):
    assert text_of(key) == text


@pytest.mark.parametrize("key", [datetime.date(2024, 1, 1), frozenset("a"), b"x", ("x", b"y"), float("nan")])
def test_other_keys_are_the_callers_fault(key):
    with pytest.raises(UsageError, match="cannot name a feature or a label: only text, numbers and tuples can"):
        text_of(key)


@pytest.mark.parametrize(
    "text", ["#", "#x", "#{}", '#{"a":1}', '#"x"', "#1.0", "# 1", "#[1, 2]", "#NaN", "#" + "[" * 9999]
)
def test_texts_that_are_not_those_of_a_key_are_refused(text):
    with pytest.raises(PeerError, match="is not the text of a key"):
        key_of(text)


def test_keys_that_are_equal_in_a_dict_are_refused_together():
    assert keys_of(["#1", "1", "#2"]) == [1, "1", 2]
    with pytest.raises(PeerError, match="False and 0 are the same key of a dict"):
        keys_of(["#0", "#false"])
