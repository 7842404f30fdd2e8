"""Reads past batches that kafka-python cannot parse: it would raise at every poll, and no reader could continue.

A broker accepts such batches from any writer: headers with names that are not UTF-8, bytes that no codec can unpack,
a megabyte that unpacks to a gigabyte. A batch comes from one writer. So the unreadable rest of a batch becomes one
unusable message, at the offset of the batch's last message. Good messages whose codec needs a library that is missing
here would be lost so: without the libraries no process begins.
"""

import gzip
import io
from collections.abc import Iterator
from typing import Any

from kafka import codec as codecs
from kafka import errors as kafka_errors
from kafka.record.default_records import DefaultRecord, DefaultRecordBatch

from streamfl.bounds import bounded
from streamfl.errors import UsageError

# The most bytes of an unpacked batch; packed it has at most a megabyte, unless topics accept more.
MOST_UNPACKED = 64 * 1024 * 1024

# How a stream of snappy blocks of Java's library begins; its header has 16 bytes.
BLOCKS = b"\x82SNAPPY\x00"

_iterated, _next = DefaultRecordBatch.__iter__, DefaultRecordBatch.__next__


# The libraries of codecs, by their names in `kafka.codec`, where one that is missing is None.
LIBRARIES = {"snappy": "python-snappy", "lz4": "lz4", "zstd": "zstandard"}


class _Lenient(bytearray):
    """Bytes of which every slice can be decoded as text."""

    def __getitem__(self, at):  # type: ignore[no-untyped-def]
        part = super().__getitem__(at)
        return _Lenient(part) if isinstance(at, slice) else part

    def decode(self, encoding: str = "utf-8", errors: str = "backslashreplace") -> str:
        return super().decode(encoding, errors)


def read_leniently() -> None:
    """Patch kafka-python's consumers so that they read every batch to its end.

    Raises
    ------
    UsageError
        The library of a codec is missing: messages of any writer may need it.
    """
    if missing := [package for name, package in LIBRARIES.items() if getattr(codecs, name) is None]:
        raise UsageError(f"missing packages: {', '.join(missing)}; install them: pip install {' '.join(missing)}")
    DefaultRecordBatch.__iter__ = _begin
    DefaultRecordBatch.__next__ = _read


def _begin(batch: DefaultRecordBatch) -> Iterator[DefaultRecord]:
    if batch.compression_type != batch.CODEC_NONE and not batch._decompressed:
        try:
            unpacked = _unpacked(batch.compression_type, bytes(batch._buffer[batch._pos :]))
        except Exception as error:  # each library has errors of its own
            return iter((_unreadable(batch, error),))
        batch._buffer, batch._pos, batch._decompressed = unpacked, 0, True
    begun: Iterator[DefaultRecord] = _iterated(batch)
    return begun


def _unpacked(codec: int, data: bytes) -> bytearray:
    """Return the bytes of a batch.

    Raises
    ------
    Exception
        They cannot be unpacked, or are too many.
    """
    match codec:
        case DefaultRecordBatch.CODEC_GZIP:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
                unpacked = file.read(MOST_UNPACKED + 1)
        case DefaultRecordBatch.CODEC_ZSTD:
            decompressor = codecs.zstd.ZstdDecompressor()
            with decompressor.stream_reader(io.BytesIO(data), read_across_frames=True) as stream:
                unpacked = stream.read(MOST_UNPACKED + 1)
        case DefaultRecordBatch.CODEC_LZ4:
            unpacked = codecs.lz4.LZ4FrameDecompressor().decompress(data, max_length=MOST_UNPACKED + 1)
        case _:
            unpacked = _of_snappy(data)
    _require_room(len(unpacked))
    return bytearray(unpacked)


def _require_room(size: int) -> None:
    if size > MOST_UNPACKED:
        raise kafka_errors.CorruptRecordError(f"more than {MOST_UNPACKED} bytes when unpacked")


def _of_snappy(data: bytes) -> bytes:
    """Unpack one block, or blocks after their sizes; each block begins with how many bytes it unpacks to."""
    unpacked = bytearray()
    for block in _blocks(data):
        _require_room(len(unpacked) + _stated_size(block))
        unpacked += codecs.snappy.decompress(block)
    return bytes(unpacked)


def _blocks(data: bytes) -> Iterator[bytes]:
    if not data.startswith(BLOCKS):
        yield data
        return
    at = 16
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        yield data[at + 4 : end]
        at = end


def _stated_size(block: bytes) -> int:
    r"""Return the number at the start of a snappy block: seven bits a byte, the lowest first.

    >>> _stated_size(b"\x80\x80\x04...")
    65536
    """
    size = 0
    for i, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            break
    return size


def _read(batch: DefaultRecordBatch) -> DefaultRecord:
    try:
        return _next(batch)
    except kafka_errors.CorruptRecordError as error:
        if batch._next_record_index >= batch._num_records:  # bytes after the last message
            raise StopIteration from None
        if not isinstance(batch._buffer, _Lenient):
            batch._buffer = _Lenient(batch._buffer)
            return _read(batch)
        batch._next_record_index, batch._pos = batch._num_records, len(batch._buffer)
        return _unreadable(batch, error)


def _unreadable(batch: DefaultRecordBatch, error: Exception) -> DefaultRecord:
    """Return one message in place of the unreadable ones: its value says why, and no reader can decode it."""
    reason = bounded(f"a batch of {batch.records_count} messages that cannot be read: {error}")
    value = reason.encode(errors="backslashreplace")
    place: tuple[Any, ...] = (batch.last_offset, batch.max_timestamp, batch.timestamp_type)
    return DefaultRecord(len(value), *place, None, value, [])
