"""Inputs that are nearly right: a kept one with some bytes, words, numbers or parts replaced."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np
from worlds.spoilt import spoilt

from streamfl.errors import PeerError
from streamfl.wire import codec, compact, messages, safe_file, state_bytes
from streamfl.wire.primitives import deflated, floats_written, sized, whole_written

# Whole numbers as safetensors and varints have them, and what JSON and CSV may hold.
BORDERS = (b"\x00", b"\xff", b"\x7f", b"\x80", b"\xff" * 8, b"\xff" * 9 + b"\x01", b"\xff\xff\xff\x7f", b"\x00" * 8)
WORDS = (
    b"null", b"true", b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1", b"0", b"1e308", b"1e-320", b"0.1", b"inf",
    b"9" * 400, b"9" * 5000, b"18446744073709551616", b"[]", b"{}", b"[[[[", b"]" * 9, b"[" * 3000, b'{"a":' * 2000,
    b'""', b'"\\ud800"', b'"\\u0000"', b'"' + b"x" * 300 + b'"', b"\xef\xbb\xbf", b"\xff", b"\xc3\x28", b"\r", b"\n",
    b'"', b",", b";", b"\x00", b"__proto__", b'"$array"', b'{"$array":"0"}', b'{"$array":null}', b"1_000", b" ",
    b"1.0", b'"a"', "é".encode(), "\u0661".encode(), b"2026-11-25T00:00:00Z", b"1e11", b"-0.0",
    b"'", b"\\", b"=", b"#",
)  # fmt: skip


def mutated(seeds: Sequence[bytes], rng: random.Random, *, is_text: bool) -> bytes:
    """Return a kept input with one to four mutations."""
    data = rng.choice(seeds)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 4))):
        how = rng.choice(TEXT if is_text else BINARY)
        data = how(data, seeds, rng)
    return data


Mutation = Callable[[bytes, Sequence[bytes], random.Random], bytes]


def _flipped(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8)) if changed else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _put(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    at, word = rng.randrange(len(data) + 1), rng.choice(BORDERS)
    return data[:at] + word + data[at + rng.choice((0, len(word))) :]


def _cut(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    a, b = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    return rng.choice((data[:a], data[a:], data[:a] + data[b:], data[:a] + data[a : a + 1] + data[a + 2 :]))


def _repeated(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    a, b = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    return data[:b] + data[a:b][:4096] * rng.choice((1, 2, 20)) + data[b:]


def _spliced(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    other = rng.choice(seeds)
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def _word(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    """Replace what stands between two marks of punctuation, or put a word there."""
    marks = [i for i, byte in enumerate(data) if byte in b',:{}[]"\n=;'] or [0]
    i = rng.randrange(len(marks))
    a = marks[i] + rng.choice((0, 1))
    b = marks[min(i + rng.choice((0, 1)), len(marks) - 1)]
    return data[:a] + rng.choice(WORDS) + data[max(a, b) :]


def _inside(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    """Take the form apart, replace one thing in the value, and write it again, so that the digest of a file fits."""
    read = _unpacked(data)
    if read is None:
        return rng.choice((_flipped, _put, _cut))(data, seeds, rng)
    plain, arrays, write = read
    plain, arrays = spoilt(plain, arrays, rng)
    with suppress(TypeError, ValueError, OverflowError, RecursionError, UnicodeEncodeError):
        return write(plain, arrays)
    return data


TEXT: tuple[Mutation, ...] = (_word, _word, _word, _word, _flipped, _cut, _repeated, _spliced, _put)
BINARY: tuple[Mutation, ...] = (
    _inside,
    _inside,
    _inside,
    _inside,
    _flipped,
    _flipped,
    _put,
    _cut,
    _repeated,
    _spliced,
)

Write = Callable[[Any, Mapping[str, np.ndarray]], bytes]


@lru_cache(maxsize=512)
def _unpacked(data: bytes) -> tuple[Any, Mapping[str, np.ndarray], Write] | None:
    """Return the plain data and the arrays of an input in one of our forms, and what writes them in this form."""
    try:
        if data.startswith(compact.MAGIC[:3]):
            return (*compact.unpack(data), _compact)
        if data.startswith(state_bytes.MAGIC[:3]):
            plain, arrays = codec.split(state_bytes.decode(data))
            return plain, arrays, _state
        plain, arrays = messages.unpack(data)
    except PeerError:
        return None
    return plain, arrays, _saved if safe_file.DIGEST in plain else codec.pack


def compact_again(read: tuple[Any, Mapping[str, np.ndarray]]) -> bytes:
    """Return unpacked plain data and arrays as bytes of the compact form."""
    return _compact(*read)


def _compact(plain: Any, arrays: Mapping[str, np.ndarray]) -> bytes:
    apart = compact._Apart()
    text = json.dumps(compact._plain(_filled(plain, arrays), "", apart), separators=(",", ":")).encode()
    parts = compact.arrays_written(apart.arrays)
    packed = sized(deflated(text, dictionary=compact.DICTIONARY))
    return b"".join((compact.MAGIC, packed, floats_written(apart.floats), whole_written(apart.whole), *parts))


def _state(plain: Any, arrays: Mapping[str, np.ndarray]) -> bytes:
    text = json.dumps(plain, separators=(",", ":")).encode()
    return b"".join((state_bytes.MAGIC, sized(deflated(text)), *compact.arrays_written(list(arrays.values()))))


def _saved(plain: Any, arrays: Mapping[str, np.ndarray]) -> bytes:
    rest = {key: item for key, item in plain.items() if key != safe_file.DIGEST}
    return codec.pack({safe_file.DIGEST: safe_file.digest(rest, arrays), **rest}, arrays)


def _filled(plain: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    match plain:
        case {"$array": str() as name} if name in arrays:
            return arrays[name]
        case dict():
            return {key: _filled(item, arrays) for key, item in plain.items()}
        case list():
            return [_filled(item, arrays) for item in plain]
    return plain
