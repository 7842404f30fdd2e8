"""Dead letters: whole as long as they are not large, within bounds whatever the message was."""

import hashlib
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import TopicPartition

from streamfl.formats import Packed
from streamfl.ports import ReadingCounts
from streamfl_connectors.kafka import dead_letters
from streamfl_connectors.kafka.dead_letters import HEAD, WHOLE, DeadLetter
from streamfl_connectors.kafka.records import RecordConsumer


def letter(key=b"c0", value=b"v", reason="why"):
    return DeadLetter.of("f.updates", 3, 17, reason, key, value)


def test_a_small_one_is_what_it_was_with_its_place_and_reason():
    told = letter()
    assert (told.key, told.value) == (b"c0", b"v")
    assert told.headers == (("topic", b"f.updates"), ("partition", b"3"), ("offset", b"17"), ("reason", b"why"))


@pytest.mark.parametrize(("size", "kept"), [(WHOLE, WHOLE), (WHOLE + 1, HEAD), (1_048_400, HEAD)])
def test_a_value_is_kept_whole_up_to_a_bound_else_its_head_size_and_digest(size, kept):
    value = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    told = letter(value=value)
    assert told.value == value[:kept]
    of_value = {name: item for name, item in told.headers if name in ("size", "sha256")}
    digest = hashlib.sha256(value).hexdigest().encode()
    assert of_value == ({} if kept == size else {"size": str(size).encode(), "sha256": digest})


def test_a_key_that_is_too_long_is_cut_and_told_alike():
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
def test_whatever_the_message_is_the_letter_is_within_its_bound(key, value, reason):
    told = letter(key, value, reason)
    assert told.size <= WHOLE + 256 + 500 * 10 + 500
    assert all(isinstance(item, bytes) for _, item in told.headers)


def test_a_packed_message_is_one_letter_however_many_of_its_records_are_bad(monkeypatch):
    form, written = Packed("classification"), []
    value = form.encode(("x",), np.full((1000, 1), np.inf), np.zeros(1000), ("a",))
    monkeypatch.setattr(
        dead_letters,
        "write",
        lambda _producer, _topic, told: written.append(told) or SimpleNamespace(add_errback=lambda _handler: None),
    )
    host = RecordConsumer.__new__(RecordConsumer)  # without a broker
    host._format, host._letters, host._counts = form, None, ReadingCounts()
    host._topics = SimpleNamespace(dead_letters="f.dead-letter")
    bad = form.decode([17], [value]).rejected
    assert len(bad) == 1000
    host._bury(TopicPartition("f.records.c0", 3), bad, {17: SimpleNamespace(offset=17, key=None, value=value)})
    (one,) = written
    assert (one.value, host._counts.dead_letters) == (value, 1)
    assert dict(one.headers)["reason"] == b'feature "x" is infinite, and 999 more of its records cannot be used'
