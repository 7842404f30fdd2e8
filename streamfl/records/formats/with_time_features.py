"""A record format whose records have the features of their times as well."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from streamfl.records.formats.field_map import FieldMap
from streamfl.records.values.time_features import TimeFeatures
from streamfl.runtime.ports import Decoded, RecordFormat


@dataclass(slots=True)
class WithTimeFeatures:
    """A record format around another, whose records have the features of their times as well."""

    form: RecordFormat
    features: TimeFeatures
    stride: int = field(init=False)

    def __post_init__(self) -> None:
        self.stride = self.form.stride

    def decode(self, offsets: Sequence[int], values: Sequence[bytes | None]) -> Decoded:
        """Return the records of consecutive messages."""
        found = self.form.decode(offsets, values)
        times = found.times if len(found.times) else np.full(len(found.positions), np.nan)
        names, X = self.features.added_to(found.features, found.X, times)
        return replace(found, features=names, X=X)

    def count(self, value: bytes | None) -> int:
        """Return how many records `decode` finds in a message."""
        return self.form.count(value)

    def fresh(self) -> "WithTimeFeatures":
        """Return the same format for another partition."""
        return WithTimeFeatures(self.form.fresh(), self.features)

    def quiet(self) -> "WithTimeFeatures":
        """Return a fresh format that remarks nothing."""
        return WithTimeFeatures(self.form.quiet(), self.features)


def timed(form: RecordFormat, fields: FieldMap) -> RecordFormat:
    """Return a format with the features of times that the fields ask for.

    >>> from streamfl.records.formats.json_records import JsonRecords
    >>> fields = FieldMap(time="at", time_features=("hour",))
    >>> form = timed(JsonRecords(fields), fields)
    >>> found = form.decode([7], [b'{"at": "2026-03-01T03:00:00Z", "x": 5, "label": "a"}'])
    >>> found.features, found.X.round(3)
    (('x', 'hour sin', 'hour cos'), array([[5.   , 0.707, 0.707]]))
    """
    return form if fields.made_of_times is None else WithTimeFeatures(form, fields.made_of_times)
