"""Reads past batches that kafka-python cannot parse: it would raise at every poll, and no reader could continue.

A broker accepts such batches from any writer: messages with a compression that is not installed here, headers with
names that are not UTF-8, a megabyte that unpacks to a gigabyte. A batch comes from one writer. So the unreadable rest
of a batch becomes one unusable message, at the offset of the batch's last message.
"""

import gzip
import io
import zlib
from collections.abc import Iterator

from kafka import errors as kafka_errors
from kafka.record.default_records import DefaultRecord, DefaultRecordBatch

from streamfl.core.bounds import bounded

# The most bytes of an unpacked batch; packed it has at most a megabyte, unless topics accept more.
MOST_UNPACKED = 64 * 1024 * 1024

# Errors of unpacking, for lack of a library or because of the content.
UNREADABLE = (kafka_errors.UnsupportedCodecError, kafka_errors.CorruptRecordError, OSError, EOFError, zlib.error)

_iterated, _next = DefaultRecordBatch.__iter__, DefaultRecordBatch.__next__


class _Lenient(bytearray):
    """Bytes of which every slice can be decoded as text."""

    def __getitem__(self, at):  # type: ignore[no-untyped-def]
        part = super().__getitem__(at)
        return _Lenient(part) if isinstance(at, slice) else part

    def decode(self, encoding: str = "utf-8", errors: str = "backslashreplace") -> str:
        return super().decode(encoding, errors)


def read_leniently() -> None:
    """Patch kafka-python's consumers so that they read every batch to its end."""
    DefaultRecordBatch.__iter__ = _begin
    DefaultRecordBatch.__next__ = _read


def _begin(batch: DefaultRecordBatch) -> Iterator[DefaultRecord]:
    try:
        if batch.compression_type == batch.CODEC_GZIP and not batch._decompressed:
            batch._buffer, batch._pos, batch._decompressed = _unpacked(batch._buffer[batch._pos :]), 0, True
        begun: Iterator[DefaultRecord] = _iterated(batch)
    except UNREADABLE as error:
        return iter((_unreadable(batch, error),))
    return begun


def _unpacked(data: bytearray) -> bytearray:
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        unpacked = bytearray(file.read(MOST_UNPACKED + 1))
    if len(unpacked) > MOST_UNPACKED:
        raise kafka_errors.CorruptRecordError(f"more than {MOST_UNPACKED} bytes when unpacked")
    return unpacked


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
    return DefaultRecord(len(value), batch.last_offset, batch.max_timestamp, batch.timestamp_type, None, value, [])
