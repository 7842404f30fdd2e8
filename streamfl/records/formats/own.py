"""The record format of a program that reads its messages by functions of its own."""

from collections.abc import Callable, Mapping
from typing import Any, Self

from streamfl.bounds import NAMED, Limits
from streamfl.printable import printable
from streamfl.records.formats.any_json import json_object
from streamfl.records.formats.field_map import FieldMap
from streamfl.records.formats.translated import Translated
from streamfl.records.formats.unframed import UnreadableError, as_json

Deserialize = Callable[[bytes], Any]
Features = Callable[[Any], Mapping[str, Any]]

# The most characters of an error that a reason has.
_SAID = 200


class OwnRecords(Translated):
    """Messages that functions of a program make records: `deserialize` reads one, `features` makes fields of it.

    Parameters
    ----------
    deserialize
        Returns what a message holds. None: the message is a JSON object.
    features
        Returns the fields of that, as a dict. None: it is one already.

    >>> def hours(record):
    ...     return {**record, "hour": int(record["at"][11:13])}
    >>> form = OwnRecords(FieldMap(time="at"), features=hours)
    >>> messages = b'{"at": "2026-03-01T17:30:00Z", "x": 1, "label": "a"}', b'{"x": 2, "label": "b"}'
    >>> found = form.decode([7, 8], messages)
    >>> found.features, found.X, found.rejected[0].reason
    (('x', 'hour'), array([[ 1., 17.]]), "your function features raised KeyError: 'at'")
    """

    def __init__(
        self,
        fields: FieldMap,
        limits: Limits = NAMED,
        deserialize: Deserialize | None = None,
        features: Features | None = None,
    ) -> None:
        super().__init__(fields, limits)
        self._deserialize = deserialize
        self._features_of = features

    def fresh(self) -> Self:
        """Return the same format without any names learnt from records."""
        return type(self)(self._fields, self._limits, self._deserialize, self._features_of)

    def plain(self, value: bytes | None) -> bytes | None:
        """Return a message as a JSON object."""
        if not value:
            return value
        if self._deserialize is not None:
            record = _called("deserialize", self._deserialize, value)
        elif self._features_of is not None:
            record = _read(value)
        else:
            return value
        if self._features_of is not None:
            record = _called("features", self._features_of, record)
        if not isinstance(record, Mapping):
            raise UnreadableError(f"your functions made a {type(record).__name__} of it, not a dict")
        try:
            return as_json(record)
        except UnreadableError as error:
            raise UnreadableError(f"your functions made a record of it with {error}, which no field holds") from None


def _read(message: bytes) -> dict[str, object]:
    """Return a message that no function reads, by the rules for messages in a federation without functions."""
    try:
        return json_object(message)
    except RecursionError:
        raise UnreadableError("objects or lists nested too deeply") from None
    except ValueError as error:
        raise UnreadableError(str(error)) from None


def _called(name: str, function: Callable[[Any], Any], of: object) -> Any:
    try:
        return function(of)
    except Exception as error:
        raised = f"your function {name} raised {type(error).__name__}"
        raise UnreadableError(f"{raised}: {printable(str(error)[:_SAID])}") from None
