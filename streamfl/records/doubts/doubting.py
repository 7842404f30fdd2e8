"""Formats of records that also remark what looks wrong in them: see `streamfl.records.doubts.of_messages`.

They change nothing that is read: what a message means must not depend on those around it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.records.doubts.of_messages import Doubts, doubts
from streamfl.records.doubts.of_tables import FEWEST, LOOKED_AT
from streamfl.records.formats.field_map import FieldMap
from streamfl.runtime.ports import Decoded, RecordFormat

# The most values held to be looked over.
MOST_VALUES = 1_000_000

# A process looks again once it has read so many times the records that it had when it last looked.
LATER = 10


@dataclass(slots=True)
class Doubting:
    """A format that remarks what looks wrong in each piece that it decodes, as `check` does of a sample."""

    form: RecordFormat
    fields: FieldMap
    stride: int = field(init=False)

    def __post_init__(self) -> None:
        self.stride = self.form.stride

    def decode(self, offsets: Sequence[int], values: Sequence[bytes | None]) -> Decoded:
        """Return the records of consecutive messages."""
        found = self.form.decode(offsets, values)
        return replace(found, remarks=(*found.remarks, *_doubts(self.fields, [found], found.clients).notes()))

    def count(self, value: bytes | None) -> int:
        """Return how many records a message has."""
        return self.form.count(value)

    def fresh(self) -> "Doubting":
        """Return the same format for another partition."""
        return Doubting(self.form.fresh(), self.fields)

    def quiet(self) -> RecordFormat:
        """Return the format without its remarks."""
        return self.form.quiet()


@dataclass(slots=True)
class Looks:
    """The records that a process gathers, of all its partitions together, until it looks them over.

    >>> looks = Looks(FieldMap())
    >>> looks.gathers, looks.next
    (True, 0)
    """

    fields: FieldMap
    read: int = 0
    next: int = 0
    _pieces: list[Decoded] = field(default_factory=list)
    _clients: list[str] = field(default_factory=list)
    _known: set[tuple[str, object]] = field(default_factory=set)

    @property
    def gathers(self) -> bool:
        """Whether the next records are looked over."""
        return self.read >= self.next

    def add(self, partition: int, found: Decoded) -> Iterator[str]:
        """Take records of a partition; yield what looks wrong and was not reported before, once there are enough."""
        gathers, n = self.gathers, len(found.positions)
        self.read += n
        if not gathers or not n or not found.features:
            return
        self._pieces.append(found)
        self._clients.extend(f"{partition}/{client}" for client in found.clients or [""] * n)
        if len(self._clients) >= np.clip(MOST_VALUES // len(found.features), FEWEST, LOOKED_AT):
            yield from _doubts(self.fields, self._pieces, self._clients).new(self._known).notes()
            self._pieces, self._clients = [], []
            self.next = LATER * self.read


@dataclass(slots=True)
class DoubtingOnce:
    """A format that remarks each doubt once in a process: of its first 1,000 records, and later of as many again."""

    form: RecordFormat
    looks: Looks
    partition: int = 0
    stride: int = field(init=False)
    _partitions: list[int] = field(default_factory=lambda: [0])

    def __post_init__(self) -> None:
        self.stride = self.form.stride

    def decode(self, offsets: Sequence[int], values: Sequence[bytes | None]) -> Decoded:
        """Return the records of consecutive messages."""
        found = self.form.decode(offsets, values)
        notes = tuple(self.looks.add(self.partition, found))
        return replace(found, remarks=(*found.remarks, *notes)) if notes else found

    def count(self, value: bytes | None) -> int:
        """Return how many records a message has."""
        return self.form.count(value)

    def fresh(self) -> "DoubtingOnce":
        """Return the same format for another partition."""
        self._partitions[0] += 1
        return DoubtingOnce(self.form.fresh(), self.looks, self._partitions[0], _partitions=self._partitions)

    def quiet(self) -> RecordFormat:
        """Return the format without its remarks."""
        return self.form.quiet()


def _doubts(fields: FieldMap, pieces: Sequence[Decoded], clients: Sequence[str]) -> Doubts:
    features = tuple(dict.fromkeys(name for piece in pieces for name in piece.features))
    has_targets = fields.task == "regression" and all(piece.half is None for piece in pieces)
    return doubts(
        features,
        np.concatenate([_placed(piece, features) for piece in pieces]),
        np.concatenate([piece.y for piece in pieces]) if has_targets else None,
        clients,
        missing_values=fields.missing_values,
        hot=(*fields.category_features, *(() if fields.made_of_times is None else fields.made_of_times.names)),
    )


def _placed(piece: Decoded, features: tuple[str, ...]) -> FloatArray:
    """Return the values of a piece by the features of all; what it lacks is missing."""
    if piece.features == features:
        return piece.X
    X = np.full((len(piece.X), len(features)), np.nan)
    X[:, [features.index(name) for name in piece.features]] = piece.X
    return X
