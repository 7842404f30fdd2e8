"""Record formats: how the messages of a log encode records."""

from streamfl.bounds import NAMED, Limits
from streamfl.protocol.registered import Registered
from streamfl.records.formats.field_map import FieldMap, LabelMap
from streamfl.records.formats.json_records import JsonRecords
from streamfl.records.formats.message_format import MessageFormat
from streamfl.records.formats.packed import Packed
from streamfl.records.formats.with_time_features import timed
from streamfl.runtime.ports import RecordFormat

__all__ = ["RECORD_FORMATS", "FieldMap", "JsonRecords", "LabelMap", "MessageFormat", "Packed", "record_format"]

# Each is a class that derives from `MessageFormat`: `json`, one object a message; `packed`, many records a message;
# `confluent`, one record a message by a schema in a registry.
RECORD_FORMATS = Registered[type[MessageFormat]](
    "record format",
    MessageFormat,
    "streamfl.record_formats",
    {
        "json": JsonRecords,
        "packed": Packed,
        "confluent": "streamfl.records.formats.by_schema.confluent:Confluent",
    },
)


def record_format(kind: str, fields: FieldMap, limits: Limits = NAMED) -> RecordFormat:
    """Return the record format of a log.

    Raises
    ------
    UsageError
        If there is no such format, or the format cannot have these fields.

    >>> record_format("packed", FieldMap()).stride
    65536
    >>> record_format("json", FieldMap(client="device")).stride
    1
    """
    return timed(RECORD_FORMATS.find(kind).of(fields, limits), fields)
