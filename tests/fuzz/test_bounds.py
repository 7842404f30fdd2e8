"""What few bytes of any writer may take: bounds that decoders keep while they read, and inputs that broke them."""

import io
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fuzz.decoders import CORPUS, DECODERS
from fuzz.mutations import _saved, _unpacked
from streamfl.errors import PeerError, UsageError
from streamfl.protocol.messages import RegistryPublished, RoundClosed
from streamfl.protocol.registry import Registry
from streamfl.records.files.csv_file import csv_stream
from streamfl.records.files.lines import LONGEST
from streamfl.records.request import Request
from streamfl.runtime.log.updates import understood
from streamfl.wire import codec, messages
from streamfl.wire.compact import DICTIONARY, MAGIC
from streamfl.wire.primitives import deflated, sized

MB = 2**20


def peak(do: Callable[[], Any]) -> int:
    """Return the most bytes of memory that something takes."""
    tracemalloc.start()
    try:
        do()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def refused(data: bytes) -> str:
    with pytest.raises(PeerError) as caught:
        messages.decode(data)
    return str(caught.value)


MANY = b'{"type":"update","x":[' + b"[]," * (2**22) + b"[]]}"


def test_json_of_millions_of_values_is_refused_before_they_are_objects():
    assert "more than 1048576 values" in refused(MANY)
    assert peak(lambda: understood(MANY, "c0")) < 6 * len(MANY)  # as objects, they would take 300 MB


def test_millions_of_values_in_a_compact_message_of_kilobytes_are_refused_before_they_are_objects():
    packed = MAGIC + sized(deflated(MANY, dictionary=DICTIONARY)) + b"\0\0\0"
    assert len(packed) < len(MANY) / 100
    assert "more than 1048576 values" in refused(packed)
    assert peak(lambda: understood(packed, "c0")) < 50 * MB


def test_json_of_more_text_than_any_message_has_is_refused():
    assert "characters of JSON" in refused(b'{"type":"leave","client":"' + b"x" * 2**24 + b'"}')
    head = json.dumps({"__metadata__": {"value": "x" * 2**24}}).encode()
    assert "characters of JSON" in refused(len(head).to_bytes(8, "little") + head)


@pytest.mark.parametrize("character", [",", "[", "{", '"', "\\", "é", "\x00"])
def test_names_of_any_characters_count_as_one_value_each(character):
    features = tuple(f"{i}" + character * (250 // len(character.encode())) for i in range(4096))
    registry = Registry(1, features, ("a",), np.zeros(4096), np.ones(4096))
    read = messages.decode(messages.encode(RegistryPublished(registry=registry)))
    assert isinstance(read, RegistryPublished)
    assert read.registry.features == features


def test_texts_that_never_end_are_looked_at_once():
    codec.require_few_values('{"a' + '\\"' * 2**21)
    with pytest.raises(ValueError, match="values"):
        codec.require_few_values("[" * (2**20 + 1) + '"' + '\\"' * 2**19)


def test_an_entry_of_very_many_clients_is_read():
    accepted = [
        {"client": f"c{i}", "attempt": "1-1", "spans": [{"partition": f"p/{i}", "start": 0, "end": 9}],
         "records": 9, "rejected": 0}
        for i in range(20_000)
    ]  # fmt: skip
    entry = {"type": "round-closed", "entry": 1, "round": 1, "epoch": 1, "block": 1, "accepted": accepted,
             "records": 9, "trained": 9, "rejected": 0, "losses": {}, "serves": "m", "readings": {}, "served": {},
             "model": "", "registry": 1}  # fmt: skip
    read = messages.decode(json.dumps(entry).encode())
    assert isinstance(read, RoundClosed)
    assert len(read.accepted) == 20_000


# --- CSV ---------------------------------------------------------------------------------------------------------


class Lines(io.RawIOBase):
    """A file whose second line has 80 MB, without holding it."""

    def __init__(self, piece: bytes) -> None:
        self.left, self.piece = 80, piece
        self.head: list[bytes] = [b"x,y\n1,a\n"]
        self.tail: list[bytes] = [b"\n2,b\n"]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        parts = self.head or ([self.piece] if self.left else self.tail)
        if not parts:
            return 0
        data = parts[0][: len(buffer)]
        buffer[: len(data)] = data
        if parts is self.head or parts is self.tail:
            parts[0] = parts[0][len(data) :]
            if not parts[0]:
                parts.pop()
        else:
            self.left -= 1
        return len(data)


def read_csv(piece: bytes) -> Any:
    return csv_stream(Request("a.csv"), "a.csv", io.BufferedReader(Lines(piece), MB)).table()


def test_a_line_of_a_csv_file_is_not_held_beyond_its_bound():
    tables = []
    assert peak(lambda: tables.append(read_csv(b"7" * MB))) < 30 * MB
    (table,) = tables
    assert [bad.reason for bad in table.rejected] == [f"line 3: a line of {LONGEST} bytes or more"]
    assert table.X.ravel().tolist() == [1.0, 2.0]


def test_a_quote_does_not_make_one_record_of_a_whole_csv_file():
    def read() -> None:
        with pytest.raises(UsageError, match="line 3"):
            read_csv(b'"a\n' + (b'b","' + 2000 * b"c" + b"\n") * (MB // 2010))

    assert peak(read) < 75 * MB  # of 80; at most 32 are held, as texts


def test_a_header_whose_quote_never_closes_is_told():
    with pytest.raises(UsageError, match="line 1: a quote opens here and never closes"):
        csv_stream(Request("a.csv"), "a.csv", io.BytesIO(b'"x,y\n1,2\n'))


# --- files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e101])
def test_a_model_file_with_weights_that_no_model_has_is_refused(value):
    data = (CORPUS / "model" / "model-native.bin").read_bytes()
    read = _unpacked(data)
    assert read is not None
    plain, arrays, _ = read
    weights = plain["weights"]["$array"]
    other = arrays[weights].copy()
    other.flat[0] = value
    with pytest.raises(UsageError, match="not finite, or far too large"):
        DECODERS["model"].read(_saved(plain, {**arrays, weights: other}))


def test_a_saved_estimator_with_an_array_of_no_dimension_is_refused():
    (data,) = DECODERS["estimator"].corpus()
    read = _unpacked(data)
    assert read is not None
    plain, arrays, _ = read
    positions = plain["federation"]["clients"][0]["held"]["positions"]["$array"]
    with pytest.raises(UsageError, match="do not fit each other"):
        DECODERS["estimator"].read(_saved(plain, {**arrays, positions: np.array(1.0)}))


def test_a_setting_with_a_name_of_any_length_is_refused_in_few_words():
    with pytest.raises(UsageError) as caught:
        DECODERS["settings"].read(b"[records]\n" + b"a" * 10**5 + b" = 1\n")
    assert len(str(caught.value)) < 700
