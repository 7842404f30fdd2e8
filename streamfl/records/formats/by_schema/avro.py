"""Reads messages in Avro by their schema, with fastavro."""

import io
from typing import Any

import fastavro
import msgspec

from streamfl.records.formats.by_schema.registry import NoSchemaError
from streamfl.records.formats.unframed import Read, UnreadableError, as_json

_DEEPEST = 50  # levels of a schema: fastavro's compiled code has no limit of its own


def avro(text: str) -> Read:
    """Return what reads messages of a schema.

    Raises
    ------
    NoSchemaError
        The schema is of no record, contains itself, or lets a few bytes become values without end.
    """
    plain = msgspec.json.decode(text)
    if not isinstance(plain, dict) or plain.get("type") != "record":
        raise NoSchemaError("the schema is not that of a record")
    _check(plain, {}, ())
    schema = fastavro.parse_schema(plain)

    def read(message: bytes) -> bytes:
        stream = io.BytesIO(message)
        record = fastavro.schemaless_reader(stream, schema, None)
        if stream.tell() < len(message):
            raise UnreadableError("bytes follow the record")
        return as_json(record)

    return read


def _check(schema: Any, named: dict[str, Any], above: tuple[str, ...]) -> int:
    """Return the minimum number of bytes of a value, after refusing what bytes of others could make endless."""
    if len(above) > _DEEPEST:
        raise NoSchemaError("the schema is nested too deeply")
    if isinstance(schema, list):
        return 1 + min((_check(one, named, (*above, "")) for one in schema), default=0)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, dict | list):
        return _check(kind, named, (*above, ""))
    name = schema.get("name", "") if isinstance(schema, dict) else kind
    if kind in named or name in above:
        if name in above or kind in above:
            raise NoSchemaError("the schema contains itself")
        return int(named.get(kind, 1))
    if kind in {"array", "map"}:
        item = _check(schema["items" if kind == "array" else "values"], named, (*above, ""))
        if kind == "array" and not item:
            raise NoSchemaError("the schema has an array of values without bytes")
        return 1
    if kind in {"record", "error"}:
        size = sum(_check(one["type"], named, (*above, name)) for one in schema["fields"])
        named[name] = size
        return size
    if kind == "fixed":
        named[name] = schema["size"]
        return int(schema["size"])
    if kind == "enum":
        named[name] = 1
    return 0 if kind == "null" else 1
