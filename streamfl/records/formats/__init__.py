"""Record formats: how the messages of a log encode records."""

from typing import Literal

from streamfl.bounds import NAMED, Limits
from streamfl.errors import UsageError
from streamfl.records.formats.field_map import FieldMap, LabelMap
from streamfl.records.formats.json_records import JsonRecords
from streamfl.records.formats.packed import Packed
from streamfl.runtime.ports import RecordFormat

__all__ = ["FieldMap", "JsonRecords", "LabelMap", "Packed", "record_format"]


def record_format(kind: Literal["json", "packed"], fields: FieldMap, limits: Limits = NAMED) -> RecordFormat:
    """Return the record format of a log.

    Parameters
    ----------
    kind
        `json`: one object per message. `packed`: many records per message, as float32 arrays.
    fields
        The roles of the fields. Packed messages name their fields, so of the map only the task is used.
    limits
        The most names that a reader accepts.

    Raises
    ------
    UsageError
        If messages are packed and the map has more than the task, or if the map has too many names.

    >>> record_format("packed", FieldMap()).stride
    65536
    >>> record_format("packed", FieldMap(client="device"))
    Traceback (most recent call last):
    streamfl.errors.UsageError: packed messages name their fields themselves; leave out client
    """
    if kind == "json":
        return JsonRecords(fields, limits)
    if superfluous := [
        name for name, value in fields if name != "task" and value != FieldMap.model_fields[name].default
    ]:
        raise UsageError(f"packed messages name their fields themselves; leave out {', '.join(superfluous)}")
    return Packed(fields.task, limits)
