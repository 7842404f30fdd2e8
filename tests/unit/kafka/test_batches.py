"""A batch that cannot be taken apart is one message that no reader knows, and the reader goes on behind it."""

import gzip
import struct
from collections.abc import Iterator

import pytest
from kafka import codec as codecs
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from streamfl.errors import UsageError
from streamfl_connectors.kafka import batches
from streamfl_connectors.kafka.batches import LIBRARIES, read_leniently
from streamfl_connectors.kafka.connection import Connection
from streamfl_connectors.kafka.settings import KafkaSettings

ATTRIBUTES = 21  # where a batch says how it is packed
BODY = 61


class Name(str):
    """The name of a header that is no UTF-8."""

    __slots__ = ()

    def encode(self, *_: str) -> bytes:
        return b"\xff\xfe"


@pytest.fixture(autouse=True)
def lenient() -> Iterator[None]:
    kept = DefaultRecordBatch.__iter__, DefaultRecordBatch.__next__
    read_leniently()
    read_leniently()
    yield
    DefaultRecordBatch.__iter__, DefaultRecordBatch.__next__ = kept


def batch(values: list[bytes], *, codec: int = 0, name: str = "part", at: int = 0) -> bytearray:
    """Return a batch as it lies in the log from offset `at` on."""
    builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 2**30)
    for i, value in enumerate(values):
        builder.append(i, 1000, b"c0", value, [(name if i == 1 else "part", b"0/1")])
    built = bytearray(builder.build())
    built[:8] = struct.pack(">q", at)
    return built


def read(*there: bytearray) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return offset, key and value of each message."""
    records, found = MemoryRecords(b"".join(map(bytes, there))), []
    while (one := records.next_batch()) is not None:
        found += [(record.offset, record.key, record.value) for record in one]
    return found


VALUES = [b"one" * 99, b"two" * 99, b"three" * 99]  # a batch that would not become smaller is not packed
THREE = [(7 + i, b"c0", value) for i, value in enumerate(VALUES)]
AFTER = (batch([b"after"], at=10), (10, b"c0", b"after"))


# By number: none, gzip, snappy, lz4, zstd.
EVERY_CODEC = range(5)


@pytest.mark.parametrize("codec", EVERY_CODEC)
def test_every_message_of_a_readable_batch_is_read(codec: int) -> None:
    assert read(batch(VALUES, codec=codec, at=7), AFTER[0]) == [*THREE, AFTER[1]]


@pytest.mark.parametrize("codec", EVERY_CODEC)
def test_the_name_of_a_header_may_be_any_bytes(codec: int) -> None:
    spoilt = batch(VALUES, name=Name("x"), codec=codec, at=7)
    assert read(spoilt, AFTER[0]) == [*THREE, AFTER[1]]
    (_, second, _) = list(MemoryRecords(bytes(spoilt)).next_batch())
    assert second.headers == [("\\xff\\xfe", b"0/1")]


def packed(data: bytes, codec: int) -> bytearray:
    """Return a batch of three messages that are packed as these bytes."""
    whole = batch(VALUES, at=7)[:BODY] + data
    whole[8:12] = struct.pack(">i", len(whole) - 12)
    whole[ATTRIBUTES : ATTRIBUTES + 2] = struct.pack(">h", codec)
    return whole


@pytest.mark.parametrize(
    ("spoilt", "why"),
    [
        (packed(b"no zstd", 4), b"Unknown frame descriptor"),
        (packed(b"\x28\xb5\x2f\xfd\x00", 4), b"index out of range"),
        (packed(b"no lz4, and long enough", 3), b"LZ4F_decompress failed"),
        (packed(b"no snappy", 2), b""),
        (packed(batches.BLOCKS + bytes(8) + b"\xff" * 9, 2), b""),
        (packed(b"\xff\xff\xff\xff\x0f no snappy", 2), b"more than 67108864 bytes when unpacked"),
        (packed(b"no gzip", 1), b"Not a gzipped file (b'no')"),
        (
            packed(gzip.compress(b"x" * 100)[:-9], 1),
            b"Compressed file ended before the end-of-stream marker was reached",
        ),
        (packed(gzip.compress(b"\x00" * 100), 1), b"Invalid record size"),
        (packed(b"\x02\x02", 0), b"index out of range"),
    ],
    ids=[
        "zstd",
        "zstd cut",
        "lz4",
        "snappy",
        "snappy blocks",
        "snappy of GBs",
        "junk",
        "cut",
        "zeros",
        "short",
    ],
)
def test_a_batch_that_cannot_be_read_is_one_message_and_the_next_is_read(spoilt: bytearray, why: bytes) -> None:
    (offset, key, value), after = read(spoilt, AFTER[0])
    assert (offset, key) == (9, None)
    assert value is not None
    assert value.startswith(b"a batch of 3 messages that cannot be read: ")
    assert why in value
    assert after == AFTER[1]


@pytest.mark.parametrize("codec", EVERY_CODEC[1:])
def test_a_batch_that_unpacks_to_more_than_it_may_is_not_held(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MOST_UNPACKED", 10_000)
    fits = batch([b"x" * 9_000], codec=codec, at=9)
    assert [len(value or b"") for _, _, value in read(fits)] == [9_000]
    (*place, value), after = read(batch([b"x" * 10_000], codec=codec, at=9), AFTER[0])
    assert place == [9, None]
    assert value is not None
    assert value.endswith(b"more than 10000 bytes when unpacked")
    assert after == AFTER[1]


def test_bytes_after_the_last_message_of_a_batch_are_ignored() -> None:
    assert read(packed(bytes(batch(VALUES)[BODY:]) + b"more", 0)) == THREE


@pytest.mark.parametrize(("name", "package"), LIBRARIES.items())
def test_no_process_begins_without_a_library_with_which_others_may_write(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codecs, name, None)
    with pytest.raises(UsageError, match=f"missing packages: {package}; install them: pip install {package}"):
        Connection(KafkaSettings(bootstrap_servers="127.0.0.1:1"))
