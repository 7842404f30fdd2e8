"""Writes records as JSON messages that read back unchanged."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
import numpy as np

from streamfl.arrays import FloatArray
from streamfl.errors import UsageError
from streamfl.records.formats.field_map import FieldMap, repeated
from streamfl.records.formats.json_heads import labels, targets
from streamfl.records.values.cells import listed, quoted, text
from streamfl.records.values.times import DIGITS_OF_DATES, FIRST, MILLISECONDS_FROM

_EXACT = 2.0**53  # larger floats cannot have a fraction
_Answer = str | float


class JsonWriter:
    """Writes records with the same features.

    A name with dots is written as one field: it reads back like the field of an inner object, and faster.

    Parameters
    ----------
    features
        The names of the values, length d. Features of a category are written as its one field.

    Raises
    ------
    UsageError
        If two values would be written to the same field.

    Examples
    --------
    >>> writer = JsonWriter(FieldMap(categories={"colour": ("red", "blue")}), ("x", "colour=red", "colour=blue"))
    >>> writer.message([0.5, 0.0, 1.0], "a", None, None)
    b'{"label":"a","colour":"blue","x":0.5}'
    """

    def __init__(self, fields: FieldMap, features: tuple[str, ...]) -> None:
        self.features = features
        self._fields = fields
        self._checked: set[_Answer] = set()
        self._categories = [_Category(name, values, features) for name, values in fields.categories.items()]
        taken = {place for category in self._categories for place in category.places}
        self._places = np.array([i for i in range(len(features)) if i not in taken], np.int64)
        self._names = [features[i] for i in self._places.tolist()]
        names = [*fields.head, *self._names]
        if twice := repeated(names) or repeated(features):
            raise UsageError(f"more than one value would have the field {listed(twice)}; rename the column")

    def message(
        self,
        values: Sequence[float] | FloatArray,
        label: _Answer,
        client: str | None,
        time: float | None,
        key: str | None = None,
    ) -> bytes:
        """Return one record as bytes; see `JsonRecords.encode`.

        Raises
        ------
        UsageError
            If it could not be read back.
        """
        row: FloatArray = np.asarray(values, np.float64)
        if np.isinf(row).any():
            name = quoted(self.features[int(np.isinf(row).argmax())])
            raise UsageError(f"{name} of a record is infinite, which JSON cannot represent; leave the record out")
        record: dict[str, object] = {}
        if self._fields.task != "unlabelled":
            record[self._fields.label] = self._label(label)
        if self._fields.client is not None:
            record[self._fields.client] = _name("client", client)
        if self._fields.time is not None and time is not None and not math.isnan(time):
            record |= _times(self._fields.times, float(time))
        if self._fields.key is not None:
            record[self._fields.key] = _name("key", key)
        for category in self._categories:
            if (value := category.value(row)) is not None:
                record[category.name] = value
        return msgspec.json.encode(record | self._numbers(row[self._places]))

    def _label(self, label: _Answer) -> _Answer:
        """Return a label after checking that it reads back unchanged."""
        if label in self._checked:
            return label
        answer: _Answer = str(label) if isinstance(label, str) else float(label)  # NumPy scalars cannot be written
        wrong = targets([answer])[1] if self._fields.task == "regression" else labels([answer])[2]
        if wrong or (isinstance(answer, str) and text(answer) != answer):
            raise UsageError(
                f"a record has the label {quoted(label)}, which cannot be read back; leave the record out"
            )
        if isinstance(answer, str):
            self._checked.add(answer)
        return answer

    def _numbers(self, numbers: FloatArray) -> dict[str, float]:
        values = dict(zip(self._names, shortened(numbers), strict=True))
        for place in np.flatnonzero(np.isnan(numbers)).tolist():
            del values[self._names[place]]
        return values


def _name(what: str, name: str | None) -> str:
    if not name or name != name.strip():
        raise UsageError(f"a record has the {what} {quoted(name)}; give a name without surrounding blanks")
    return str(name)


class _Category:
    """A text field that was encoded as several 0/1 features."""

    def __init__(self, name: str, values: tuple[str, ...], features: tuple[str, ...]) -> None:
        self.name = name
        self._values = [value for value in values if f"{name}={value}" in features]
        self.places = [features.index(f"{name}={value}") for value in self._values]
        self._other = "other"
        while self._other in values:
            self._other += "_"

    def value(self, row: FloatArray) -> str | None:
        """Return the text that these values encode, None if it is missing."""
        hot: list[float] = row[self.places].tolist()
        if all(map(math.isnan, hot)):
            return None
        if set(hot) <= {0.0, 1.0} and sum(hot) <= 1.0:
            return self._values[hot.index(1.0)] if 1.0 in hot else self._other
        raise UsageError(
            f"the features of category {quoted(self.name)} are {hot}; at most one may be 1, the others must be 0"
        )


def shortened(row: FloatArray) -> list[float]:
    """Return numbers, whole ones as int so that JSON writes them without a decimal point.

    >>> shortened(np.array([3.0, -0.0, 0.1, 1e300]))
    [3, -0.0, 0.1, 1e+300]
    """
    whole = (row == np.rint(row)) & (np.abs(row) < _EXACT) & ((row != 0.0) | ~np.signbit(row))
    if whole.all():
        whole_numbers: list[float] = row.astype(np.int64).tolist()
        return whole_numbers
    return [int(value) if is_whole else value for value, is_whole in zip(row.tolist(), whole.tolist(), strict=True)]


def _times(fields: tuple[str, ...], time: float) -> dict[str, float | str]:
    """Return what the fields of the time hold; two hold the day and the time of day."""
    if len(fields) == 1:
        return {fields[0]: _time(time)}
    day, _, clock = datetime.fromtimestamp(time, UTC).isoformat().partition("T")
    return dict(zip(fields, (day, clock), strict=True))


def _time(time: float) -> float | str:
    if not FIRST <= time <= MILLISECONDS_FROM:
        raise UsageError(f"a record has the time {time}; give seconds since 1970")
    if not DIGITS_OF_DATES[0] <= time <= DIGITS_OF_DATES[1] or time % 1.0:
        return time
    return datetime.fromtimestamp(time, UTC).isoformat()  # as a whole number it would be read as a date
