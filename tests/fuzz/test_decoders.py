"""Every decoder on its kept inputs, and on some thousand that are nearly right; `python -m tests.fuzz` tries more."""

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fuzz.decoders import CORPUS, DECODERS, Decoder
from fuzz.law import BrokenLawError, Tally, inputs_of, tried
from streamfl.errors import PeerError
from streamfl.wire import messages

EACH = 60

# A saved model is asked for predictions, by compiled loops.
NEEDS = {"model": pytest.mark.compiles, "parquet": pytest.mark.process}  # Parquet is read in a process of its own
NAMES = [pytest.param(name, marks=NEEDS.get(name, ())) for name in DECODERS]


@contextmanager
def traced(decoder: Decoder) -> Iterator[Tally]:
    """Count memory, once whatever the first input needs is loaded and compiled."""
    for data in decoder.corpus():
        with suppress(*decoder.errors):
            decoder.read(data)
    tracemalloc.start()
    try:
        yield Tally()
    finally:
        tracemalloc.stop()


def test_every_decoder_has_kept_inputs_and_every_folder_a_decoder():
    assert {path.name for path in CORPUS.iterdir()} == set(DECODERS)
    assert all(decoder.corpus() for decoder in DECODERS.values())


def test_messages_of_every_type_are_kept():
    kept = set()
    for data in DECODERS["message"].corpus():
        try:
            kept.add(messages.TYPES[type(messages.decode(data))])
        except PeerError:
            continue
    assert kept == set(messages.KINDS)


@pytest.mark.parametrize("name", NAMES)
def test_kept_inputs_are_read_or_refused(name):
    decoder = DECODERS[name]
    with traced(decoder) as tally:
        for data in decoder.corpus():
            tried(decoder, data, tally, count=True)
    assert tally.accepted > 0


@pytest.mark.parametrize("name", NAMES)
def test_inputs_that_are_nearly_right_are_read_or_refused(name):
    decoder = DECODERS[name]
    with traced(decoder) as tally:
        for i, data in enumerate(inputs_of(decoder, 1, 0, max(5, int(EACH * decoder.share)))):
            tried(decoder, data, tally, count=i % 10 == 0)


@pytest.mark.process
@given(st.sampled_from(sorted(DECODERS)), st.binary(max_size=200))
@example("message", b"{" * 5000)
@example("message", b'{"type":' + b"[" * 100_000)
@example("settings", b"a = " + b"[" * 2000)
def test_any_bytes_are_read_or_refused(name, data):
    with traced(DECODERS["floats"]) as tally:
        tried(DECODERS[name], data, tally)


# --- the law finds what breaks it -------------------------------------------------------------------------------


def hungry(data: bytes) -> np.ndarray:
    return np.zeros(10**6)


def busy(data: bytes) -> int:
    return sum(len(str(i)) for i in range(10**5))


@pytest.mark.parametrize(
    ("read", "why"),
    [
        (lambda data: 1 // 0, "ZeroDivisionError"),
        (hungry, "bytes of memory"),
        (busy, "calls"),
        (lambda data: (_ for _ in ()).throw(PeerError("x" * 10_000)), "characters"),
    ],
)
def test_a_decoder_that_breaks_the_law_is_found(read, why):
    with traced(DECODERS["floats"]) as tally, pytest.raises(BrokenLawError, match=why):
        tried(Decoder("bad", read, (PeerError,)), b"x", tally, count=True)


def test_a_value_that_is_written_differently_is_found():
    decoder = Decoder("bad", lambda data: data, again=lambda value: value + b"x")
    with traced(DECODERS["floats"]) as tally, pytest.raises(BrokenLawError, match="not what is read"):
        tried(decoder, b"x", tally)


def test_the_same_seed_gives_the_same_inputs():
    decoder = DECODERS["compact"]
    assert inputs_of(decoder, 7, 3000, 3010) == inputs_of(decoder, 7, 3000, 3010)
    assert inputs_of(decoder, 7, 3000, 3010) != inputs_of(decoder, 8, 3000, 3010)
