"""The record format of one JSON object per message."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import msgspec
import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.bounds import NAME_BYTES, NAMED, Limits, is_name
from streamfl.errors import UsageError
from streamfl.protocol.delayed import Half
from streamfl.protocol.reasons import within
from streamfl.protocol.records import Rejection
from streamfl.records.columns import SAMPLE
from streamfl.records.formats.any_json import AnyJson, ReadRecord, UnusableRecordError, remedy
from streamfl.records.formats.field_map import FieldMap
from streamfl.records.formats.flat_json import Cells, FlatJson
from streamfl.records.formats.json_heads import Heads
from streamfl.records.formats.json_writer import JsonWriter
from streamfl.records.formats.known import KnownLabels, Remarks, left_out, no_time
from streamfl.records.formats.message_format import MessageFormat
from streamfl.records.values.cells import quoted
from streamfl.runtime.ports import Decoded

# Fields with unusable cells that are reported by name: who writes to a topic may invent as many as they like.
MOST_REPORTED = 20

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _Bad(NamedTuple):
    """Why a message is refused, and its client and key, "" where they are not known."""

    reason: str
    client: str
    key: str


@dataclass(slots=True, eq=False)
class _Block:
    """The messages of one call: records, and refused messages."""

    index: list[int] = field(default_factory=list)  # of the message of each record
    cells: list[Cells] = field(default_factory=list)  # of each record; only the head if it was read slowly
    slow: dict[int, ReadRecord] = field(default_factory=dict)  # records read slowly, by index in `cells`
    refused: dict[int, _Bad] = field(default_factory=dict)  # by index of the message


class JsonRecords(MessageFormat):
    """Messages of one JSON object each: `streamfl.runtime.ports.RecordFormat`.

    Numbers and labels are read as in files of JSON lines (`streamfl.records.files`). Absent fields, null and words
    such as NA are missing values, and so is a cell that is not a number, which is counted. If a name occurs twice in
    an object, the last value counts. If the map lists no features, every field without a role is one: a good record
    with a new name and a number adds a column permanently, up to the limit. Values beyond the limit are left out and
    counted. A record with a label beyond the limit is rejected.

    Raises
    ------
    UsageError
        If the map names more.

    Examples
    --------
    >>> format = JsonRecords(FieldMap(label="kind", client="device"))
    >>> found = format.decode([7, 8], [b'{"kind":"b","device":"d1","x":1}', b'{"kind":"a","device":2,"x":2,"y":0.5}'])
    >>> found.positions, found.features, found.y, found.labels, found.clients
    (array([7, 8]), ('x', 'y'), array([1., 0.]), ('a', 'b'), ('d1', '2'))
    >>> found.X
    array([[1. , nan],
           [2. , 0.5]])
    >>> format.decode([9], [b'{"kind":"a","device":2,"x":"wide"}']).remarks[0]
    'field "x": "wide" is not a number; such cells count as missing; list it in missing_values if it stands for no \
value, or declare all values under categories'
    """

    def __init__(self, fields: FieldMap, limits: Limits = NAMED) -> None:
        _check_names(fields, limits)
        self._fields = fields
        self._limits = limits
        self._remarks = Remarks()
        self._labels = KnownLabels(limits, self._remarks, fields.label, fields.labels)
        self._any = AnyJson(fields)
        self._columns: dict[str, int] = {}
        self._unusable: set[str] = set()
        self._new: set[str] = set()
        self._records = 0
        self._reserved = frozenset(fields.category_features)
        self._writer: JsonWriter | None = None
        self._set_columns(fields.features)

    @classmethod
    def of(cls, fields: FieldMap, limits: Limits = NAMED) -> Self:
        """Return the format of a log with these fields."""
        return cls(fields, limits)

    def decode(self, offsets: Sequence[int], values: Sequence[bytes | None]) -> Decoded:
        """Return the records of consecutive messages.

        Returns
        -------
        Every message as one record or one rejection. The columns are all names known by now.
        """
        flat = self._flat
        block = self._read(flat, [value or b"" for value in values])
        heads = Heads.of(self._fields, block.cells)
        if heads.no_times:
            self._remarks.add("times", no_time(self._fields.time or "", next(iter(heads.no_times.values()))))
        wrong = heads.wrong | self._excess_labels(heads)
        wrong, ignored = self._take_names(block, wrong, offsets) if block.slow else (wrong, 0)
        X = self._matrix(flat, block, heads, wrong)
        good = np.delete(np.arange(len(block.index)), list(wrong))
        self._records += len(good)
        y, labels = heads.targets(good)
        bad = {block.index[i]: _Bad(reason, heads.clients[i], heads.keys[i]) for i, reason in wrong.items()}
        bad |= block.refused
        named = self._fields.client is not None
        if self._fields.closed:
            ignored += self._others([values[block.index[i]] or b"" for i in good.tolist()])
        return Decoded(
            positions=np.array(offsets, np.int64)[np.array(block.index, np.int64)[good]],
            features=self._features,
            X=X[good] if wrong else X,
            y=y,
            labels=labels,
            clients=tuple(map(heads.clients.__getitem__, good.tolist())) if named else (),
            rejected=tuple(Rejection(int(offsets[i]), bad[i].reason, key=bad[i].key) for i in sorted(bad)),
            rejected_clients=tuple(bad[i].client for i in sorted(bad)) if named else (),
            times=heads.times[good] if self._fields.time is not None else np.empty(0),
            ignored=ignored,
            unknown=self._unknown(heads.hot[good]),
            remarks=self._remarks.new(),
            remarked_at=self._remarks.positions,
            half=self._half(heads.keys, good),
        )

    def count(self, value: bytes | None) -> int:
        """Return 1: a message is one record, or a bad one."""
        return 1

    def _half(self, keys: Sequence[str], good: IntArray) -> Half | None:
        kind = self._fields.half
        if kind is None:
            return None
        return Half(kind, np.array([*map(keys.__getitem__, good.tolist())], dtype=np.object_))

    def fresh(self) -> Self:
        """Return the same format without any names learnt from records."""
        return type(self)(self._fields, self._limits)

    def encode(
        self,
        features: Sequence[str],
        values: Sequence[float] | FloatArray,
        label: str | float,
        client: str | None = None,
        time: float | None = None,
        key: str | None = None,
    ) -> bytes:
        """Return the message that `decode` reads as this record, with every number exact.

        Parameters
        ----------
        values
            Shape (d,); NaN is left out.
        client
            The client; written if the map has a client field.
        time
            Its time in seconds since 1970; written if the map has a time field.
        key
            Its key; written if the map has a key field.

        Raises
        ------
        UsageError
            If the record could not be read back; the message has the reason and the remedy.

        >>> JsonRecords(FieldMap()).encode(("x", "a.b"), [1.0, 0.1], "yes")
        b'{"label":"yes","x":1,"a.b":0.1}'
        """
        names = tuple(features)
        if self._writer is None or self._writer.features != names:
            self._writer = JsonWriter(self._fields, names)
        return self._writer.message(values, label, client, time, key)

    def _read(self, flat: FlatJson, messages: Sequence[bytes]) -> _Block:
        block = _Block()
        for i, cells in enumerate(flat.cells(messages)):
            if cells is None:
                self._read_slowly(block, i, messages[i])
            else:
                block.index.append(i)
                block.cells.append(cells)
        return block

    def _read_slowly(self, block: _Block, i: int, message: bytes) -> None:
        try:
            record = self._any.read(message)
        except UnusableRecordError as error:
            # Not the error itself, whose frames would keep the block alive.
            block.refused[i] = _Bad(error.reason, error.client, error.key)
            return
        block.slow[len(block.cells)] = record
        block.index.append(i)
        block.cells.append(record.head)

    def _excess_labels(self, heads: Heads) -> dict[int, str]:
        """Return the errors of records whose labels are not accepted; labels of bad records are not registered."""
        if self._fields.task != "classification":
            return {}
        codes = np.array(heads.answers, np.int64)
        codes[list(heads.wrong)] = -1
        refused = self._labels.refused(codes, heads.texts)
        return {i: within(reason, f"field {quoted(self._fields.label)}: ") for i, reason in refused.items()}

    def _take_names(
        self, block: _Block, wrong: Mapping[int, str], offsets: Sequence[int]
    ) -> tuple[dict[int, str], int]:
        """Add the new names of good records, as many as there is room for.

        Returns
        -------
        All errors, and the number of values left out. Names of bad records are not added.
        """
        known, refused, ignored, beyond = dict(self._columns), dict(wrong), 0, False
        most = self._limits.features - len(self._reserved)
        for i, record in block.slow.items():
            new = [] if i in wrong else [name for name in record.numbers if name not in known]
            if taken := self._reserved.intersection(new):
                refused[i] = f"field {quoted(min(taken))} has the name of a feature of a category; rename the field"
                continue
            fits = [name for name in new if is_name(name)][: most - len(known)]
            known.update(zip(fits, range(len(known), len(known) + len(fits)), strict=True))
            ignored, beyond = ignored + len(new) - len(fits), beyond or len(fits) < len(new)
            if record.unusable and i not in wrong:
                ignored += len(record.unusable)
                self._report(record.unusable, known, int(offsets[block.index[i]]))
        if len(known) > len(self._columns):
            if self._records >= SAMPLE:
                self._report_new([*known][len(self._columns) :])
            self._set_columns(tuple(known))
        if beyond:
            self._remarks.add("features", left_out(self._limits))
        return refused, ignored

    def _report_new(self, names: Sequence[str]) -> None:
        """Report features that first come after this many records, up to a limit."""
        for name in names[: max(0, MOST_REPORTED - len(self._new))]:
            self._new.add(name)
            self._remarks.add(f"new {name}", f"field {quoted(name)} is new, and a feature from here on")

    def _report(self, unusable: Mapping[str, tuple[str, object]], known: Container[str], at: int) -> None:
        """Report each field with a cell that is not a number once, up to a limit; `at` is the record's position."""
        for name, (why, cell) in unusable.items():
            if len(self._unusable) >= MOST_REPORTED:
                self._remarks.add("unusable", "cells of more fields are not numbers; the first fields were reported")
                return
            if (short := name[:NAME_BYTES]) not in self._unusable:
                self._unusable.add(short)
                becomes = "such cells count as missing" if name in known else "the field is not a feature"
                what = remedy(cell, of_numbers=name in known)
                self._remarks.add(f"unusable {short}", f"field {quoted(name)}: {why}; {becomes}; {what}", at)

    def _others(self, messages: Sequence[bytes]) -> int:
        """Count the fields of good records that the closed map does not name."""
        named = self._fields.wanted | self._fields.holders
        others = 0
        for message in messages:
            unnamed = _FIELDS.decode(message).keys() - named
            others += len(unnamed)
            if unnamed:
                remark = f"fields that [records.fields] does not name are ignored, such as {quoted(min(unnamed))}"
                self._remarks.add("others", remark)
        return others

    def _unknown(self, hot: FloatArray) -> dict[str, int]:
        """Count the records with an undeclared value of a category, by field."""
        found: dict[str, int] = {}
        at = 0
        for name, values in self._fields.categories.items():
            undeclared = int((hot[:, at : at + len(values)] == 0.0).all(axis=1).sum())
            at += len(values)
            if undeclared:
                found[name] = undeclared
                remark = f"values of category {quoted(name)} that are not declared set none of its features"
                self._remarks.add(f"category {name}", remark)
        return found

    def _set_columns(self, names: tuple[str, ...]) -> None:
        self._columns = {name: i for i, name in enumerate(names)}
        self._features = (*names, *self._fields.category_features)
        self._flat = FlatJson(self._fields, names)

    def _matrix(self, flat: FlatJson, block: _Block, heads: Heads, wrong: Container[int]) -> FloatArray:
        """Return the features of a block's records, shape (n, d); the rows of bad records have no meaning."""
        if not block.slow and len(flat.columns) == len(self._columns):
            numbers = flat.rows(block.cells)
        else:
            numbers = np.full((len(block.cells), len(self._columns)), np.nan)
            fast = [i for i in range(len(block.cells)) if i not in block.slow]
            numbers[np.ix_(np.array(fast, np.int64), flat.columns)] = flat.rows([block.cells[i] for i in fast])
            for i, record in block.slow.items():
                if i not in wrong:
                    named = record.numbers.items()
                    taken = {self._columns[name]: value for name, value in named if name in self._columns}
                    numbers[i, list(taken)] = list(taken.values())
        if codes := self._fields.reading.missing.numbers:
            numbers = np.where(np.isin(numbers, list(codes)), np.nan, numbers)
        return np.hstack([numbers, heads.hot]) if self._reserved else numbers


def _check_names(fields: FieldMap, limits: Limits) -> None:
    features = [*fields.features, *fields.category_features]
    for what, names, most in (("features", features, limits.features), ("labels", fields.labels, limits.labels)):
        if len(names) > most:
            raise UsageError(
                f"[records.fields] names {len(names)} {what}, but at most {most} are possible; "
                f"raise most_{what} in [federation]"
            )
    if long := [name for name in features if not is_name(name)]:
        raise UsageError(
            f"[records.fields] names a feature of more than {NAME_BYTES} bytes: {quoted(long[0])}; shorten it"
        )
