"""Reads a JSON document: a list of objects, columns by name, or what pandas writes; or JSON lines."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from pathlib import Path

import msgspec
import numpy as np

from streamfl.protocol.records import Rejection
from streamfl.records.assembly import BLOCK, Blocks, RowBlock
from streamfl.records.files.file_format import FileFormat
from streamfl.records.files.jsonl_file import jsonl_file
from streamfl.records.files.lines import LONGEST, recoded
from streamfl.records.objects import Columns, Object, flat, names
from streamfl.records.request import Request, label_column

_FORMS = "give a list of objects, an object of lists, or one object per line"


class Json(FileFormat):
    """A JSON document, which is held in memory, or JSON lines."""

    ordered = False

    @classmethod
    def blocks(cls, request: Request, path: Path) -> AbstractContextManager[Blocks]:
        """Open a file to be read block by block."""
        return json_file(request, path)


@contextmanager
def json_file(request: Request, path: Path) -> Iterator[Blocks]:
    """Open a JSON document.

    Raises
    ------
    UsageError
        It is not JSON, or has no records.
    """
    with path.open("rb") as stream:
        source = recoded(request, stream)
        data = b"".join(iter(lambda: source.readline(LONGEST), b""))
    try:
        document = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, RecursionError) as error:
        if data.lstrip()[:1] != b"{" or b"\n" not in data.strip():
            raise request.refusal(f"it is not JSON ({error})", _FORMS) from None
        document = None  # JSON lines
    records = None if document is None else records_of(document)
    if records is None:
        if document is not None and not isinstance(document, dict):
            raise request.refusal("it has no records", _FORMS)
        with jsonl_file(request, path) as opened:
            yield opened
        return
    first = [flat(record) for record in records[:BLOCK] if isinstance(record, dict)]
    if not first:
        raise request.refusal("it has no records", _FORMS)
    label = label_column(request, names(first), last=False)
    yield Blocks(request, path.name, label, "record", _blocks(Columns(request, label), iter(records)))


def records_of(document: object) -> Sequence[object] | None:
    """Return the records of a document, None if it is not a collection of records.

    >>> records_of([{"a": 1}, {"a": 2}]) == records_of({"a": [1, 2]}) == records_of({"a": {"0": 1, "1": 2}})
    True
    >>> records_of({"columns": ["a"], "index": [0, 1], "data": [[1], [2]]}), records_of({"rows": [{"a": 1}], "n": 1})
    ([{'a': 1}, {'a': 2}], [{'a': 1}])
    """
    if isinstance(document, list):
        return document
    if not isinstance(document, dict) or not document:
        return None
    columns, data = document.get("columns"), document.get("data")
    if isinstance(columns, list) and isinstance(data, list) and all(isinstance(row, list) for row in data):
        return [dict(zip(map(str, columns), row, strict=False)) for row in data]
    lists = {name: value for name, value in document.items() if isinstance(value, list)}
    inner = [value for value in lists.values() if value and all(isinstance(one, dict) for one in value)]
    if len(inner) == 1:
        return inner[0]
    if len(lists) == len(document) and len({len(value) for value in lists.values()}) == 1:
        return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
    objects: Mapping[str, dict[str, object]] = {n: v for n, v in document.items() if isinstance(v, dict)}
    if len(objects) == len(document) and len({tuple(value) for value in objects.values()}) == 1:
        keys = next(iter(objects.values()))
        if len(keys) > 1 and all(key.isdecimal() for key in keys):
            return [{name: value[key] for name, value in objects.items()} for key in keys]
    return None


def _blocks(columns: Columns, records: Iterator[object]) -> Iterator[RowBlock]:
    start = 0
    while taken := list(islice(records, BLOCK)):
        numbered = list(enumerate(taken, start))
        good: list[tuple[int, Object]] = [(place, flat(one)) for place, one in numbered if isinstance(one, dict)]
        bad = [place for place, one in numbered if not isinstance(one, dict)]
        places = np.array([place for place, _ in good], np.int64)
        rejected = tuple(Rejection(place, f"record {place + 1}: not a JSON object") for place in bad)
        yield columns.block(places, places + 1, [record for _, record in good], rejected)
        start += len(taken)
