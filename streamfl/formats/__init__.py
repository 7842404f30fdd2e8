"""How the messages of a log hold records."""

from typing import Literal

from streamfl.core.bounds import NAMED, Limits
from streamfl.core.errors import UsageError
from streamfl.formats.field_map import FieldMap
from streamfl.formats.json_records import JsonRecords
from streamfl.formats.packed import Packed
from streamfl.ports import RecordFormat

__all__ = ["FieldMap", "JsonRecords", "Packed", "record_format"]


def record_format(kind: Literal["json", "packed"], fields: FieldMap, limits: Limits = NAMED) -> RecordFormat:
    """Return the format of a log's messages.

    Parameters
    ----------
    kind
        One JSON object a message, or many records a message as float32 arrays.
    fields
        Which field is what. Packed messages say so themselves; of the map they take the task alone.
    limits
        How many names a reader takes.

    Raises
    ------
    UsageError
        If the map says more than the task, and the messages are packed; or names more than there may be.

    >>> record_format("packed", FieldMap()).stride
    65536
    >>> record_format("packed", FieldMap(client="device"))
    Traceback (most recent call last):
    streamfl.core.errors.UsageError: packed messages name their fields themselves; leave out client
    """
    if kind == "json":
        return JsonRecords(fields, limits)
    if said := [name for name, value in fields if name != "task" and value != FieldMap.model_fields[name].default]:
        raise UsageError(f"packed messages name their fields themselves; leave out {', '.join(said)}")
    return Packed(fields.task, limits)
