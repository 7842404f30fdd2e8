"""What must hold of every decoder, whatever the input: a value or the declared error, in bounded memory and work."""

import random
import sys
import tracemalloc
from dataclasses import dataclass
from typing import Any

from fuzz.decoders import Decoder
from fuzz.mutations import mutated

# The most calls of functions, of Python and of C, that reading takes: fixed ones, and so many for each byte.
MOST_CALLS = 50_000, 60

# The most characters of a reason.
LONGEST = 5000

REFUSED = object()

# Work is counted of one input in so many: it takes longer than to read.
COUNTED = 16


class BrokenLawError(AssertionError):
    """A decoder broke the law; the message says how."""


@dataclass
class Tally:
    """What came of many inputs."""

    inputs: int = 0
    accepted: int = 0
    largest: int = 0  # bytes of memory beyond the input
    calls: int = 0

    def add(self, other: "Tally") -> None:
        """Add another one."""
        self.inputs += other.inputs
        self.accepted += other.accepted
        self.largest, self.calls = max(self.largest, other.largest), max(self.calls, other.calls)


def inputs_of(decoder: Decoder, seed: int, start: int, end: int) -> list[bytes]:
    """Return the inputs of these numbers: the same for the same seed, whatever was made before."""
    corpus = decoder.corpus()
    rng = random.Random(f"{seed} {decoder.name} {start}")
    return [mutated(corpus, rng, is_text=decoder.is_text) for _ in range(start, end)]


def tried(decoder: Decoder, data: bytes, tally: Tally, *, count: bool = False) -> None:
    """Read an input, and check the law.

    Raises
    ------
    BrokenLawError
        It does not hold.
    """
    tally.inputs += 1
    if count:
        _count_calls(decoder, data, tally)
    value, taken = _measured(decoder, data)
    tally.accepted += value is not REFUSED
    fixed, each = decoder.most_memory
    most = fixed + each * len(data)
    if taken > most:
        taken = min(taken, _measured(decoder, data)[1])  # what it loads or keeps at first is no input's work
    tally.largest = max(tally.largest, taken)
    if taken > most:
        raise BrokenLawError(f"{taken} bytes of memory for an input of {len(data)}")
    if value is not REFUSED and decoder.again is not None:
        _same_again(decoder, value)


def _measured(decoder: Decoder, data: bytes) -> tuple[Any, int]:
    """Return the value of an input, or REFUSED, and the bytes of memory that reading it took."""
    tracemalloc.clear_traces()
    try:
        value = decoder.read(data)
    except decoder.errors as error:
        if len(str(error)) > LONGEST:
            raise BrokenLawError(f"a reason of {len(str(error))} characters") from error
        value = REFUSED
    except BaseException as error:
        raise BrokenLawError(f"{type(error).__name__}: {str(error)[:300]}") from error
    return value, tracemalloc.get_traced_memory()[1]


def _same_again(decoder: Decoder, value: Any) -> None:
    """Write a value, read it, and write it again."""
    if decoder.again is None:
        return
    try:
        data = decoder.again(value)
        again = decoder.again(decoder.read(data))
    except Exception as error:
        raise BrokenLawError(f"written again: {type(error).__name__}: {str(error)[:300]}") from error
    if again != data:
        raise BrokenLawError("what was written is not what is read")


def _count_calls(decoder: Decoder, data: bytes, tally: Tally) -> None:
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        decoder.read(data)
    except Exception:
        pass
    finally:
        sys.setprofile(None)
    tally.calls = max(tally.calls, calls)
    fixed, each = MOST_CALLS
    if calls > fixed + each * len(data):
        raise BrokenLawError(f"{calls} calls for an input of {len(data)}")
