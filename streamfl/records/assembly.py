"""Builds a table from blocks of records, with little memory beyond the table itself."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from streamfl.arrays import FloatArray, IntArray, Numbers
from streamfl.errors import UsageError
from streamfl.protocol.records import Rejection, without_infinity
from streamfl.records.columns import (
    NOTATION,
    SAMPLE,
    TIMES,
    Column,
    LeftOutColumn,
    NumberColumn,
    TextColumn,
    decimals,
    describe,
    examples,
    infer,
)
from streamfl.records.labels import LabelTexts, resolve
from streamfl.records.request import Request
from streamfl.records.rows import GrowingRows
from streamfl.records.series import DISTINCT, LAST, last_values
from streamfl.records.table import Table, Texts
from streamfl.records.unusable_cells import UnusableCells, missing_words
from streamfl.records.values.cells import NAMES, Cells, is_number, listed, quoted, texts, words
from streamfl.records.values.missing import WORDS
from streamfl.records.values.numerals import Decimal
from streamfl.records.values.times import Notation, Times, unknown

BLOCK = 8192  # records read at a time
MAX_COLUMNS = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class RowBlock:
    """A block of consecutive records of a file: the columns of the parsed ones, and the rejected ones."""

    places: IntArray  # the number of each record in the file from 0 on; bad records count
    lines: IntArray  # the number of the line or record for messages, counted from 1
    features: Mapping[str, Cells]  # the cells of each feature column
    label: Cells  # the cells of the label column; () if there is none
    kept: Cells | None = None  # the cells of the column to keep as text, if one was asked for
    times: Cells | None = None  # the cells of the column of times, if there is one
    rejected: tuple[Rejection, ...] = ()  # records that could not be parsed, with reasons such as `line 3: ...`

    @property
    def records(self) -> int:
        """Count the records, good and bad."""
        return len(self.places) + len(self.rejected)


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """A file as it is read: block by block, so that it need not fit into memory."""

    request: Request  # what the caller asked for
    name: str  # the name of the file without its folder
    label: str  # the name of the label column; "" if there is none
    unit: str  # the unit of `lines` in messages: `line` or `record`
    each: Iterator[RowBlock]  # the blocks in order
    left_out: Sequence[LeftOutColumn] = ()  # columns that no block holds, since they cannot be features
    notes: Sequence[str] = ()  # what the user should know of the file

    def table(self) -> Table:
        """Return all records as a table.

        Raises
        ------
        UsageError
            The records cannot be used: see `Assembly`.
        """
        assembly = Assembly(self.request, self.name, self.label, self.unit, self.notes)
        for column in self.left_out:
            assembly.leave_out(column.name, column.why)
        read = 0
        for block in self.each:
            assembly.add(block)
            read += block.records
            if self.request.watch is not None:
                self.request.watch(read)
        return assembly.finish()


@dataclass(slots=True, eq=False)
class _Rest:
    """The data of the good records next to their features, block by block."""

    codes: list[IntArray] = field(default_factory=list)
    places: list[IntArray] = field(default_factory=list)
    lines: list[IntArray] = field(default_factory=list)
    kept: list[Texts] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Assembly:
    """A table under construction."""

    request: Request  # what the caller asked for
    name: str  # the name of the table
    label: str  # the name of the label column, for messages
    unit: str  # the unit of `lines` in messages: `line` or `record`
    notes: Sequence[str] = ()  # what the user should know of the file
    _columns: dict[str, Column | None] = field(default_factory=dict)
    _labels: LabelTexts = field(default_factory=LabelTexts)
    _decimals: dict[str, Decimal | None] = field(default_factory=dict)
    _unusable: UnusableCells = field(init=False)
    _rows: list[GrowingRows] = field(default_factory=list)
    _rest: _Rest = field(default_factory=_Rest)
    _rejected: list[Rejection] = field(default_factory=list)
    _times: Times | None = None
    _timed: list[IntArray] = field(default_factory=list)  # the good records of each block with times
    _infinite: int = 0
    _late: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._unusable = UnusableCells(self.unit)

    def add(self, block: RowBlock) -> None:
        """Add the next block of the file.

        Raises
        ------
        UsageError
            If the block has a bad record and the request is to stop, or there are too many columns.
        """
        self._look_at_notation(block)
        X, features, unusable = self._features(block)
        codes, wrong = self._labels.add(block.label)
        reasons = {i: f'column "{self.label}": {reason}' for i, reason in wrong.items()} | unusable
        self._reject([*block.rejected, *self._rejections(block.places, block.lines, reasons)])
        good = np.delete(np.arange(len(codes)), list(reasons))
        X = X[good] if reasons else X
        X, infinite = without_infinity(X)
        self._infinite += infinite
        if not self._rows or self._rows[-1].features != features:
            self._rows.append(GrowingRows(features))
        self._rows[-1].add(X)
        self._rest.codes.append(codes[good])
        self._rest.places.append(block.places[good])
        self._rest.lines.append(block.lines[good])
        if block.kept is not None:
            self._rest.kept.append(texts(block.kept, NAMES)[good])
        if block.times is not None:
            self._add_times(block.times, good)

    def leave_out(self, name: str, why: str) -> None:
        """Record that a column is left out of all blocks, and why."""
        self._columns[name] = LeftOutColumn(name, why)

    def _add_times(self, cells: Cells, good: IntArray) -> None:
        if self._times is None:
            self._times = Times(self.request.time or "", self.request.notation)
        self._times.add(cells)
        self._timed.append(good)

    def finish(self) -> Table:
        """Return the table of all blocks.

        Raises
        ------
        UsageError
            If no record is usable, no column is a feature, or there are too many labels.
        """
        y, labels = self._targets()
        good = np.flatnonzero(~np.isnan(y))
        if not len(good):
            raise self._nothing()
        self._refuse_notation()
        rest, times = self._rest, self._seconds()
        X: Numbers
        if self._is_series and not labels:
            names, X = last_values(self.label, y, np.concatenate(rest.kept) if rest.kept else None)
            features = tuple(names)
        else:
            features = self._names()
            X = _joined(self._rows, features)
        kept = {self.request.keep: np.concatenate(rest.kept)[good]} if self.request.keep is not None else {}
        return Table(
            name=self.name,
            features=features,
            X=X if len(good) == len(y) else X[good],
            y=y[good],
            labels=labels,
            places=np.concatenate(rest.places)[good],
            rejected=tuple(sorted(self._rejected, key=lambda rejection: rejection.position)),
            columns=kept,
            label=self.label,
            infinite=self._infinite,
            times=times[good] if len(times) else times,
            left_out=tuple(column.name for column in self._left_out),
            notes=self._notes(),
            excluded=tuple(sorted(self.request.excluded)),
            categories={c.name: c.values for c in self._columns.values() if isinstance(c, TextColumn)},
            units=self._units,
            time=self.request.time or "",
            notation=self._notation,
        )

    @property
    def _notation(self) -> Notation:
        order = None if self._times is None else self._times.order
        return replace(self.request.notation, order=order or self.request.notation.order)

    @property
    def _units(self) -> dict[str, str]:
        numbers = [column for column in self._columns.values() if isinstance(column, NumberColumn)]
        units = {column.name: column.reading.unit for column in numbers if column.reading.unit}
        return units | ({self.label: self._labels.reading.unit} if self._labels.reading.unit else {})

    @property
    def _is_series(self) -> bool:
        """Whether the file has a label and times, and nothing to be a feature."""
        return self._times is not None and bool(self.label) and not self._columns

    @property
    def _left_out(self) -> list[LeftOutColumn]:
        return [column for column in self._columns.values() if isinstance(column, LeftOutColumn)]

    def _notes(self) -> tuple[str, ...]:
        notes = [*self.notes, *([describe(self.request, self._left_out)] if self._left_out else [])]
        if self._is_series:
            notes.append(f"it has no feature column besides {self.label}, so its last {LAST} values are the features")
        if self._late:
            first = f"{self.unit} {min(self._late.values())}"
            notes.append(f"columns that come from {first} on, and count as missing before: {listed([*self._late])}")
        if written := {word: n for word, n in self._labels.written.items() if word.lower() in WORDS}:
            where = f"the label {quoted(self.label)[1:-1]}, without which a record is rejected"
            notes.append(missing_words(where, written, "label"))
        if units := self._units:
            notes.append(f"numbers with their unit, read as numbers: {in_units(units)}")
        notes.extend(self._unusable.notes())
        column, no_times = self._times, list[str]()
        if column is None:
            return tuple(notes)
        for kept, wrong in zip(self._timed, column.wrong, strict=False):
            no_times.extend(wrong[i] for i in kept.tolist() if i in wrong)
        return (*notes, *unknown(no_times), *filter(None, [column.note()]))

    def _look_at_notation(self, block: RowBlock) -> None:
        """Find out the decimal mark of each column, when the first records are there."""
        reading = self.request.reading
        new = {name: cells for name, cells in block.features.items() if name not in self._decimals}
        if new and reading.decimal is None:
            shown = {**new, self.label: block.label} if self.label and not self._decimals else new
            self._decimals |= decimals(shown, self.request.usual_decimal)
        decimal = reading.decimal or self._decimals.get(self.label)
        unit = self._labels.reading.unit
        if not self._rows and len(units := examples([word for word in words(block.label[:SAMPLE]) if word])) == 1:
            unit = next(iter(units))
        self._labels.reading = replace(self.request.reading_of(self.label), decimal=decimal, unit=unit)

    def _seconds(self) -> FloatArray:
        """Return the times of the good records.

        Raises
        ------
        UsageError
            Nothing decides how they are to be read.
        """
        if self._times is None:
            return np.empty(0)
        try:
            return np.concatenate(
                [times[good] for times, good in zip(self._times.finish(), self._timed, strict=True)]
            )
        except UsageError as error:
            raise UsageError(f"{self.request.source}: {error}") from None

    def _features(self, block: RowBlock) -> tuple[FloatArray, tuple[str, ...], dict[int, str]]:
        """Return the features, and, if a bad record is to stop all, what is not a number in its column."""
        columns = self._followed(block)
        X = np.empty((len(block.places), sum(len(column.features) for column in columns)))
        at, bad = 0, dict[int, str]()
        for column in columns:
            until = at + len(column.features)
            unusable = column.encode(block.features[column.name], X[:, at:until])
            if self.request.on_bad_record == "stop" and not isinstance(column, TextColumn):
                bad |= {i: f'column "{column.name}": {why}' for i, why in unusable.items()}
            self._unusable.add(column, block.features[column.name], unusable, block.lines)
            if isinstance(column, TextColumn):
                self._unusable.add_missing(column, block.features[column.name], X[:, at:until])
            at = until
        return X, tuple(feature for column in columns for feature in column.features), bad

    def _followed(self, block: RowBlock) -> list[Column]:
        """Return the kinds of the columns, with the values of texts that are new in this block."""
        for name, cells in block.features.items():
            if (known := self._columns.get(name)) is None:
                reading = replace(
                    self.request.reading_of(name), decimal=self.request.decimal or self._decimals.get(name)
                )
                known = infer(name, cells, reading)
                if known is not None and self._rows and name not in self._columns:
                    self._late[name] = next((int(block.lines[i]) for i, word in enumerate(words(cells)) if word), 0)
            self._columns[name] = None if known is None else known.followed(cells)
        if len(self._columns) > MAX_COLUMNS:
            raise too_many(self.request)
        known_ = (self._columns[name] for name in block.features)
        return [column for column in known_ if column is not None]

    def _rejections(self, places: IntArray, lines: IntArray, reasons: Mapping[int, str]) -> list[Rejection]:
        return [Rejection(int(places[i]), f"{self.unit} {lines[i]}, {why}") for i, why in reasons.items()]

    def _reject(self, rejections: Sequence[Rejection]) -> None:
        if rejections and self.request.on_bad_record == "stop":
            first = min(rejections, key=lambda rejection: rejection.position)
            raise self.request.refusal(first.reason, "correct it, or add --on-bad-record reject to go on without it")
        self._rejected.extend(rejections)

    def _targets(self) -> tuple[FloatArray, tuple[str, ...]]:
        """Return y and the labels. A record whose target is not a number is rejected, and its y is NaN."""
        codes = np.concatenate(self._rest.codes) if self._rest.codes else np.empty(0, np.int64)
        if not len(codes):
            return np.empty(0), ()
        names = list(self._labels.codes)
        request = replace(self.request, label=self.label)
        if self._is_series and request.task == "auto" and len(names) > DISTINCT and all(map(is_number, names)):
            request = replace(request, task="regression")
        y, labels = resolve(request, self._labels, codes)
        wrong = {int(i): self._not_a_target(names[codes[i]]) for i in np.flatnonzero(np.isnan(y))}
        if wrong:
            self._reject(self._rejections(np.concatenate(self._rest.places), np.concatenate(self._rest.lines), wrong))
        return y, labels

    def _refuse_notation(self) -> None:
        """Refuse a file most of whose columns hold numbers that cannot be read."""
        lost = [column for column in self._left_out if column.why.startswith(NOTATION)]
        if len(lost) > sum(bool(column and column.features) for column in self._columns.values()):
            what = describe(self.request, lost).removeprefix("left out: ")
            raise self.request.refusal(what, "or leave these columns out with --drop")

    def _not_a_target(self, label: str) -> str:
        return f'column "{self.label}": {quoted(label)} is not a number, and the task is regression'

    def _nothing(self) -> Exception:
        if not self._rejected:
            return self.request.refusal("it has no records", "give a file with at least one")
        first = min(self._rejected, key=lambda rejection: rejection.position)
        what = f"none of its {len(self._rejected)} records can be used; the reason for the first one: {first.reason}"
        return self.request.refusal(what, "correct the file, leave the column out with --drop, or name the --label")

    def _names(self) -> tuple[str, ...]:
        """Return the features in the order of their columns. A column without any value counts as numbers."""
        names = [f for name, column in self._columns.items() for f in (column.features if column else (name,))]
        if not names and not self.request.time_features:
            guessed = " (taken, as --label names none)" if self.label and not self.request.label else ""
            label = f"the label, column {quoted(self.label)}{guessed}" if self.label else "the label"
            what = "; ".join([f"it has no feature column besides {label}", *self._notes()])
            times = [column.name for column in self._left_out if column.why == TIMES]
            if times and self._times is None:
                remedy = "give columns of numbers or categories, or predict a number from its last values"
                raise self.request.refusal(what, f"{remedy}: --time {shlex.quote(times[0])}")
            raise self.request.refusal(what, "give at least one column of numbers or categories, separated by commas")
        if len(set(names)) < len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise self.request.refusal(
                f"two features would have the name {listed(twice)}", "rename one of the columns"
            )
        return tuple(names)


def too_many(request: Request) -> Exception:
    """Return the error for a file with too many columns."""
    return request.refusal(
        f"more than {MAX_COLUMNS} columns", "leave out fields whose names keep changing with --drop"
    )


def in_units(units: Mapping[str, str]) -> str:
    """Return columns with their units for a message.

    >>> in_units({"p": "mV", "q": "°C"})
    'p (mV), q (°C)'
    """
    return listed([f"{name} ({unit})" for name, unit in units.items()])


def _joined(pieces: list[GrowingRows], features: tuple[str, ...]) -> Numbers:
    """Stack pieces with different columns; values of a column that a piece lacks are missing."""
    if len(pieces) == 1 and pieces[0].features == features:
        return pieces[0].matrix()
    at = {name: i for i, name in enumerate(features)}
    parts = [(piece.features, piece.matrix()) for piece in pieces]
    X = np.full((sum(len(part) for _, part in parts), len(features)), np.nan, np.result_type(*(x for _, x in parts)))
    start = 0
    for names, part in parts:
        X[start : start + len(part), [at[name] for name in names]] = part
        start += len(part)
    return X
