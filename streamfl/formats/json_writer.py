"""Records as JSON messages that read back as they were."""

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from streamfl.core.arrays import FloatArray
from streamfl.core.errors import UsageError
from streamfl.formats.field_map import FieldMap, repeated
from streamfl.formats.json_heads import labels, targets
from streamfl.streams.cells import listed, quoted, text
from streamfl.streams.times import FIRST, MILLISECONDS_FROM

_EXACT = 2.0**53  # from here on a float does not show that it is a whole number
_Answer = str | float


class JsonWriter:
    """Writes records of the same features.

    A name with dots is written as one field: it reads back as the field of an object would, and faster.

    Parameters
    ----------
    fields
        Which field is what.
    features
        The names of the values, length d. Those of a category are written as the one field that they come from.

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
        self._fine: set[_Answer] = set()
        self._categories = [_Category(name, values, features) for name, values in fields.categories.items()]
        taken = {place for category in self._categories for place in category.places}
        self._places = np.array([i for i in range(len(features)) if i not in taken], np.int64)
        self._names = [features[i] for i in self._places.tolist()]
        names = [*fields.head, *self._names]
        if twice := repeated(names) or repeated(features):
            raise UsageError(f"more than one value would be field {listed(twice)}; rename the column")

    def message(
        self, values: Sequence[float] | FloatArray, label: _Answer, client: str | None, time: float | None
    ) -> bytes:
        """Return one record as bytes; see `JsonRecords.encode`.

        Raises
        ------
        UsageError
            If it could not be read again.
        """
        row: FloatArray = np.asarray(values, np.float64)
        if np.isinf(row).any():
            name = quoted(self.features[int(np.isinf(row).argmax())])
            raise UsageError(f"{name} of a record is infinite, which JSON cannot say; leave the record out")
        record: dict[str, object] = {self._fields.label: self._label(label)}
        if self._fields.client is not None:
            record[self._fields.client] = _client(client)
        if self._fields.time is not None and time is not None and not math.isnan(time):
            record[self._fields.time] = _time(float(time))
        for category in self._categories:
            if (value := category.value(row)) is not None:
                record[category.name] = value
        return msgspec.json.encode(record | self._numbers(row[self._places]))

    def _label(self, label: _Answer) -> _Answer:
        """Return a label that has been found to read back as it is."""
        if label in self._fine:
            return label
        answer: _Answer = str(label) if isinstance(label, str) else float(label)  # NumPy's own cannot be written
        wrong = targets([answer])[1] if self._fields.task == "regression" else labels([answer])[2]
        if wrong or (isinstance(answer, str) and text(answer) != answer):
            raise UsageError(f"a record has the label {quoted(label)}, which would not be read again; leave it out")
        if isinstance(answer, str):
            self._fine.add(answer)
        return answer

    def _numbers(self, numbers: FloatArray) -> dict[str, float]:
        said = dict(zip(self._names, short(numbers), strict=True))
        for place in np.flatnonzero(np.isnan(numbers)).tolist():
            del said[self._names[place]]
        return said


def _client(client: str | None) -> str:
    if not client or client != client.strip():
        raise UsageError(f"a record has the client {quoted(client)}; name one, without blanks around it")
    return str(client)


class _Category:
    """A field of text that became several 0/1 features."""

    def __init__(self, name: str, values: tuple[str, ...], features: tuple[str, ...]) -> None:
        self.name = name
        self._values = [value for value in values if f"{name}={value}" in features]
        self.places = [features.index(f"{name}={value}") for value in self._values]
        self._other = "other"
        while self._other in values:
            self._other += "_"

    def value(self, row: FloatArray) -> str | None:
        """Return the text that becomes these values again, None for what is missing."""
        hot: list[float] = row[self.places].tolist()
        if all(map(math.isnan, hot)):
            return None
        if set(hot) <= {0.0, 1.0} and sum(hot) <= 1.0:
            return self._values[hot.index(1.0)] if 1.0 in hot else self._other
        raise UsageError(f"the features of category {quoted(self.name)} are {hot}; one may be 1, and the others 0")


def short(row: FloatArray) -> list[float]:
    """Return numbers that JSON writes without a decimal point where none is needed, and that are read as the same.

    >>> short(np.array([3.0, -0.0, 0.1, 1e300]))
    [3, -0.0, 0.1, 1e+300]
    """
    whole = (row == np.rint(row)) & (np.abs(row) < _EXACT) & ((row != 0.0) | ~np.signbit(row))
    if whole.all():
        whole_numbers: list[float] = row.astype(np.int64).tolist()
        return whole_numbers
    return [int(value) if is_whole else value for value, is_whole in zip(row.tolist(), whole.tolist(), strict=True)]


def _time(time: float) -> float:
    if not FIRST <= time <= MILLISECONDS_FROM:
        raise UsageError(f"a record has the time {time}; give seconds since 1970")
    return time
