"""The interface of record formats: how the messages of a log encode records."""

import abc
from collections.abc import Sequence
from typing import Self

from streamfl.bounds import NAMED, Limits
from streamfl.records.formats.field_map import FieldMap
from streamfl.runtime.ports import Decoded


class MessageFormat(abc.ABC):
    """A record format: `streamfl.runtime.ports.RecordFormat`, made from the user's settings.

    Attributes
    ----------
    stride
        Positions per message: 1, or the most records that a message may hold.
    """

    stride: int = 1

    @classmethod
    @abc.abstractmethod
    def of(cls, fields: FieldMap, limits: Limits = NAMED) -> Self:
        """Return the format of a log.

        Raises
        ------
        UsageError
            If the format cannot have these fields.
        """

    @abc.abstractmethod
    def decode(self, offsets: Sequence[int], values: Sequence[bytes | None]) -> Decoded:
        """Return the records of consecutive messages."""

    @abc.abstractmethod
    def count(self, value: bytes | None) -> int:
        """Return how many records `decode` finds in a message, good and bad ones, without reading them."""

    @abc.abstractmethod
    def fresh(self) -> Self:
        """Return the same format for another partition, without any names learnt from records."""

    def quiet(self) -> Self:
        """Return a fresh format: what remarks more than a format does is around it."""
        return self.fresh()
