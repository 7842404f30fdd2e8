"""Dead letters: whole as long as they are not large, within bounds whatever the message was."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl.runtime.log.dead_letters import HEAD, WHOLE, DeadLetter


def letter(key=b"c0", value=b"v", reason="why"):
    return DeadLetter.of("f.updates", 3, 17, reason, key, value)


def test_a_small_dead_letter_is_the_message_with_its_place_and_reason():
    told = letter()
    assert (told.key, told.value) == (b"c0", b"v")
    assert told.headers == (("topic", b"f.updates"), ("partition", b"3"), ("offset", b"17"), ("reason", b"why"))


@pytest.mark.parametrize(("size", "kept"), [(WHOLE, WHOLE), (WHOLE + 1, HEAD), (1_048_400, HEAD)])
def test_a_dead_letter_keeps_a_value_whole_up_to_a_bound_else_its_head_size_and_digest(size, kept):
    value = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    told = letter(value=value)
    assert told.value == value[:kept]
    of_value = {name: item for name, item in told.headers if name in ("size", "sha256")}
    digest = hashlib.sha256(value).hexdigest().encode()
    assert of_value == ({} if kept == size else {"size": str(size).encode(), "sha256": digest})


def test_a_dead_letter_keeps_the_head_size_and_digest_of_a_key_that_is_too_long():
    told = letter(key=b"\xff" * 1000)
    assert told.key == b"\xff" * 256
    assert dict(told.headers)["key-size"] == b"1000"
    assert dict(told.headers)["key-sha256"] == hashlib.sha256(b"\xff" * 1000).hexdigest().encode()


@given(
    st.none() | st.binary(max_size=3000),
    st.none() | st.integers(0, 10**6).map(lambda n: b"x" * n),
    st.text(st.characters(exclude_categories=()))
    | st.integers(0, 10**6).map(lambda n: "\u00e9" * n)
    | st.just("\ud800" * 600),
)
def test_a_dead_letter_is_within_its_bound_whatever_the_message_is(key, value, reason):
    told = letter(key, value, reason)
    assert told.size <= WHOLE + 256 + 500 * 10 + 500
    assert all(isinstance(item, bytes) for _, item in told.headers)
