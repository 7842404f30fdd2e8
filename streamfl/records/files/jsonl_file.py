"""Reads JSON lines: one object per line."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from streamfl.protocol.records import Rejection
from streamfl.records.assembly import BLOCK, Blocks, RowBlock
from streamfl.records.files.file_format import FileFormat
from streamfl.records.files.lines import LONGEST, MOST_HELD, decoded, recoded, whole_lines
from streamfl.records.objects import Columns, Object, flat, names
from streamfl.records.request import Request, label_column
from streamfl.wire.codec import refuse_surrogates


class _Line(NamedTuple):
    number: int
    record: Object
    error: str = ""
    size: int = 0


class JsonLines(FileFormat):
    """A JSON object a line."""

    ordered = False

    @classmethod
    def blocks(cls, request: Request, path: Path) -> AbstractContextManager[Blocks]:
        """Open a file to be read block by block."""
        return jsonl_file(request, path)


@contextmanager
def jsonl_file(request: Request, path: Path) -> Iterator[Blocks]:
    """Open a file of JSON lines; blank lines are skipped.

    A record may lack features or add new ones. The label column must occur in the first 8192 records.

    Raises
    ------
    UsageError
        If the request names a column that is not there, no column can be the label, or a record is bad and the
        request is to stop.
    """
    with path.open("rb") as stream:
        parsed = _parsed(request, whole_lines(recoded(request, stream)))
        taken = _taken(parsed)
        label = _label(request, taken)
        yield Blocks(request, path.name, label, "line", _blocks(Columns(request, label), taken, parsed))


def _blocks(columns: Columns, taken: list[_Line], parsed: Iterator[_Line]) -> Iterator[RowBlock]:
    start = 0
    while taken:
        good = [i for i, line in enumerate(taken) if not line.error]
        yield columns.block(
            places=np.array(good, np.int64) + start,
            lines=np.array([taken[i].number for i in good], np.int64),
            records=[taken[i].record for i in good],
            rejected=tuple(
                Rejection(start + i, f"line {line.number}: {line.error}")
                for i, line in enumerate(taken)
                if line.error
            ),
        )
        start += len(taken)
        taken = _taken(parsed)


def _taken(parsed: Iterator[_Line]) -> list[_Line]:
    """Return the next lines, fewer if they are long."""
    taken, size = list[_Line](), 0
    for line in islice(parsed, BLOCK):
        taken.append(line)
        size += line.size
        if size > MOST_HELD:
            break
    return taken


def _label(request: Request, taken: list[_Line]) -> str:
    records = [line.record for line in taken if not line.error]
    if not taken:
        raise request.refusal("it has only blank lines", "give a file with one JSON object per line")
    if not records:
        what = f"none of its first records can be read; line {taken[0].number}: {taken[0].error}"
        raise request.refusal(what, "give a file with one JSON object per line")
    return label_column(request, names(records), last=False)


def _parsed(request: Request, source: Iterator[bytes | None]) -> Iterator[_Line]:
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
    for number, raw in enumerate(source, start=1):
        if raw is None:
            yield _Line(number, {}, f"has {LONGEST} bytes or more")
            continue
        line = decoded(request, number, raw)
        if not line.strip():
            continue
        try:
            record = _decoded(decoder, line)
        except (msgspec.DecodeError, RecursionError) as error:
            yield _Line(number, {}, f"not JSON ({error})")
            continue
        except UnicodeEncodeError:
            yield _Line(number, {}, "not JSON (half a surrogate pair, which no text may hold)")
            continue
        if isinstance(record, dict):
            yield _Line(number, flat(record), size=len(raw))
        else:
            yield _Line(number, {}, "not a JSON object")


def _decoded(decoder: msgspec.json.Decoder[Any], line: str) -> Any:
    """Decode a line. NaN and Infinity, which Python writes, are accepted although they are not JSON.

    Raises
    ------
    UnicodeEncodeError
        A text has half a surrogate pair, as Python writes it: as a name it would refuse the whole file.
    """
    try:
        return decoder.decode(line)
    except msgspec.DecodeError:
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if record is None:
            raise
    refuse_surrogates(record, line)
    return record
