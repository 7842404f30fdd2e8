"""The packed record format: many records per message as float32, for producers with arrays."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.bounds import NAMED, Limits, is_name
from streamfl.errors import UsageError
from streamfl.protocol.reasons import Reason, ReasonCode, coded, reason_of, within
from streamfl.protocol.records import Rejection
from streamfl.records.formats.classes import classes
from streamfl.records.formats.field_map import FieldMap
from streamfl.records.formats.known import KnownLabels, Remarks, left_out, no_time
from streamfl.records.formats.message_format import MessageFormat
from streamfl.records.formats.packed_layout import LENGTH, MAX_HEADER, MAX_RECORDS, PackedHeader, Task, layout
from streamfl.records.labels import INFINITE_LABEL, NO_LABEL
from streamfl.records.values.cells import quoted
from streamfl.records.values.times import in_seconds
from streamfl.runtime.ports import Decoded

# Cached headers, and bytes of the largest one. A producer has one header per number of records in a message.
_REMEMBERED, _LARGEST = 32, 256 * 1024


@dataclass(slots=True, eq=False)
class _PackedBlock:
    """The messages of one call: packed records, and refused messages."""

    offsets: list[int] = field(default_factory=list)
    messages: list[bytes] = field(default_factory=list)
    layouts: list[PackedHeader] = field(default_factory=list)
    columns: dict[str, int] = field(default_factory=dict)
    ignored: int = 0  # values of features beyond the limit
    refused: list[Rejection] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Columns:
    """All records of a block, including bad ones."""

    X: FloatArray  # (n, d)
    y: FloatArray  # (n,): class indices in the labels of the record's message, or targets
    times: FloatArray  # (n,)


class Packed(MessageFormat):
    """Messages that are safetensors files of records: `streamfl.runtime.ports.RecordFormat`.

    A message has the arrays `X`, float32 (n, d), NaN where missing, and `y`, (n,): int32 indices into the labels in
    classification, float32 or float64 targets in regression. `time`, float64 (n,), seconds since 1970, is optional.
    The metadata have `features`, a JSON list of d names, and in classification `labels`, a JSON list of texts. A
    message holds up to 65,536 records of one client, which it does not name.

    Parameters
    ----------
    task
        Whether `y` holds classes or targets, or is not read.
    limits
        The most names that it accepts: values of further features are left out, records of further labels rejected.

    Examples
    --------
    >>> format = Packed("classification")
    >>> message = format.encode(("a", "b"), np.array([[1.0, 2.0], [3.0, np.inf]]), np.array([1, 0]), ("no", "yes"))
    >>> found = format.decode([3], [message])
    >>> found.positions, found.X, found.y, found.labels
    (array([196608]), array([[1., 2.]]), array([0.]), ('yes',))
    >>> found.rejected
    (Rejection(position=196609, reason='feature "b" is infinite', count=1),)
    """

    stride = MAX_RECORDS

    def __init__(self, task: Task, limits: Limits = NAMED) -> None:
        self._task: Task = task
        self._limits = limits
        self._remarks = Remarks()
        self._labels = KnownLabels(limits, self._remarks, "y")
        self._layouts: dict[bytes, PackedHeader] = {}

    @classmethod
    def of(cls, fields: FieldMap, limits: Limits = NAMED) -> Self:
        """Return the format of a log: its messages name their fields, so of the map only the task is used.

        Raises
        ------
        UsageError
            If the map has more than the task.

        >>> Packed.of(FieldMap(client="device"))
        Traceback (most recent call last):
        streamfl.errors.UsageError: packed messages name their fields themselves; leave out client
        """
        default = FieldMap.model_fields
        more = [name for name, value in fields if name != "task" and value != default[name].default]
        if more:
            raise UsageError(f"packed messages name their fields themselves; leave out {', '.join(more)}")
        return cls(fields.task, limits)

    def decode(self, offsets: Sequence[int], values: Sequence[bytes | None]) -> Decoded:
        """Return the records of consecutive messages.

        Returns
        -------
        Every record of every message as one record or one rejection; one rejection for a message that cannot be
        read. The columns are those of all messages, NaN where a message lacks them.
        """
        block = self._read(offsets, values)
        columns = _columns(block)
        counts = np.array([one.n for one in block.layouts], np.int64)
        positions = _positions(np.array(block.offsets, np.int64), counts)
        codes, texts = self._codes(block, columns.y, counts)
        times, no_times = in_seconds(columns.times)
        if no_times:
            self._remarks.add("times", no_time("time", next(iter(no_times.values()))))
        wrong = self._no_answer(columns.y, codes) | _infinite(columns.X, tuple(block.columns))
        if codes is not None:
            good_codes = np.array(codes)
            good_codes[list(wrong)] = -1
            wrong |= {i: within(reason, "label ") for i, reason in self._labels.refused(good_codes, texts).items()}
        good = np.delete(np.arange(len(positions)), list(wrong))
        y, labels = (columns.y[good], ()) if codes is None else classes(codes[good], texts)
        rejected = [*block.refused, *(Rejection(int(positions[i]), reason) for i, reason in wrong.items())]
        return Decoded(
            positions=positions[good],
            features=tuple(block.columns),
            X=columns.X[good] if wrong else columns.X,
            y=y,
            labels=labels,
            clients=(),
            rejected=tuple(sorted(rejected, key=lambda rejection: rejection.position)),
            rejected_clients=(),
            times=times[good] if any(one.time for one in block.layouts) else np.empty(0),
            ignored=block.ignored,
            remarks=self._remarks.new(),
        )

    def count(self, value: bytes | None) -> int:
        """Return how many records a message holds, from its header; 1, the rejection, if it cannot be read."""
        try:
            return self._layout(value or b"").n
        except ValueError:
            return 1

    def fresh(self) -> Self:
        """Return the same format without any labels learnt from records."""
        return type(self)(self._task, self._limits)

    def encode(
        self,
        features: Sequence[str],
        X: FloatArray,
        y: FloatArray,
        labels: Sequence[str],
        times: FloatArray | None = None,
    ) -> bytes:
        """Return the message that `decode` reads as these records.

        Parameters
        ----------
        X
            Shape (n, d), rounded to float32; NaN is a missing value.
        y
            Shape (n,): class indices in `labels`, or targets; not written for records without labels.
        labels
            Names of the classes; in regression none.
        times
            Shape (n,): seconds since 1970, NaN if unknown.

        Raises
        ------
        UsageError
            If the message could not be read back; the error has the reason and the remedy.
        """
        with np.errstate(over="ignore"):  # overflow becomes infinite, which readers reject as a bad record
            small = np.asarray(X).astype("<f4")
        answers = np.asarray(y).astype("<i4" if self._task == "classification" else "<f8")
        arrays = {"y": answers, "X": small} if answers.itemsize == 8 else {"X": small, "y": answers}
        if times is not None:
            arrays = {"time": np.asarray(times).astype("<f8"), **arrays}
        metadata = {"features": json.dumps(list(features)), "labels": json.dumps(list(labels))}
        if self._task == "unlabelled":
            del arrays["y"], metadata["labels"]
        head = _head(arrays, metadata)
        try:
            layout(head, self._task, self._limits)
        except ValueError as error:
            raise UsageError(
                f"these records cannot be packed: {error}; correct them, or pack fewer at a time"
            ) from None
        return head + b"".join(array.tobytes() for array in arrays.values())

    def _read(self, offsets: Sequence[int], values: Sequence[bytes | None]) -> _PackedBlock:
        block = _PackedBlock()
        for offset, value in zip(offsets, values, strict=True):
            try:
                one = self._layout(value or b"")
            except ValueError as error:
                block.refused.append(
                    Rejection(int(offset) * self.stride, coded(reason_of(error), ReasonCode.NOT_PACKED))
                )
                continue
            self._take_names(block, one)
            block.offsets.append(offset)
            block.messages.append(value or b"")
            block.layouts.append(one)
        return block

    def _take_names(self, block: _PackedBlock, one: PackedHeader) -> None:
        """Add the features of a message, as many as there is room for."""
        new = [name for name in one.features if name not in block.columns] if one.n else []
        fits = [name for name in new if is_name(name)][: self._limits.features - len(block.columns)]
        block.columns.update(zip(fits, range(len(block.columns), len(block.columns) + len(fits)), strict=True))
        if len(fits) < len(new):
            block.ignored += one.n * (len(new) - len(fits))
            self._remarks.add("features", left_out(self._limits))

    def _layout(self, message: bytes) -> PackedHeader:
        """Return the layout of a message from its header; layouts are cached by header.

        Raises
        ------
        ValueError
            If it is not a packed message.
        """
        if not message:
            raise ValueError(Reason("the message is empty", ReasonCode.EMPTY))
        end = LENGTH + int.from_bytes(message[:LENGTH], "little")
        if end > min(len(message), MAX_HEADER):
            what = "not safetensors (the header is longer than the message, or than 4 MiB)"
            raise ValueError(Reason(what, ReasonCode.NOT_PACKED))
        head = message[:end]
        found = self._layouts.get(head)
        if found is None:
            found = layout(head, self._task, self._limits)
            while len(self._layouts) >= _REMEMBERED:
                del self._layouts[next(iter(self._layouts))]
            if len(head) <= _LARGEST:
                self._layouts[head] = found
        if found.size != len(message):
            raise ValueError(f"the message has {len(message)} bytes, but its header describes {found.size}")
        return found

    def _codes(self, block: _PackedBlock, y: FloatArray, counts: IntArray) -> tuple[IntArray | None, tuple[str, ...]]:
        """Return the label number of each record, -1 if it has none, and the labels of all messages by number."""
        if self._task != "classification":
            return None, ()
        numbers: dict[str, int] = {}
        tables: dict[tuple[str, ...], IntArray] = {}
        for labels in dict.fromkeys(one.labels for one in block.layouts):
            tables[labels] = np.array([numbers.setdefault(label, len(numbers)) for label in labels], np.int64)
        codes = np.full(len(y), -1, np.int64)
        of = {labels: i for i, labels in enumerate(tables)}
        table_of = np.repeat([of[one.labels] for one in block.layouts], counts)
        for i, table in enumerate(tables.values()):
            there = np.flatnonzero((table_of == i) & (y >= 0) & (y < len(table)))
            codes[there] = table[y[there].astype(np.int64)]
        return codes, tuple(numbers)

    def _no_answer(self, y: FloatArray, codes: IntArray | None) -> dict[int, str]:
        if codes is not None:
            bad = np.flatnonzero(codes < 0).tolist()
            return {i: f"label {int(y[i])} is not in the list of labels" for i in bad}
        bad = np.flatnonzero(~np.isfinite(y)).tolist()
        return {i: NO_LABEL if np.isnan(y[i]) else INFINITE_LABEL for i in bad}


def _columns(block: _PackedBlock) -> _Columns:
    n, features = sum(one.n for one in block.layouts), tuple(block.columns)
    same = all(one.features == features for one in block.layouts)
    X = np.empty((n, len(features))) if same else np.full((n, len(features)), np.nan)
    found = _Columns(X, np.zeros(n), np.full(n, np.nan))
    at = 0
    for one, message in zip(block.layouts, block.messages, strict=True):
        rows = slice(at, at + one.n)
        numbers = np.frombuffer(message, one.X.dtype, one.n * len(one.features), one.X.start)
        values = numbers.reshape(one.n, len(one.features))
        if same:
            X[rows] = values
        else:
            taken = {block.columns[name]: j for j, name in enumerate(one.features) if name in block.columns}
            X[rows, list(taken)] = values[:, list(taken.values())]
        if one.y is not None:
            found.y[rows] = np.frombuffer(message, one.y.dtype, one.n, one.y.start)
        if one.time is not None:
            found.times[rows] = np.frombuffer(message, one.time.dtype, one.n, one.time.start)
        at += one.n
    return found


def _positions(offsets: IntArray, counts: IntArray) -> IntArray:
    """Return the position of each record.

    >>> _positions(np.array([1, 4]), np.array([2, 1]))
    array([ 65536,  65537, 262144])
    """
    before = np.cumsum(counts) - counts
    return np.repeat(offsets * MAX_RECORDS - before, counts) + np.arange(counts.sum())


def _infinite(X: FloatArray, features: tuple[str, ...]) -> dict[int, str]:
    infinite = np.isinf(X)
    bad = np.flatnonzero(infinite.any(axis=1)).tolist()
    named = {i: quoted(features[int(infinite[i].argmax())]) for i in bad}
    return {i: Reason(f"feature {name} is infinite", ReasonCode.INFINITE) for i, name in named.items()}


def _head(arrays: dict[str, np.ndarray], metadata: dict[str, str]) -> bytes:
    """Return the header of a safetensors file, with the same bytes for the same shapes, as readers cache it."""
    names = {"<f4": "F32", "<f8": "F64", "<i4": "I32"}
    header: dict[str, object] = {"__metadata__": metadata}
    start = 0
    for name, array in arrays.items():
        spans = [start, start + array.nbytes]
        header[name] = {"dtype": names[array.dtype.str], "shape": array.shape, "data_offsets": spans}
        start += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(LENGTH, "little") + text
