"""Decodes many flat JSON messages with known fields, fast."""

import struct
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import astuple

from streamfl.arrays import FloatArray, IntArray
from streamfl.records.formats.any_json import Cell, is_utf8
from streamfl.records.formats.field_map import FieldMap

Cells = tuple[Any, ...]
"""A record: the cells of the fields `FieldMap.head`, then the known numbers, then dropped fields."""

_NUMBER = float | bool | None
_TEXT = str | int | float | bool | None


class FlatJson:
    """Decodes messages to cells with a msgspec type generated for their fields.

    A message that does not fit the type is left to `AnyJson`; one that fits is read as `AnyJson` reads it.

    Parameters
    ----------
    numbers
        The names of the known numbers, in the order of their columns.

    Examples
    --------
    >>> flat = FlatJson(FieldMap(), ["x", "y"])
    >>> found = flat.cells([b'{"x": 1, "label": "a"}', b'{"x": "1"}', b'{"x": 2, "y": null}'])
    >>> found
    [('a', 1.0, nan), None, (None, 2.0, None)]
    >>> flat.rows([found[0], found[2]])
    array([[ 1., nan],
           [ 2., nan]])
    """

    def __init__(self, fields: FieldMap, numbers: Sequence[str]) -> None:
        here = [i for i, name in enumerate(numbers) if _can_be_typed(name)]
        self.columns: IntArray = np.array(here, np.int64)
        """The indices of the columns of `rows` in the known numbers: all but those whose names need escapes."""
        self._first, self._last = len(fields.head), len(fields.head) + len(here)
        self._pack = struct.Struct(f"={len(here)}d").pack
        self._decode = _decoder(fields, [numbers[i] for i in here])

    def cells(self, messages: Sequence[bytes]) -> list[Cells | None]:
        """Return the cells of each message, None if it does not fit."""
        if self._decode is None:
            return [None] * len(messages)
        found = self._records(self._decode, messages)
        if not all(map(bytes.isascii, messages)):  # the decoder does not check skipped fields
            found = [record if is_utf8(message) else None for record, message in zip(found, messages, strict=True)]
        return [None if record is None else astuple(record) for record in found]

    def _records(self, decode: Callable[[bytes], Any], messages: Sequence[bytes]) -> list[Any]:
        """Decode without Python code per message: `extend` keeps the elements before an error."""
        found: list[Any] = []
        records = map(decode, messages)
        while len(found) < len(messages):
            try:
                found.extend(records)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                found.append(None)
        return found

    def rows(self, cells: Sequence[Cells]) -> FloatArray:
        """Return the numbers of some cells, shape (n, len(columns)), NaN where missing."""
        first, last, pack = self._first, self._last, self._pack
        try:
            data = bytearray().join([pack(*record[first:last]) for record in cells])
        except struct.error:  # some number is null
            rows = [record[first:last] for record in cells]
            return np.array(rows, np.float64).reshape(len(cells), last - first)
        return np.frombuffer(data, np.float64).reshape(len(cells), last - first)


def _decoder(fields: FieldMap, numbers: Sequence[str]) -> Callable[[bytes], Any] | None:
    """Return a decoder of messages, None if a field has a name that msgspec does not accept."""
    if not all(map(_can_be_typed, fields.wanted)):
        return None
    kinds: dict[str, tuple[Any, Any]] = dict(zip(fields.head, _head_kinds(fields), strict=True))
    kinds |= dict.fromkeys(numbers, (_NUMBER, np.nan))
    kinds |= {name: (kind, None) for name, kind in _others(fields).items() if name not in kinds}
    attributes = [(f"f{i}", kind, default) for i, (kind, default) in enumerate(kinds.values())]
    record = msgspec.defstruct(
        "record",
        attributes,
        rename={f"f{i}": name for i, name in enumerate(kinds)},
        forbid_unknown_fields=not fields.is_whole,  # they may be features
        gc=False,
    )
    return msgspec.json.Decoder(record).decode


def _head_kinds(fields: FieldMap) -> list[tuple[Any, Cell]]:
    label = {"regression": [float | None], "unlabelled": []}.get(fields.task, [_TEXT])
    client = [] if fields.client is None else [str | int | None]
    time = [float | str | None] * len(fields.times)
    key = [] if fields.key is None else [str | int | None]
    return [(kind, None) for kind in (*label, *client, *time, *key, *[_TEXT] * len(fields.categories))]


def _others(fields: FieldMap) -> dict[str, Any]:
    """Return the fields without a role that the type needs, and their types."""
    if fields.is_whole:  # unknown fields are skipped, but an object may contain a wanted field
        return dict.fromkeys(sorted(fields.holders), None)
    return {name: msgspec.Raw for name in fields.left_out if _can_be_typed(name) and name not in fields.holders}


def _can_be_typed(name: str) -> bool:
    r"""Return whether msgspec accepts a field name: it accepts none that JSON must escape.

    >>> _can_be_typed("größe"), _can_be_typed('12" pipe'), _can_be_typed("\n")
    (True, False, False)
    """
    return not any(c in '"\\' or c < " " for c in name)
