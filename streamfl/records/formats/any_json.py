"""Reads any JSON message: slow, with exact reasons for what is refused."""

import json
import math
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec
import numpy as np

from streamfl.bounds import is_name
from streamfl.protocol.reasons import Reason, ReasonCode, reason_of
from streamfl.records.formats.field_map import FieldMap
from streamfl.records.objects import Object, flat
from streamfl.records.values.cells import CellRules, number, quoted
from streamfl.records.values.dates import LONGEST
from streamfl.records.values.numerals import with_unit
from streamfl.wire.codec import refuse_surrogates

NO_OBJECT = Reason("not a JSON object", ReasonCode.NOT_JSON)

_ANYTHING = msgspec.json.Decoder()
_PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])

Cell = str | int | float | bool | None
_CELL = (str, int, float, bool, type(None))
LONGEST_INTEGER = 400  # digits: any longer one is too large for a float


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """One record."""

    head: tuple[Cell, ...]  # the cells of the fields `FieldMap.head`, in that order
    numbers: Mapping[str, float]  # the numbers by name, NaN where one is missing
    # By name, why other cells are not numbers, and these cells.
    unusable: Mapping[str, tuple[str, object]] = field(default_factory=dict)


class UnusableRecordError(Exception):
    """A message is not a record; it has the reason, and the client and the key if known, else ""."""

    def __init__(self, reason: str, client: str = "", key: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.client = client
        self.key = key


@dataclass(slots=True)
class AnyJson:
    """Reads messages one at a time.

    Examples
    --------
    >>> reader = AnyJson(FieldMap(label="kind"))
    >>> reader.read(b'{"kind": "a", "x": "2.5", "position": {"y": true}, "z": null}')
    ReadRecord(head=('a',), numbers={'x': 2.5, 'position.y': 1.0, 'z': nan}, unusable={})
    >>> reader.read(b'{"kind": "a", "x": 1e999, "colour": "red", "y": NaN}')
    ReadRecord(head=('a',), numbers={'y': nan}, unusable={'x': ('a number too large', ...), 'colour': ...})
    """

    fields: FieldMap  # the roles of the fields
    _wanted: frozenset[str] = field(init=False)
    _holders: frozenset[str] = field(init=False)
    _without: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self._wanted = self.fields.wanted
        self._holders = self.fields.holders
        self._without = frozenset(self.fields.head)

    def read(self, message: bytes) -> ReadRecord:
        """Return the record of a message.

        If a name occurs twice, the last value counts. Fields without a role are not checked.

        Raises
        ------
        UnusableRecordError
            If it is not a JSON object, or a cell does not fit its role.
        """
        client = key = ""
        try:
            record = self._object(message)
            named = _named(record, self.fields.client, "client")
            client = named if is_name(named) else ""
            named = _named(record, self.fields.key, "key")
            key = named if is_name(named) else ""
            head = tuple(self._head(name, record.get(name)) for name in self.fields.head)
            return ReadRecord(head, *self._numbers(record))
        except RecursionError:
            raise UnusableRecordError(
                Reason("objects or lists nested too deeply", ReasonCode.NOT_JSON), client, key
            ) from None
        except ValueError as error:
            raise UnusableRecordError(reason_of(error), client, key) from None

    def _object(self, message: bytes) -> Object:
        return flat(json_object(message, self._ignored), self.fields.wanted)

    def _ignored(self, name: str) -> bool:
        if name in self._wanted or name in self._holders:
            return False
        return self.fields.is_whole or self.fields.dropped(name)

    def _head(self, name: str, cell: object) -> Cell:
        if not isinstance(cell, _CELL) and name in self.fields.categories:
            return None
        if not isinstance(cell, _CELL) and name in self.fields.times:  # it is not a time, but costs no record
            return str(cell)[:LONGEST]
        return _cell(name, cell)

    def _numbers(self, record: Object) -> tuple[dict[str, float], dict[str, tuple[str, object]]]:
        cells, reading = self._features(record), self.fields.reading
        if set(map(type, cells.values())) <= {int, float, bool} and not reading.missing.numbers:  # the common case
            with suppress(OverflowError):
                found = np.array([*cells.values()], np.float64)
                if np.isfinite(found).all():
                    return dict(zip(cells, found.tolist(), strict=True)), {}
        numbers, unusable = dict[str, float](), dict[str, tuple[str, object]]()
        for name, cell in cells.items():
            try:
                numbers[name] = _number(cell, reading)
            except ValueError as error:
                unusable[name] = str(error), cell
        return numbers, unusable

    def _features(self, record: Object) -> Object:
        if self.fields.is_whole:
            return {name: record.get(name) for name in self.fields.features}
        cells = {name: cell for name, cell in record.items() if name not in self._without}
        if self.fields.left_out:
            return {name: cell for name, cell in cells.items() if not self.fields.dropped(name)}
        return cells


def remedy(cell: object, *, of_numbers: bool = False) -> str:
    """Return what can be done about a cell that is not a number, in a field of numbers or in another one.

    >>> remedy("20.5 hPa"), remedy([{"name": "p"}])
    ('write the number without its unit, or drop it', 'give each value a field of its own, or drop it')
    """
    if isinstance(cell, list | Mapping):
        return "give each value a field of its own, or drop it"
    if isinstance(cell, str) and with_unit(cell) is not None:
        return "write the number without its unit, or drop it"
    if of_numbers:
        return "list it in missing_values if it stands for no value, or declare all values under categories"
    return "declare its values under categories, or drop it"


def json_object(message: bytes, ignored: Callable[[str], bool] = lambda _: False) -> dict[str, object]:
    """Return the fields of a message that are not ignored; NaN and infinity are numbers, as Python writes them.

    Raises
    ------
    ValueError
        It is not a JSON object; the message is a `Reason`.
    RecursionError
        It is nested too deeply.

    >>> json_object(b'{"x": NaN, "y": [1e999]}')
    {'x': nan, 'y': [inf]}
    """
    if not message:
        raise ValueError(Reason("the message is empty", ReasonCode.EMPTY))
    message = message.removeprefix(BOM_UTF8)
    if not is_utf8(message):
        raise ValueError(Reason("not UTF-8", ReasonCode.NOT_JSON))
    try:
        record = _ANYTHING.decode(message)
    except msgspec.MsgspecError:  # the error may be in a field that is ignored
        record = _in_parts(message, ignored)
    if not isinstance(record, dict):
        raise ValueError(NO_OBJECT)  # noqa: TRY004  the caller catches ValueError
    return {name: cell for name, cell in record.items() if not ignored(name)}


def _in_parts(message: bytes, ignored: Callable[[str], bool]) -> dict[str, object]:
    """Decode the fields one by one, to name the bad one."""
    try:
        parts = _PARTS.decode(message)
    except msgspec.ValidationError:
        raise ValueError(NO_OBJECT) from None
    except msgspec.DecodeError as error:
        return _as_python_writes(message, error)
    return {name: _decoded(name, part) for name, part in parts.items() if not ignored(name)}


def is_utf8(message: bytes) -> bool:
    """Return whether a message is UTF-8, as JSON must be."""
    if message.isascii():
        return True
    try:
        message.decode()
    except UnicodeDecodeError:
        return False
    return True


def client_text(cell: Cell) -> str:
    """Return the name of a client, or a key, from a text or an integer, "" if missing.

    >>> client_text(" d1 "), client_text(7), client_text(None)
    ('d1', '7', '')
    """
    return "" if cell is None else str(cell).strip()


def _named(record: Object, field: str | None, what: str) -> str:
    """Return the client or the key of a record; "" if no field names it.

    Raises
    ------
    ValueError
        If the field holds neither a text nor an integer.
    """
    if field is None:
        return ""
    cell = record.get(field)
    if cell is None or (isinstance(cell, str | int) and not isinstance(cell, bool)):
        return client_text(cell)
    why = f"field {quoted(field)}: {quoted(cell)} names no {what}; write a text or an integer"
    raise ValueError(Reason(why, ReasonCode.NO_CLIENT if what == "client" else ReasonCode.NO_KEY))


def _decoded(name: str, part: msgspec.Raw) -> object:
    try:
        return _ANYTHING.decode(part)
    except msgspec.ValidationError:  # the only validation error without a type: a number too large
        return _loaded(bytes(part))
    except msgspec.DecodeError as error:
        raise ValueError(Reason(f"field {quoted(name)}: not JSON ({error})", ReasonCode.NOT_JSON)) from None


def _cell(name: str, cell: object) -> Cell:
    if isinstance(cell, _CELL):
        return cell
    raise ValueError(Reason(f"field {quoted(name)}: a list instead of one value", ReasonCode.BAD_LABEL))


def _number(cell: object, reading: CellRules) -> float:
    value = number(cell, reading)
    if math.isinf(value):
        raise ValueError(f"{quoted(cell)} is infinite" if isinstance(cell, str) else "a number too large")
    return value


def _as_python_writes(message: bytes, error: msgspec.DecodeError) -> dict[str, object]:
    """Return an object with NaN or Infinity, which Python writes although they are not JSON.

    Raises
    ------
    ValueError
        It is not one.
    """
    try:
        found = _loaded(message) if b"NaN" in message or b"Infinity" in message else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(Reason(f"not JSON ({error})", ReasonCode.NOT_JSON))  # noqa: TRY004  the caller catches ValueError
    return found


def _loaded(message: bytes) -> object:
    found = json.loads(message, parse_int=_whole)
    try:
        refuse_surrogates(found, message.decode())
    except UnicodeEncodeError:
        raise ValueError(Reason("half a surrogate pair, which no text may hold", ReasonCode.NOT_JSON)) from None
    return found


def _whole(digits: str) -> float:
    return int(digits) if len(digits) <= LONGEST_INTEGER else math.inf
